package sandbox

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// hold keeps the sandbox from being paused or ended for being idle, until
// release.
func (s *Session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

func (s *Session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.used = time.Now()
}

// Use returns the session's sandbox, awake and kept so until the caller calls
// release, for something other than a run: it does not wait for its turn. It is
// nil, and release too, if the session has no live sandbox. The error is the
// engine's, which could not resume it, or ctx's own.
func (s *Session) Use(ctx context.Context) (sb *Sandbox, release func(), err error) {
	s.hold()
	sb = s.Sandbox()
	if sb != nil && sb.Cause() == "" {
		err = sb.resume(ctx)
	}
	if sb == nil || sb.Cause() != "" || err != nil {
		s.release()
		return nil, nil, err
	}
	return sb, sync.OnceFunc(s.release), nil
}

// lastUse returns when the sandbox was used last, or now if it is in use.
func (s *Session) lastUse() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 {
		return time.Now()
	}
	return s.used
}

// yield takes the sandbox of a session that does not use it, which the caller
// must Release. The next run tells why. Nil if there is none or it is in use.
func (s *Session) yield(reason Reason, why string) *Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 {
		return nil
	}
	return s.yieldLocked(reason, why)
}

func (s *Session) yieldLocked(reason Reason, why string) *Sandbox {
	sb := s.sandbox
	if sb != nil {
		sb.closing(reason)
		s.sandbox, s.lost = nil, why
	}
	return sb
}

// tend does what is due for an idle session, in the background, and returns
// when to look again; 0 if there is nothing to look after. Only the pool's
// tender calls it.
func (s *Session) tend(now time.Time) time.Duration {
	p := s.pool
	s.mu.Lock()
	defer s.mu.Unlock()
	sb, idle := s.sandbox, now.Sub(s.used)
	switch {
	case sb == nil:
		return 0
	case s.users > 0:
		return p.patience()
	case sb.reaching():
		return p.patience()
	case sb.Cause() != "":
		s.yieldLocked("", sb.Cause())
		p.done.Go(func() { p.Release(sb) })
		return 0
	case p.opts.SessionIdle > 0 && idle >= p.opts.SessionIdle:
		s.yieldLocked(ReasonIdle, fmt.Sprintf("the session was idle for %s, the limit (run.session_idle)", Brief(p.opts.SessionIdle)))
		p.done.Go(func() { p.Release(sb) })
		return 0
	}
	next := p.patience()
	if p.opts.SessionIdle > 0 {
		next = p.opts.SessionIdle - idle
	}
	if sb.isFrozen() || !p.pausable(now) {
		return next
	}
	if idle < p.opts.PauseAfter {
		return min(next, p.opts.PauseAfter-idle)
	}
	p.done.Go(func() {
		if asked, err := sb.pause(s.busy); asked {
			p.notePause(err)
		}
	})
	return next
}

// busy reports whether the sandbox is in use.
func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users > 0
}
