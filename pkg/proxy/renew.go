package proxy

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// renewersAtOnce bounds the servers that are started because their lists
	// are old.
	renewersAtOnce = 2

	// defaultRenewPause is the longest pause before each of these starts; it is
	// random, so that daemons that start together don't start the same servers
	// together.
	defaultRenewPause = 20 * time.Second

	// maxRenewals bounds the lists that wait to be renewed. Others are noticed
	// by a later use.
	maxRenewals = 256

	// defaultChangePause is how long changes of a server's tools are gathered
	// before the list is asked for in the background.
	defaultChangePause = time.Second
)

// shown makes the tools of a discovered server known to those who look at them.
// A list from the disk is good enough for that, and one from another session's
// server of the same definition.
func (s *Session) shown(ctx context.Context, t *target, b *backend) error {
	if b.rests() && s.proxy.stock.has(t.ref.Digest, t.written) {
		s.proxy.freshen(t)
		return nil
	}
	return b.known(ctx)
}

// rests reports whether the server does not run and has told nothing new that
// would have to be asked for.
func (b *backend) rests() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.up == nil && b.starting == nil && b.shelf.listing == nil && b.shelf.wanted == b.shelf.listed
}

// freshen has a list asked for in the background if it is old.
func (p *Proxy) freshen(t *target) {
	if !p.stock.due(t.ref.Digest) {
		return
	}
	select {
	case p.renewals <- t:
	default: // there are enough
	}
}

// renew asks for old lists, one after the other, until Close.
func (p *Proxy) renew() {
	for {
		select {
		case t := <-p.renewals:
			if !pause(p.ctx, rand.N(p.opts.renewPause)) {
				return
			}
			_ = p.relist(p.ctx, t) // it is in the server's status, and its list is stale
		case <-p.ctx.Done():
			return
		}
	}
}

// pause reports whether ctx has outlived it.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// relist asks a server for its tools whatever is known of them, and starts it if
// need be.
func (p *Proxy) relist(ctx context.Context, t *target) error {
	if t.owner != nil && t.owner.ctx.Err() != nil {
		return context.Cause(t.owner.ctx) // it would be started for nobody
	}
	b := p.lease(t)
	defer p.release(b)
	b.changed()
	return b.known(ctx)
}

// renewSoon asks a server that runs for its tools, which have changed, when it
// has told of all changes. It does not block.
func (b *backend) renewSoon() {
	if b.proxy.opts.Archive == nil {
		return // the next one who needs them asks
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shelf.renewing {
		return
	}
	b.shelf.renewing = b.proxy.run(func() { // ends with the list's time limit
		waited := pause(b.ctx, b.proxy.opts.changePause)
		b.mu.Lock()
		b.shelf.renewing = false
		b.mu.Unlock()
		if waited && b.state() == StateStarted {
			_ = b.known(b.ctx) // what is wrong with it is in the server's status
		}
	})
}

// verifyLocked asks a server that was just started for its tools, if the list in
// the catalogue is not its own.
func (b *backend) verifyLocked(u *upstream) {
	if !b.proxy.stock.doubts(b.digest, u.card) {
		return
	}
	b.shelf.at = time.Time{}                   // a list that failed was another run's
	b.proxy.run(func() { _ = b.known(b.ctx) }) // ends with the list's time limit; what is wrong is in the status
}
