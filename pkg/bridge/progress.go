package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// progressGap is the least time between two notifications of a request.
	progressGap = 100 * time.Millisecond

	// heartbeat is the most, so that an agent that waits for signs of life for
	// 10 s sees one.
	heartbeat = 9 * time.Second

	// maxProgress bounds the output in a notification; older output goes.
	maxProgress = 2000

	// maxWaits bounds the servers in a notification that the code waits for.
	maxWaits = 3

	// maxHints bounds the notes in a notification; older ones go.
	maxHints = 10
)

type progressTokenKey struct{}

// withProgressToken keeps a request's progress token as the bytes that came,
// because mcp-go passes it through float64.
func withProgressToken(ctx context.Context, m message) context.Context {
	if m.method != string(mcp.MethodToolsCall) {
		return ctx
	}
	var params struct {
		Meta struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(m.params, &params); err != nil {
		return ctx // mcp-go says what is wrong with it
	}
	token := params.Meta.ProgressToken
	if token == nil || string(token) == "null" {
		return ctx
	}
	return context.WithValue(ctx, progressTokenKey{}, token)
}

// A progress tells an agent what its request is doing. A nil progress does
// nothing.
type progress struct {
	offer func(line []byte)
	waits func() []string // what the code waits for; nil is nothing
	token json.RawMessage
	words bool // the protocol version knows messages
	start time.Time
	stop  context.CancelFunc
	done  chan struct{}
	wake  chan struct{} // holds a token when there is output; given and taken back under the lock

	mu    sync.Mutex       // guards the fields below
	fresh []sandbox.Output // since the last notification
	size  int              // bytes of its text
	hints []string         // notes since the last notification
}

// newProgress starts reporting through offer, which must not block, if the
// request in ctx asked for it. waits tells what the code waits for, at once. The
// caller must close it.
func newProgress(ctx context.Context, offer func(line []byte), waits func() []string) *progress {
	token, ok := ctx.Value(progressTokenKey{}).(json.RawMessage)
	if !ok {
		return nil
	}
	p := &progress{
		offer: offer,
		waits: waits,
		token: token,
		words: server.RequestProtocolVersion(ctx) != mcp.ProtocolVersion20241105,
		start: time.Now(),
		done:  make(chan struct{}),
		wake:  make(chan struct{}, 1),
	}
	ctx, p.stop = context.WithCancel(ctx)
	go p.run(ctx) // ends with ctx; close waits for it
	return p
}

// output takes what the code printed. It never blocks.
func (p *progress) output(o sandbox.Output) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keep(o); p.size > 0 {
		p.pokeLocked()
	}
}

// note takes a line about what the code does. It never blocks.
func (p *progress) note(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hints = append(p.hints, tail(text, maxProgress/maxHints))
	p.hints = p.hints[max(0, len(p.hints)-maxHints):]
	p.pokeLocked()
}

func (p *progress) pokeLocked() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// keep adds a piece, in the place of what it replaces, and lets go of the
// oldest. The caller holds the lock.
func (p *progress) keep(o sandbox.Output) {
	want := o.Back
	p.fresh, o.Back = sandbox.Retract(p.fresh, o)
	p.size -= int(want - o.Back)
	o.Back, o.Cut = 0, 0
	if o.Text = tail(o.Text, maxProgress); o.Text == "" {
		return
	}
	p.fresh = append(p.fresh, o)
	p.size += len(o.Text)
	for p.size-len(p.fresh[0].Text) >= maxProgress {
		p.size -= len(p.fresh[0].Text)
		p.fresh = p.fresh[1:]
	}
}

// close ends the reports. None is sent after it has returned.
func (p *progress) close() {
	if p == nil {
		return
	}
	p.stop()
	<-p.done
}

func (p *progress) run(ctx context.Context) {
	defer close(p.done)
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-beat.C:
		}
		if ctx.Err() != nil {
			return
		}
		p.report()
		beat.Reset(heartbeat)
		pause(ctx, progressGap)
	}
}

// progressParams are those of notifications/progress.
type progressParams struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"` // seconds; rises because reports are 100 ms apart
	Message  string          `json:"message,omitempty"`
}

func (p *progress) report() {
	elapsed := time.Since(p.start)
	params := progressParams{Token: p.token, Progress: float64(elapsed.Milliseconds()) / 1000}
	if text := p.take(); p.words && strings.TrimSpace(text) != "" {
		params.Message = text
	} else if p.words {
		params.Message = strings.Join(append([]string{fmt.Sprintf("running for %d s", int(elapsed.Seconds()))}, p.waiting()...), "; ")
	}
	line, err := encodeLine(map[string]any{
		"jsonrpc": "2.0", "method": "notifications/progress", "params": params,
	})
	if err == nil { // strings and numbers always encode
		p.offer(line)
	}
}

// waiting returns the first few of what the code waits for.
func (p *progress) waiting() []string {
	if p.waits == nil {
		return nil
	}
	texts := p.waits()
	if len(texts) > maxWaits {
		texts = append(texts[:maxWaits:maxWaits], fmt.Sprintf("%d more are starting", len(texts)-maxWaits))
	}
	return texts
}

func (p *progress) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, o := range p.fresh {
		b.WriteString(o.Text)
	}
	text := strings.TrimRight(b.String(), "\n")
	if len(p.hints) > 0 {
		text = strings.TrimLeft(text+"\n"+strings.Join(p.hints, "\n"), "\n")
	}
	p.fresh, p.size, p.hints = nil, 0, nil
	select {
	case <-p.wake: // it would wake for what is told now
	default:
	}
	return tail(text, maxProgress)
}

// tail returns the end of s, at most n bytes, from a character's start.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
