package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/tracing"
)

const (
	// defaultListTimeout bounds a whole tools/list, with all its pages.
	defaultListTimeout = 30 * time.Second

	// listPause is how long a list that failed is not asked for again.
	listPause = 5 * time.Second

	// missPause is how long a list is taken to be current when a tool is not
	// in it. Some servers add tools and don't say so.
	missPause = 2 * time.Second
)

// A shelf is what a backend knows of its list of tools, which itself is in the
// catalogue. Guarded by the backend's mu.
//
// Lists are asked for when somebody needs them. A notification that the tools
// have changed only counts up wanted, so that a burst of them costs nothing.
type shelf struct {
	wanted  uint64        // raised when the tools may have changed
	listed  uint64        // the value of wanted that the last list has seen
	have    bool          // the catalogue has a list
	listing chan struct{} // closed when the list under way is over
	at      time.Time     // of the last list
	err     error         // of the last list
	warning string        // of the last list that succeeded

	renewing bool // the list will be asked for in a moment, nobody waits for it
}

// changed takes in that the server's tools have changed. It is called on a
// read loop and does not block.
func (b *backend) changed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shelf.wanted++
}

// known makes sure that the catalogue has the server's tools as of now, and
// starts the server if need be. A catalogue that has older ones stays as it is
// when that fails.
func (b *backend) known(ctx context.Context) error {
	b.mu.Lock()
	wanted := b.shelf.wanted
	b.mu.Unlock()
	for {
		listing, err := b.ask(wanted)
		if listing == nil {
			return err
		}
		if err := b.awaitList(ctx, listing); err != nil {
			return err
		}
	}
}

func (b *backend) awaitList(ctx context.Context, listing <-chan struct{}) error {
	ctx, span := tracing.Start(ctx, "list tools")
	defer span.End()
	defer wait(ctx, b)()
	select {
	case <-listing:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: waiting for the tools of server %s: %w", errNotSent, b.name, context.Cause(ctx))
	}
}

// ask returns what to wait for until the tools are listed, or nil and the
// outcome when there is nothing to wait for.
func (b *backend) ask(wanted uint64) (<-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.shelf
	switch {
	case s.listing != nil:
		return s.listing, nil
	case s.have && s.listed >= wanted:
		return nil, nil
	case s.err != nil && time.Since(s.at) < listPause:
		return nil, s.err
	}
	listing := make(chan struct{})
	if !b.proxy.run(func() { b.list(listing) }) { // ends with the list's time limit
		return nil, ErrClosed
	}
	s.listing = listing
	return listing, nil
}

// list lists the tools once, for everybody who waits.
func (b *backend) list(listing chan struct{}) {
	l, seen, err := b.fetch()
	var kept discovery.KeptList
	if err == nil {
		kept = b.put(l)
	} else if b.ctx.Err() == nil {
		b.proxy.stock.failed(b.digest, err.Error())
	}
	b.shelved(listing, seen, kept.Warning, err)
	if err == nil {
		b.proxy.stock.save(kept)
	}
}

// shelved tells everybody who waits that a list is over.
func (b *backend) shelved(listing chan struct{}, seen uint64, warning string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(listing)
	s := &b.shelf
	s.listing, s.err, s.at = nil, err, time.Now()
	if err == nil {
		s.have, s.listed, s.warning = true, seen, warning
	}
}

// fetch asks the server. The list is at least as new as the change seen.
func (b *backend) fetch() (l listing, seen uint64, err error) {
	u, err := b.acquire(b.ctx) // bounded by the start's own time limit
	if err != nil {
		return l, 0, err
	}
	b.mu.Lock()
	seen = b.shelf.wanted
	b.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.proxy.opts.listTimeout, errListTimeout)
	defer cancel()
	l, err = u.list(ctx, toolLists, "")
	l.card = u.card
	switch {
	case err == nil:
		return l, seen, nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errListTimeout):
		return l, 0, errorf(CodeTimeout, "Server %s did not list its tools within %s.", b.name, b.proxy.opts.listTimeout)
	}
	return l, 0, errorf(CodeServerFailed, "Server %s did not list its tools: %v.", b.name, err)
}

// errListTimeout is the cause of a list's own time limit.
var errListTimeout = errors.New("the list's time limit")

// put puts a list into the catalogue and returns it as it is to be kept.
func (b *backend) put(l listing) discovery.KeptList {
	tools, skipped := discovery.ParseTools(l.items)
	b.pin(tools)
	kept := discovery.KeptList{
		Digest: b.digest, Written: b.written, Server: b.name, Name: l.card.name, Version: l.card.version, Listed: time.Now(), Warning: b.oddities(l, skipped),
	}
	for _, t := range tools {
		kept.Tools = append(kept.Tools, t.Raw)
	}
	b.proxy.stock.put(kept, tools)
	return kept
}

// oddities says what is odd about a list.
func (b *backend) oddities(l listing, skipped []string) string {
	var odd []string
	if l.warning != "" {
		odd = append(odd, l.warning)
	}
	odd = append(odd, skipped[:min(len(skipped), 5)]...)
	if len(odd) == 0 {
		return ""
	}
	warning := strings.Join(odd, "; ")
	b.log.Warn().Str("problem", warning).Msg("list tools")
	return warning
}

// afresh makes the next known list the tools again at once, whatever failed a
// moment ago.
func (b *backend) afresh() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shelf.wanted++
	b.shelf.at, b.retryAt = time.Time{}, time.Time{}
}

// unlisted takes in that the catalogue does not have the tools any more.
func (b *backend) unlisted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shelf.have = false
}

// missed makes the next known list the tools again when the last list is not
// brand new: a tool is asked for that is not in it.
func (b *backend) missed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.shelf.at) > missPause {
		b.shelf.wanted++
	}
}
