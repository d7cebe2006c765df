package enginetest

import (
	"context"
	"fmt"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// A fault is what happens to the next calls of one operation.
type fault struct {
	times int // calls left to fail
	err   error
	delay time.Duration
}

// Fail makes the next n calls of op fail with err, or with an
// [*runtime.EngineError] of status 500 when err is nil. Op is a method's name
// in lower case: "create", "start", "attach", "exec", "remove", "list", ...
func (m *Memory) Fail(op string, n int, err error) {
	if err == nil {
		err = refusal(op, 500, "refused on request")
	}
	m.change(op, func(f *fault) { f.times, f.err = n, err })
}

// Delay makes every call of op take d longer, until set to 0. A call whose
// context ends meanwhile fails with the context's error.
func (m *Memory) Delay(op string, d time.Duration) {
	m.change(op, func(f *fault) { f.delay = d })
}

// SetUnreachable makes every call fail with [runtime.ErrUnreachable], or ends
// that. Containers live on, and so do open streams: see DropStreams.
func (m *Memory) SetUnreachable(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreachable = down
	if !down {
		return
	}
	for w := range m.watchers {
		m.dropWatcherLocked(w)
	}
}

// End ends a running container with exit, as the kernel's OOM killer or a
// person would. It returns when the container has ended.
func (m *Memory) End(id runtime.ID, exit runtime.Exit) error {
	c, ok := m.container(id)
	if !ok {
		return noContainer("end", id)
	}
	if exit.OOM {
		m.mu.Lock()
		m.emitLocked(c, "oom")
		m.mu.Unlock()
	}
	c.end(exit)
	return nil
}

// DropStreams ends every stream attached to the container, with io.EOF, and
// leaves the container running: what an engine that restarts does.
func (m *Memory) DropStreams(id runtime.ID) error {
	c, ok := m.container(id)
	if !ok {
		return noContainer("drop", id)
	}
	c.dropStreams()
	return nil
}

func (m *Memory) container(id runtime.ID) (*container, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.containers[id]
	return c, ok
}

func (m *Memory) change(op string, change func(*fault)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.faults[op]
	if !ok {
		f = new(fault)
		m.faults[op] = f
	}
	change(f)
}

// enter is the first step of every call: it applies the faults.
func (m *Memory) enter(ctx context.Context, op string) error {
	delay, err := m.fault(op)
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (m *Memory) fault(op string) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.faults[op]
	if !ok {
		f = new(fault)
	}
	if m.unreachable {
		return f.delay, fmt.Errorf("engine %s: %w: connection refused", op, runtime.ErrUnreachable)
	}
	if f.times > 0 {
		f.times--
		return f.delay, f.err
	}
	return f.delay, nil
}
