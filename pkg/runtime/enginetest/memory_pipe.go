package enginetest

import (
	"io"
	"sync"
	"sync/atomic"
)

// pipeSize is how much a pipe holds before its writer waits: about what the
// socket buffers between a client and a real container hold.
const pipeSize = 256 << 10

// A pipe is a bounded buffer between one reader and any number of writers. It
// waits on a condition variable only, so it works in a synctest bubble.
type pipe struct {
	mu   sync.Mutex // guards the fields below
	cond sync.Cond  // signalled at every change
	buf  []byte
	eof  bool // no more is written; the reader gets what is left, then io.EOF
	gone bool // the reader has left
	cold bool // the reader is paused
}

func newPipe() *pipe {
	p := new(pipe)
	p.cond.L = &p.mu
	return p
}

// Read implements [io.Reader].
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.cold || len(p.buf) == 0 && !p.eof) && !p.gone {
		p.cond.Wait()
	}
	if p.gone {
		return 0, io.ErrClosedPipe
	}
	if len(p.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.buf)
	p.buf = p.buf[n:]
	p.cond.Broadcast()
	return n, nil
}

// freeze makes the reader wait, or ends that.
func (p *pipe) freeze(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cold = on
	p.cond.Broadcast()
}

// write writes b, and stops early with [io.ErrClosedPipe] when the pipe is
// closed at either end or left is set (see wake).
func (p *pipe) write(b []byte, left *atomic.Bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		if p.eof || p.gone || left.Load() {
			return written, io.ErrClosedPipe
		}
		if n := min(len(b), pipeSize-len(p.buf)); n > 0 {
			p.buf = append(p.buf, b[:n]...)
			b = b[n:]
			written += n
			p.cond.Broadcast()
		}
		if len(b) == 0 {
			return written, nil
		}
		p.cond.Wait()
	}
}

// closeWrite makes the reader see io.EOF after what is buffered.
func (p *pipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eof = true
	p.cond.Broadcast()
}

// closeRead makes every read and write fail.
func (p *pipe) closeRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	p.buf = nil
	p.cond.Broadcast()
}

// wake lets waiting writers look at their left flag again.
func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cond.Broadcast()
}
