package sandbox

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// pauseRetry is how long an engine that refused to pause is not asked
	// again.
	pauseRetry = 10 * time.Minute

	// pauseRefusals is how many refusals in a row mean that the engine can't
	// pause at all. One may be of a container that is just ending.
	pauseRefusals = 2
)

// enroll lets the pool look after a session's sandbox, until dismiss.
func (p *Pool) enroll(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[s] = struct{}{}
}

func (p *Pool) dismiss(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
}

// enrolled returns the sessions of this moment.
func (p *Pool) enrolled() []*Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*Session, 0, len(p.sessions))
	for s := range p.sessions {
		list = append(list, s)
	}
	return list
}

// patience is the shortest time after which something is done to an idle
// session; 0 if nothing ever is.
func (p *Pool) patience() time.Duration {
	pause, end := p.opts.PauseAfter, p.opts.SessionIdle
	if pause == 0 || end == 0 {
		return max(pause, end)
	}
	return min(pause, end)
}

// tend pauses and ends the sandboxes of idle sessions until Close. It looks
// again after patience at the latest, so a session that becomes idle need not
// tell it; one that gets a sandbox does.
func (p *Pool) tend() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.look:
		case <-timer.C:
		}
		if next := p.tendAll(time.Now()); next > 0 {
			timer.Reset(next)
		}
	}
}

// tendAll looks at every session once and returns when to do so again, 0 if no
// session has a sandbox.
func (p *Pool) tendAll(now time.Time) time.Duration {
	var next time.Duration
	for _, s := range p.enrolled() {
		if d := s.tend(now); d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	if next == 0 {
		return 0
	}
	return min(next, p.patience())
}

// evict ends the sandbox of the idle session that was unused for longest. It
// returns false if there is none that was unused for so long as to not be spared.
func (p *Pool) evict(limit string, spared time.Duration) bool {
	list := p.enrolled()
	used := make(map[*Session]time.Time, len(list))
	for _, s := range list {
		used[s] = s.lastUse()
	}
	slices.SortFunc(list, func(a, b *Session) int { return cmp.Compare(used[a].UnixNano(), used[b].UnixNano()) })
	for _, s := range list {
		if time.Since(used[s]) < spared {
			return false // as are all behind it
		}
		if sb := s.yield(ReasonEvicted, "its sandbox was ended to make room for another session's; "+limit); sb != nil {
			p.opts.Logger.Info().Str("sandbox", sb.ID).Str("limit", limit).Msg("evict idle session")
			p.Release(sb)
			return true
		}
	}
	return false
}

// pausable reports whether it makes sense to ask the engine for a pause.
func (p *Pool) pausable(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opts.PauseAfter > 0 && (p.noPause == "" || now.Sub(p.noPauses) >= pauseRetry)
}

// notePause remembers whether the engine can pause, by the result of asking it
// to.
func (p *Pool) notePause(err error) {
	refused, ok := errors.AsType[*runtime.EngineError](err)
	if err != nil && (!ok || errors.Is(err, runtime.ErrNoContainer)) {
		p.opts.Logger.Debug().Err(err).Msg("pause idle sandbox")
		return // it says nothing of what the engine can do
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if refused == nil {
		p.noPause, p.refusals = "", 0
		return
	}
	if p.refusals++; p.refusals < pauseRefusals {
		return
	}
	if p.noPause == "" {
		p.opts.Logger.Warn().Err(err).Msg("idle sandboxes are not paused")
	}
	p.noPause, p.noPauses = refused.Msg, time.Now()
}
