package bridge

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// maxQueued bounds the answers that wait for a slow client, in bytes.
	// Past it senders wait; one message larger than that still passes alone.
	maxQueued = 8 << 20

	// maxQueuedProgress is how much may wait before progress is dropped. The
	// client is behind then, and newer progress says more than older.
	maxQueuedProgress = 256 << 10

	// writeChunk is how much is written per deadline, so that a slow client
	// that still reads is told apart from one that does not.
	writeChunk = 64 << 10

	// writeTimeout is how long a client may read nothing before it is hung up
	// on. An agent that was suspended for a minute is not dead.
	writeTimeout = 2 * time.Minute
)

// errWriterClosed means that the connection takes no more messages.
var errWriterClosed = errors.New("connection closed")

// A writer sends lines to a client in order, from a queue. Its methods may be
// called from several goroutines.
type writer struct {
	conn    net.Conn
	timeout time.Duration
	limit   int
	done    chan struct{} // closed when run has returned

	mu     sync.Mutex // guards the fields below
	queue  []parcel
	queued int  // bytes in queue and in the write under way
	busy   bool // a write is under way
	closed bool
	change sync.Cond // broadcast when the fields above change
}

// A parcel is a line, and what is done when it has been written; nil is nothing.
type parcel struct {
	line []byte
	then func()
}

// newWriter starts a writer. The caller must close it.
func newWriter(conn net.Conn, timeout time.Duration, limit int) *writer {
	w := &writer{conn: conn, timeout: timeout, limit: limit, done: make(chan struct{})}
	w.change.L = &w.mu
	go w.run() // ends on close or at the first error
	return w
}

// send writes a line if nothing is before it, which saves a thread switch, and
// else queues it, waiting for room.
func (w *writer) send(line []byte) error { return w.sendThen(line, nil) }

// sendThen is send and calls then when the line has been written, from any
// goroutine. Then must not block, and may be nil.
func (w *writer) sendThen(line []byte, then func()) error {
	p := parcel{line, then}
	w.mu.Lock()
	if !w.closed && !w.busy && len(w.queue) == 0 {
		w.busy = true
		w.queued += len(line)
		w.mu.Unlock()
		return w.finish(p, w.write(line))
	}
	defer w.mu.Unlock()
	for !w.closed && w.queued > 0 && w.queued+len(line) > w.limit {
		w.change.Wait()
	}
	return w.pushLocked(p)
}

// catchUp waits while the client is behind: while answers wait that it does not
// read.
func (w *writer) catchUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && w.queued > w.limit/2 {
		w.change.Wait()
	}
}

// offer queues a line if the client is not behind, and drops it otherwise. It
// never waits.
func (w *writer) offer(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queued+len(line) <= maxQueuedProgress {
		_ = w.pushLocked(parcel{line: line}) // a closed connection needs no progress
	}
}

func (w *writer) pushLocked(p parcel) error {
	if w.closed {
		return errWriterClosed
	}
	w.queue = append(w.queue, p)
	w.queued += len(p.line)
	w.change.Broadcast()
	return nil
}

// close lets the queue be written for at most grace, then ends the writer and
// waits for it. It does not close the connection.
func (w *writer) close(grace time.Duration) {
	w.mu.Lock()
	w.closed = true
	w.change.Broadcast()
	w.mu.Unlock()
	select {
	case <-w.done:
		return
	case <-time.After(grace):
	}
	_ = w.conn.SetWriteDeadline(time.Unix(1, 0)) // fails only if it is closed, which ends run too
	_ = w.conn.Close()
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	for {
		p, ok := w.pop()
		if !ok {
			return
		}
		if w.finish(p, w.write(p.line)) != nil {
			return
		}
	}
}

func (w *writer) pop() (parcel, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy || len(w.queue) == 0 && !w.closed {
		w.change.Wait()
	}
	if len(w.queue) == 0 {
		return parcel{}, false
	}
	p := w.queue[0]
	w.queue[0] = parcel{}
	w.queue = w.queue[1:]
	w.busy = true
	return p, true
}

// finish notes the end of a parcel's write and returns its error, which ends the
// connection.
func (w *writer) finish(p parcel, err error) error {
	if err == nil && p.then != nil {
		p.then()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	w.queued -= len(p.line)
	if err != nil {
		w.closed = true
		w.queue, w.queued = nil, 0
		_ = w.conn.Close() // ends the reader as well
	}
	w.change.Broadcast()
	return err
}

func (w *writer) write(line []byte) error {
	for len(line) > 0 {
		n := min(len(line), writeChunk)
		if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
			return err
		}
		if _, err := w.conn.Write(line[:n]); err != nil {
			return err
		}
		line = line[n:]
	}
	return nil
}
