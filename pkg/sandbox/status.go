package sandbox

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Snapshot is what there is to say of one sandbox of a [Pool].
type Snapshot struct {
	ID        string
	Container string // the engine's name for it
	State     string // "warm", "leased" or "paused"
	Created   time.Time
	Python    string   // version
	Posture   *Posture // as attested; not to be changed
	Degraded  []string // what holds less than was asked for
}

func (s *Sandbox) status(state string) Snapshot {
	return Snapshot{
		ID: s.ID, Container: string(s.container), State: state, Created: s.Created,
		Python: s.Python, Posture: s.Posture, Degraded: s.Degraded,
	}
}

// sandboxesLocked lists all sandboxes, the oldest first.
func (p *Pool) sandboxesLocked() []Snapshot {
	list := make([]Snapshot, 0, len(p.warm)+len(p.leased))
	for s := range p.leased {
		state := "leased"
		if s.isFrozen() {
			state = "paused"
		}
		list = append(list, s.status(state))
	}
	for _, s := range p.warm {
		list = append(list, s.status("warm"))
	}
	slices.SortFunc(list, func(a, b Snapshot) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return list
}

// Live returns the sandboxes that are warm or leased now.
func (p *Pool) Live() []*Sandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.AppendSeq(slices.Clone(p.warm), maps.Keys(p.leased))
}

// SessionState says how a session's sandbox is.
type SessionState string

// The states of a session's sandbox.
const (
	StateNone    SessionState = "none"    // there is none: before the first run, or it has ended
	StateRunning SessionState = "running" // something uses it
	StateIdle    SessionState = "idle"
	StatePaused  SessionState = "paused" // idle, and its processes stand still
)

// SessionStatus is a snapshot of a [Session].
type SessionStatus struct {
	State   SessionState
	Sandbox string    // its ID, "" if there is none
	Since   time.Time // when that was made
	Used    time.Time // when it was used last
	Lost    string    // what the next run will tell of a loss, "" if there is nothing to tell
}

// Status returns a snapshot.
func (s *Session) Status() SessionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SessionStatus{State: StateNone, Used: s.used}
	lost, sb := s.lost, s.sandbox
	if sb != nil && sb.Cause() != "" && !sb.reaching() {
		sb, lost = nil, sb.Cause()
	}
	if lost != "" {
		st.Lost = replaced(lost)
	}
	switch {
	case s.users > 0:
		st.State = StateRunning
	case sb == nil:
		return st
	case sb.isFrozen():
		st.State = StatePaused
	default:
		st.State = StateIdle
	}
	if sb != nil {
		st.Sandbox, st.Since = sb.ID, sb.Created
	}
	return st
}
