package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestFrameReader(t *testing.T) {
	const limit = 100_000
	fits, tooLong := strings.Repeat("x", limit), strings.Repeat("y", limit+1)
	tests := []struct {
		name, input string
		want        []string // "LONG" for errLongFrame
	}{
		{"nothing", "", nil},
		{"one line", "a\n", []string{"a"}},
		{"an empty line", "\na\n", []string{"", "a"}},
		{"a last line without its end is no frame", "a\nb", []string{"a"}},
		{"lines around the read buffer's size", strings.Repeat("z", readBuffer) + "\n" + fits + "\nb\n",
			[]string{strings.Repeat("z", readBuffer), fits, "b"}},
		{"a line that is too long is skipped whole", tooLong + "\nb\n", []string{"LONG", "b"}},
		{"a line that is far too long", strings.Repeat(tooLong, 9) + "\nb\n" + fits + "\n", []string{"LONG", "b", fits}},
		{"a line that is too long and has no end", tooLong, nil},
	}
	for _, tt := range tests {
		for _, in := range []io.Reader{strings.NewReader(tt.input), iotest.HalfReader(strings.NewReader(tt.input))} {
			t.Run(tt.name, func(t *testing.T) {
				r := newFrameReader(in)
				r.max = limit
				got, err := readAll(r)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("lines (-want +got):\n%.2000s", diff)
				}
				if !errors.Is(err, io.EOF) {
					t.Errorf("got error %v at the end, want io.EOF", err)
				}
			})
		}
	}
}

func readAll(r *frameReader) (lines []string, err error) {
	for {
		line, err := r.next()
		switch {
		case errors.Is(err, errLongFrame):
			lines = append(lines, "LONG")
		case err != nil:
			return lines, err
		default:
			lines = append(lines, string(line))
		}
	}
}

func TestFrameReaderLetsLongBuffersGo(t *testing.T) {
	r := newFrameReader(strings.NewReader(strings.Repeat("x", 4<<20) + "\na\n"))
	for range 2 {
		if _, err := r.next(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(r.buf) > maxIdleBuffer {
		t.Errorf("the reader keeps %d bytes after a long line, want at most %d", cap(r.buf), maxIdleBuffer)
	}
}

func TestParseFrameRefusesWhatIsNone(t *testing.T) {
	tests := []struct{ name, line string }{
		{"nothing", ""},
		{"no JSON", "took 3 ms"},
		{"a number", "123"},
		{"null", "null"},
		{"a list", "[]"},
		{"no type", `{"run":1}`},
		{"a type that is no text", `{"t":5}`},
		{"an id that is a float", `{"t":"rpc","id":1.5}`},
		{"an id that is an object", `{"t":"rpc","id":{}}`},
		{"an id that no integer holds", `{"t":"rpc","id":1` + strings.Repeat("0", 400) + `}`},
		{"a stream that is none", `{"t":"output","parts":[[3,"x"]]}`},
		{"a part that is no pair", `{"t":"output","parts":["x"]}`},
		{"a part without a text", `{"t":"output","parts":[[1]]}`},
		{"a text that is a number", `{"t":"output","parts":[[1,2]]}`},
		{"a stream that is a text", `{"t":"output","parts":[["1","x"]]}`},
		{"a stream between two", `{"t":"output","parts":[[1.5,"x"]]}`},
		{"data that is not base64", `{"t":"rich","data":"%%"}`},
		{"nesting without end", strings.Repeat(`{"t":`, 200_000)},
		{"two frames on a line", `{"t":"pong"}{"t":"pong"}`},
		{"a docker stream header", "\x01\x00\x00\x00\x00\x00\x00\x05" + `{"t":"pong"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if f, err := parseFrame([]byte(tt.line)); err == nil {
				t.Errorf("got frame %+v, want an error", f)
			}
		})
	}
}

// BenchmarkParseFrame measures what a megabyte of output costs.
func BenchmarkParseFrame(b *testing.B) {
	text := strings.Repeat(strings.Repeat("x", 63)+`\n`, 512)
	line := []byte(`{"t":"output","run":1,"parts":[[1,"` + text + `"]]}`)
	b.SetBytes(32 * int64(len(line)))
	for b.Loop() {
		for range 32 {
			if _, err := parseFrame(line); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestEncodeRefusesLongFrames(t *testing.T) {
	_, err := encode(runFrame{T: "run", Code: strings.Repeat("x", maxFrame)})
	if !errors.Is(err, errLongFrame) {
		t.Errorf("got error %v, want errLongFrame", err)
	}
}

func TestEncodeWritesNoControlBytes(t *testing.T) {
	line, err := encode(runFrame{T: "run", Code: "\x10\x11\x00\x1f\n<&>\u2028"})
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexFunc(line[:len(line)-1], func(r rune) bool { return r < 0x20 }); i >= 0 {
		t.Errorf("got byte %#x in %q", line[i], line)
	}
}

// FuzzFrames feeds whole streams to the reader and the parser, which must
// neither panic nor pass on what breaks the bounds.
func FuzzFrames(f *testing.F) {
	files, err := filepath.Glob("testdata/*.transcript")
	if err != nil || len(files) == 0 {
		f.Fatalf("finding transcripts: %v, %d files", err, len(files))
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		for line := range strings.Lines(string(text)) {
			f.Add([]byte(strings.TrimPrefix(line, "< ")))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := newFrameReader(bytes.NewReader(stream))
		r.max = 1000
		for {
			line, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if errors.Is(err, errLongFrame) {
				continue
			}
			if err != nil {
				t.Fatalf("got error %v from a stream that has none", err)
			}
			if len(line) > r.max {
				t.Fatalf("got a line of %d bytes, want at most %d", len(line), r.max)
			}
			frame, err := parseFrame(line)
			if err == nil {
				checkFrame(t, line, frame)
			}
		}
	})
}

func checkFrame(t *testing.T, line []byte, f inFrame) {
	t.Helper()
	if f.T == "" || f.Cut < 0 || !json.Valid(line) {
		t.Errorf("took %q as frame %+v", line, f)
	}
	for _, p := range f.Parts {
		if p.stream != Stdout && p.stream != Stderr {
			t.Errorf("took %q with stream %d", line, p.stream)
		}
	}
}
