package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// pauseTimeout bounds one pause or resumption of a container.
	pauseTimeout = 10 * time.Second

	// thawTimeout bounds one look whether somebody else has paused it.
	thawTimeout = 5 * time.Second
)

// pause stops the container's processes, unless busy says that they are needed
// by now. It reports whether it asked the engine to.
func (s *Sandbox) pause(busy func() bool) (asked bool, err error) {
	s.freezing <- struct{}{}
	defer func() { <-s.freezing }()
	if s.isFrozen() || busy() || s.Cause() != "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pauseTimeout)
	defer cancel()
	err = s.engine.Pause(ctx, s.container)
	if _, refused := errors.AsType[*runtime.EngineError](err); refused && s.engine.Unpause(ctx, s.container) == nil {
		err = s.engine.Pause(ctx, s.container) // somebody else had paused it: now it is ours to resume
	}
	if err == nil || ctx.Err() != nil { // one that we gave up on may come yet
		s.setFrozen(true)
	}
	return true, err
}

// resume ends a pause of ours. When ctx ends first, the sandbox stays paused.
func (s *Sandbox) resume(ctx context.Context) error {
	select {
	case s.freezing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.freezing }()
	if !s.isFrozen() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	err := s.engine.Unpause(ctx, s.container)
	if _, refused := errors.AsType[*runtime.EngineError](err); err != nil && !refused {
		return err
	}
	// Refused: it goes on already, or it is gone, which its stream tells.
	s.setFrozen(false)
	return nil
}

// thaw ends a pause that is not ours, and reports whether there was one. The
// error says that the engine did not answer, so that nobody knows.
func (s *Sandbox) thaw() (bool, error) {
	s.freezing <- struct{}{}
	defer func() { <-s.freezing }()
	ctx, cancel := context.WithTimeout(context.Background(), thawTimeout)
	defer cancel()
	err := s.engine.Unpause(ctx, s.container)
	if _, refused := errors.AsType[*runtime.EngineError](err); refused { // it is not paused
		return false, nil
	}
	if err == nil {
		s.log.Warn().Msg("resume sandbox that was paused from outside")
	}
	return err == nil, err
}

func (s *Sandbox) isFrozen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen
}

// awakeSince returns when the sandbox was made or last resumed; zero while it
// is paused.
func (s *Sandbox) awakeSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.frozen:
		return time.Time{}
	case s.resumed.IsZero():
		return s.Created
	}
	return s.resumed
}

func (s *Sandbox) setFrozen(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = on
	kind := EventPaused
	if !on {
		s.resumed = time.Now()
		kind = EventResumed
	}
	s.tellLocked(Event{Kind: kind})
}
