package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
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
	TokenDir          string             // where logins are kept; empty keeps none
	Settings          []Setting          // what the operator says of servers, in order
	Policy            *policy.Policy     // the operator's rules; nil permits everything
	Approvals         *policy.Approvals  // where calls wait for a person; nil means some of its own
	Containers        Containers         // how servers' containers are made
	Reaper            []string           // a command that calls Reap with its last argument; nil means none
	Pins              *policy.Pins       // the accepted definitions of tools; nil accepts all
	Archive           *discovery.Archive // where tools are kept between runs; nil keeps none
	CatalogAge        time.Duration      // older lists of tools are asked for anew; may be Never
	HideTrace         bool               // tell servers nothing of the trace that a call is part of
	Version           string             // of this program, for servers to see
	Watch             func(ServerEvent)  // told what becomes of servers; must not block; nil is nobody
	Logger            zerolog.Logger     // the zero value writes nothing

	// For tests; zero means what the constants say.
	eofGrace, termGrace    time.Duration
	drainGrace             time.Duration
	listTimeout            time.Duration
	listenPause            time.Duration
	backoffMin, backoffMax time.Duration
	pingTimeout            time.Duration
	renewPause             time.Duration
	changePause            time.Duration
}

func (o Options) withDefaults() Options {
	if o.Catalog == nil {
		o.Catalog = discovery.NewCatalog()
	}
	if o.Policy == nil {
		o.Policy = policy.Open()
	}
	if o.Approvals == nil {
		o.Approvals = &policy.Approvals{}
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
	o.drainGrace = cmp.Or(o.drainGrace, defaultDrainGrace)
	o.listTimeout = cmp.Or(o.listTimeout, defaultListTimeout)
	o.CatalogAge = cmp.Or(o.CatalogAge, DefaultCatalogAge)
	o.renewPause = cmp.Or(o.renewPause, defaultRenewPause)
	o.changePause = cmp.Or(o.changePause, defaultChangePause)
	o.pingTimeout = cmp.Or(o.pingTimeout, defaultPingTimeout)
	o.listenPause = cmp.Or(o.listenPause, listenPauseMin)
	o.backoffMin = cmp.Or(o.backoffMin, defaultBackoffMin)
	o.backoffMax = cmp.Or(o.backoffMax, defaultBackoffMax)
	return o
}

// A Proxy keeps upstream servers, one process for each definition that is in
// use. It is safe for concurrent use. Make one with [New], and Close it.
type Proxy struct {
	opts    Options
	spawner *spawner
	learner *learner
	stock   *stock
	saved   savedStock
	secrets secrets
	room    *room // what runs
	tokens  *tokenStore
	pulls   pulls // images on their way

	renewals chan *target // whose lists are old

	ctx    context.Context
	cancel context.CancelCauseFunc

	life   sync.Mutex // guards closed, and that nothing joins done after it
	closed bool
	done   sync.WaitGroup

	lastSession atomic.Int64
	lastCall    atomic.Uint64

	mu       sync.Mutex // guards the fields below; taken before a backend's own
	backends map[string]*backend
	kept     []string        // digests of definitions whose sessions have ended, the latest last
	rooted   map[string]bool // digests of definitions whose servers have asked for roots
	orphans  int             // backends that no session is given any more
}

// New returns a proxy without any process.
func New(o Options) *Proxy {
	p := &Proxy{opts: o.withDefaults(), spawner: newSpawner(o.Reaper, o.Logger), backends: map[string]*backend{}}
	p.room = &room{max: p.opts.MaxServers, each: map[origin]int{}}
	p.tokens = &tokenStore{dir: o.TokenDir}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.learner, p.stock = newLearner(), newStock(p.opts)
	p.renewals = make(chan *target, maxRenewals)
	for range renewersAtOnce {
		p.run(p.renew) // ends with Close
	}
	if p.opts.Archive != nil {
		p.run(p.keepLessons) // ends with Close
	}
	p.run(p.sweep) // ends with Close
	p.run(p.study) // ends with Close
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
	key := p.keyLocked(t)
	b, ok := p.backends[key]
	if !ok {
		b = newBackend(p, t)
		b.key, b.crowd.rooted, b.crowd.root = key, key != t.key || t.owner != nil, t.root
		b.forsaken = t.owner != nil && t.owner.ctx.Err() != nil
		p.forgetLocked(maxBackends - 1)
		p.backends[key] = b
	}
	b.users++
	return b
}

func (p *Proxy) release(b *backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.users--
	b.lastUse = time.Now()
	if b.forsaken && b.users == 0 {
		p.endLocked(b)
	}
}

// A glance is what is known of a definition's server.
type glance struct {
	state   State
	used    bool   // a call of it was answered
	problem string // why it can't be started now
}

// The states in which a server is known, each more than the one before.
const (
	stateConfigured = "configured"
	stateCatalogued = "catalogued" // its tools are known
	stateStarted    = "started"
	stateUsed       = "used" // a call was answered, whether it runs now or not
)

// known says in which state a server is known. listed says that its tools are.
func (g glance) known(listed bool) string {
	switch {
	case g.used:
		return stateUsed
	case g.state == StateStarted:
		return stateStarted
	case listed:
		return stateCatalogued
	}
	return stateConfigured
}

// peek looks at a definition without keeping or creating anything.
func (p *Proxy) peek(t *target) glance {
	p.mu.Lock()
	b := p.backends[p.keyLocked(t)]
	p.mu.Unlock()
	if b == nil {
		return glance{state: StateStopped}
	}
	return b.glance()
}

func (b *backend) glance() glance {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := glance{state: b.stateLocked(), used: b.calls > b.errs}
	if g.state == StateFailed && b.lastErr != nil {
		g.problem = clip(b.lastErr.Error(), quoteBytes)
	}
	return g
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

// Room returns how many servers there are now, those that start and those that
// are being stopped included, and how many there may be.
func (p *Proxy) Room() (count, most int) { return p.room.count(), p.opts.MaxServers }

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
