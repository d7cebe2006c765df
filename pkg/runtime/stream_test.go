package runtime

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// fakeConn is a connection that has in to read.
type fakeConn struct {
	io.Reader
	io.Writer
}

func (fakeConn) Close() error      { return nil }
func (fakeConn) CloseWrite() error { return nil }

func frame(kind byte, payload string) string {
	h := binary.BigEndian.AppendUint32([]byte{kind, 0, 0, 0}, uint32(len(payload)))
	return string(h) + payload
}

func TestStreamTakesFramesApart(t *testing.T) {
	big := strings.Repeat("x", 3*streamBuffer)
	like := "\x01\x00\x00\x00\x00\x00\x00\x05" // looks like a header
	tests := []struct {
		name           string
		in             string
		stdout, stderr string
		err            error
	}{
		{name: "nothing at all is an empty stream"},
		{name: "stdout comes out", in: frame(1, "a") + frame(1, "b"), stdout: "ab"},
		{name: "stderr goes aside", in: frame(2, "e") + frame(1, "a") + frame(2, "f"), stdout: "a", stderr: "ef"},
		{name: "an empty frame is nothing", in: frame(1, "") + frame(2, "") + frame(1, "a"), stdout: "a"},
		{name: "a payload like a header is a payload", in: frame(1, like), stdout: like},
		{name: "an echo of stdin is dropped", in: frame(0, "in") + frame(1, "a"), stdout: "a"},
		{name: "a long frame passes", in: frame(1, big) + frame(2, big), stdout: big, stderr: big},
		{name: "an end inside a header is unexpected", in: frame(1, "a")[:5], err: io.ErrUnexpectedEOF},
		{name: "an end inside stdout is unexpected", in: frame(1, "abc")[:10], stdout: "ab", err: io.ErrUnexpectedEOF},
		{name: "an end inside stderr is unexpected", in: frame(2, "abc")[:10], stderr: "ab", err: io.ErrUnexpectedEOF},
		{name: "raw output is refused", in: "hello world", err: ErrStreamFraming},
		{name: "the engine's own error is told", in: frame(3, "gone"), err: &EngineError{Op: "attach", Msg: "gone"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, split := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
			} {
				var stderr bytes.Buffer
				s := NewStream(fakeConn{Reader: split(strings.NewReader(tt.in))}, &stderr)
				stdout, err := io.ReadAll(s)
				if diff := cmp.Diff(tt.stdout, string(stdout)); diff != "" {
					t.Errorf("stdout (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.stderr, stderr.String()); diff != "" {
					t.Errorf("stderr (-want +got):\n%s", diff)
				}
				if !sameError(err, tt.err) {
					t.Errorf("error = %v, want %v", err, tt.err)
				}
			}
		})
	}
}

func sameError(got, want error) bool {
	var refused *EngineError
	if errors.As(want, &refused) {
		return got != nil && got.Error() == want.Error()
	}
	return errors.Is(got, want)
}

func TestStreamSurvivesAStderrThatFails(t *testing.T) {
	r, w := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s := NewStream(fakeConn{Reader: strings.NewReader(frame(2, "e") + frame(1, "a"))}, w)
	got, err := io.ReadAll(s)
	if string(got) != "a" || err != nil {
		t.Errorf("stdout = %q, %v; want \"a\"", got, err)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(frame(1, "a") + frame(2, "b") + frame(3, "c")))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xffabc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var stderr bytes.Buffer
		got, _ := io.ReadAll(NewStream(fakeConn{Reader: bytes.NewReader(in)}, &stderr))
		if len(got)+stderr.Len() > len(in) {
			t.Errorf("%d bytes in, %d and %d out", len(in), len(got), stderr.Len())
		}
	})
}
