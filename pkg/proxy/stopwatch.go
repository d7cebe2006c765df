package proxy

import (
	"context"
	"sync"
	"time"
)

const (
	// maxPatience bounds the time for which a call may wait for people beyond its
	// time limit, and patienceStep is how exactly that is looked at.
	maxPatience  = 30 * time.Minute
	patienceStep = 50 * time.Millisecond
)

// A Stopwatch adds up the time in which at least one question to a person is
// open. The zero value is ready. It is safe for concurrent use.
type Stopwatch struct {
	mu    sync.Mutex // guards the fields below
	open  int
	since time.Time
	spent time.Duration
}

// Start counts a question. stop must be called once, when it is answered.
func (w *Stopwatch) Start() (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == 0 {
		w.since = time.Now()
	}
	w.open++
	return w.stop
}

func (w *Stopwatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open--; w.open == 0 {
		w.spent += time.Since(w.since)
	}
}

// Total returns the time so far.
func (w *Stopwatch) Total() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open > 0 {
		return w.spent + time.Since(w.since)
	}
	return w.spent
}

// FromNow returns a function that returns the time since FromNow was called.
func (w *Stopwatch) FromNow() func() time.Duration {
	before := w.Total()
	return func() time.Duration { return w.Total() - before }
}

// limited is context.WithTimeoutCause for what may ask a person on the way: the
// time in which asked runs does not count, up to maxPatience. The context tells
// no deadline, since that may move.
func limited(parent context.Context, limit time.Duration, cause error, asked *Stopwatch) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	began, waited := time.Now(), asked.FromNow()
	armed := make(chan struct{})
	var timer *time.Timer
	timer = time.AfterFunc(limit, func() {
		<-armed
		rest := limit - (time.Since(began) - min(waited(), maxPatience))
		if rest > 0 && ctx.Err() == nil {
			timer.Reset(max(rest, patienceStep))
			return
		}
		end(cause)
	})
	close(armed)
	return ctx, func() {
		end(nil)
		timer.Stop()
	}
}

// A session's stopwatches count, by the key of a server, for how long questions
// of that server's to the session's agent have been open. It is safe for
// concurrent use.
type stopwatches struct {
	mu sync.Mutex // guards of
	of map[string]*Stopwatch
}

func (w *stopwatches) get(key string) *Stopwatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	one, ok := w.of[key]
	if !ok {
		if w.of == nil {
			w.of = map[string]*Stopwatch{}
		}
		one = &Stopwatch{}
		w.of[key] = one
	}
	return one
}

// timed is ctx with a time limit on what is asked of a server.
func (s *Session) timed(ctx context.Context, t *target, limit time.Duration, setting string) (context.Context, context.CancelFunc) {
	return limited(ctx, limit, lateBy(limit, setting), s.asking.get(t.key))
}
