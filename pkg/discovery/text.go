package discovery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxFile bounds an ordinary config file. Real ones are a few kilobytes.
	maxFile = 4 << 20

	// maxStateFile bounds files that hold an agent's whole state beside its
	// servers, such as ~/.claude.json with its histories. Only the keys that
	// are needed are decoded.
	maxStateFile = 64 << 20
)

// readBounded reads a regular file of at most limit bytes. It never waits for
// a writer, so a FIFO in a config folder cannot hold up discovery.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	data, err := readOpen(f, limit)
	return data, errors.Join(err, f.Close())
}

func readOpen(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it is larger than %d MiB", limit>>20)
	}
	return data, nil
}

var (
	bomUTF8    = []byte{0xEF, 0xBB, 0xBF}
	bomUTF16LE = []byte{0xFF, 0xFE}
	bomUTF16BE = []byte{0xFE, 0xFF}
)

// decodeText returns data as UTF-8 without a byte order mark. Bytes that are
// no text become U+FFFD, and clean reports whether there were none.
func decodeText(data []byte) (text []byte, clean bool) {
	switch {
	case bytes.HasPrefix(data, bomUTF8):
		data = data[len(bomUTF8):]
	case bytes.HasPrefix(data, bomUTF16LE):
		return decodeUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, bomUTF16BE):
		return decodeUTF16(data[2:], binary.BigEndian)
	}
	if utf8.Valid(data) {
		return data, true
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD")), false
}

func decodeUTF16(data []byte, order binary.ByteOrder) (text []byte, clean bool) {
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	clean = len(data)%2 == 0
	for _, r := range utf16.Decode(units) {
		clean = clean && r != utf8.RuneError
		text = utf8.AppendRune(text, r)
	}
	return text, clean
}
