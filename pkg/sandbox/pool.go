package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/tracing"
)

// Conditions that callers test.
var (
	// ErrPoolClosed is returned by Lease after Close.
	ErrPoolClosed = errors.New("pool is closed")
	// ErrPoolFull is returned by Lease when as many sandboxes are in use as
	// may be.
	ErrPoolFull = errors.New("too many sandboxes are in use")
)

const (
	// backoffMin and backoffMax bound the pauses between launches that fail.
	// An engine that was restarted is tried again within backoffMax.
	backoffMin = 500 * time.Millisecond
	backoffMax = 15 * time.Second
)

// A LaunchFunc makes a sandbox, as [Launch] does.
type LaunchFunc func(ctx context.Context) (*Sandbox, error)

// PoolOptions configure a [Pool]. The zero value keeps no warm sandbox.
type PoolOptions struct {
	Warm int // sandboxes kept ready; 0 means launch on demand
	Max  int // sandboxes in all, leased ones included; 0 means 32

	// Memory returns what the memory limits of all sandboxes may add up to,
	// and Each is the limit of one, both in bytes. Nil, and 0, mean no bound;
	// one sandbox may always be.
	Memory func() int64
	Each   int64

	// Wait is how long a session may wait for a sandbox when code runs in all that
	// may be; 0 means not at all. Agents take turns then, see [SessionOptions].
	Wait time.Duration

	// Rejoin reaches a sandbox again whose connection the engine has ended, as
	// [Adopt] does; nil is that a session is lost then.
	Rejoin func(ctx context.Context, t Ticket) (*Sandbox, error)

	SessionIdle time.Duration // a session's sandbox is ended after this time without use; 0 means never
	PauseAfter  time.Duration // and is paused after this time; 0 means never

	// Watch is told what becomes of the sandboxes. It may be called with locks
	// held: it must not block, nor call the pool. Nil is nobody.
	Watch func(Event)

	Logger zerolog.Logger // the zero value writes to nowhere
}

// A Pool keeps sandboxes warm. It is safe for concurrent use.
type Pool struct {
	launch LaunchFunc
	opts   PoolOptions
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // holds one token when the filler has something to do
	look   chan struct{} // holds one token when the tender has something to look after
	done   sync.WaitGroup

	seekers atomic.Int64 // callers of Lease
	line    line         // those of them who wait

	mu       sync.Mutex // guards the fields below
	warm     []*Sandbox
	leased   map[*Sandbox]struct{}
	creating int
	filling  int           // of those, how many are to be warm
	filled   chan struct{} // closed when one of these is made or has failed
	failures int           // launches failed in a row
	lastErr  error         // of the last launch, nil if it worked
	sessions map[*Session]struct{}
	noPause  string    // why the engine can't pause a container; "" if it can
	noPauses time.Time // when it was asked last
	refusals int       // to pause, in a row
	closed   bool
}

// PoolStatus is a snapshot of a [Pool].
type PoolStatus struct {
	Target, Max            int    // Max is what the memory allows, too
	Limit                  string // in words: how many there may be, and what says so
	Warm, Leased, Creating int
	Waiting                int      // callers of Lease that wait for a sandbox
	Failures               int      // launches failed in a row
	LastError              string   // of the last launch, "" if it worked
	Degraded               []string // limits that the engine does not set itself
	Sandboxes              []Snapshot
}

// NewPool starts to fill a pool with what launch makes. The caller must Close
// it.
func NewPool(launch LaunchFunc, o PoolOptions) *Pool {
	if o.Max == 0 {
		o.Max = 32
	}
	p := &Pool{
		launch: launch, opts: o, wake: make(chan struct{}, 1), look: make(chan struct{}, 1),
		leased: map[*Sandbox]struct{}{}, filled: make(chan struct{}), sessions: map[*Session]struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.done.Go(p.fill) // runs until Close
	if p.patience() > 0 {
		p.done.Go(p.tend) // runs until Close
	}
	return p
}

// Lease returns a sandbox for the caller's sole use, a warm one if there is
// one. When there are as many as may be, the idle session that was unused for
// longest loses its own. The caller must Release it.
func (p *Pool) Lease(ctx context.Context) (*Sandbox, error) { return p.leaseFor(ctx, "") }

// leaseFor is Lease for one of an owner's sessions.
func (p *Pool) leaseFor(ctx context.Context, owner string) (*Sandbox, error) {
	began := time.Now()
	p.seekers.Add(1)
	lease := p.lease
	if p.opts.Wait > 0 {
		lease = func(ctx context.Context) (*Sandbox, error) { return p.lineUp(ctx, owner) }
	}
	s, err := lease(ctx)
	p.seekers.Add(-1)
	if err == nil {
		p.tell(Event{Kind: EventLeased, Sandbox: s.ID, Took: time.Since(began)})
	}
	return s, err
}

// lease waits for nobody.
func (p *Pool) lease(ctx context.Context) (*Sandbox, error) {
	for {
		s, full, err := p.seek(ctx, func() {})
		switch {
		case full == nil:
			return s, err
		case full.filled != nil: // a warm one is about to be ready
			select {
			case <-full.filled:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		case !p.evict(full.limit, 0):
			return nil, fullError(full.limit)
		}
	}
}

// seek takes a warm sandbox, or makes one if there is room for it, before which
// it calls room. Else it returns what is full.
func (p *Pool) seek(ctx context.Context, room func()) (*Sandbox, *full, error) {
	s, full, err := p.takeWarm()
	poke(p.wake)
	switch {
	case err != nil || full != nil:
		return nil, full, err
	case s != nil:
		tracing.Current(ctx).Text(tracing.Source, "warm")
		return s, nil, nil
	}
	room()
	tracing.Current(ctx).Text(tracing.Source, "cold")
	s, err = p.make(ctx, false)
	return s, nil, err
}

// A full says that no sandbox can be made now.
type full struct {
	limit  string          // in words
	filled <-chan struct{} // closed when a warm one is made or has failed; nil if none is being made
}

// takeWarm leases a warm sandbox; nil if there is none. If there is room for
// one then, it counts as being created.
func (p *Pool) takeWarm() (*Sandbox, *full, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrPoolClosed
	}
	for len(p.warm) > 0 {
		s := p.warm[0]
		p.warm = p.warm[1:]
		if s.Cause() == "" {
			p.leased[s] = struct{}{}
			return s, nil, nil
		}
		p.done.Go(s.Close)
	}
	most, words := p.limit()
	switch {
	case len(p.leased)+p.creating < most:
		p.reserve()
		return nil, nil, nil
	case p.filling > 0:
		return nil, &full{words, p.filled}, nil
	}
	return nil, &full{limit: words}, nil
}

// limit returns how many sandboxes there may be, and what says so.
func (p *Pool) limit() (int, string) {
	most, words := p.opts.Max, fmt.Sprintf("%d are allowed (pool.max)", p.opts.Max)
	if p.opts.Memory == nil || p.opts.Each <= 0 {
		return most, words
	}
	total := p.opts.Memory()
	if n := max(1, total/p.opts.Each); total > 0 && n < int64(most) {
		return int(n), fmt.Sprintf("%d of %d MiB each are allowed (pool.memory is %d MiB)", n, p.opts.Each>>20, total>>20)
	}
	return most, words
}

// reserve counts one more sandbox as being created, which [Pool.make] must do
// next. The caller holds the lock and has looked at closed.
func (p *Pool) reserve() {
	p.creating++
	p.done.Add(1)
}

// make launches one sandbox that was reserved, to be kept warm or else leased.
// A launch that ends with its ctx says nothing of the engine.
func (p *Pool) make(ctx context.Context, warm bool) (*Sandbox, error) {
	defer p.done.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(p.ctx, cancel)
	defer stop()
	began := time.Now()
	s, err := p.launch(ctx)
	if err == nil {
		s.watch = p.tell
		p.tell(Event{Kind: EventMade, Sandbox: s.ID, Took: time.Since(began)})
	}
	p.mu.Lock()
	p.creating--
	if warm {
		p.filling--
		close(p.filled)
		p.filled = make(chan struct{})
	}
	closed := p.closed
	switch {
	case err == nil && !closed && warm:
		p.failures, p.lastErr = 0, nil
		p.warm = append(p.warm, s)
		p.done.Go(func() { p.watch(s) })
	case err == nil && !closed:
		p.failures, p.lastErr = 0, nil
		p.leased[s] = struct{}{}
	case err != nil && ctx.Err() == nil:
		p.failures++
		p.lastErr = err
		p.tell(Event{Kind: EventFailed, Took: time.Since(began), Failures: p.failures, Err: err})
	}
	p.mu.Unlock()
	if closed && s != nil {
		s.Close()
	}
	if closed {
		return nil, ErrPoolClosed
	}
	return s, err
}

// Release ends a leased sandbox and removes its container.
func (p *Pool) Release(s *Sandbox) {
	s.Close()
	p.mu.Lock()
	delete(p.leased, s)
	p.mu.Unlock()
	poke(p.wake)
}

// discard ends a leased sandbox that is dead, and removes its container in the
// background. It makes room for another at once.
func (p *Pool) discard(s *Sandbox) {
	first := s.shut() // at once, to be told before the other is made
	p.mu.Lock()
	delete(p.leased, s)
	closed := p.closed
	if !closed {
		p.done.Go(func() { s.clear(first) })
	}
	p.mu.Unlock()
	if closed {
		s.clear(first)
	}
	poke(p.wake)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fill keeps the pool at its target until Close.
func (p *Pool) fill() {
	for {
		for p.wanted() {
			p.add()
		}
		var again <-chan time.Time // nil, and so never ready, if nothing failed
		if pause := p.pause(); pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-p.ctx.Done():
			return
		case <-again:
			p.retry()
		case <-p.wake:
		}
	}
}

// wanted reports whether one more sandbox should be made now, and counts it.
func (p *Pool) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive := p.warm[:0]
	for _, s := range p.warm {
		if s.Cause() == "" {
			alive = append(alive, s)
			continue
		}
		p.done.Go(s.Close)
	}
	p.warm = alive
	total := len(p.warm) + len(p.leased) + p.creating
	most, _ := p.limit()
	if p.closed || p.failures > 0 || len(p.warm) >= p.opts.Warm || total >= most {
		return false
	}
	p.filling++
	p.reserve()
	return true
}

// add makes one warm sandbox.
func (p *Pool) add() {
	_, err := p.make(p.ctx, true)
	if err != nil && p.ctx.Err() == nil {
		p.opts.Logger.Warn().Err(err).Msg("launch sandbox")
	}
}

// watch pokes the filler when a sandbox dies, so that a dead one is replaced.
// It ends with the sandbox.
func (p *Pool) watch(s *Sandbox) {
	<-s.Done()
	poke(p.wake)
}

// pause is how long to wait before launching again after failures; 0 if none.
func (p *Pool) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures == 0 {
		return 0
	}
	return min(backoffMax, backoffMin<<min(p.failures-1, 8))
}

// retry lets the filler try again, and makes its next pause longer.
func (p *Pool) retry() {
	p.mu.Lock()
	before := p.failures
	p.failures = 0
	p.mu.Unlock()
	if !p.wanted() {
		return
	}
	p.add()
	p.mu.Lock()
	if p.failures > 0 {
		p.failures += before
	}
	p.mu.Unlock()
}

// Used reports whether there is a sandbox, or is about to be.
func (p *Pool) Used() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.warm)+len(p.leased)+p.creating > 0
}

// Status returns a snapshot.
func (p *Pool) Status() PoolStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	most, words := p.limit()
	st := PoolStatus{
		Target: p.opts.Warm, Max: most, Limit: words,
		Warm: len(p.warm), Leased: len(p.leased), Creating: p.creating, Failures: p.failures,
		Waiting:   int(p.seekers.Load()),
		Sandboxes: p.sandboxesLocked(),
	}
	if p.lastErr != nil {
		st.LastError = p.lastErr.Error()
	}
	for s := range p.leased {
		st.Degraded = s.Degraded
	}
	for _, s := range p.warm {
		st.Degraded = s.Degraded
	}
	if p.noPause != "" {
		st.Degraded = append(slices.Clone(st.Degraded), "idle sandboxes are not paused: "+p.noPause)
	}
	return st
}

// Close ends every sandbox, leased ones too, and waits until their containers
// are removed and no launch is under way.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := p.warm
	p.warm = nil
	for s := range p.leased {
		all = append(all, s)
	}
	p.mu.Unlock()
	p.cancel()
	var closing sync.WaitGroup
	for _, s := range all {
		closing.Go(s.Close)
	}
	closing.Wait()
	p.done.Wait()
}
