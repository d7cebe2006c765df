package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// maxAdoptions bounds the sandboxes that are adopted at once.
	maxAdoptions = 8

	// adoptTime bounds one attempt at an adoption, and adoptPause is the wait
	// between two while the engine can't be reached.
	adoptTime  = 60 * time.Second
	adoptPause = time.Second

	// heirPatience is how long a call waits for the adoption of its sandbox.
	heirPatience = 40 * time.Second
)

// An adoptFunc takes over a sandbox by its ticket, as [sandbox.Adopt] does.
type adoptFunc func(ctx context.Context, t sandbox.Ticket) (*sandbox.Sandbox, error)

// legacy is what daemons leave to their successors: the sessions of agents. It
// keeps those of this one in files, and those of earlier ones until their shims
// come. It is a [bridge.Registry].
type legacy struct {
	files *sessionFiles
	grace time.Duration // how long shims may take to come; 0: nothing is left to a successor
	adopt adoptFunc
	// remove removes the container of a sandbox that is not adopted.
	remove func(ctx context.Context, id runtime.ID)
	log    zerolog.Logger
	slots  chan struct{} // holds one token per adoption under way

	mu    sync.Mutex               // guards the fields below, and the files
	saved map[string]*savedSession // by id; those of earlier daemons too, until they are ended
	heirs map[string][]*heir       // by id; of sessions whose shims have not come, and what is left over of those that did
	came  map[string]bool          // ids of these

	missed []runtime.ID // containers that there was no time to adopt
}

var _ bridge.Registry = (*legacy)(nil)

// An heir is a Python session of an earlier daemon.
type heir struct {
	python  string
	servers []string
	ticket  sandbox.Ticket
	known   bool             // there is nothing to adopt
	done    chan struct{}    // closed when the fields below are set
	sandbox *sandbox.Sandbox // nil if it could not be adopted, or was taken
	lost    string           // why it could not
}

// isDone reports whether it is known what became of it.
func (h *heir) isDone() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// newLegacy reads what earlier daemons have left.
func newLegacy(files *sessionFiles, grace time.Duration, adopt adoptFunc, remove func(context.Context, runtime.ID), log zerolog.Logger) *legacy {
	l := &legacy{
		files: files, grace: grace, adopt: adopt, remove: remove, log: log, slots: make(chan struct{}, maxAdoptions),
		saved: map[string]*savedSession{}, heirs: map[string][]*heir{}, came: map[string]bool{},
	}
	for _, s := range files.read() {
		l.saved[s.ID] = s
		for _, p := range s.Pythons {
			h := &heir{python: p.Name, servers: p.Servers, ticket: p.Ticket, done: make(chan struct{}), lost: p.Lost}
			if p.Ticket.ID == "" && h.lost == "" && len(p.Late) > 0 {
				h.lost = "bridged was restarted before the code of a call that was still running had begun"
			}
			if p.Ticket.ID == "" || h.lost != "" {
				close(h.done)
				h.known = true
			}
			l.heirs[s.ID] = append(l.heirs[s.ID], h)
		}
	}
	return l
}

// run adopts what was left and ends, after the time of grace, the sessions whose
// shims have not come. It returns early when ctx ends.
func (l *legacy) run(ctx context.Context) {
	var adopting sync.WaitGroup
	defer adopting.Wait()
	grace, cancel := context.WithTimeout(ctx, l.grace)
	defer cancel()
	l.mu.Lock()
	for id, list := range l.heirs {
		for _, h := range list {
			if !h.known {
				adopting.Go(func() { l.settle(ctx, grace, id, h) }) // ends with grace at the latest
			}
		}
	}
	waiting := len(l.saved)
	l.mu.Unlock()
	if waiting == 0 {
		return
	}
	l.log.Info().Int("sessions", waiting).Msg("wait for the shims of an earlier daemon's sessions")
	<-grace.Done()
	adopting.Wait()
	if ctx.Err() == nil {
		l.endUnclaimed()
	}
}

// settle adopts one sandbox, or finds out why it can't be. If alive ends before,
// it is left to the next daemon.
func (l *legacy) settle(alive, grace context.Context, id string, h *heir) {
	l.slots <- struct{}{}
	defer func() { <-l.slots }()
	sb, err := l.adoptOne(grace, h.ticket)
	if err != nil && alive.Err() != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.missed = append(l.missed, runtime.ID(h.ticket.Container))
		return // nobody is told anything any more
	}
	defer close(h.done)
	if err == nil && l.ended(id) {
		sb.Close() // its agent has come and gone meanwhile
		return
	}
	if err == nil {
		h.sandbox = sb
		l.log.Info().Str("session", id[:8]).Str("python", h.python).Str("sandbox", h.ticket.ID).Msg("adopt sandbox")
		return
	}
	if h.lost = "bridged was restarted and could not take it over: " + err.Error(); errors.Is(err, sandbox.ErrGone) {
		h.lost = "it ended while bridged was restarted"
	}
	l.log.Warn().Str("session", id[:8]).Str("python", h.python).Str("sandbox", h.ticket.ID).Err(err).Msg("adopt sandbox")
	l.change(id, func(s *savedSession) bool {
		p := s.python(h.python)
		if p.Ticket.ID != h.ticket.ID {
			return false
		}
		p.Ticket, p.Lost = sandbox.Ticket{}, h.lost
		return true
	})
}

// ended reports whether a session was closed.
func (l *legacy) ended(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saved[id] == nil
}

// adoptOne tries as long as only the engine is at fault.
func (l *legacy) adoptOne(ctx context.Context, t sandbox.Ticket) (*sandbox.Sandbox, error) {
	for {
		try, cancel := context.WithTimeout(ctx, adoptTime)
		sb, err := l.adopt(try, t)
		cancel()
		if err == nil || !errors.Is(err, errEngine) {
			return sb, err
		}
		select {
		case <-time.After(adoptPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// endUnclaimed ends the sessions whose shims have not come.
func (l *legacy) endUnclaimed() {
	l.mu.Lock()
	var ids []string
	for id := range l.saved {
		if !l.came[id] {
			l.came[id] = true // who comes now is too late
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	for _, id := range ids {
		l.log.Info().Str("session", id[:8]).Msg("end session whose shim did not come")
		l.Close(id)
	}
}

// Resume is that of [bridge.Registry].
func (l *legacy) Resume(id string) ([]bridge.Remains, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.saved[id]
	if s == nil || l.came[id] {
		return nil, false
	}
	l.came[id] = true
	var list []bridge.Remains
	for _, p := range s.Pythons {
		list = append(list, bridge.Remains{Python: p.Name, Late: slices.Clone(p.Late)})
	}
	return list, true
}

// Outlive is that of [bridge.Registry].
func (l *legacy) Outlive(id, python, key string) {
	l.change(id, func(s *savedSession) bool {
		p := s.python(python)
		if slices.Contains(p.Late, key) {
			return false
		}
		p.Late = append(p.Late[max(0, len(p.Late)-maxSavedLate+1):], key)
		return true
	})
}

// Heard is that of [bridge.Registry].
func (l *legacy) Heard(id, python, key string) {
	l.change(id, func(s *savedSession) bool {
		p := s.python(python)
		before := len(p.Late)
		p.Late = slices.DeleteFunc(p.Late, func(k string) bool { return k == key })
		return len(p.Late) < before
	})
}

// Open is that of [bridge.Registry].
func (l *legacy) Open(id string, hello bridge.Hello) {
	if l.grace <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came[id] = true
	if l.saved[id] != nil {
		return
	}
	s := &savedSession{Version: sessionFormat, ID: id, CWD: hello.CWD, Since: time.Now()}
	l.saved[id] = s
	l.writeLocked(s)
}

// Close is that of [bridge.Registry]. It ends the sandboxes that nobody took.
func (l *legacy) Close(id string) {
	l.mu.Lock()
	heirs := l.heirs[id]
	_, known := l.saved[id]
	delete(l.heirs, id)
	delete(l.saved, id)
	delete(l.came, id)
	if known {
		if err := l.files.remove(id); err != nil {
			l.log.Warn().Err(err).Msg("end session")
		}
	}
	l.mu.Unlock()
	for _, h := range heirs {
		if h.isDone() && h.sandbox != nil {
			h.sandbox.Close()
		}
	}
}

// take returns what is left of a Python session, once; nil is nothing. It waits
// until that is known. The caller owns the sandbox.
func (l *legacy) take(ctx context.Context, id, python string) (*heir, error) {
	l.mu.Lock()
	i := slices.IndexFunc(l.heirs[id], func(h *heir) bool { return h.python == python })
	if i < 0 {
		l.mu.Unlock()
		return nil, nil
	}
	h := l.heirs[id][i]
	l.mu.Unlock()
	late := time.NewTimer(heirPatience)
	defer late.Stop()
	select {
	case <-h.done:
	case <-late.C:
		return nil, errors.New("bridged was restarted and could not take this session's sandbox over yet, since the container engine does not answer; try again in a moment")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i = slices.Index(l.heirs[id], h); i < 0 {
		return nil, nil // it was ended meanwhile
	}
	l.heirs[id] = slices.Delete(l.heirs[id], i, i+1)
	return h, nil
}

// hold notes the sandbox of a Python session. What runs in it waits for that.
func (l *legacy) hold(id, python string, t sandbox.Ticket) {
	l.change(id, func(s *savedSession) bool {
		p := s.python(python)
		if p.Ticket.ID == t.ID && p.Lost == "" {
			return false
		}
		p.Ticket, p.Lost, p.Late = t, "", nil
		return true
	})
}

// load notes servers that a Python session has loaded.
func (l *legacy) load(id, python string, names []string) {
	l.change(id, func(s *savedSession) bool {
		p := s.python(python)
		before := len(p.Servers)
		for _, name := range names {
			if !slices.Contains(p.Servers, name) && len(p.Servers) < maxSavedServers {
				p.Servers = append(p.Servers, name)
			}
		}
		return len(p.Servers) > before
	})
}

// change edits what is saved of a session, if it is, and writes it if edit says
// that it has changed.
func (l *legacy) change(id string, edit func(*savedSession) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.saved[id]; s != nil && edit(s) {
		l.writeLocked(s)
	}
}

func (l *legacy) writeLocked(s *savedSession) {
	if err := l.files.write(s); err != nil {
		l.log.Error().Str("session", s.ID[:8]).Err(err).Msg("save session")
	}
}

// holds reports whether a container is that of a session's sandbox, by its
// ticket: it is no orphan.
func (l *legacy) holds(id runtime.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.saved {
		if slices.ContainsFunc(s.Pythons, func(p savedPython) bool { return p.Ticket.Container == string(id) }) {
			return true
		}
	}
	return false
}

// waiting returns how many sessions wait for their shims.
func (l *legacy) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for id := range l.saved {
		if !l.came[id] {
			n++
		}
	}
	return n
}

// close ends the sessions whose shims have not come, or leaves them to the next
// daemon. [legacy.run] must have returned, and the sessions whose shims came have
// ended.
func (l *legacy) close(ctx context.Context, leaves bool) {
	if leaves {
		for _, h := range l.untaken() {
			if h.isDone() && h.sandbox != nil {
				h.sandbox.Leave(ctx)
			}
		}
		return
	}
	var closing sync.WaitGroup
	l.mu.Lock()
	for _, id := range l.missed {
		closing.Go(func() { l.remove(ctx, id) })
	}
	var ids []string
	for id := range l.saved {
		ids = append(ids, id)
	}
	l.mu.Unlock()
	for _, id := range ids {
		closing.Go(func() { l.Close(id) })
	}
	closing.Wait()
}

func (l *legacy) untaken() []*heir {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*heir
	for _, list := range l.heirs {
		all = append(all, list...)
	}
	return all
}

// removeSandbox removes the container of a sandbox that was not adopted.
func (d *daemon) removeSandbox(ctx context.Context, id runtime.ID) {
	engine, err := d.engines.get(ctx)
	if err == nil {
		err = engine.Remove(ctx, id)
	}
	if err != nil {
		d.log.Warn().Str("container", string(id)).Err(err).Msg("remove sandbox of an earlier daemon")
	}
}

// errEngine means that there is no engine with which to adopt a sandbox, yet.
var errEngine = errors.New("no container engine")

// claimed reports whether a container is that of a session.
func (d *daemon) claimed(id runtime.ID) bool { return d.legacy.holds(id) || d.pool.Holds(id) }

// adoptSandbox takes over a sandbox of an earlier daemon. A container that can't
// be adopted is removed.
func (d *daemon) adoptSandbox(ctx context.Context, t sandbox.Ticket) (*sandbox.Sandbox, error) {
	engine, err := d.engines.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEngine, err)
	}
	sb, err := sandbox.Adopt(ctx, engine, d.sandboxOptions(), t)
	switch {
	case errors.Is(err, runtime.ErrUnreachable):
		return nil, fmt.Errorf("%w: %w", errEngine, d.engines.lost(engine, err))
	case err != nil && !errors.Is(err, sandbox.ErrGone):
		d.leftovers.add(runtime.ID(t.Container))
	}
	return sb, err
}
