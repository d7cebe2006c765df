package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// leftoverPause is how often containers that could not be removed are
	// tried again.
	leftoverPause = 3 * time.Second
	// maxLeftovers bounds them; more than that are left to the next start,
	// which finds them by their labels.
	maxLeftovers = 10_000
	// leftoverTime bounds one go, in which an engine may hang.
	leftoverTime = time.Minute
)

// leftovers are containers that could not be removed when their time had come,
// because their engine was gone. It may be another that is there next, so one
// that does not have a container says nothing of it.
type leftovers struct {
	log zerolog.Logger

	mu  sync.Mutex                    // guards ids
	ids map[runtime.ID]runtime.Engine // the last engine that did not have it, if any
}

// add never blocks.
func (l *leftovers) add(id runtime.ID) { l.note(id, nil) }

func (l *leftovers) note(id runtime.ID, absent runtime.Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[runtime.ID]runtime.Engine{}
	}
	if _, known := l.ids[id]; known || len(l.ids) < maxLeftovers {
		l.ids[id] = absent
	}
}

// in lists those that e may have.
func (l *leftovers) in(e runtime.Engine) []runtime.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []runtime.ID
	for id, absent := range l.ids {
		if absent != e {
			ids = append(ids, id)
		}
	}
	return ids
}

func (l *leftovers) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids) == 0
}

func (l *leftovers) forget(id runtime.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ids, id)
}

// run removes what it can, again and again, until ctx ends.
func (l *leftovers) run(ctx context.Context, engine func(context.Context) (runtime.Engine, error)) {
	tick := time.NewTicker(leftoverPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.remove(ctx, engine)
	}
}

// remove tries each container once, up to the first sign that the engine is
// still gone.
func (l *leftovers) remove(ctx context.Context, engine func(context.Context) (runtime.Engine, error)) {
	if l.empty() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leftoverTime)
	defer cancel()
	e, err := engine(ctx)
	if err != nil {
		return // status says so
	}
	ids := l.in(e)
	if len(ids) == 0 {
		return
	}
	list, err := e.List(ctx, map[string]string{runtime.LabelManaged: "true"})
	if err != nil {
		return // the engine is looked after elsewhere
	}
	for _, id := range ids {
		if !slices.ContainsFunc(list, func(c runtime.Container) bool { return c.ID == id }) {
			l.note(id, e)
			continue
		}
		err := e.Remove(ctx, id)
		switch {
		case err == nil:
			l.log.Info().Str("container", string(id)).Msg("remove left container")
			l.forget(id)
		case errors.Is(err, runtime.ErrUnreachable):
			return
		default:
			l.log.Warn().Str("container", string(id)).Err(err).Msg("remove left container")
		}
	}
}
