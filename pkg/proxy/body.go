package proxy

import (
	"io"
	"time"
)

// A body is what a stdio server runs in: a process, or whatever else has
// standard streams and an end. Its methods may be used from many goroutines.
type body interface {
	// streams returns the server's stdin and stdout. Who speaks with the server
	// closes stdin; stop closes stdout.
	streams() (stdin io.WriteCloser, stdout io.Reader)
	// said is the end of what the server wrote to its stderr.
	said() *tail
	// identity says what the body is, for logs and status.
	identity() identity
	// exited is closed when the server has ended, and drained when all that it
	// wrote to its stderr is in said.
	exited() <-chan struct{}
	drained() <-chan struct{}
	// reap clears away what is left of a server that has exited, and says how
	// it ended. It may be called repeatedly.
	reap() string
	// stop ends the server by the ladder and frees everything. The caller has
	// closed stdin. It returns when nothing is left, and may be called once.
	stop(eofGrace, termGrace time.Duration)
}

// An identity is what a server runs as. The zero value is a server that is not
// ours to run, such as a remote one.
type identity struct {
	pid       int    // of a process
	container string // id of a container
	name      string // of the container
}
