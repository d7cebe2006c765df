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

// reloadAfter is how long a session's list of servers is taken to be current.
// Reading the files again costs a millisecond or two; a burst of calls should
// pay it once.
const reloadAfter = time.Second

// A serverList is what one session may load, read from its config files.
type serverList struct {
	opts discovery.Options
	log  zerolog.Logger

	mu      sync.Mutex // guards the fields below, and is held while reading
	read    time.Time
	servers []discovery.Server
	told    map[string]bool // problems that were logged
}

// get returns the servers that the session may use now.
func (l *serverList) get() []discovery.Server {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.read.IsZero() && time.Since(l.read) < reloadAfter {
		return l.servers
	}
	res := discovery.Load(l.opts)
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
	if !reflect.DeepEqual(l.servers, res.Servers) { // the same slice says that nothing has changed
		l.servers = res.Servers
	}
	return l.servers
}

// upstreams are the MCP servers of one session, as the bridge sees them.
type upstreams struct {
	calls *proxy.Session
	list  *serverList
}

var _ bridge.Upstreams = (*upstreams)(nil)

// Load makes servers reachable from the next run on.
func (u *upstreams) Load(_ context.Context, names []string) error {
	_, err := u.calls.Load(names)
	return err
}

// Loaded returns the servers that code can reach.
func (u *upstreams) Loaded() []sandbox.Server {
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
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// Close gives up the session's servers.
func (u *upstreams) Close() { u.calls.Close() }
