package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bridged/bridged/pkg/policy"
	"github.com/bridged/bridged/pkg/tracing"
)

const (
	// maxShown bounds what a person is shown of a call's arguments, in bytes, and
	// maxInDialog the same where a client shows it in a dialog.
	maxShown    = 4000
	maxInDialog = 1200
)

// confirm has a person asked about a call, unless that is settled already. It
// returns an *Error when the person, or nobody, says no, and ctx's cause when
// that ends first. The call's own time limit begins afterwards.
func (c *toolCall) confirm(ctx context.Context, d policy.Decision, why string) error {
	s, server := c.session, c.target.server.Name
	if s.ledger.Allowed(d.Rule, server, c.tool) {
		return nil
	}
	if err := c.checkInTime(ctx); err != nil { // nobody should be asked about what can't be done
		return err
	}
	if err := c.fits(); err != nil {
		return err
	}
	if s.opts.Waits != nil {
		defer s.opts.Waits()()
	}
	rules := s.proxy.opts.Policy
	q, asked := c.question(d, why), time.Now()
	ctx, span := tracing.Start(ctx, "ask user")
	defer span.End()
	answer, err := s.proxy.opts.Approvals.Ask(ctx, q, rules.ConfirmTimeout(), func(ctx context.Context, id string) { c.askAgent(ctx, id, q) })
	c.recordAnswer(d.Rule, asked, answer, err)
	switch {
	case errors.Is(err, policy.ErrExpired):
		return c.denied(d, fmt.Sprintf("%s Nobody allowed it within %s (policy.confirm_timeout).", why, rules.ConfirmTimeout()))
	case errors.Is(err, policy.ErrFlood):
		return c.flooded(d, err)
	case err != nil:
		return err
	case !answer.Allow:
		return c.denied(d, why+" The user was asked and said no.")
	}
	if answer.Always {
		s.ledger.Always(d.Rule, server, c.tool)
	}
	s.proxy.opts.Logger.Info().Str("server", server).Str("tool", clip(c.tool, 100)).Str("rule", ruleAt(d)).Bool("always", answer.Always).Msg("user allowed call")
	return nil
}

// question is the call as a person is shown it.
func (c *toolCall) question(d policy.Decision, why string) policy.Question {
	s := c.session
	return policy.Question{
		Scope: s.id, Session: policy.Plain(s.opts.Label, 100), Client: policy.Plain(s.client(), 100), Project: policy.Plain(s.project, 500),
		Server: policy.Plain(c.target.server.Name, 200), Tool: policy.Plain(c.tool, 200),
		Arguments: policy.PlainJSON([]byte(c.target.mask.Replace(string(c.arguments))), maxShown),
		Rule:      d.Rule, Why: policy.Plain(why+d.Reason, 500),
	}
}

// The answers that a person chooses from in the agent's client.
const (
	answerOnce   = "allow this call"
	answerAlways = "allow this tool for the session"
	answerNo     = "deny"
)

// answerSchema is the form of the question.
var answerSchema = json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string","title":"Answer","enum":["` +
	answerOnce + `","` + answerAlways + `","` + answerNo + `"]}},"required":["answer"]}`)

// askAgent has the person asked by the agent's client. When that can't ask, the
// person is told where the question waits.
func (c *toolCall) askAgent(ctx context.Context, id string, q policy.Question) {
	s := c.session
	action, content, err := s.Elicit(ctx, askText(q), answerSchema)
	if err != nil {
		if ctx.Err() == nil {
			s.proxy.opts.Logger.Info().Str("id", id).Str("server", q.Server).Str("tool", q.Tool).Err(err).Msg("call waits for bridged approvals")
			s.opts.Agent.Note(fmt.Sprintf("waiting for the user to run: bridged approvals allow %s (or deny)", id))
		}
		return
	}
	var form struct {
		Answer string `json:"answer"`
	}
	if action == "accept" {
		_ = json.Unmarshal(content, &form) // no answer is a no
	}
	answer := policy.Answer{Allow: form.Answer == answerOnce || form.Answer == answerAlways, Always: form.Answer == answerAlways}
	if err := s.proxy.opts.Approvals.Answer(id, answer); err != nil {
		s.proxy.opts.Logger.Debug().Str("id", id).Err(err).Msg("late answer")
	}
}

func askText(q policy.Question) string {
	text := fmt.Sprintf("bridged: code of the agent wants to call %s on server %s.\n%s\nArguments: %s", q.Tool, q.Server, q.Why, q.Arguments)
	return clip(text, maxInDialog+len(q.Why)+len(q.Tool)+len(q.Server))
}

// flooded is the error of a call that nobody can be asked about now.
func (c *toolCall) flooded(d policy.Decision, err error) *Error {
	e := errorf(CodeBusy, "%s has the user asked about %s on server %s, and %v. The call was not made. Make fewer such calls at once.",
		d.Rule, clip(c.tool, 100), c.target.server.Name, err)
	e.Data = c.ruleData(d)
	c.logRefusal("delay call", d.Rule, e)
	return e
}
