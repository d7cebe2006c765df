package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bridged/bridged/pkg/sandbox"
)

// ErrLeave is the cause of a context for [Server.Serve] that ends because another
// daemon goes on with the sessions: they are not ended, and what is not answered
// is left to the shims, which ask the other one.
var ErrLeave = errors.New("the daemon leaves its sessions to another")

// maxResent bounds the requests that a shim sends again.
const maxResent = 256

// A Registry keeps what another daemon needs to go on with the sessions of this
// one. Its methods may be called from several goroutines.
type Registry interface {
	// Resume returns the Python sessions that the session with an id had in an
	// earlier daemon. It is false if nothing is known of it, or another connection
	// has it.
	Resume(id string) ([]Remains, bool)
	// Open notes a session that is there from now on, a resumed one too.
	Open(id string, hello Hello)
	// Close forgets a session that has ended for good.
	Close(id string)
	// Outlive notes that the run with a key has outlived its call in a Python
	// session, so that no call asks for its result again; Heard that the agent has
	// it now. They are rare.
	Outlive(id, python, key string)
	Heard(id, python, key string)
}

// Remains are what is left of a Python session.
type Remains struct {
	Python string   // its name, "" for the default one
	Late   []string // keys of runs that have outlived their calls
}

// lostCall is the answer to a call that an earlier daemon may have begun, and
// that nothing is known of any more.
const lostCall = "bridged ended while it worked on this call, and the Python session that it was for is gone. " +
	"The call's outcome is unknown: it may have run, or a part of it, so it was not run again. %s " +
	"Check what has taken effect outside, then run what you still need again"

// lostResult is the answer to a call whose run has ended and told its result to
// a daemon that did not live to pass it on.
const lostResult = "the code has run, and has ended, but its result was lost when bridged ended. It was not run again. " +
	"Variables and files that it made are there: look at them to see what it came to"

// lostEarlier is what an agent is told of a result that it had not collected.
const lostEarlier = "bridged was restarted; the result of an earlier run that was never collected is lost"

// A dealing is what a request's handling knows of its way to the agent.
type dealing struct {
	key    string // names the request for good in its session; "" if nothing does
	resent bool   // an earlier daemon may have begun it

	mu   sync.Mutex // guards the fields below
	left bool       // it is not answered: another daemon will
	then []func()   // done when the answer has been written
}

type dealingKey struct{}

// dealingOf returns the dealing of a request's context, never nil.
func dealingOf(ctx context.Context) *dealing {
	if d, ok := ctx.Value(dealingKey{}).(*dealing); ok {
		return d
	}
	return &dealing{}
}

// leave has the request not answered.
func (d *dealing) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = true
}

func (d *dealing) isLeft() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

// after has f called when the answer has been written. f must not block, and may be
// nil.
func (d *dealing) after(f func()) {
	if f == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.then = append(d.then, f)
}

// delivered calls what waits for the answer's end.
func (d *dealing) delivered() {
	d.mu.Lock()
	then := d.then
	d.then = nil
	d.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// wireName is the name of a request by its place on the wire. A batch has several
// in a line.
func wireName(link int, line int64, part int) string {
	if part > 0 {
		return fmt.Sprintf("%d.%d.%d", link, line, part)
	}
	return fmt.Sprintf("%d.%d", link, line)
}

// wasReset reports whether an earlier daemon has started over for the call, and
// not died before: the call itself has begun there, or a later one.
func (d *dealing) wasReset(unfinished []sandbox.Unfinished) bool {
	return d.resent && slices.ContainsFunc(unfinished, func(u sandbox.Unfinished) bool { return !before(u.Key, d.key) })
}

// before compares two names of the wire's, neither of a batch's.
func before(a, b string) bool {
	var aLink, bLink int
	var aLine, bLine int64
	if _, err := fmt.Sscanf(a, "%d.%d", &aLink, &aLine); err != nil {
		return true
	}
	if _, err := fmt.Sscanf(b, "%d.%d", &bLink, &bLine); err != nil {
		return false
	}
	return aLink < bLink || aLink == bLink && aLine < bLine
}

// deal returns the dealing of a request that was read in the line at hand. Only
// the reading goroutine calls it.
func (s *session) deal(m message, part int) *dealing {
	if s.hello.Link == 0 {
		return &dealing{}
	}
	id := idKey(m.id)
	if key, ok := s.resent[id]; ok {
		delete(s.resent, id) // the agent may use the id again
		return &dealing{key: key, resent: true}
	}
	return &dealing{key: wireName(s.hello.Link, s.line, part)}
}

// resents returns the keys of the requests that a shim will send again, by their
// ids.
func resents(hello Hello) map[string]string {
	keys := map[string]string{}
	for _, r := range hello.Resent[:min(len(hello.Resent), maxResent)] {
		if legalID(r.ID) {
			keys[idKey(r.ID)] = wireName(r.Link, r.Line, 0)
		}
	}
	return keys
}

// claim makes the session that which the shim had in an earlier daemon, if there
// is one.
func (s *session) claim(r Registry) {
	if r == nil {
		return
	}
	if s.hello.Session != "" && s.hello.Link > 0 {
		s.inherited, s.resumed = r.Resume(s.hello.Session)
	}
	if s.resumed {
		s.id = s.hello.Session
	}
}

// rejoin makes the Python sessions that were there before, and has each look
// after the run that it may have under way before anything else runs in it.
func (s *session) rejoin() {
	awaited := map[string]bool{}
	for _, key := range s.resent {
		awaited[key] = true
	}
	for _, r := range s.inherited {
		p, place, err := s.pys.rejoin(r.Python)
		if err != nil {
			s.log.Warn().Err(err).Str("python", r.Python).Msg("resume session")
			continue
		}
		s.helpers.Go(func() { s.pickUp(p, place, r.Late, awaited) }) // ends with s.ctx at the latest
	}
}

// pickUp has a run that no call asks for again be the one that outlived its call:
// one that did, or one that goes on, whose call was cancelled. The result of any
// other was delivered.
func (s *session) pickUp(p *python, place *place, late []string, awaited map[string]bool) {
	ws, err := p.desk.get(s.ctx)
	if err != nil {
		p.lane.leave(place)
		s.log.Warn().Err(err).Str("python", p.name).Msg("resume session")
		return
	}
	var unheard []sandbox.Unfinished
	for _, u := range ws.Unfinished() {
		switch {
		case awaited[u.Key]:
		case slices.Contains(late, u.Key), !u.Done && !u.Lost:
			unheard = append(unheard, u)
		default:
			ws.Ack(u.Key)
		}
	}
	if len(unheard) == 0 {
		p.lane.leave(place)
		return
	}
	last := unheard[len(unheard)-1]
	for _, u := range unheard[:len(unheard)-1] {
		ws.Ack(u.Key)
		p.lane.owe(lostEarlier)
	}
	p.lane.pickUp(place, last.Key, ws)
}

// pickUp begins with the place's turn a job that waits for a run which an earlier
// daemon has begun. No call waits for it.
func (l *lane) pickUp(p *place, key string, ws Workspace) {
	select {
	case <-p.turn:
	case <-l.ctx.Done():
		l.leave(p)
		return
	}
	j, _ := l.begin(l.ctx, order{place: p, key: key, ack: func() { ws.Ack(key) }, task: func(ctx context.Context, output func(sandbox.Output)) (sandbox.Result, error) {
		return ws.Resume(ctx, key, output)
	}})
	if j != nil {
		l.outlive(j)
	}
}

// rejoin returns the session of that name, which is made, and the first place in
// its lane.
func (ps *pythons) rejoin(name string) (*python, *place, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, err := ps.getLocked(name)
	if err != nil {
		return nil, nil, err
	}
	place, err := p.lane.enter()
	return p, place, err
}

// unknowable returns why a call that an earlier daemon may have begun can neither
// be told of nor be made: nothing is left of what it ran in.
func (s *session) unknowable(d *dealing, python string, ws Workspace) error {
	if !d.resent {
		return nil
	}
	why := "Variables, imports and functions of earlier calls are gone."
	switch {
	case !s.resumed:
	case slices.ContainsFunc(s.inherited, func(r Remains) bool { return r.Python == python }) && ws.Status().State == sandbox.StateNone && ws.Status().Lost != "":
		why = ws.Status().Lost
	default:
		return nil
	}
	return fmt.Errorf(lostCall, why)
}
