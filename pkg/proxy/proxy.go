package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/discovery"
)

// Defaults of [Options].
const (
	DefaultIdleTimeout = 10 * time.Minute
	DefaultCallTimeout = 120 * time.Second
	DefaultMaxMessage  = 32 << 20
	DefaultMaxServers  = 128

	// DefaultStartTimeout bounds a start up to the answer to initialize.
	// DefaultFirstStartTimeout is for commands that download first.
	DefaultStartTimeout      = 30 * time.Second
	DefaultFirstStartTimeout = 120 * time.Second

	// DefaultSearchWait is how long a search waits for servers that have to be
	// started and asked for their tools first.
	DefaultSearchWait = 15 * time.Second
)

const (
	// maxBackends is how many definitions are remembered. Past it those that
	// don't run are forgotten with their tools, the longest unused first.
	maxBackends = 1024

	// sweepInterval is the longest time between two looks for idle servers.
	sweepInterval = 30 * time.Second
)

// Options configure a [Proxy]. Zero fields have the defaults of the constants.
type Options struct {
	Catalog           *discovery.Catalog // where tools are kept; nil means one of its own
	IdleTimeout       time.Duration      // a server without calls is stopped after it
	CallTimeout       time.Duration      // of one call of a tool
	StartTimeout      time.Duration      // of a start
	FirstStartTimeout time.Duration      // of a start through npx, uvx, docker and the like
	SearchWait        time.Duration      // of one docs.search
	MaxMessage        int                // bytes of one message of a server
	MaxServers        int                // processes at once
	Version           string             // of this program, for servers to see
	Logger            zerolog.Logger     // the zero value writes nothing

	// For tests; zero means what the constants say.
	eofGrace, termGrace    time.Duration
	listTimeout            time.Duration
	backoffMin, backoffMax time.Duration
}

func (o Options) withDefaults() Options {
	if o.Catalog == nil {
		o.Catalog = discovery.NewCatalog()
	}
	o.IdleTimeout = cmp.Or(o.IdleTimeout, DefaultIdleTimeout)
	o.CallTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout)
	o.StartTimeout = cmp.Or(o.StartTimeout, DefaultStartTimeout)
	o.FirstStartTimeout = cmp.Or(o.FirstStartTimeout, DefaultFirstStartTimeout)
	o.SearchWait = cmp.Or(o.SearchWait, DefaultSearchWait)
	o.MaxMessage = cmp.Or(o.MaxMessage, DefaultMaxMessage)
	o.MaxServers = cmp.Or(o.MaxServers, DefaultMaxServers)
	o.eofGrace = cmp.Or(o.eofGrace, defaultEOFGrace)
	o.termGrace = cmp.Or(o.termGrace, defaultTermGrace)
	o.listTimeout = cmp.Or(o.listTimeout, defaultListTimeout)
	o.backoffMin = cmp.Or(o.backoffMin, defaultBackoffMin)
	o.backoffMax = cmp.Or(o.backoffMax, defaultBackoffMax)
	return o
}

// A Proxy keeps upstream servers, one process for each definition that is in
// use. It is safe for concurrent use. Make one with [New], and Close it.
type Proxy struct {
	opts    Options
	spawner *spawner
	slots   chan struct{} // one for each process that exists
	ctx     context.Context
	cancel  context.CancelCauseFunc

	life   sync.Mutex // guards closed, and that nothing joins done after it
	closed bool
	done   sync.WaitGroup

	mu       sync.Mutex // guards the fields below; taken before a backend's own
	backends map[string]*backend
}

// New returns a proxy without any process.
func New(o Options) *Proxy {
	p := &Proxy{opts: o.withDefaults(), spawner: newSpawner(), backends: map[string]*backend{}}
	p.slots = make(chan struct{}, p.opts.MaxServers)
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.run(p.sweep) // ends with Close
	return p
}

// run runs f on a goroutine that Close waits for. It reports false, and does
// not run it, after Close.
func (p *Proxy) run(f func()) bool {
	p.life.Lock()
	defer p.life.Unlock()
	if p.closed {
		return false
	}
	p.done.Go(f)
	return true
}

// lease returns the backend of a definition and keeps it from being stopped
// as idle. The caller must release it.
func (p *Proxy) lease(t *target) *backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.backends[t.ref.Digest]
	if !ok {
		b = newBackend(p, t)
		p.forgetLocked(maxBackends - 1)
		p.backends[t.ref.Digest] = b
	}
	b.users++
	return b
}

func (p *Proxy) release(b *backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.users--
	b.lastUse = time.Now()
}

// peek returns the state of a definition without keeping or creating anything.
func (p *Proxy) peek(t *target) State {
	p.mu.Lock()
	b := p.backends[t.ref.Digest]
	p.mu.Unlock()
	if b != nil {
		if s := b.state(); s != StateStopped {
			return s
		}
	}
	return StateStopped
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
			delete(p.backends, b.key)
			p.opts.Catalog.Drop(b.key)
		}
	}
}

// byUseLocked returns the backends, the longest unused first.
func (p *Proxy) byUseLocked() []*backend {
	return slices.SortedFunc(maps.Values(p.backends), func(a, b *backend) int {
		return cmp.Or(a.lastUse.Compare(b.lastUse), cmp.Compare(a.key, b.key))
	})
}

// occupy takes a slot for a process. When there is none, the server that was
// unused for longest is stopped; when all are in use, it is an error.
func (p *Proxy) occupy() error {
	for {
		select {
		case p.slots <- struct{}{}:
			return nil
		default:
		}
		u := p.detach(time.Now(), 1)
		if len(u) == 0 {
			return fmt.Errorf("%w: %d MCP servers are running and in use, which is the limit; try again when some calls have ended",
				errFull, p.opts.MaxServers)
		}
		u[0].stop()
	}
}

// detach takes processes that nobody uses, and nobody has used since before,
// from their backends, at most n. The caller must stop them.
func (p *Proxy) detach(before time.Time, n int) []*upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*upstream
	for _, b := range p.byUseLocked() {
		if len(found) == n {
			break
		}
		if b.users > 0 || b.lastUse.After(before) {
			continue
		}
		if u := b.detach(); u != nil {
			found = append(found, u)
		}
	}
	return found
}

// sweep stops idle servers until Close.
func (p *Proxy) sweep() {
	tick := time.NewTicker(min(max(p.opts.IdleTimeout/4, time.Millisecond), sweepInterval))
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
	for _, u := range p.detach(time.Now().Add(-p.opts.IdleTimeout), maxBackends) {
		p.opts.Logger.Info().Str("server", u.command.name).Int("pid", u.process.pid()).Msg("stop idle server")
		p.run(u.stop) // ends with the ladder; after Close it is Close that stops
	}
}

// list returns the backends by name.
func (p *Proxy) list() []*backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.backends), func(a, b *backend) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key))
	})
}

// Status returns the servers that were used, by name. A name comes several
// times when sessions mean different processes by it.
func (p *Proxy) Status() []ServerStatus {
	list := []ServerStatus{}
	for _, b := range p.list() {
		list = append(list, b.status())
	}
	return list
}

// Close stops all servers, all at once, and returns when nothing is left of
// them. When ctx ends first, stopping goes on and the error says so. Calls that
// are under way end with an error, and later ones with [ErrClosed]. Only the
// first Close waits.
func (p *Proxy) Close(ctx context.Context) error {
	p.life.Lock()
	first := !p.closed
	p.closed = true
	p.life.Unlock()
	if !first {
		return nil
	}
	p.cancel(ErrClosed)
	gone := make(chan struct{})
	go func() { // ends when the last process has
		defer close(gone)
		for _, b := range p.list() {
			b.retire()
		}
		p.done.Wait()
		p.spawner.close()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping servers: %w", context.Cause(ctx))
	}
}
