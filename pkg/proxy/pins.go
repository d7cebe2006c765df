package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/policy"
)

// pinRule is what errors call the rule that refuses tools that have changed.
const pinRule = "policy.pin"

// pin compares the server's tools with what was accepted. It comes before they
// are in the catalogue, where calls find them.
func (b *backend) pin(tools []discovery.Tool) {
	pins := b.proxy.opts.Pins
	if pins == nil {
		return
	}
	raws := make(map[string]json.RawMessage, len(tools))
	for _, t := range tools {
		raws[t.Name] = t.Raw
	}
	changed, err := pins.See(b.identity, b.name, raws)
	if err != nil {
		b.log.Error().Err(err).Msg("pin tools")
	}
	for _, tool := range changed[:min(len(changed), 20)] {
		b.log.Warn().Str("tool", clip(tool, 100)).Bool("refused", pins.Strict()).Msg("definition of tool has changed")
	}
}

// unpinned refuses a tool whose definition is another than the accepted one, as
// far as the server has told.
func (c *toolCall) unpinned(ctx context.Context) error {
	pins := c.session.proxy.opts.Pins
	if pins == nil || !pins.Strict() || c.builtin {
		return nil
	}
	if err := c.current(ctx); err != nil {
		return err
	}
	if !pins.Refuses(c.target.identity, c.tool) {
		return nil
	}
	tool, server := clip(c.tool, 100), c.target.server.Name
	return c.denied(policy.Decision{Rule: pinRule}, fmt.Sprintf("Server %s has changed the definition of %s since the user accepted it. "+
		"The user sees the change with `bridged pins` and accepts it with `bridged pins accept %s %s`.", server, tool, pins.Name(c.target.identity), tool))
}

// current makes sure that the list of tools is that of now, as far as the server
// gives one in time.
func (c *toolCall) current(ctx context.Context) error {
	limit, setting := c.timeLimit()
	limited, cancel := context.WithTimeoutCause(ctx, limit, lateBy(limit, setting))
	defer cancel()
	if err := c.backend.known(limited); err != nil && limited.Err() != nil {
		return c.backend.explain(limited, c.tool, err)
	}
	return nil // a server without a list has nothing that could change
}

// withheld says why code is shown no more of a tool than its name: no call of it
// would be let through, and what it says of itself may not be accepted.
func (s *Session) withheld(t *target, tool string) (why string, is bool) {
	if pins := s.proxy.opts.Pins; pins != nil && pins.Refuses(t.identity, tool) {
		return "Its server has changed what it says of this tool. Calls are refused until the user accepts that with `bridged pins`.", true
	}
	if subject := s.subject(t, tool); s.proxy.opts.Policy.Hides(subject) {
		d := s.proxy.opts.Policy.Decide(subject, nil)
		return strings.TrimSpace("The user's configuration does not permit calls of this tool (" + d.Rule + "). " + sentence(d.Reason)), true
	}
	return "", false
}

// bare is a tool that is shown by its name alone, with the reason. It takes any
// arguments, so that a call gets as far as to be told the same.
func bare(name, why string) discovery.Tool {
	raw, err := reply(map[string]any{"name": name, "description": why, "inputSchema": map[string]any{"type": "object", "additionalProperties": true}})
	if err != nil {
		return discovery.Tool{Name: name, Description: why, Loose: true} // texts can always be written
	}
	tools, _ := discovery.ParseTools([]json.RawMessage{raw})
	return tools[0]
}
