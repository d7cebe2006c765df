package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

var namePattern = regexp.MustCompile(`^audit-([0-9]{6,9})\.jsonl$`)

func fileName(n int) string { return fmt.Sprintf("audit-%06d.jsonl", n) }

// numberOf returns the number in a file's name, 0 for other files.
func numberOf(name string) int {
	m := namePattern.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // nine digits
	return n
}

// numbers lists the log's files, the oldest first.
func numbers(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing the audit log: %w", err)
	}
	var list []int
	for _, e := range entries {
		if n := numberOf(e.Name()); n > 0 && e.Type().IsRegular() {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// ErrInUse says that another process writes the log.
var ErrInUse = errors.New("another daemon writes this audit log: give each its own audit.path")

// lockFolder waits for the folder's lock. A daemon that was told to stop may
// still write its last lines.
func lockFolder(dir string, patience time.Duration) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(dir, "lock"))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ok, err := lock.TryLock()
	if !ok && err == nil {
		ok, err = lock.TryLockContext(ctx, 20*time.Millisecond)
	}
	switch {
	case ok:
		return lock, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, ErrInUse
	default:
		return nil, fmt.Errorf("locking: %w", err)
	}
}

const keyBytes = 32

// readKey returns the key of the digests, and makes one if make is set and there
// is none.
func readKey(dir string, create bool) ([]byte, error) {
	path := filepath.Join(dir, "key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == keyBytes {
		return key, nil
	}
	if err == nil {
		return nil, fmt.Errorf("%s has %d bytes and not %d: move it away, and digests will be under a new key", path, len(key), keyBytes)
	}
	if !errors.Is(err, fs.ErrNotExist) || !create {
		return nil, fmt.Errorf("reading the audit log's key: %w", err)
	}
	key = make([]byte, keyBytes)
	rand.Read(key) // never fails, see crypto/rand
	if err := renameio.WriteFile(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("writing the audit log's key: %w", err)
	}
	return key, nil
}

// DigestOf returns what the log in dir has in place of a text: arguments, which
// are JSON, or code.
func DigestOf(dir string, text []byte, code bool) (string, error) {
	key, err := readKey(dir, false)
	if err != nil {
		return "", err
	}
	if !code {
		text = canonicalJSON(text, nil)
	}
	return digest(key, text), nil
}

// A Head names a line of the log.
type Head struct {
	File string `json:"file"`
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// headBytes is the size of the head file. It is always the same, so that the
// file is overwritten by one write and never cut short.
const headBytes = 256

func (h Head) encode() ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encoding the head: %w", err)
	}
	pad := bytes.Repeat([]byte{' '}, max(0, headBytes-1-len(text)))
	return append(append(text, pad...), '\n'), nil
}

// readHead returns the head file, nil if there is none.
func readHead(dir string) (*Head, error) {
	text, err := os.ReadFile(filepath.Join(dir, "head"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the head file: %w", err)
	}
	var h Head
	if err := json.Unmarshal(text, &h); err != nil || h.Seq == 0 {
		return nil, errors.New("the head file cannot be read: it was edited, or a crash cut it short")
	}
	return &h, nil
}

// headPatience is how long a head file that is not there or not whole may be
// one that is being written.
const headPatience = 300 * time.Millisecond

// settledHead is readHead beside a daemon that may be writing.
func settledHead(dir string) (*Head, error) {
	for end := time.Now().Add(headPatience); ; time.Sleep(10 * time.Millisecond) {
		h, err := readHead(dir)
		if h != nil || time.Now().After(end) {
			return h, err
		}
	}
}

// An ending is how a file ends.
type ending struct {
	last []byte // the last whole line, without its end; nil if there is none
	end  int64  // offset behind it
	torn int64  // bytes after it
}

// endOf reads a file's end.
func endOf(f io.ReaderAt, size int64) (ending, error) {
	var tail []byte
	for start := size; start > 0; {
		n := min(start, 64<<10)
		start -= n
		block := make([]byte, n, n+int64(len(tail)))
		if _, err := f.ReadAt(block, start); err != nil && !errors.Is(err, io.EOF) {
			return ending{}, fmt.Errorf("reading the audit log's end: %w", err)
		}
		tail = append(block, tail...)
		stop := bytes.LastIndexByte(tail, '\n')
		if stop < 0 {
			continue
		}
		begin := bytes.LastIndexByte(tail[:stop], '\n')
		if begin < 0 && start > 0 {
			continue
		}
		return ending{last: tail[begin+1 : stop], end: start + int64(stop) + 1, torn: int64(len(tail) - stop - 1)}, nil
	}
	return ending{torn: size}, nil
}
