package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bridged/bridged/pkg/tracing"
)

const (
	// defaultConcurrency is how many calls of one server are under way at once.
	// It is as many as one session may have, so that alone none ever waits.
	defaultConcurrency = maxInFlight

	// maxQueued is how many more calls may wait for one server.
	maxQueued = 4096
)

// A queue lets a number of calls be under way at once, and others wait in the
// order in which they came. It is safe for concurrent use.
type queue struct {
	limit int // calls under way at once, above 0

	mu      sync.Mutex // guards the fields below
	inside  int
	waiting []turn // the first to come first
}

// A turn is closed when it has come.
type turn chan struct{}

// enter waits for a turn. It reports false, at once, when too many wait
// already, and ctx's cause when that ends first. After nil the caller must
// leave.
func (q *queue) enter(ctx context.Context) (room bool, err error) {
	t, room := q.join()
	if t == nil {
		return room, nil
	}
	_, span := tracing.Start(ctx, "wait for server")
	defer span.End()
	select {
	case <-t:
		return true, nil
	case <-ctx.Done():
		q.quit(t)
		return true, context.Cause(ctx)
	}
}

// join takes a turn, or else the last place of those who wait for one.
func (q *queue) join() (t turn, room bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.inside < q.limit:
		q.inside++
		return nil, true
	case len(q.waiting) >= maxQueued:
		return nil, false
	}
	t = make(turn)
	q.waiting = append(q.waiting, t)
	return t, true
}

// quit gives up a place, or the turn that has come meanwhile.
func (q *queue) quit(t turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.passLocked()
}

// leave passes a turn on.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.passLocked()
}

func (q *queue) passLocked() {
	if len(q.waiting) == 0 {
		q.inside--
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// load returns how many calls are under way and how many wait.
func (q *queue) load() (inside, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inside, len(q.waiting)
}

// turn waits until a call may be sent to the server. After nil the caller must
// call leave.
func (b *backend) turn(ctx context.Context) (leave func(), err error) {
	room, err := b.queue.enter(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: waiting for a turn at server %s: %w", errNotSent, b.name, err)
	case !room:
		return nil, errorf(CodeBusy, "%d calls of server %s are under way and %d wait. Await some before making more.", b.queue.limit, b.name, maxQueued)
	}
	return b.queue.leave, nil
}
