package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/runtime"
)

// labelProcess tells the containers of this run of the daemon from those of
// an earlier one, which are orphans.
const labelProcess = "io.bridged.process"

// detectTimeout bounds one search for an engine. Each place answers or fails
// within a moment, unless its service hangs.
const detectTimeout = 20 * time.Second

// An engines finds the container engine when it is first needed, and again
// when it was lost: the daemon starts without one and recovers by itself.
type engines struct {
	find     func(ctx context.Context) (runtime.Engine, error)
	instance string
	process  string
	claimed  func(runtime.ID) bool // a container is none of those that are left over; nil: none is claimed
	log      zerolog.Logger
	tells    *watching // nil is nobody

	mu       sync.Mutex // guards the fields below
	current  runtime.Engine
	info     runtime.Info
	err      error   // of the last search, or why the engine is not used any more
	underway *search // nil while nobody searches
}

// A search for an engine serves all who wait for it.
type search struct {
	done   chan struct{} // closed when it has ended; the fields below are set then
	engine runtime.Engine
	err    error
}

// get returns the engine in use, after a search if there is none. It waits no
// longer than ctx; the search goes on for others.
func (e *engines) get(ctx context.Context) (runtime.Engine, error) {
	engine, s := e.currentOrSearch()
	if engine != nil {
		return engine, nil
	}
	select {
	case <-s.done:
		return s.engine, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// currentOrSearch returns the engine in use, or the search that is under way.
func (e *engines) currentOrSearch() (runtime.Engine, *search) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current != nil {
		return e.current, nil
	}
	if e.underway == nil {
		e.underway = &search{done: make(chan struct{})}
		go e.search(e.underway) // it ends within detectTimeout
	}
	return nil, e.underway
}

// search looks for an engine, and takes it into use.
func (e *engines) search(s *search) {
	ctx, cancel := context.WithTimeout(context.Background(), detectTimeout)
	defer cancel()
	engine, err := e.find(ctx)
	var info runtime.Info
	if err == nil {
		info, err = engine.Info(ctx)
	}
	if err == nil {
		e.log.Info().Str("engine", info.Name).Str("version", info.Version).Str("endpoint", info.Endpoint).
			Bool("rootless", info.Rootless).Msg("use container engine")
		e.tells.engineFound(info)
		e.removeOrphans(ctx, engine, false)
		s.engine = engine
	}
	s.err = err
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current, e.err, e.underway = s.engine, err, nil
	if err == nil {
		e.info = info
	}
	close(s.done)
}

// lost forgets engine, so that the next get searches again, and returns the
// error for those who wanted to use it. The client is not closed: sandboxes
// that still live go on using it.
func (e *engines) lost(engine runtime.Engine, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	state := "is gone; try again in a moment, or tell the user to start it"
	if errors.Is(err, context.DeadlineExceeded) {
		state = "does not answer; try again in a moment, or tell the user to restart it"
	}
	err = fmt.Errorf("the container engine at %s %s: %w", e.info.Endpoint, state, err)
	if e.current == engine {
		e.log.Warn().Err(err).Msg("lost container engine")
		e.tells.engineLost(err)
		e.current, e.err = nil, err
	}
	return err
}

// stragglers is when it is looked a second time for what an earlier daemon left: a
// container that it had asked for when it was killed may appear after the first.
const stragglers = 20 * time.Second

// sweepLater removes such containers, unless ctx ends before.
func (e *engines) sweepLater(ctx context.Context) {
	select {
	case <-time.After(stragglers):
	case <-ctx.Done():
		return
	}
	if engine := e.known(); engine != nil {
		ctx, cancel := context.WithTimeout(ctx, detectTimeout)
		defer cancel()
		e.removeOrphans(ctx, engine, false)
	}
}

// sweep removes all containers of this instance that no session has claimed.
func (e *engines) sweep(ctx context.Context) {
	if engine := e.known(); engine != nil {
		e.removeOrphans(ctx, engine, true)
	}
}

// removeOrphans removes the containers of an earlier run of this instance, but
// for those of the sessions that it has left; and, with mine, those of this run.
func (e *engines) removeOrphans(ctx context.Context, engine runtime.Engine, mine bool) {
	list, err := engine.List(ctx, map[string]string{runtime.LabelManaged: "true", runtime.LabelInstance: e.instance})
	if err != nil {
		e.log.Warn().Err(err).Msg("list orphaned containers")
		return
	}
	for _, c := range list {
		if !mine && c.Labels[labelProcess] == e.process || e.claimed != nil && e.claimed(c.ID) {
			continue
		}
		if err := engine.Remove(ctx, c.ID); err != nil {
			e.log.Warn().Err(err).Str("container", string(c.ID)).Msg("remove orphaned container")
			continue
		}
		e.log.Info().Str("container", string(c.ID)).Msg("remove orphaned container")
	}
}

// status returns the engine in use, or why there is none.
func (e *engines) status() (runtime.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.current != nil:
		return e.info, nil
	case e.err != nil:
		return runtime.Info{}, e.err
	}
	return runtime.Info{}, errors.New("looking for a container engine")
}

// imageError adds to a launch's error what to do about a missing image.
func imageError(err error, image string) error {
	if !errors.Is(err, runtime.ErrNoImage) {
		return err
	}
	if image == defaultImage {
		return fmt.Errorf("%w: the sandbox image %s is not there yet; make it with `bridged image build`, or `make image` in a source tree", err, image)
	}
	return fmt.Errorf("%w: fetch it with `bridged image pull %s`, or set sandbox.image to one that is there", err, image)
}
