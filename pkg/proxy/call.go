package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// A toolCall is one tools.call on its way: what the sandbox asks, and what is
// found out about it.
type toolCall struct {
	id        uint64 // for the session's audit
	session   *Session
	target    *target
	tool      string
	arguments json.RawMessage
	began     time.Time

	// Set on the way, if the call gets that far.
	backend    *backend
	definition *discovery.Tool // nil when the server does not list the tool
	builtin    bool            // it is no tool but one of the protocol's own requests, see under
	trace      string          // id of the trace that it is part of; "" for none
	admission
}

func (s *Session) toolsCall(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	c, err := s.newCall(params)
	if err != nil {
		return nil, err
	}
	return c.audited(ctx, c.make)
}

// newCall reads a request and finds its server.
func (s *Session) newCall(params json.RawMessage) (*toolCall, error) {
	var p struct {
		Server    string          `json:"server"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := decode("tools.call", params, &p); err != nil {
		return nil, err
	}
	arguments := bytes.TrimSpace(p.Arguments)
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	if p.Tool == "" || len(p.Tool) > maxName || !isObject(arguments) {
		return nil, errorf(CodeBadRequest, "tools.call needs tool, the name of a tool, and arguments, one JSON object with an entry for each argument.")
	}
	t, err := s.serverOf("tools.call", p.Server)
	if err != nil {
		return nil, err
	}
	return &toolCall{session: s, target: t, tool: p.Tool, arguments: arguments, began: time.Now()}, nil
}

// make brings the call to its server and returns what that answers.
func (c *toolCall) make(ctx context.Context) (json.RawMessage, error) {
	s, t := c.session, c.target
	if !s.isLoaded(t.server.Name) {
		return nil, errorf(CodeNotAvailable, "Server %s is not available. Pass servers=[%q] to run_python to load it.", t.server.Name, t.server.Name)
	}
	if t.err != nil {
		return nil, t.err
	}
	b, done := s.use(t)
	defer done()
	c.backend = b
	if err := c.admit(ctx); err != nil {
		return nil, err
	}
	return c.settle(c.send(ctx))
}

// send makes a call that was admitted.
func (c *toolCall) send(ctx context.Context) (json.RawMessage, error) {
	b := c.backend
	limit, setting := c.timeLimit()
	ctx, cancel := c.session.timed(ctx, c.target, limit, setting)
	defer cancel()
	if err := c.check(ctx); err != nil {
		return nil, b.explain(ctx, c.tool, err)
	}
	if err := c.fits(); err != nil {
		return nil, err
	}
	c.sent = true
	result, err := b.call(ctx, c)
	if err == nil {
		c.learn(result)
	}
	return result, err
}

// timeLimit is how long the call may take, and where that is set.
func (c *toolCall) timeLimit() (limit time.Duration, setting string) {
	limit, setting = timeLimit(c.session.proxy, c.target)
	if rule := c.decision.Timeout; rule.Value > 0 && rule.Value < limit {
		return rule.Value, rule.Rule
	}
	return limit, setting
}

// timeLimit is how long one call of a server may take without the operator's
// rules, and where that is set.
func timeLimit(p *Proxy, t *target) (limit time.Duration, setting string) {
	if t.setting.CallTimeout > 0 {
		return t.setting.CallTimeout, "call_timeout of [[server]]"
	}
	if t.whole.CallTimeout > 0 {
		return t.whole.CallTimeout, "the server's definition"
	}
	return p.opts.CallTimeout, "servers.call_timeout"
}

// check finds the tool's definition, and refuses a call that can't succeed.
func (c *toolCall) check(ctx context.Context) error {
	if c.builtin {
		return nil
	}
	if err := c.session.checkTool(ctx, c.backend, c.target, c.tool); err != nil {
		return err
	}
	if tool, ok := c.session.proxy.opts.Catalog.Tool(c.target.ref, c.tool); ok {
		c.definition = &tool
	}
	return nil
}

// checkTool refuses tools that the server does not have. A server whose tools
// can't be listed may still be called.
func (s *Session) checkTool(ctx context.Context, b *backend, t *target, name string) error {
	catalog := s.proxy.opts.Catalog
	current := s.proxy.stock.confirmed(t.ref.Digest)
	if current && catalog.Has(t.ref, name) {
		s.proxy.freshen(t)
		return nil
	}
	if !t.server.Tools.Allows(name) {
		return errorf(CodeUnknownTool, "Tool %s of server %s is switched off in the server's configuration.", clip(name, 100), t.server.Name)
	}
	if b.unlistable() {
		return nil
	}
	if current {
		b.missed()
	}
	err := b.known(ctx)
	if catalog.Has(t.ref, name) {
		return nil
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	tools, ok := catalog.Tools(t.ref)
	if err != nil || !ok || b.incomplete() {
		return nil // the server itself will tell
	}
	return unknownTool(t, name, tools)
}

// unlistable reports whether the server's tools could never be listed. Calls
// don't wait for another attempt then; a request for the tools makes one.
func (b *backend) unlistable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.shelf.have && b.shelf.err != nil && b.shelf.listing == nil
}

// incomplete reports whether the server may have tools that it did not list.
func (b *backend) incomplete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shelf.warning != ""
}
