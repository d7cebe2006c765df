package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A waitLog knows what a session's calls wait for. It is safe for concurrent
// use.
type waitLog struct {
	mu sync.Mutex // guards on
	on map[*backend]int
}

type waitLogKey struct{}

// wait notes, if ctx is that of a session's request, that it waits for b. The
// caller must call done.
func wait(ctx context.Context, b *backend) (done func()) {
	l, ok := ctx.Value(waitLogKey{}).(*waitLog)
	if !ok {
		return func() {}
	}
	l.add(b, 1)
	began := time.Now()
	return func() {
		l.add(b, -1)
		b.traceStart(ctx, began)
	}
}

func (l *waitLog) add(b *backend, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on == nil {
		l.on = map[*backend]int{}
	}
	if l.on[b] += n; l.on[b] == 0 {
		delete(l.on, b)
	}
}

func (l *waitLog) backends() []*backend {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*backend, 0, len(l.on))
	for b := range l.on {
		list = append(list, b)
	}
	return list
}

// Waiting says in a line each what servers calls of the session wait for now,
// and what those do meanwhile. It answers at once.
func (s *Session) Waiting() []string {
	texts := []string{}
	for _, b := range s.waits.backends() {
		if text := b.progress(); text != "" {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return texts
}

// progress says how far a start is that is under way, and is empty when none is.
func (b *backend) progress() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.starting == nil {
		return ""
	}
	text := fmt.Sprintf("server %s is starting, %d s of at most %d", b.name,
		int(time.Since(b.startBegan).Seconds()), int(b.timeout.Seconds()))
	if b.box != nil {
		if step := b.proxy.pulls.progress(b.box.Remote, b.box.Spec.Platform); step != "" {
			text += fmt.Sprintf(", its image %s is being fetched: %s", b.box.Remote, step)
		}
	}
	if last := lastLine(b.startSaidLocked(quoteBytes)); last != "" {
		text += ", last line of its stderr: " + clip(last, 200)
	}
	return text
}

// startSaidLocked is what the server that is being started has written to its
// stderr, without secrets.
func (b *backend) startSaidLocked(limit int) string {
	if b.startLink.body == nil {
		return ""
	}
	return b.mask.Replace(b.startLink.body.said().last(limit))
}

// connected takes in what the start under way has got hold of.
func (b *backend) connected(l link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.startLink = l
}

// lastLine returns the last line that is not empty. A line that was written
// over, as by a progress bar, is plain text by then.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
