package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/policy"
	"github.com/bridged/bridged/pkg/tracing"
)

// An Auditor keeps a log of a session's calls. Its methods may be called from
// many goroutines, and must not block: each call waits for them.
type Auditor interface {
	// Admit is asked before a call, of which it is told all that is known by
	// then. Its error refuses the call, and is told to the code. After nil,
	// Record follows.
	Admit(CallRecord) error
	// Record takes in a call that is over: of a tool, or of a method of the
	// protocol's that code can make use of.
	Record(CallRecord)
	// RecordAnswer takes in what a person said who was asked about a call.
	RecordAnswer(CallRecord)
}

// The outcomes of a call. Others are the codes of an [Error].
const (
	OutcomeOK        = "ok"
	OutcomeToolError = "tool_error" // the result says isError
	OutcomeTimeout   = "timeout"
	OutcomeUnknown   = "unknown"   // the server failed during the call
	OutcomeCancelled = "cancelled" // whoever wanted the result gave up
)

// The outcomes of a question. One that its caller gave up is OutcomeCancelled.
const (
	OutcomeAllowed = "allowed"
	OutcomeAlways  = "allowed_always" // for the tool in the session
	OutcomeRefused = "refused"
	OutcomeExpired = "expired" // nobody answered
)

// A CallRecord is what an audit is told of a call.
type CallRecord struct {
	ID           uint64 // of the call, among those of the proxy; an answer has that of its call
	Server, Tool string
	Arguments    json.RawMessage   // one JSON object, the receiver's to keep and not to change
	Mask         *strings.Replacer // takes the server's own secrets out of a text; may be nil
	Began        time.Time
	Duration     time.Duration
	Outcome      string
	Rule         string   // that denied the call, if one did
	In, Out      int64    // bytes of arguments and of the result
	Sources      []string // servers whose results the session had read by then
	Trace        string   // id of the trace that the call is part of; "" for none
}

// audited has do make the call, which is traced and recorded however it ends.
func (c *toolCall) audited(ctx context.Context, do func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if err := c.auditable(); err != nil {
		return nil, err
	}
	ctx, span := c.startSpan(ctx)
	c.trace = tracing.ID(ctx)
	result, err := do(ctx)
	if a := c.session.opts.Audit; a == nil && !span.On() {
		return result, err
	}
	outcome, rule := outcomeOf(result, err)
	c.endSpan(span, outcome, err)
	c.record(outcome, rule, len(result))
	return result, err
}

// auditable asks the session's audit for leave to make the call.
func (c *toolCall) auditable() error {
	if a := c.session.opts.Audit; a != nil {
		c.id = c.session.proxy.lastCall.Add(1)
		began := CallRecord{ID: c.id, Server: c.target.server.Name, Tool: c.tool, Arguments: c.arguments, Mask: c.target.mask, Began: c.began, In: int64(len(c.arguments))}
		if err := a.Admit(began); err != nil {
			return errorf(CodeBusy, "The call of %s on server %s was not made: %v. Tell the user; until that is mended no call is made.",
				clip(c.tool, 100), c.target.server.Name, err)
		}
	}
	return nil
}

// record notes the call and its outcome.
func (c *toolCall) record(outcome, rule string, out int) {
	a := c.session.opts.Audit
	if a == nil {
		return
	}
	r := c.recordOf(c.began)
	r.Outcome, r.Rule, r.Out = outcome, rule, int64(out)
	a.Record(r)
}

// recordOf is what all records of the call have in common.
func (c *toolCall) recordOf(began time.Time) CallRecord {
	sources := c.read
	if c.leave == nil { // it was not admitted
		sources = c.session.ledger.Servers()
	}
	return CallRecord{
		ID: c.id, Server: c.target.server.Name, Tool: c.tool, Arguments: c.arguments, Mask: c.target.mask,
		Began: began, Duration: time.Since(began), In: int64(len(c.arguments)), Sources: sources, Trace: c.trace,
	}
}

// recordAnswer notes what a person said of the call, whom a rule has asked.
func (c *toolCall) recordAnswer(rule string, asked time.Time, answer policy.Answer, err error) {
	a := c.session.opts.Audit
	if a == nil || errors.Is(err, policy.ErrFlood) { // then nobody was asked
		return
	}
	r := c.recordOf(asked)
	r.Rule = rule
	switch {
	case errors.Is(err, policy.ErrExpired):
		r.Outcome = OutcomeExpired
	case err != nil:
		r.Outcome = OutcomeCancelled
	case answer.Allow && answer.Always:
		r.Outcome = OutcomeAlways
	case answer.Allow:
		r.Outcome = OutcomeAllowed
	default:
		r.Outcome = OutcomeRefused
	}
	a.RecordAnswer(r)
}

// outcomeOf sums up what came of a call, and which rule denied it.
func outcomeOf(result json.RawMessage, err error) (outcome, rule string) {
	e, told := errors.AsType[*Error](err)
	switch {
	case err == nil && saysError(result):
		return OutcomeToolError, ""
	case err == nil:
		return OutcomeOK, ""
	case !told && errors.Is(err, context.DeadlineExceeded):
		return OutcomeTimeout, ""
	case !told:
		return OutcomeCancelled, ""
	case e.Code == CodeTimeout:
		return OutcomeTimeout, ""
	case e.Code == CodeOutcomeUnknown:
		return OutcomeUnknown, ""
	}
	var data struct {
		Rule string `json:"rule"`
	}
	_ = json.Unmarshal(e.Data, &data) // most errors have no data, or other
	return e.Code, data.Rule
}

var isErrorKey = []byte(`"isError"`)

// saysError reports whether a result says that the tool failed. Results are
// large at times, and few have the key at all: the others are not decoded. Text
// can't contain it as it is looked for, since its quotes are escaped.
func saysError(result json.RawMessage) bool {
	for rest := []byte(result); ; {
		i := bytes.Index(rest, isErrorKey)
		if i < 0 {
			return false
		}
		rest = bytes.TrimLeft(rest[i+len(isErrorKey):], " \t\r\n")
		value, colon := bytes.CutPrefix(rest, []byte(":"))
		if colon && bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("true")) {
			break
		}
	}
	var top struct {
		IsError bool `json:"isError"`
	}
	return json.Unmarshal(result, &top) == nil && top.IsError
}
