package enginetest

import (
	"context"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// eventQueue is how many events wait for a slow watcher. One that is full is
// closed, as a real engine's stream would be.
const eventQueue = 1024

type watcher struct {
	labels map[string]string
	ch     chan runtime.Event
}

// Events implements [runtime.Engine].
func (m *Memory) Events(ctx context.Context, labels map[string]string) (<-chan runtime.Event, error) {
	if err := m.enter(ctx, "events"); err != nil {
		return nil, err
	}
	w := &watcher{labels: labels, ch: make(chan runtime.Event, eventQueue)}
	m.mu.Lock()
	m.watchers[w] = struct{}{}
	m.mu.Unlock()
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.dropWatcherLocked(w)
	})
	return w.ch, nil
}

func (m *Memory) dropWatcherLocked(w *watcher) {
	if _, ok := m.watchers[w]; !ok {
		return
	}
	delete(m.watchers, w)
	close(w.ch)
}

func (m *Memory) emitLocked(c *container, action string) {
	e := runtime.Event{ID: c.id, Action: action, Time: time.Now()}
	for w := range m.watchers {
		if !carries(c.spec.Labels, w.labels) {
			continue
		}
		select {
		case w.ch <- e:
		default:
			m.dropWatcherLocked(w)
		}
	}
}

// died counts and tells that a running container has ended.
func (m *Memory) died(c *container) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Running--
	m.emitLocked(c, "die")
}
