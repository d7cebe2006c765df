package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/policy"
)

// denied is the error of a call that a rule refuses. It is logged: the person
// whose rule it is should see that it works.
func (c *toolCall) denied(d policy.Decision, text string) *Error {
	if d.Reason != "" {
		text += " " + sentence(d.Reason)
	}
	e := errorf(CodeDenied, "%s The call was not made. This is a rule of the user's configuration: don't look for a way around it; tell the user if the call is needed.", text)
	e.Data = c.ruleData(d)
	c.logRefusal("deny call", ruleAt(d), e)
	return e
}

// refusal says that a rule, or the default, denies the call.
func (c *toolCall) refusal(d policy.Decision) string {
	return fmt.Sprintf("%s does not let %s on server %s be called%s.", d.Rule, clip(c.tool, 100), c.target.server.Name, c.how())
}

// how tells that other arguments may be permitted.
func (c *toolCall) how() string {
	if c.session.proxy.opts.Policy.Hides(c.session.subject(c.target, c.tool)) {
		return ""
	}
	return " with these arguments"
}

func (c *toolCall) flowRefusal(d policy.Decision, from policy.Source) string {
	return fmt.Sprintf("%s does not let what this session has read of server %s (tool %s) get to server %s, and the call of %s could carry it. "+
		"Code in another session that has not read it may make the call.", d.Rule, from.Server, clip(from.Tool, 100), c.target.server.Name, clip(c.tool, 100))
}

func (c *toolCall) flowQuestion(d policy.Decision, from policy.Source) string {
	return fmt.Sprintf("%s wants the user to be asked: this session has read results of server %s (tool %s), and the call of %s could carry them to server %s.",
		d.Rule, from.Server, clip(from.Tool, 100), clip(c.tool, 100), c.target.server.Name)
}

// busy is the error of a call that has to be made later.
func (c *toolCall) busy(b *policy.BusyError) *Error {
	text := fmt.Sprintf("%s lets %s on server %s be called %s, and there are more calls. This one was not made.", b.Rule, clip(c.tool, 100), c.target.server.Name, b.What)
	if b.After > 0 {
		text += fmt.Sprintf(" Make it in %s again, and fewer of them.", b.After.Round(time.Second).String())
	} else {
		text += " Wait for the others, and make fewer at once."
	}
	e := &Error{Code: CodeBusy, Message: text, Data: c.ruleData(policy.Decision{Rule: b.Rule})}
	c.logRefusal("delay call", b.Rule, e)
	return e
}

// spent is the error of a call beyond the session's budget.
func (c *toolCall) spent(err error) *Error {
	budget, ok := err.(*policy.BudgetError) //nolint:errorlint // the ledger returns nothing else
	if !ok {
		return errorf(CodeDenied, "%v", err)
	}
	return c.denied(policy.Decision{Rule: budget.Rule}, fmt.Sprintf("This session has used up what %s lets it call (%s).", budget.Rule, budget.Used))
}

// ruleData is the data of an error that a rule is the reason of.
func (c *toolCall) ruleData(d policy.Decision) json.RawMessage {
	raw, err := reply(struct {
		Server string `json:"server"`
		Tool   string `json:"tool"`
		Rule   string `json:"rule"`
		Reason string `json:"reason,omitempty"`
	}{c.target.server.Name, c.tool, d.Rule, d.Reason})
	if err != nil {
		return nil // texts can always be written
	}
	return raw
}

func (c *toolCall) logRefusal(what, rule string, e *Error) {
	c.session.proxy.opts.Logger.Info().Str("server", c.target.server.Name).Str("tool", clip(c.tool, 100)).Str("rule", rule).
		Str("client", clip(c.session.client(), 100)).Str("project", c.session.project).Str("code", e.Code).Msg(what)
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

// ruleAt names a rule for a person, with the place where it stands.
func ruleAt(d policy.Decision) string {
	if d.Where == "" {
		return d.Rule
	}
	return d.Rule + " (" + d.Where + ")"
}
