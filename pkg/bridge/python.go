package bridge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridged/bridged/pkg/sandbox"
)

// maxEndings bounds what is remembered of sessions that made room for others.
const maxEndings = 64

// A python is one Python session of a connection: the workspace in which its
// code runs, and the order in which it does.
type python struct {
	name    string // "" is the default one
	since   time.Time
	desk    *desk
	lane    *lane
	calls   atomic.Int64
	running atomic.Int64
	used    time.Time // when a call last asked for it; guarded by pythons.mu
}

// status returns the state of the session's sandbox.
func (p *python) status() sandbox.SessionStatus {
	if ws := p.desk.opened(); ws != nil {
		return ws.Status()
	}
	return sandbox.SessionStatus{State: sandbox.StateNone}
}

// spent reports whether nothing would be lost with the session.
func (p *python) spent() bool {
	return p.running.Load() == 0 && p.lane.quiet() && p.status().State == sandbox.StateNone
}

// A pythons holds the Python sessions of one connection. Its methods may be
// called from several goroutines.
type pythons struct {
	open func(name string) *python
	max  int

	mu      sync.Mutex // guards the fields below
	byName  map[string]*python
	endings map[string]string // why a session that was forgotten has nothing left
	closed  bool
}

func newPythons(most int, open func(name string) *python) *pythons {
	return &pythons{open: open, max: most, byName: map[string]*python{}, endings: map[string]string{}}
}

// enter returns the session of that name, which is made if need be, and a place
// in its lane for a call. The error tells an agent which sessions there are.
func (ps *pythons) enter(name string) (*python, *place, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, err := ps.getLocked(name)
	if err != nil {
		return nil, nil, err
	}
	place, err := p.lane.enter()
	if err != nil {
		return nil, nil, err
	}
	p.used = time.Now()
	p.calls.Add(1)
	p.running.Add(1)
	return p, place, nil
}

func (ps *pythons) getLocked(name string) (*python, error) {
	if ps.closed {
		return nil, errClientGone
	}
	if p, ok := ps.byName[name]; ok {
		return p, nil
	}
	if len(ps.byName) >= ps.max && !ps.makeRoomLocked() {
		return nil, fmt.Errorf("nothing ran: there are %d sessions, which is the limit (run.max_sessions): %s. Use one of these, or end one with reset=true and no code", len(ps.byName), ps.listLocked())
	}
	p := ps.open(name)
	if why := ps.endings[name]; why != "" {
		delete(ps.endings, name)
		p.lane.owe(why)
	}
	ps.byName[name] = p
	return p, nil
}

// desk returns the default session's, which is made if need be; after close it
// is a desk that opens nothing.
func (ps *pythons) desk() *desk {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, err := ps.getLocked("")
	if err != nil {
		return &desk{turn: make(chan struct{}, 1), closed: true}
	}
	return p.desk
}

// makeRoomLocked forgets the session that is unused for longest and has nothing
// to lose. The default one stays.
func (ps *pythons) makeRoomLocked() bool {
	for _, p := range slices.SortedFunc(maps.Values(ps.byName), func(a, b *python) int { return a.used.Compare(b.used) }) {
		if p.name == "" || !p.spent() {
			continue
		}
		delete(ps.byName, p.name)
		if ended := p.status().Lost; ended != "" && len(ps.endings) < maxEndings {
			ps.endings[p.name] = ended
		}
		p.desk.close() // at once: nothing runs in it
		return true
	}
	return false
}

func (ps *pythons) listLocked() string {
	names := slices.Sorted(maps.Keys(ps.byName))
	for i, name := range names {
		if names[i] = strconv.Quote(name); name == "" {
			names[i] = "the default one"
		}
	}
	return strings.Join(names, ", ")
}

// all returns the sessions, the oldest first.
func (ps *pythons) all() []*python {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.SortedFunc(maps.Values(ps.byName), func(a, b *python) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.name, b.name))
	})
}

// workspaces returns those that are open, the oldest session's first.
func (ps *pythons) workspaces() []Workspace {
	var list []Workspace
	for _, p := range ps.all() {
		if ws := p.desk.opened(); ws != nil {
			list = append(list, ws)
		}
	}
	return list
}

// close closes all workspaces at once. The connection's context must have
// ended.
func (ps *pythons) close() {
	ps.mu.Lock()
	ps.closed = true
	ps.mu.Unlock()
	var closing sync.WaitGroup
	for _, p := range ps.all() {
		closing.Go(p.desk.close)
	}
	closing.Wait()
}

// A ticket keeps the calls of a connection in order on their way to a lane:
// each is answered on a goroutine of its own.
type ticket struct {
	before <-chan struct{} // closed when the earlier calls are in their lanes
	once   sync.Once
	done   chan struct{} // closed when this one is, or needs no place
}

type ticketKey struct{}

// nextTicket returns the ticket of the next call. Only the reading goroutine
// calls it.
func (s *session) nextTicket() *ticket {
	t := &ticket{before: s.lastTicket, done: make(chan struct{})}
	s.lastTicket = t.done
	return t
}

// await returns when it is this call's turn to enter a lane. A nil ticket has
// nobody before it.
func (t *ticket) await() {
	if t != nil && t.before != nil {
		<-t.before
	}
}

// pass lets the next call enter its lane. It may be called repeatedly.
func (t *ticket) pass() {
	if t == nil {
		return
	}
	t.once.Do(func() {
		t.await()
		close(t.done)
	})
}

func ticketOf(ctx context.Context) *ticket {
	t, _ := ctx.Value(ticketKey{}).(*ticket)
	return t
}

// PythonInfo is what is known of one Python session of a connection.
type PythonInfo struct {
	Name    string // "" is the default one
	Since   time.Time
	Used    time.Time // when a call last asked for it; zero before the first
	Calls   int64     // of run_python, begun
	Running int       // of run_python, now, queued ones and those whose call was answered counted
	Sandbox sandbox.SessionStatus
}

func (ps *pythons) infos() []PythonInfo {
	var list []PythonInfo
	for _, p := range ps.all() {
		running := int(p.running.Load())
		if running == 0 && p.lane.lingers() {
			running = 1
		}
		ps.mu.Lock()
		used := p.used
		ps.mu.Unlock()
		list = append(list, PythonInfo{
			Name: p.name, Since: p.since, Used: used, Calls: p.calls.Load(), Running: running, Sandbox: p.status(),
		})
	}
	return list
}
