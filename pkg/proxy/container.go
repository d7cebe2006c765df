package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// createTimeout bounds the making of a container, which outlives those who
	// wait for it: the engine goes on with it, and then nobody knows its name.
	createTimeout = time.Minute
	// signalTimeout and removeTimeout bound one request to the engine each.
	signalTimeout = 5 * time.Second
	removeTimeout = 30 * time.Second
	// exitGrace is how long an engine may take to tell that a container has
	// ended whose output has.
	exitGrace = 5 * time.Second
	// watchPause is the time between two looks at a container whose engine does
	// not answer.
	watchPause = time.Second
)

// A container is what a server runs in when its definition or the operator says
// so. It is made, reached and ended over the engine's socket.
type container struct {
	engine runtime.Engine
	id     runtime.ID
	name   string
	memory int64 // its limit in bytes, for the message when it passes it
	signal string
	grace  time.Duration // between the signal and the end; 0 means the ladder's

	stream  runtime.Stream
	stderr  *tail
	abandon func(runtime.ID) // takes a container that could not be removed
	log     zerolog.Logger

	ended  chan struct{} // closed when it has ended, or is not to be watched any more
	ending string        // how; set before ended is closed
	silent chan struct{} // closed when its output has ended
	hush   sync.Once     // closes silent
	cancel context.CancelFunc
	done   sync.WaitGroup
}

var _ body = (*container)(nil)

// open attaches to a container that was just created, and starts it. When it
// fails, the caller must still stop it.
func (c *container) open(ctx context.Context) error {
	watching, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	stream, err := c.engine.Attach(ctx, c.id, c.stderr)
	if err == nil {
		c.stream = stream
		err = c.engine.Start(ctx, c.id)
	}
	if err != nil {
		c.ending = "it was never started"
		close(c.ended)
		return err
	}
	c.done.Go(func() { c.watch(watching) }) // ends with the container, or in stop
	return nil
}

// watch waits for the container's end, whatever becomes of the engine.
func (c *container) watch(ctx context.Context) {
	defer close(c.ended)
	for {
		exit, err := c.engine.Wait(ctx, c.id)
		switch {
		case err == nil:
			c.ending = c.describe(exit)
			return
		case ctx.Err() != nil:
			c.ending = "it was removed"
			return
		case errors.Is(err, runtime.ErrNoContainer):
			c.ending = "somebody else removed its container"
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// describe says how the container ended.
func (c *container) describe(exit runtime.Exit) string {
	switch {
	case exit.OOM:
		return fmt.Sprintf("it was killed because it needed more memory than its limit of %d MiB; exit code %d", c.memory>>20, exit.Code)
	case exit.Code == 137:
		return fmt.Sprintf("exit code 137: it was killed, maybe because it needed more memory than its limit of %d MiB", c.memory>>20)
	}
	return fmt.Sprintf("exit code %d", exit.Code)
}

func (c *container) streams() (io.WriteCloser, io.Reader) {
	return containerStdin{c.stream}, containerStdout{c}
}
func (c *container) said() *tail              { return c.stderr }
func (c *container) identity() identity       { return identity{container: string(c.id), name: c.name} }
func (c *container) exited() <-chan struct{}  { return c.ended }
func (c *container) drained() <-chan struct{} { return c.silent }

// reap says how the container ended. What it started has ended with it.
func (c *container) reap() string {
	<-c.ended
	return c.ending
}

// stop ends the container by the ladder and removes it. The caller has closed
// its stdin, or has never spoken with it.
func (c *container) stop(eofGrace, termGrace time.Duration) {
	if !c.endedWithin(eofGrace) {
		c.terminate()
		c.endedWithin(cmp.Or(c.grace, termGrace))
	}
	c.remove()
	c.cancel()
	if c.stream != nil {
		_ = c.stream.Close() // ends our reader, whatever the engine does
	}
	c.hush.Do(func() { close(c.silent) })
	c.done.Wait()
}

func (c *container) terminate() {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	_ = c.engine.Kill(ctx, c.id, cmp.Or(c.signal, "SIGTERM")) // it may have ended by itself
}

// remove takes a deadline of its own: whoever wanted the server may be gone.
func (c *container) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if err := c.engine.Remove(ctx, c.id); err != nil {
		c.log.Warn().Str("container", string(c.id)).Err(err).Msg("remove server's container")
		c.abandon(c.id)
	}
}

func (c *container) endedWithin(d time.Duration) bool {
	waitFor(c.ended, d)
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// containerStdin closes stdin where it is told to close.
type containerStdin struct{ runtime.Stream }

func (s containerStdin) Close() error { return s.CloseWrite() }

// containerStdout notes the end of the output. Stderr travels with it. The end
// is passed on when the engine has told of the container's, which is some time
// later: with that it is known how it ended.
type containerStdout struct{ c *container }

func (s containerStdout) Read(b []byte) (int, error) {
	n, err := s.c.stream.Read(b)
	if err != nil {
		s.c.hush.Do(func() { close(s.c.silent) })
		waitFor(s.c.ended, exitGrace)
	}
	return n, err
}
