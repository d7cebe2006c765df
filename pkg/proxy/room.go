package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// An origin is a definition as it stands in a file, whatever it comes to for a
// session: its processes are counted together.
type origin struct{ path, key string }

func originOf(s discovery.Server) origin {
	if len(s.Sources) == 0 {
		return origin{key: s.Name}
	}
	return origin{s.Sources[0].Path, s.Sources[0].Key}
}

// A room counts the servers that run, by what they were started from. It is
// safe for concurrent use.
type room struct {
	max int // of all

	mu   sync.Mutex // guards the fields below
	all  int
	each map[origin]int
}

// enter takes a place for one more of a definition that may have so many. It
// reports whether there was one, and else whether it is the definition's own
// limit that was reached.
func (r *room) enter(o origin, most int) (entered, own bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.each[o] >= most:
		return false, true
	case r.all >= r.max:
		return false, false
	}
	r.all++
	r.each[o]++
	return true, false
}

func (r *room) leave(o origin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.each[o]--; r.each[o] == 0 {
		delete(r.each, o)
	}
}

// count returns how many servers there are, those that are being stopped
// included.
func (r *room) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// occupy takes a place for a server. When there is none, the one that was
// unused for longest is stopped; when all are in use, it is an error.
func (p *Proxy) occupy(b *backend) error {
	most := cmp.Or(b.setting.Max, DefaultMax)
	for {
		entered, own := p.room.enter(b.origin, most)
		if entered {
			return nil
		}
		u := p.detach(1, func(other *backend) bool {
			return !other.keepsState() && (!own || other.origin == b.origin)
		})
		switch {
		case len(u) > 0:
			u[0].stop()
			<-u[0].cleared
		case own:
			return fmt.Errorf("%w: %d of it are running and in use, which is the limit for one server (max in [[server]] of bridged's configuration); try again when another session has ended",
				errFull, most)
		default:
			return fmt.Errorf("%w: %d MCP servers are running and in use, which is the limit; try again when some calls have ended",
				errFull, p.opts.MaxServers)
		}
	}
}

// detach takes servers that nobody uses from their backends, at most n, of
// those that are ripe, the longest unused first. The caller must stop them.
// ripe is called with the proxy's mu held.
func (p *Proxy) detach(n int, ripe func(*backend) bool) []*upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*upstream
	for _, b := range p.byUseLocked() {
		if len(found) == n {
			break
		}
		if b.users > 0 || !ripe(b) {
			continue
		}
		if u := b.detach(); u != nil {
			found = append(found, u)
		}
	}
	return found
}

// byUseLocked returns the backends, the longest unused first.
func (p *Proxy) byUseLocked() []*backend {
	return slices.SortedFunc(maps.Values(p.backends), func(a, b *backend) int {
		return cmp.Or(a.lastUse.Compare(b.lastUse), cmp.Compare(a.key, b.key))
	})
}

// sweep stops idle servers until Close.
func (p *Proxy) sweep() {
	shortest := p.opts.IdleTimeout
	for _, s := range p.opts.Settings {
		if s.Idle > 0 {
			shortest = min(shortest, s.Idle)
		}
	}
	tick := time.NewTicker(min(max(shortest/4, time.Millisecond), sweepInterval))
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
			p.stopIdle()
		}
	}
}

func (p *Proxy) stopIdle() {
	idle := p.detach(maxBackends, func(b *backend) bool {
		limit := b.idleLimit()
		return limit >= 0 && time.Since(b.lastUse) >= limit
	})
	for _, u := range idle {
		p.opts.Logger.Info().Str("server", u.name).Int("pid", u.identity().pid).Msg("stop idle server")
		p.run(u.stop) // ends with the ladder; after Close it is Close that stops
	}
}

// keepsState reports whether the operator says that the server has a state
// which stopping it would lose.
func (b *backend) keepsState() bool { return b.setting.Stateful != nil && *b.setting.Stateful }

// idleLimit is how long the server may be unused before it is stopped; below 0
// it never is. One that keeps state ends with its session.
func (b *backend) idleLimit() time.Duration {
	switch {
	case b.setting.Idle != 0:
		return b.setting.Idle
	case b.keepsState():
		return Never
	}
	return b.proxy.opts.IdleTimeout
}

// forgetLocked forgets backends without a process until at most n are left.
func (p *Proxy) forgetLocked(n int) {
	if len(p.backends) <= n {
		return
	}
	for _, b := range p.byUseLocked() {
		if len(p.backends) <= n {
			return
		}
		if b.users == 0 && b.asleep() {
			p.removeLocked(b, ErrClosed)
			p.dropLocked(b.digest)
		}
	}
}

// removeLocked takes a backend out for good. Its server, if it runs, is
// stopped with cause.
func (p *Proxy) removeLocked(b *backend, cause error) {
	delete(p.backends, b.key)
	b.end(cause)
}

// endLocked takes out a backend whose session has ended. Its tools stay for a
// while, for the next session with the definition to search in.
func (p *Proxy) endLocked(b *backend) {
	p.removeLocked(b, errForsaken)
	p.kept = append(slices.DeleteFunc(p.kept, func(digest string) bool { return digest == b.digest }), b.digest)
	if len(p.kept) > maxBackends {
		p.dropLocked(p.kept[0])
		p.kept = p.kept[1:]
	}
}

// dropLocked takes a definition's tools out of the catalogue, unless another
// backend has the same definition.
func (p *Proxy) dropLocked(digest string) {
	for _, b := range p.backends {
		if b.digest == digest {
			return
		}
	}
	p.stock.drop(digest)
}

// forsake gives up the servers that are a session's alone. Those that are in
// use end with their last use.
func (p *Proxy) forsake(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range slices.Collect(maps.Values(p.backends)) {
		if b.owner != s {
			continue
		}
		b.forsaken = true
		if b.users == 0 {
			p.endLocked(b)
		}
	}
}
