package runtime

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Both engines frame what a container without a terminal writes: one byte that
// says which file, three zero bytes, the length as a big-endian uint32, and
// that many bytes. What the client writes is not framed.
const (
	frameHeader = 8

	frameStdout = 1
	frameStderr = 2
	frameError  = 3 // the engine's own words, not the container's
)

const (
	// streamBuffer is what one read from the engine can bring.
	streamBuffer = 64 << 10
	// maxEngineError bounds what is kept of an engine's error frame.
	maxEngineError = 4 << 10
)

// ErrStreamFraming means that a stream is not framed as it must be: the
// container has a terminal, or something between us and the engine cuts in.
var ErrStreamFraming = errors.New("engine stream is not framed as stdout and stderr")

// A StreamConn is a connection that an engine has handed over to a container's
// stdin and framed output.
type StreamConn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// NewStream returns the [Stream] over conn, which it takes over. It is for the
// engines' drivers. It starts no goroutine: Read takes the frames apart, hands
// stderr's to stderr, and never buffers a whole frame, however long.
func NewStream(conn StreamConn, stderr io.Writer) Stream {
	if stderr == nil {
		stderr = io.Discard
	}
	return &stream{StreamConn: conn, in: bufio.NewReaderSize(conn, streamBuffer), stderr: stderr}
}

type stream struct {
	StreamConn
	in     *bufio.Reader
	stderr io.Writer

	// Of the frame that is being read; only Read touches them.
	kind byte
	left int64
}

// Read returns bytes of stdout.
func (s *stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		if s.left == 0 {
			if err := s.nextFrame(); err != nil {
				return 0, err
			}
			continue
		}
		if s.kind == frameStdout {
			n, err := s.in.Read(b[:min(int64(len(b)), s.left)])
			s.left -= int64(n)
			return n, midFrame(err)
		}
		if err := s.sideFrame(); err != nil {
			return 0, err
		}
	}
}

// nextFrame reads a header. The end of the connection between two frames is
// the end of the stream.
func (s *stream) nextFrame() error {
	var h [frameHeader]byte
	if _, err := io.ReadFull(s.in, h[:]); err != nil {
		return err
	}
	if h[0] > frameError || h[1] != 0 || h[2] != 0 || h[3] != 0 {
		return fmt.Errorf("%w: header % x", ErrStreamFraming, h)
	}
	s.kind = h[0]
	s.left = int64(binary.BigEndian.Uint32(h[4:]))
	return nil
}

// sideFrame consumes a frame that is not stdout.
func (s *stream) sideFrame() error {
	frame := io.LimitReader(s.in, s.left)
	switch s.kind {
	case frameError:
		msg, err := io.ReadAll(io.LimitReader(frame, maxEngineError))
		if err != nil {
			return midFrame(err)
		}
		return &EngineError{Op: "attach", Msg: string(msg)}
	case frameStderr:
		n, err := io.Copy(tolerant{s.stderr}, frame)
		return s.skipped(n, err)
	}
	// An echo of stdin, which no container without a terminal makes.
	n, err := io.Copy(io.Discard, frame)
	return s.skipped(n, err)
}

func (s *stream) skipped(n int64, err error) error {
	if err == nil && n < s.left {
		err = io.ErrUnexpectedEOF
	}
	s.left = 0
	return err
}

// midFrame is an error inside a frame, where the end is not expected.
func midFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// tolerant keeps a stderr that fails from ending stdout.
type tolerant struct{ w io.Writer }

func (t tolerant) Write(b []byte) (int, error) {
	_, _ = t.w.Write(b)
	return len(b), nil
}
