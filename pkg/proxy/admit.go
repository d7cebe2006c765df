package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
)

// An admission is what the operator's rules made of one call.
type admission struct {
	decision policy.Decision
	leave    func()    // gives back its turn; nil while it has none
	entered  time.Time // when the rules let it go on
	read     []string  // servers whose results the session had read by then
	sent     bool      // the server may have said something to it
}

// subject is the call as rules see it.
func (s *Session) subject(t *target, tool string) policy.Subject {
	return policy.Subject{Server: t.server.Name, Tool: tool, Client: s.client(), Project: s.project}
}

// client is the name that the agent gives itself.
func (s *Session) client() string {
	if s.opts.Client == nil {
		return ""
	}
	return s.opts.Client()
}

// admit asks the operator's rules. It returns an *Error when they refuse, and
// ctx's cause when that ends while the call waits. What the rules let through
// has to be settled.
func (c *toolCall) admit(ctx context.Context) error {
	s := c.session
	d := s.proxy.opts.Policy.Decide(s.subject(c.target, c.tool), c.arguments)
	c.decision = d
	if d.Action == policy.Deny {
		return c.denied(d, c.refusal(d))
	}
	flow, from := s.ledger.Flow(c.target.server.Name, c.tool)
	if flow.Action == policy.Deny {
		return c.denied(flow, c.flowRefusal(flow, from))
	}
	if d.ReadOnly != nil {
		if err := c.readsOnly(ctx, *d.ReadOnly); err != nil {
			return err
		}
	}
	if err := c.unpinned(ctx); err != nil {
		return err
	}
	if d.Action == policy.Confirm && !c.spared(d) {
		if err := c.confirm(ctx, d, fmt.Sprintf("%s wants the user to be asked before %s on server %s is called.", d.Rule, clip(c.tool, 100), c.target.server.Name)); err != nil {
			return err
		}
	}
	if flow.Action == policy.Confirm {
		if err := c.confirm(ctx, flow, c.flowQuestion(flow, from)); err != nil {
			return err
		}
	}
	return c.enter(ctx)
}

// spared reports whether the agent's own configuration answers for the person.
func (c *toolCall) spared(d policy.Decision) bool {
	return d.Spared && c.target.server.Approves(c.tool)
}

// readsOnly refuses tools that don't say of themselves that they only read.
func (c *toolCall) readsOnly(ctx context.Context, d policy.Decision) error {
	if err := c.checkInTime(ctx); err != nil {
		return err
	}
	if c.definition != nil && c.definition.ReadOnly {
		return nil
	}
	return c.denied(d, fmt.Sprintf("%s lets only those tools of server %s be called that say that they only read (readOnlyHint), and %s does not.",
		d.Rule, c.target.server.Name, clip(c.tool, 100)))
}

// checkInTime is check for rules that need the tool's definition.
func (c *toolCall) checkInTime(ctx context.Context) error {
	limit, setting := c.timeLimit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, lateBy(limit, setting))
	defer cancel()
	if err := c.check(ctx); err != nil {
		return c.backend.explain(ctx, c.tool, err)
	}
	return nil
}

// enter waits for the call's turn under the rules' limits, and counts it.
func (c *toolCall) enter(ctx context.Context) error {
	limit, _ := c.timeLimit()
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	leave, err := c.decision.Enter(waiting)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if busy, ok := errors.AsType[*policy.BusyError](err); ok {
		return c.busy(busy)
	}
	if err != nil {
		return err
	}
	if err := c.session.ledger.Begin(); err != nil {
		leave()
		return c.spent(err)
	}
	c.leave, c.entered, c.read = leave, time.Now(), c.session.ledger.Servers()
	return nil
}

// settle takes in the outcome of a call that was admitted, and returns what
// the sandbox gets of it.
func (c *toolCall) settle(result json.RawMessage, err error) (json.RawMessage, error) {
	c.leave()
	s, most := c.session, c.decision.MaxResult
	s.ledger.End(len(c.arguments)+len(result), time.Since(c.entered))
	if most.Value == 0 || int64(len(result)) <= most.Value {
		if c.sent {
			s.ledger.Read(c.target.server.Name, c.tool)
		}
		return result, err
	}
	e := errorf(CodeTooLarge, "Server %s answered the call of %s with %d bytes, and %s lets through %d. The call was made. Ask for less, or in parts.",
		c.target.server.Name, clip(c.tool, 100), len(result), most.Rule, most.Value)
	e.Data = c.ruleData(policy.Decision{Rule: most.Rule})
	c.logRefusal("refuse result", most.Rule, e)
	return nil, e
}

// under has the rules decide on one of the protocol's own requests, which for
// them is a tool called name that only reads, and makes it.
func (o *offer) under(ctx context.Context, name string, params json.RawMessage, do func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	c := &toolCall{
		session: o.session, target: o.target, tool: name, arguments: params, began: time.Now(),
		builtin: true, admission: admission{sent: true}, definition: &discovery.Tool{Name: name, ReadOnly: true},
	}
	return c.audited(ctx, func(ctx context.Context) (json.RawMessage, error) { return c.settled(ctx, do) })
}

// settled makes a request that is no tool's call, if the rules let it through.
func (c *toolCall) settled(ctx context.Context, do func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if err := c.admit(ctx); err != nil {
		return nil, err
	}
	if rule := c.decision.Timeout; rule.Value > 0 {
		timed, cancel := c.session.timed(ctx, c.target, rule.Value, rule.Rule)
		defer cancel()
		ctx = timed
	}
	return c.settle(do(ctx))
}

// loadTool is what rules call the loading of a server by code.
const loadTool = "servers/load"

// mayLoad refuses servers that a rule keeps code from loading. The default does
// not count: loading alone calls nothing.
func (s *Session) mayLoad(names []string) error {
	v := s.look()
	for _, name := range names {
		t, err := s.find(v, name)
		if err != nil {
			continue // whoever loads it says so
		}
		c := &toolCall{session: s, target: t, tool: loadTool, builtin: true}
		d := s.proxy.opts.Policy.Decide(s.subject(t, loadTool), json.RawMessage("{}"))
		if d.Action == policy.Deny && d.Rule != policy.DefaultRule {
			return c.denied(d, fmt.Sprintf("%s does not let code load server %s.", d.Rule, t.server.Name))
		}
	}
	return nil
}

// visible replaces the tools that no call could reach by what says so.
func (s *Session) visible(t *target, tools []discovery.Tool) []discovery.Tool {
	var shown []discovery.Tool // nil as long as it is the same
	for i, tool := range tools {
		why, withheld := s.withheld(t, tool.Name)
		if !withheld {
			continue
		}
		if shown == nil {
			shown = slices.Clone(tools)
		}
		shown[i] = bare(tool.Name, why)
		shown[i].Server = tool.Server
	}
	if shown == nil {
		return tools
	}
	return shown
}

// realPath follows links as far as it can.
func realPath(path string) string {
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		return followed
	}
	return path
}
