package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// maxFrame bounds one frame in either direction. It protects the daemon's
	// memory; the harness has the same number (MAX_FRAME in wire.py).
	maxFrame = 32 << 20

	// maxPreamble bounds what may come before the harness's hello: engines
	// have been seen to put a few bytes there, never more than a screenful.
	maxPreamble = 64 << 10

	// readBuffer is one read's worth of frames; most fit several times over.
	readBuffer = 64 << 10

	// maxIdleBuffer is what a reader keeps of a long frame's buffer for the
	// next one.
	maxIdleBuffer = 1 << 20
)

// errLongFrame means that a line was longer than maxFrame and was skipped.
var errLongFrame = errors.New("frame too long")

// A frameReader reads lines of bounded length.
type frameReader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, readBuffer), max: maxFrame}
}

// next returns the next line without its newline. It is valid until the next
// call. A line over the limit is skipped whole and is errLongFrame; the line
// after it can be read.
func (f *frameReader) next() ([]byte, error) {
	f.buf = f.buf[:0]
	if cap(f.buf) > maxIdleBuffer {
		f.buf = nil
	}
	long := false
	for {
		part, err := f.r.ReadSlice('\n')
		if len(f.buf)+len(part) > f.max+1 {
			long = true
			f.buf = nil
		}
		if err == nil && len(f.buf) == 0 && !long {
			return part[:len(part)-1], nil // the common case: no copy
		}
		if !long {
			f.add(part)
		}
		switch {
		case err == nil && long:
			return nil, errLongFrame
		case err == nil:
			return f.buf[:len(f.buf)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err // what is left of a last line is no frame
		}
	}
}

// add appends to the line at hand. The buffer doubles: append's smaller steps
// would leave several times a long line's size as garbage.
func (f *frameReader) add(part []byte) {
	if need := len(f.buf) + len(part); need > cap(f.buf) {
		f.buf = slices.Grow(f.buf, min(max(2*cap(f.buf), need), f.max+1)-len(f.buf))
	}
	f.buf = append(f.buf, part...)
}

// An inFrame is any frame from the harness; which fields count depends on T.
type inFrame struct {
	T          string                     `json:"t"`
	Run        int64                      `json:"run"`
	ID         int64                      `json:"id"`
	Nonce      string                     `json:"nonce"`
	Protocol   int                        `json:"protocol"`
	Python     string                     `json:"python"`
	Posture    *Posture                   `json:"posture"`
	Imports    map[string]json.RawMessage `json:"imports"`
	Pairs      [][2]any                   `json:"parts"` // taken as Parts
	Parts      []part                     `json:"-"`
	Cut        int64                      `json:"cut"`
	Background bool                       `json:"background"`
	MIME       string                     `json:"mime"`
	Data       []byte                     `json:"data"`
	Method     string                     `json:"method"`
	Params     json.RawMessage            `json:"params"`
	Status     string                     `json:"status"`
	Value      string                     `json:"value"`
	Whole      string                     `json:"whole"`
	Kept       string                     `json:"kept"`
	JSON       string                     `json:"json"`
	Error      *PyError                   `json:"error"`
	Notices    []string                   `json:"notices"`
	Code       *int                       `json:"code"`
	Signal     string                     `json:"signal"`
	OOM        int                        `json:"oom"`
	File       int64                      `json:"file"`
	Name       string                     `json:"name"`
	Size       int64                      `json:"size"`
	Stamp      string                     `json:"stamp"`
	Why        string                     `json:"why"`
	Again      bool                       `json:"again"`
	Key        string                     `json:"key"`
	Keys       []string                   `json:"keys"`
	Age        float64                    `json:"age"`
	Lost       bool                       `json:"lost"`
	Files      []inFile                   `json:"files"`
}

// An inFile is a file that was published before we came.
type inFile struct {
	File int64  `json:"file"`
	Name string `json:"name"`
	MIME string `json:"mime"`
	Size int64  `json:"size"`
}

// A part is a piece of output, [stream, text] on the wire.
type part struct {
	stream int
	text   string
}

// takeParts takes exactly a stream number and a text for each part. A method
// UnmarshalJSON of part's would have encoding/json scan all texts twice more.
func (f *inFrame) takeParts() error {
	for _, pair := range f.Pairs {
		stream, _ := pair[0].(float64)
		text, ok := pair[1].(string)
		if !ok || stream != Stdout && stream != Stderr {
			return fmt.Errorf("a part of the output is %.20v and not a stream and a text", pair)
		}
		f.Parts = append(f.Parts, part{int(stream), text})
	}
	f.Pairs = nil
	return nil
}

// parseFrame decodes one line.
func parseFrame(line []byte) (inFrame, error) {
	var f inFrame
	if err := json.Unmarshal(line, &f); err != nil {
		return inFrame{}, fmt.Errorf("decoding frame: %w", err)
	}
	if f.T == "" {
		return inFrame{}, errors.New("decoding frame: no type")
	}
	if err := f.takeParts(); err != nil {
		return inFrame{}, fmt.Errorf("decoding frame: %w", err)
	}
	f.Cut = max(f.Cut, 0)
	return f, nil
}

// Frames to the harness.
type (
	configFrame struct {
		T           string   `json:"t"`
		Imports     []string `json:"imports"`
		Output      int      `json:"output"`
		Files       string   `json:"files,omitempty"`
		LimitMemory int64    `json:"limit_memory,omitempty"`
		LimitPids   int64    `json:"limit_pids,omitempty"`
		Grace       int64    `json:"grace,omitempty"`
	}
	runFrame struct {
		T       string   `json:"t"`
		Run     int64    `json:"run"`
		Code    string   `json:"code"`
		Servers []Server `json:"servers,omitempty"`
		Tokens  int      `json:"tokens,omitempty"`
		Data    bool     `json:"data,omitempty"`
		Key     string   `json:"key,omitempty"`
		Acked   int64    `json:"acked,omitempty"`

		Told map[string]json.RawMessage `json:"told,omitempty"`
	}
	pingFrame struct {
		T     string `json:"t"`
		Acked int64  `json:"acked,omitempty"`
	}
	leaveFrame struct {
		T string `json:"t"`
	}
	interruptFrame struct {
		T   string `json:"t"`
		Run int64  `json:"run"`
	}
	readFrame struct {
		T      string `json:"t"`
		ID     int64  `json:"id"`
		File   int64  `json:"file"`
		Offset int64  `json:"offset"`
		Length int64  `json:"length"`
	}
	replyFrame struct {
		T      string          `json:"t"`
		ID     int64           `json:"id"`
		Result json.RawMessage `json:"result,omitempty"`
		Error  *replyError     `json:"error,omitempty"`
	}
	replyError struct {
		Code    string          `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	}
)

// encode returns f as one line. It is an error if f is over maxFrame.
func encode(f any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("encoding frame: %w", err)
	}
	if b.Len() > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes, at most %d fit", errLongFrame, b.Len(), maxFrame)
	}
	return b.Bytes(), nil
}
