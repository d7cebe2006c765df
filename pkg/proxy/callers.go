package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// recently is how long after its last request a session may still be told
// apart as the one that a server's question about roots comes from: servers ask
// for them on the side.
const recently = 2 * time.Second

// errOver ends what a server asks a session's agent when the session's last
// request of that server is over.
var errOver = errors.New("the call that it belongs to is over")

// A caller is a session that a backend works for now. Guarded by the proxy's
// mu.
type caller struct {
	session *Session
	root    string
	n       int             // of its requests
	ctx     context.Context // ends when none is left
	end     context.CancelCauseFunc
}

// A crowd is whom a backend works for. Guarded by the proxy's mu.
type crowd struct {
	callers map[*Session]*caller
	last    *caller   // who left last
	left    time.Time // when

	rooted bool   // the server has asked for roots, and is for one root from then on
	root   string // which
}

// use returns the backend of a server that the session makes a request of. done
// must be called when that is over.
func (s *Session) use(t *target) (b *backend, done func()) {
	p := s.proxy
	for {
		b := p.lease(t)
		c, ok := p.join(b, t, s)
		if ok {
			return b, func() {
				p.part(b, c)
				p.release(b)
			}
		}
		p.release(b) // its server has just asked for roots, another session's
	}
}

// join counts a request in, unless the backend is for another root.
func (p *Proxy) join(b *backend, t *target, s *Session) (*caller, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.crowd.rooted && b.crowd.root != t.root {
		return nil, false
	}
	c, ok := b.crowd.callers[s]
	if !ok {
		c = &caller{session: s, root: t.root}
		c.ctx, c.end = context.WithCancelCause(s.ctx)
		if b.crowd.callers == nil {
			b.crowd.callers = map[*Session]*caller{}
		}
		b.crowd.callers[s] = c
	}
	c.n++
	return c, true
}

// part counts a request out.
func (p *Proxy) part(b *backend, c *caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.n--; c.n > 0 {
		return
	}
	delete(b.crowd.callers, c.session)
	b.crowd.last, b.crowd.left = c, time.Now()
	c.end(errOver)
}

// whose returns the one session that the backend works for: a request of the
// server's can only be that session's then. Nobody else is ever asked.
func (p *Proxy) whose(b *backend) (*caller, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.crowd.onlyLocked()
}

func (c *crowd) onlyLocked() (*caller, error) {
	for _, one := range c.callers {
		if len(c.callers) == 1 {
			return one, nil
		}
		return nil, fmt.Errorf("calls of %d sessions are under way, and it cannot be told whose this is; try again when one call is", len(c.callers))
	}
	return nil, errors.New("no call is under way, so there is nobody to ask")
}
