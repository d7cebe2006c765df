package policy

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// DefaultMaxPending is how many calls wait for a person at once. More would be
// no questions any more but a flood, in which somebody allows what he did not
// read.
const DefaultMaxPending = 64

// Why a question has no answer.
var (
	// ErrExpired says that nobody answered in time.
	ErrExpired = errors.New("nobody answered in time")
	// ErrFlood says that too many questions wait already.
	ErrFlood = errors.New("too many calls wait for an answer already")
	// ErrNoQuestion says that a question is not there, or not any more.
	ErrNoQuestion = errors.New("no such call waits for an answer")
)

// A Question is a call that a person is asked about. All of it may be of a
// stranger's making, and is as [Plain] leaves it.
type Question struct {
	Scope           int64  // the session, for answers that hold for all of it
	Session         string // the session, for a person
	Client, Project string
	Server, Tool    string
	Arguments       string // without secrets; may be cut
	Rule, Why       string
}

// alike reports whether an answer for a whole session answers both.
func (q Question) alike(other Question) bool {
	return q.Scope == other.Scope && q.Server == other.Server && q.Tool == other.Tool && q.Rule == other.Rule
}

// An Answer is what a person says.
type Answer struct {
	Allow  bool
	Always bool // for all calls of the tool in the session
}

// A Pending is a question that waits.
type Pending struct {
	ID string
	Question
	Since, Expires time.Time

	answer chan Answer // takes one
}

// Approvals are the questions that wait for a person. The zero value is ready,
// with room for DefaultMaxPending of them.
type Approvals struct {
	Most int // that wait at once; 0 means DefaultMaxPending

	mu      sync.Mutex // guards the fields below
	pending map[string]*Pending
	changed chan struct{} // closed at the next change; nil if nobody waits for it
}

// Ask waits for a person's answer, at most for a time. The error is ErrExpired,
// ErrFlood or ctx's cause. Beside the list, the person is asked by also, which
// may be nil: it runs until its context ends, and answers the question by its
// ID if it has an answer.
func (a *Approvals) Ask(ctx context.Context, q Question, most time.Duration, also func(ctx context.Context, id string)) (Answer, error) {
	p, err := a.add(q, most)
	if err != nil {
		return Answer{}, err
	}
	defer a.remove(p)
	if also != nil {
		asking, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		defer done.Wait()
		defer stop()
		done.Go(func() { also(asking, p.ID) }) // ends with asking
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case answer := <-p.answer:
		return answer, nil
	case <-timer.C:
		return Answer{}, ErrExpired
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

func (a *Approvals) add(q Question, most time.Duration) (*Pending, error) {
	now := time.Now()
	p := &Pending{Question: q, Since: now, Expires: now.Add(most), answer: make(chan Answer, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit := cmp.Or(a.Most, DefaultMaxPending); len(a.pending) >= limit {
		return nil, fmt.Errorf("%w: %d do, which is the limit", ErrFlood, limit)
	}
	if a.pending == nil {
		a.pending = map[string]*Pending{}
	}
	// By chance, so that an answer meant for a call before a restart of the
	// daemon never meets another one.
	for p.ID == "" || a.pending[p.ID] != nil {
		p.ID = rand.Text()[:6]
	}
	a.pending[p.ID] = p
	a.changedLocked()
	return p, nil
}

func (a *Approvals) remove(p *Pending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending[p.ID] == p { // an answer has removed it already
		delete(a.pending, p.ID)
		a.changedLocked()
	}
}

func (a *Approvals) changedLocked() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// Answer answers a question, once: the next answer gets ErrNoQuestion. One for
// the whole session answers those that wait and are alike, too.
func (a *Approvals) Answer(id string, answer Answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.pending[id]
	if !ok {
		return fmt.Errorf("%w: %q is not among them, or was answered, given up or too late", ErrNoQuestion, clip(id, 40))
	}
	for _, other := range a.pending {
		if other == p || (answer.Always && other.alike(p.Question)) {
			delete(a.pending, other.ID)
			other.answer <- answer // never blocks: it has room, and this is the only one
		}
	}
	a.changedLocked()
	return nil
}

// List returns the questions that wait, the oldest first.
func (a *Approvals) List() []Pending {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []Pending{}
	for _, p := range a.pending {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Pending) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Changed returns a channel that is closed when the list is another.
func (a *Approvals) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	return a.changed
}
