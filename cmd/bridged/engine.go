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
	log      zerolog.Logger

	search sync.Mutex // held while searching: one search serves all who wait

	mu      sync.Mutex // guards the fields below
	current runtime.Engine
	info    runtime.Info
	err     error // of the last search
}

// get returns the engine in use, after a search if there is none.
func (e *engines) get(ctx context.Context) (runtime.Engine, error) {
	if engine := e.known(); engine != nil {
		return engine, nil
	}
	e.search.Lock()
	defer e.search.Unlock()
	if engine := e.known(); engine != nil {
		return engine, nil
	}
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	engine, err := e.find(ctx)
	var info runtime.Info
	if err == nil {
		info, err = engine.Info(ctx)
	}
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = err
		return nil, err
	}
	e.log.Info().Str("engine", info.Name).Str("version", info.Version).Str("endpoint", info.Endpoint).
		Bool("rootless", info.Rootless).Msg("use container engine")
	e.removeOrphans(ctx, engine)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current, e.info, e.err = engine, info, nil
	return engine, nil
}

func (e *engines) known() runtime.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current
}

// lost forgets engine, so that the next get searches again, and returns the
// error for those who wanted to use it. The client is not closed: sandboxes
// that still live go on using it.
func (e *engines) lost(engine runtime.Engine, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err = fmt.Errorf("the container engine at %s is gone; try again in a moment, or tell the user to start it: %w", e.info.Endpoint, err)
	if e.current == engine {
		e.log.Warn().Err(err).Msg("lost container engine")
		e.current, e.err = nil, err
	}
	return err
}

// removeOrphans removes the containers of an earlier run of this instance.
func (e *engines) removeOrphans(ctx context.Context, engine runtime.Engine) {
	list, err := engine.List(ctx, map[string]string{runtime.LabelManaged: "true", runtime.LabelInstance: e.instance})
	if err != nil {
		e.log.Warn().Err(err).Msg("list orphaned sandboxes")
		return
	}
	for _, c := range list {
		if c.Labels[labelProcess] == e.process {
			continue
		}
		if err := engine.Remove(ctx, c.ID); err != nil {
			e.log.Warn().Err(err).Str("container", string(c.ID)).Msg("remove orphaned sandbox")
			continue
		}
		e.log.Info().Str("container", string(c.ID)).Msg("remove orphaned sandbox")
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
