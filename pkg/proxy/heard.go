package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// noteGap is the least time between two notes of one call's progress.
	noteGap = 100 * time.Millisecond

	// maxNote bounds a note, and a line of a server's log, in bytes.
	maxNote = 500

	// logTimeout bounds the wait for a server to take the level of its log. It
	// can do without.
	logTimeout = 10 * time.Second
)

// heard takes in what a server says by itself, other than of its tools. Of
// resources and prompts nothing is kept that could have changed. It is called on
// a read loop and does not block.
func (b *backend) heard(n mcp.JSONRPCNotification) {
	switch n.Method {
	case string(mcp.MethodNotificationProgress):
		b.reports.heard(n.Params.AdditionalFields)
	case string(mcp.MethodNotificationMessage):
		b.logged(n.Params.AdditionalFields)
	case string(mcp.MethodNotificationElicitationComplete):
		if c, err := b.proxy.whose(b); err == nil {
			if params, err := json.Marshal(n.Params.AdditionalFields); err == nil {
				c.session.opts.Agent.Tell(n.Method, params)
			}
		}
	}
}

// wantLog asks a server that has log messages for those of some weight.
func (b *backend) wantLog(u *upstream) {
	if !u.card.offers["logging"] {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, logTimeout)
	defer cancel()
	if _, err := u.request(ctx, string(mcp.MethodSetLogLevel), json.RawMessage(`{"level":"info"}`)); err != nil {
		b.log.Debug().Err(err).Msg("set level of log")
	}
}

// loud are the levels of a log message that people should see at once.
var loud = map[string]bool{"warning": true, "error": true, "critical": true, "alert": true, "emergency": true}

// logged keeps a log message of the server's, and shows one that warns as
// progress of the only session that it can be for.
func (b *backend) logged(fields map[string]any) {
	level, _ := fields["level"].(string)
	text := clip(level, 20) + ": "
	if logger, ok := fields["logger"].(string); ok && logger != "" {
		text += clip(logger, 60) + ": "
	}
	data, ok := fields["data"].(string)
	if !ok {
		raw, err := json.Marshal(fields["data"])
		if err != nil {
			return // it was read from JSON
		}
		data = string(raw)
	}
	text = oneNote(b.mask.Replace(text + data))
	_, _ = b.words.Write([]byte(text + "\n")) // never fails
	if !loud[level] {
		return
	}
	if c, err := b.proxy.whose(b); err == nil {
		c.session.opts.Agent.Note(b.name + ": " + text)
	}
}

// oneNote makes one bounded line of a stranger's text.
func oneNote(text string) string {
	return clip(strings.Join(strings.Fields(plainText(text)), " "), maxNote)
}

// A progress knows the calls of a backend whose progress is shown. It is safe
// for concurrent use.
type progress struct {
	mu   sync.Mutex // guards the fields below
	last int64
	open map[int64]*watch // by token
}

// A watch is one call.
type watch struct {
	label string // "server.tool"
	note  func(string)
	shown time.Time
}

// begin returns the token under which a call's progress comes. end must be
// called when it is over.
func (p *progress) begin(label string, note func(string)) (token int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[int64]*watch{}
	}
	p.last++
	p.open[p.last] = &watch{label: label, note: note}
	return p.last
}

func (p *progress) end(token int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, token)
}

// heard shows a notification, unless one was shown a moment ago.
func (p *progress) heard(fields map[string]any) {
	token, ok := fields["progressToken"].(float64)
	if !ok {
		return // ours are numbers
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.open[int64(token)]
	if w == nil || time.Since(w.shown) < noteGap {
		return
	}
	w.shown = time.Now()
	w.note(w.label + ": " + progressText(fields))
}

// progressText is a notification in words: "3/10 fetching".
func progressText(fields map[string]any) string {
	var parts []string
	if done, ok := fields["progress"].(float64); ok {
		text := number(done)
		if total, ok := fields["total"].(float64); ok {
			text += "/" + number(total)
		}
		parts = append(parts, text)
	}
	if message, ok := fields["message"].(string); ok && message != "" {
		parts = append(parts, oneNote(message))
	}
	return strings.Join(parts, " ")
}

func number(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) || math.Abs(f) > 1e15 {
		return fmt.Sprint(f)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
