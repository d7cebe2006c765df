package ops

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// keptEvents is how many events are kept for those who come, or come back,
	// later. An event has some hundred bytes.
	keptEvents = 1024

	// maxWord, maxSentence and maxCwd bound the texts of an event, in bytes.
	maxWord     = 120
	maxSentence = 300
	maxCwd      = 1024
)

// An EventType says what happened.
type EventType string

// The events. docs/operations.md says which fields each has.
const (
	SessionOpened   EventType = "session_opened" // an agent has connected
	SessionClosed   EventType = "session_closed"
	RunBegun        EventType = "run_begun" // of code in run_python
	RunEnded        EventType = "run_ended"
	CallBegun       EventType = "call_begun" // of a server's tool
	CallEnded       EventType = "call_ended"
	SandboxMade     EventType = "sandbox_made"
	SandboxLeased   EventType = "sandbox_leased"  // a session has taken it
	SandboxAdopted  EventType = "sandbox_adopted" // from an earlier daemon
	SandboxPaused   EventType = "sandbox_paused"
	SandboxResumed  EventType = "sandbox_resumed"
	SandboxEnded    EventType = "sandbox_ended"
	PoolFailed      EventType = "pool_failed" // a sandbox could not be made
	ServerStarted   EventType = "server_started"
	ServerStopped   EventType = "server_stopped" // because it was not needed any more
	ServerFailed    EventType = "server_failed"  // it could not be started, or has ended by itself
	EngineFound     EventType = "engine_found"
	EngineLost      EventType = "engine_lost"
	ApprovalWaiting EventType = "approval_waiting" // a call waits for a person
	ApprovalSettled EventType = "approval_settled" // it was answered, or waits no more
	EventsLost      EventType = "lost"             // of one reader's: it was too slow, or away for too long
)

// EventTypes returns all of them.
func EventTypes() []EventType {
	return []EventType{
		SessionOpened, SessionClosed, RunBegun, RunEnded, CallBegun, CallEnded,
		SandboxMade, SandboxLeased, SandboxAdopted, SandboxPaused, SandboxResumed, SandboxEnded, PoolFailed,
		ServerStarted, ServerStopped, ServerFailed, EngineFound, EngineLost,
		ApprovalWaiting, ApprovalSettled, EventsLost,
	}
}

// An Event is one thing that has happened. It holds no code, no arguments, no
// results. Fields that say nothing of it are left out.
type Event struct {
	ID       string    `json:"-"` // of this daemon, in order; "" for EventsLost
	Time     time.Time `json:"time"`
	Type     EventType `json:"type"`
	Session  string    `json:"session,omitempty"` // as in [Session]
	Python   string    `json:"python,omitempty"`  // the Python session; none is the default one
	Client   string    `json:"client,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Cwd      string    `json:"cwd,omitempty"`
	Run      uint64    `json:"run,omitempty"`  // joins RunBegun and RunEnded
	Call     uint64    `json:"call,omitempty"` // joins CallBegun and CallEnded
	Server   string    `json:"server,omitempty"`
	Tool     string    `json:"tool,omitempty"`
	Sandbox  string    `json:"sandbox,omitempty"`
	Approval string    `json:"approval,omitempty"`
	Status   string    `json:"status,omitempty"`  // of a run
	Outcome  string    `json:"outcome,omitempty"` // of a call
	Reason   string    `json:"reason,omitempty"`  // a word
	Detail   string    `json:"detail,omitempty"`  // a sentence
	Duration float64   `json:"duration_ms,omitempty"`
	Waited   float64   `json:"waited_ms,omitempty"`
	Count    int64     `json:"count,omitempty"`
}

// clip bounds what an event holds: names and reasons may be of strangers'
// making.
func (e *Event) clip() {
	for _, s := range []*string{&e.Python, &e.Client, &e.Server, &e.Tool, &e.Sandbox, &e.Status, &e.Outcome, &e.Reason} {
		*s = clip(*s, maxWord)
	}
	e.Cwd, e.Detail = clip(e.Cwd, maxCwd), clip(e.Detail, maxSentence)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// Events are the latest things that have happened, for readers that come and
// go. Make one with [NewEvents]. It is safe for concurrent use.
type Events struct {
	epoch    string // tells the IDs of this daemon from those of an earlier one
	readers  atomic.Int64
	mu       sync.Mutex // guards the fields below
	ring     []Event    // the event n is at n % keptEvents
	next     uint64     // the number of the next event; the first is 1
	changed  chan struct{}
	awaiting bool // somebody waits for changed
}

// NewEvents returns Events of which nothing has happened.
func NewEvents() *Events {
	return &Events{epoch: strings.ToLower(rand.Text()[:8]), ring: make([]Event, keptEvents), next: 1, changed: make(chan struct{})}
}

// Publish adds an event, and gives it the time of now if it has none. It never
// waits for a reader: one that is too slow loses events, and is told.
func (h *Events) Publish(e Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.clip()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring[h.next%keptEvents] = e
	h.next++
	if h.awaiting {
		h.awaiting = false
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// since copies to buf the events from number n on, as many as fit. It returns
// the number of the first, which is more than n where earlier ones are lost,
// and, if there are none, what is closed when there is one.
func (h *Events) since(n uint64, buf []Event) (events []Event, first uint64, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = max(n, h.oldestLocked())
	for i := first; i < h.next && len(buf) < cap(buf); i++ {
		e := h.ring[i%keptEvents]
		e.ID = h.id(i)
		buf = append(buf, e)
	}
	if len(buf) == 0 {
		h.awaiting = true
	}
	return buf, first, h.changed
}

// latest returns the number from which on the count latest events are, at most
// those that are kept.
func (h *Events) latest(count uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.oldestLocked(), h.next-min(count, h.next))
}

// oldestLocked returns the number of the oldest event that is kept.
func (h *Events) oldestLocked() uint64 {
	if h.next <= keptEvents {
		return 1
	}
	return h.next - keptEvents
}

func (h *Events) id(n uint64) string { return h.epoch + "-" + strconv.FormatUint(n, 10) }

// after returns the number of the event after the one with an ID. It reports
// false for an ID that no event of this daemon has.
func (h *Events) after(id string) (uint64, bool) {
	epoch, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	if epoch != h.epoch || err != nil || n >= h.next {
		return 0, false
	}
	return n + 1, true
}
