package sandbox

import "time"

// An EventKind says what has become of a sandbox.
type EventKind string

// What becomes of sandboxes.
const (
	EventMade    EventKind = "made"
	EventLeased  EventKind = "leased"
	EventAdopted EventKind = "adopted" // from an earlier daemon
	EventPaused  EventKind = "paused"
	EventResumed EventKind = "resumed"
	EventEnded   EventKind = "ended"
	EventFailed  EventKind = "failed" // one could not be made
)

// A Reason says in a word why a sandbox has ended.
type Reason string

// Why sandboxes end.
const (
	ReasonClosed   Reason = "closed"   // its session has ended or started over, or the pool has
	ReasonIdle     Reason = "idle"     // its session was unused for too long
	ReasonEvicted  Reason = "evicted"  // another session needed the room
	ReasonStuck    Reason = "stuck"    // killed: its code went on after interrupts
	ReasonBlocked  Reason = "blocked"  // killed: it did not read its input
	ReasonProtocol Reason = "protocol" // killed: it sent what no harness sends
	ReasonMemory   Reason = "memory"   // it needed more than its limit
	ReasonDied     Reason = "died"     // Python has ended
	ReasonOutside  Reason = "outside"  // its container was stopped, or its engine
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{ReasonClosed, ReasonIdle, ReasonEvicted, ReasonStuck, ReasonBlocked, ReasonProtocol, ReasonMemory, ReasonDied, ReasonOutside}
}

// An Event is what [PoolOptions].Watch is told.
type Event struct {
	Kind     EventKind
	Sandbox  string        // its ID; "" for EventFailed
	Took     time.Duration // to make it, to lease it, or its life
	Reason   Reason        // for EventEnded
	Detail   string        // for EventEnded: the reason in a sentence
	Failures int           // for EventFailed: how many there were in a row
	Err      error         // for EventFailed
}

func (p *Pool) tell(e Event) {
	if p.opts.Watch != nil {
		p.opts.Watch(e)
	}
}

// closing notes why Close will be called.
func (s *Sandbox) closing(reason Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == "" {
		s.reason = reason
	}
}

func (s *Sandbox) tellLocked(e Event) {
	if s.watch != nil {
		e.Sandbox = s.ID
		s.watch(e)
	}
}
