package main

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// reloadAfter is how long a session's list of servers is taken to be
	// current where its files can't be watched. Reading them again costs a
	// millisecond or two; a burst of calls should pay it once.
	reloadAfter = time.Second

	// settle is the least time between two readings of watched files during a
	// call of the agent's. Many edits in a row are read once.
	settle = 100 * time.Millisecond

	// recheckAfter is when watched files are read again though no change was
	// told: folders of other machines tell of none.
	recheckAfter = 10 * time.Second
)

// A serverList is what one session may load, read from its config files.
type serverList struct {
	opts  discovery.Options
	log   zerolog.Logger
	files *watched // nil: they are not watched
	extra []string // files that decide about the servers besides

	mu      sync.Mutex // guards the fields below, and is held while reading
	read    time.Time
	told    map[string]bool // problems that were logged
	sure    bool            // each change of a file is told
	marks   *marks          // of the files as they were read
	servers []discovery.Server
}

// close gives the watches up. The list can still be asked.
func (l *serverList) close() {
	if l.files != nil {
		l.files.close()
	}
}

// currentLocked reports whether the list is what the files say.
func (l *serverList) currentLocked() bool {
	age := time.Since(l.read)
	switch {
	case l.read.IsZero():
		return false
	case !l.sure:
		return age < reloadAfter
	case age < settle:
		return true
	}
	return age < recheckAfter && !l.files.stale.Load()
}

// loadLocked reads the files, and has them watched.
func (l *serverList) loadLocked() discovery.Result {
	if l.files == nil {
		return discovery.Load(l.opts)
	}
	began := time.Now()
	l.files.stale.Store(false) // before reading: what changes meanwhile is told anew
	res := discovery.Load(l.opts)
	paths := append(res.Looked, l.extra...)
	l.sure, l.marks = l.files.set(paths), newMarks(paths, began)
	return res
}

// begin makes sure that a call of the agent's that begins now sees what the
// files say now: changes are told a moment late, so the files are looked at.
func (l *serverList) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marks != nil && (l.files.stale.Load() || l.marks.changed()) {
		l.read = time.Time{}
	}
}

// get returns the servers that the session may use now.
func (l *serverList) get() []discovery.Server {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.currentLocked() {
		return l.servers
	}
	res := l.loadLocked()
	if l.told == nil {
		l.told = map[string]bool{}
	}
	for _, p := range res.Problems {
		if text := p.String(); !l.told[text] {
			l.told[text] = true
			l.log.Warn().Str("problem", text).Msg("skip server definition")
		}
	}
	l.read = time.Now()
	servers := withHeld(res)
	if !reflect.DeepEqual(l.servers, servers) { // the same slice says that nothing has changed
		l.servers = servers
	}
	return l.servers
}

// withHeld adds to the servers that may be used those that need approval, so
// that code is told what to do about them. A name that another server has is
// that server's.
func withHeld(res discovery.Result) []discovery.Server {
	list := res.Servers
	taken := map[string]bool{}
	for _, s := range list {
		taken[s.Name] = true
	}
	for _, s := range res.Held {
		if !taken[s.Name] {
			taken[s.Name] = true
			list = append(list, s)
		}
	}
	return list
}

// upstreams are the MCP servers of one session, as the bridge sees them.
type upstreams struct {
	calls *proxy.Session
	list  *serverList
	note  func(names []string) // is told what was loaded; may be nil
}

var _ bridge.Upstreams = (*upstreams)(nil)

// Load makes servers reachable from the next run on.
func (u *upstreams) Load(_ context.Context, names []string) error {
	u.list.begin()
	_, err := u.calls.Load(names)
	if err == nil && u.note != nil {
		u.note(names)
	}
	return err
}

// Loaded returns the servers that code can reach which is about to run.
func (u *upstreams) Loaded() []sandbox.Server {
	u.list.begin()
	var list []sandbox.Server
	for _, s := range u.calls.Loaded() {
		list = append(list, sandbox.Server{Name: s.Name, Alias: s.Alias})
	}
	return list
}

// Servers returns the names of the servers that could be loaded.
func (u *upstreams) Servers() []string {
	var names []string
	for _, s := range u.list.get() {
		if s.Held == "" {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Waiting says what servers the code waits for.
func (u *upstreams) Waiting() []string { return u.calls.Waiting() }

// Forget says that the interpreter with what it has read is gone.
func (u *upstreams) Forget() { u.calls.Forget() }

// Close gives up the session's servers.
func (u *upstreams) Close() {
	u.calls.Close()
	u.list.close()
}
