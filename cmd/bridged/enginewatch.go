package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// lookEvery is how often it is looked whether the engine is still well, or
	// whether there is one again. Nothing else tells of an engine that hangs
	// while nobody needs it.
	lookEvery = 10 * time.Second
	// lookTime bounds such a look. An engine that makes a dozen containers at
	// once on a slow machine still answers within a second or two.
	lookTime = 10 * time.Second
)

// watch looks after the engine until ctx ends. One that nobody uses is left
// alone: a service that systemd starts for its socket may sleep then.
func (e *engines) watch(ctx context.Context, used func() bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch engine := e.known(); {
		case engine == nil:
			_, _ = e.get(ctx) // status has the error
		case used():
			_ = e.look(ctx, engine) // and of this too
		}
	}
}

func (e *engines) known() runtime.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current
}

// look asks an engine whether it is there and the same as before, and looks for
// another if it is not. The error says what is wrong with it.
func (e *engines) look(ctx context.Context, engine runtime.Engine) error {
	_ = engine.Close() // idle connections may lead to a service whose socket is another's by now
	asked, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	info, err := engine.Info(asked)
	switch {
	case ctx.Err() != nil:
		return nil // it is not the engine that gave up
	case err != nil:
		err = e.lost(engine, err)
	case e.changed(engine, info):
		err = fmt.Errorf("the container engine at %s was replaced by %s %s; try again in a moment", info.Endpoint, info.Name, info.Version)
	default:
		return nil
	}
	_, _ = e.currentOrSearch()
	return err
}

// changed notes what an engine says of itself by now. If it is another one, or
// another version, it is forgotten: the next search settles with it anew.
func (e *engines) changed(engine runtime.Engine, now runtime.Info) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current != engine {
		return false
	}
	was := e.info
	e.info = now
	was.MemoryBytes, now.MemoryBytes = 0, 0 // a virtual machine's may grow
	if was == now {
		return false
	}
	e.log.Warn().Str("endpoint", now.Endpoint).Str("was", was.Name+" "+was.Version).Str("is", now.Name+" "+now.Version).
		Msg("container engine was replaced")
	e.current, e.err = nil, errors.New("looking for a container engine, since the one in use was replaced")
	return true
}

// launchError says of a launch that failed what to do, and finds out whether it
// was for the engine: one that is gone, hangs or was replaced.
func (d *daemon) launchError(ctx context.Context, engine runtime.Engine, err error) error {
	if errors.Is(err, runtime.ErrUnreachable) {
		return d.engines.lost(engine, err)
	}
	if ctx.Err() != nil {
		return err
	}
	if trouble := d.engines.look(ctx, engine); trouble != nil {
		return trouble
	}
	return diskError(imageError(err, string(d.conf.Sandbox.Image)))
}

// rejoin reaches a sandbox again whose connection the engine has ended.
func (d *daemon) rejoin(ctx context.Context, t sandbox.Ticket) (*sandbox.Sandbox, error) {
	engine, err := d.engines.get(ctx)
	if err != nil {
		return nil, err
	}
	s, err := sandbox.Adopt(ctx, engine, d.sandboxOptions(), t)
	if errors.Is(err, runtime.ErrUnreachable) {
		return nil, d.engines.lost(engine, err)
	}
	return s, err
}

// diskError adds to an engine's refusal for want of space what to do about it.
func diskError(err error) error {
	refused, ok := errors.AsType[*runtime.EngineError](err)
	if !ok || !strings.Contains(refused.Msg, "no space left on device") {
		return err
	}
	return fmt.Errorf("%w: the disk that the container engine keeps its containers on is full; free some of it (unused images and containers go with `podman system prune` or `docker system prune`)", err)
}
