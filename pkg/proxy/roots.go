package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// maxRooted bounds the definitions that are remembered to ask for roots.
	maxRooted = 4096

	// rootsWait bounds the wait for a server that was just started to ask for
	// roots, if one of its kind has done so before.
	rootsWait = time.Second

	// rootsPause is how long a server gets to act on the roots that it was
	// told. Some answer calls meanwhile, by what was allowed before.
	rootsPause = 100 * time.Millisecond
)

// roots answers roots/list with the one root that the backend is for. It does
// not block.
func (b *backend) roots() (json.RawMessage, error) {
	root, err := b.proxy.settleRoot(b)
	if err != nil {
		return nil, err
	}
	list := []map[string]string{}
	if root != "" {
		uri := url.URL{Scheme: "file", Path: filepath.ToSlash(root)}
		list = append(list, map[string]string{"uri": uri.String(), "name": filepath.Base(root)})
	}
	b.rootsTold()
	return reply(map[string]any{"roots": list})
}

// rootsTold notes that the server is about to know its root.
func (b *backend) rootsTold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heedful = time.Now().Add(rootsPause)
	if b.told != nil {
		close(b.told)
		b.told = nil
	}
}

// awaitRoots returns when a server that was just started has asked for roots,
// if its kind does. begun is what expectRoots returned before the start.
func (b *backend) awaitRoots(ctx context.Context, begun <-chan struct{}) {
	b.proxy.mu.Lock()
	rooted := b.proxy.rooted[b.digest]
	b.proxy.mu.Unlock()
	if !rooted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rootsWait)
	defer cancel()
	select {
	case <-begun:
	case <-ctx.Done():
	}
}

// expectRoots returns what is closed when the server that is being started has
// asked for roots.
func (b *backend) expectRoots() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	told := make(chan struct{})
	b.told = told
	return told
}

// heed gives a server that was told its root a moment ago the time to act on it.
func (b *backend) heed(ctx context.Context) {
	b.mu.Lock()
	rest := time.Until(b.heedful)
	b.mu.Unlock()
	if rest <= 0 {
		return
	}
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// keyLocked is the key under which a target's backend is kept. Servers that
// were seen to ask for roots are kept apart by root, for what they may do
// depends on it.
func (p *Proxy) keyLocked(t *target) string {
	if t.owner == nil && p.rooted[t.ref.Digest] {
		return t.key + "@" + t.root
	}
	return t.key
}

// settleRoot returns the root that the backend is for. The first question about
// roots decides that, and keeps sessions with another root away from then on.
// When it can't be told for whom the server asks, no session gets the backend
// any more.
func (p *Proxy) settleRoot(b *backend) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &b.crowd
	if c.rooted {
		return c.root, nil
	}
	if b.owner == nil {
		p.rememberRootedLocked(b.digest)
	}
	who, err := c.onlyLocked()
	if len(c.callers) == 0 && c.last != nil && time.Since(c.left) < recently {
		who, err = c.last, nil
	}
	if err != nil {
		p.orphans++
		p.rekeyLocked(b, b.key+"#"+strconv.Itoa(p.orphans))
		return "", err
	}
	c.rooted, c.root = true, who.root
	if key := b.key + "@" + who.root; b.owner == nil {
		p.rekeyLocked(b, key)
	}
	return c.root, nil
}

func (p *Proxy) rememberRootedLocked(digest string) {
	if p.rooted == nil || len(p.rooted) >= maxRooted {
		p.rooted = map[string]bool{}
	}
	p.rooted[digest] = true
}

// rekeyLocked keeps a backend under another key. The one that was there, if
// any, stays under a key of its own until it is idle.
func (p *Proxy) rekeyLocked(b *backend, key string) {
	delete(p.backends, b.key)
	if other := p.backends[key]; other != nil {
		p.orphans++
		other.key = key + "#" + strconv.Itoa(p.orphans)
		p.backends[other.key] = other
	}
	b.key = key
	p.backends[key] = b
}

// rootOf is the folder that a session's server is told as its root: the
// project's of a project's definition, and else the agent's working folder.
func (s *Session) rootOf(t *target) string { return cmp.Or(t.server.Root, s.opts.Cwd) }
