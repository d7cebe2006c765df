package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxLine bounds the sessions that wait for a sandbox.
	maxLine = 512

	// lineLook is how often the first in line looks whether there is room: a
	// session that becomes idle tells nobody.
	lineLook = 50 * time.Millisecond

	// spared is how long a session that has just run code keeps its sandbox while
	// others wait: its next call may be on its way.
	spared = time.Second
)

// errLate is the cause of the end of a wait for a sandbox.
var errLate = errors.New("no sandbox became free in time")

// A line is those who wait for a sandbox. Owners take turns, each with its
// places in the order in which they came, so that one with many can't keep
// another waiting. It is safe for concurrent use.
type line struct {
	mu     sync.Mutex // guards the fields below
	owners []string   // of places but for the first's, the one whose turn is next first
	places map[string][]*place
	count  int
	first  *place // has the turn; it is of no owner's list any more
}

// A place is a place in a line.
type place struct {
	owner string
	turn  chan struct{} // closed when it is the first
}

// enter takes the owner's last place; nil if too many wait already. The caller
// must leave it.
func (l *line) enter(owner string) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= maxLine {
		return nil
	}
	l.count++
	p := &place{owner: owner, turn: make(chan struct{})}
	if l.places == nil {
		l.places = map[string][]*place{}
	}
	if len(l.places[owner]) == 0 && (l.first == nil || l.first.owner != owner) {
		l.owners = append(l.owners, owner)
	}
	l.places[owner] = append(l.places[owner], p)
	l.passLocked()
	return p
}

// leave gives a place up, and the turn if it has it. It may be called repeatedly.
func (l *line) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == p {
		l.first = nil
		l.count--
		if len(l.places[p.owner]) > 0 {
			l.owners = append(l.owners, p.owner) // behind the others
		}
		l.passLocked()
		return
	}
	mine := l.places[p.owner]
	if i := slices.Index(mine, p); i >= 0 {
		l.keepLocked(p.owner, slices.Delete(mine, i, i+1))
		l.count--
	}
}

// keepLocked sets an owner's places, and forgets an owner without any.
func (l *line) keepLocked(owner string, places []*place) {
	if len(places) > 0 {
		l.places[owner] = places
		return
	}
	delete(l.places, owner)
	if i := slices.Index(l.owners, owner); i >= 0 {
		l.owners = slices.Delete(l.owners, i, i+1)
	}
}

// passLocked gives the turn to the next owner's first place, if nobody has it.
func (l *line) passLocked() {
	if l.first != nil || len(l.owners) == 0 {
		return
	}
	mine := l.places[l.owners[0]]
	l.first = mine[0]
	l.owners = l.owners[1:]
	l.keepLocked(l.first.owner, mine[1:])
	close(l.first.turn)
}

// lineUp is lease for a pool whose sessions wait for each other.
func (p *Pool) lineUp(ctx context.Context, owner string) (*Sandbox, error) {
	at := p.line.enter(owner)
	if at == nil {
		_, words := p.limitNow()
		return nil, fmt.Errorf("%w, and %d sessions wait for one already", fullError(words), maxLine)
	}
	defer p.line.leave(at)
	waiting, cancel := context.WithTimeoutCause(ctx, p.opts.Wait, errLate)
	defer cancel()
	select {
	case <-at.turn:
	case <-waiting.Done():
		return nil, p.late(ctx)
	}
	for {
		s, full, err := p.seek(ctx, func() { p.line.leave(at) })
		if full == nil {
			return s, err
		}
		if full.filled == nil && p.evict(full.limit, spared) {
			continue
		}
		look := time.NewTimer(lineLook)
		select {
		case <-full.filled: // nil, and so never ready, if none is being made
		case <-look.C:
		case <-waiting.Done():
			look.Stop()
			return nil, p.late(ctx)
		}
		look.Stop()
	}
}

// late is what a caller is told whose wait has ended.
func (p *Pool) late(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, words := p.limitNow()
	return fmt.Errorf("%w. This call has waited %s for one (pool.wait)", fullError(words), Brief(p.opts.Wait))
}

func (p *Pool) limitNow() (int, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit()
}

// fullError is what an agent is told when there is no sandbox for it.
func fullError(limit string) error {
	return fmt.Errorf("busy, nothing ran: %w: %s, and code runs in all of them. Wait for some of it to end, end a session that is not needed, or raise the limit", ErrPoolFull, limit)
}
