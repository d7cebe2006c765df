package main

import (
	"context"
	"errors"
	"maps"
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
)

// leftovers are containers that could not be removed when their time had come,
// because the engine was gone.
type leftovers struct {
	log zerolog.Logger

	mu  sync.Mutex // guards ids
	ids map[runtime.ID]bool
}

// add never blocks.
func (l *leftovers) add(id runtime.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[runtime.ID]bool{}
	}
	if len(l.ids) < maxLeftovers {
		l.ids[id] = true
	}
}

func (l *leftovers) list() []runtime.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.ids))
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
	ids := l.list()
	if len(ids) == 0 {
		return
	}
	e, err := engine(ctx)
	if err != nil {
		return // status says so
	}
	for _, id := range ids {
		err := e.Remove(ctx, id)
		switch {
		case err == nil:
			l.log.Info().Str("container", string(id)).Msg("remove left sandbox")
			l.forget(id)
		case errors.Is(err, runtime.ErrUnreachable):
			return
		default:
			l.log.Warn().Str("container", string(id)).Err(err).Msg("remove left sandbox")
		}
	}
}
