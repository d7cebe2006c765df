package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// relistersAtOnce bounds the servers that one [Session.Relist] starts at a time.
const relistersAtOnce = 4

// A Known is a server as the catalogue knows it, for a person to see.
type Known struct {
	Server  string // what the session calls it, or another one did that it is not in
	Here    bool   // the session may use it
	State   string // "configured", "catalogued", "started" or "used", of any session's server of the definition
	Problem string // why it can't be used

	Listed  time.Time // when it gave its list; zero if none is known, and what follows is empty then
	Tools   int       // those that its definition lets through, if it is here
	Name    string    // what it calls itself
	Version string
	Warning string // why the list may be incomplete
	Stale   string // why the tools may be others by now
	Alike   bool   // the list is of a definition that is written alike, for another environment

	digest string
}

// Known returns the session's servers, and those of other definitions whose
// tools are kept. Those that are here come first, each part by name. With an
// error, which is about the disk, the list is what there is all the same.
func (s *Session) Known() ([]Known, error) {
	list := []Known{}
	v := s.look()
	here := map[string]bool{}
	for _, name := range v.names() {
		if t := v.target(s, v.byName[name]); t.err == nil {
			s.proxy.stock.has(t.ref.Digest, t.written) // from the disk, if it is there
			here[t.ref.Digest] = true
		}
	}
	held, err := s.proxy.stock.holdings()
	seen := s.proxy.glances()
	for _, name := range v.names() {
		t := v.target(s, v.byName[name])
		list = append(list, s.known(t, held[t.ref.Digest], seen[t.ref.Digest]))
	}
	for digest, h := range held {
		if !here[digest] {
			list = append(list, h.known(seen[digest]))
		}
	}
	slices.SortStableFunc(list, func(a, b Known) int {
		switch {
		case a.Here != b.Here && a.Here:
			return -1
		case a.Here != b.Here:
			return 1
		}
		return cmp.Or(strings.Compare(a.Server, b.Server), b.Listed.Compare(a.Listed))
	})
	return list, err
}

// known tells of a server of the session's.
func (s *Session) known(t *target, h holding, g glance) Known {
	if t.err != nil {
		return Known{Server: t.server.Name, Here: true, State: stateConfigured, Problem: t.err.Error()}
	}
	k := h.known(g)
	k.Server, k.Here, k.Problem, k.digest = t.server.Name, true, g.problem, t.ref.Digest
	k.Tools, _ = s.proxy.opts.Catalog.Count(t.ref)
	return k
}

func (h holding) known(g glance) Known {
	return Known{
		Server: h.Server, State: g.known(h.Digest != ""), Listed: h.Listed, Tools: h.Count, Name: h.Name, Version: h.Version,
		Warning: h.Warning, Stale: h.stale, Alike: h.borrowed, digest: h.Digest,
	}
}

// glances looks at all backends, by their definitions' digests. Of several with
// one digest the most is told.
func (p *Proxy) glances() map[string]glance {
	all := map[string]glance{}
	for _, b := range p.list() {
		g, was := b.glance(), all[b.digest]
		g.used = g.used || was.used
		if was.state == StateStarted {
			g.state, g.problem = was.state, was.problem
		}
		all[b.digest] = g
	}
	return all
}

// A Relisted is what asking one server for its tools has come to.
type Relisted struct {
	Server  string
	Err     error // why the list is not new; the rest is empty then
	Tools   int
	Version string // which the server says that it is
	Took    time.Duration

	Had                     bool     // a list was known before, and what follows is against that
	Was                     string   // the version then
	Added, Removed, Changed []string // names of tools
}

// Relist asks servers for their tools, whatever is known of them, and starts
// those that do not run. names are names or aliases; none stands for the
// session's servers whose tools are known, or with all for all that may be
// used. report gets each outcome when it is there, one at a time.
func (s *Session) Relist(ctx context.Context, names []string, all bool, report func(Relisted)) {
	targets, unknown := s.wantedLists(names, all)
	for _, r := range unknown {
		report(r)
	}
	var mu sync.Mutex // held while reporting
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, relistersAtOnce)
	for _, t := range targets {
		slots <- struct{}{}
		running.Go(func() { // ends with ctx
			defer func() { <-slots }()
			r := s.relist(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			report(r)
		})
	}
}

// wantedLists finds the servers that are meant, each once, and says which there
// are not.
func (s *Session) wantedLists(names []string, all bool) (targets []*target, unknown []Relisted) {
	v := s.look()
	if len(names) == 0 {
		for _, name := range v.names() {
			t := v.target(s, v.byName[name])
			if t.server.Held == "" && (all || t.err == nil && s.proxy.stock.has(t.ref.Digest, t.written)) {
				targets = append(targets, t)
			}
		}
		return targets, nil
	}
	for _, name := range names {
		t, err := s.find(v, name)
		switch {
		case err != nil:
			unknown = append(unknown, Relisted{Server: name, Err: err})
		case !slices.Contains(targets, t):
			targets = append(targets, t)
		}
	}
	return targets, unknown
}

func (s *Session) relist(ctx context.Context, t *target) Relisted {
	r := Relisted{Server: t.server.Name, Err: t.err}
	if r.Err == nil {
		r.Err = context.Cause(ctx)
	}
	if r.Err != nil {
		return r
	}
	began := time.Now()
	r.Had = s.proxy.stock.has(t.ref.Digest, t.written)
	r.Was = s.proxy.stock.version(t.ref.Digest)
	before, _ := s.proxy.opts.Catalog.Tools(t.ref)
	b, done := s.use(t)
	defer done()
	b.afresh()
	if err := b.known(ctx); err != nil {
		if g := b.glance(); g.state == StateFailed && ctx.Err() == nil {
			err = b.lastError() // without when it is tried again
		}
		return Relisted{Server: t.server.Name, Err: err}
	}
	now, _ := s.proxy.opts.Catalog.Tools(t.ref)
	r.Version, r.Tools, r.Took = s.proxy.stock.version(t.ref.Digest), len(now), time.Since(began)
	if r.Had {
		r.compare(before, now)
	}
	return r
}

// compare says how a list differs from the one before.
func (r *Relisted) compare(before, now []discovery.Tool) {
	old := map[string]discovery.Tool{}
	for _, t := range before {
		old[t.Name] = t
	}
	for _, t := range now {
		was, had := old[t.Name]
		switch {
		case !had:
			r.Added = append(r.Added, t.Name)
		case !bytes.Equal(was.Raw, t.Raw):
			r.Changed = append(r.Changed, t.Name)
		}
		delete(old, t.Name)
	}
	for _, t := range before {
		if _, gone := old[t.Name]; gone {
			r.Removed = append(r.Removed, t.Name)
		}
	}
}

// Unlist forgets the tools of servers, in memory and on disk, and returns how
// many lists that were. names are names or aliases of the session's, and names
// that lists are kept under which are not the session's; none stands for all,
// and for what was learnt of results too. A name that nothing is known of is in
// unknown.
func (s *Session) Unlist(names []string) (n int, unknown []string, err error) {
	list, err := s.Known()
	if err != nil {
		return 0, nil, err
	}
	dropped, lent := map[string]bool{}, 0
	v := s.look()
	wanted := map[string]bool{} // whether a list was found, by name
	for _, name := range names {
		if i, ok := v.byName[name]; ok {
			name = v.servers[i].Name
		}
		wanted[name] = false
	}
	for _, k := range list {
		if _, named := wanted[k.Server]; k.Listed.IsZero() || !named && len(names) > 0 {
			continue
		}
		wanted[k.Server], dropped[k.digest] = true, true
		if k.Alike {
			lent++ // it is no list of its own
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !wanted[name] {
			unknown = append(unknown, name)
		}
	}
	err = s.proxy.unlist(dropped)
	if len(names) == 0 {
		err = errors.Join(err, s.proxy.stock.unlearn())
	}
	return len(dropped) - lent, unknown, err
}

func (p *Proxy) unlist(digests map[string]bool) error {
	var errs []error
	for digest := range digests {
		errs = append(errs, p.stock.clear(digest))
	}
	for _, b := range p.list() {
		if digests[b.digest] {
			b.unlisted()
		}
	}
	return errors.Join(errs...)
}
