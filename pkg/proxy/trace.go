package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/tracing"
)

// startSpan begins the call's span. Which tools there are is not known yet, so
// that it has no tool in its name, which code makes up, before endSpan.
func (c *toolCall) startSpan(ctx context.Context) (context.Context, tracing.Span) {
	method := string(mcp.MethodToolsCall)
	if c.builtin {
		method = c.tool
	}
	ctx, span := tracing.StartClient(ctx, method)
	if !span.On() {
		return ctx, span
	}
	t := c.target
	span.Text(tracing.Method, method)
	span.Text(tracing.Server, clip(t.server.Name, 200))
	if !c.builtin {
		span.Text(tracing.Operation, tracing.ExecuteTool)
		span.Text(tracing.Tool, clip(c.tool, 100))
	}
	if t.server.Transport == discovery.Stdio {
		span.Text(tracing.Transport, "pipe")
		return ctx, span
	}
	span.Text(tracing.Transport, "tcp")
	if t.remote != nil {
		span.Text(tracing.Address, t.remote.url.Hostname())
		span.Int(tracing.Port, portOf(t.remote.url.Scheme, t.remote.url.Port()))
	}
	return ctx, span
}

// portOf returns the port of a URL's host, or the scheme's.
func portOf(scheme, port string) int {
	if n, err := strconv.Atoi(port); err == nil {
		return n
	}
	if scheme == "http" {
		return 80
	}
	return 443
}

// endSpan ends the call's span.
func (c *toolCall) endSpan(span tracing.Span, outcome string, err error) {
	if !span.On() {
		return
	}
	if c.definition != nil && !c.builtin {
		span.Rename(string(mcp.MethodToolsCall) + " " + clip(c.tool, 100))
	}
	span.Text(tracing.Outcome, outcome)
	kind := outcome
	if code := refusalCode(err); code != "" {
		span.Text(tracing.Status, code)
		kind = code
	}
	if outcome != OutcomeOK {
		span.Fail(kind)
	}
	span.End()
}

// refusalCode returns the code of a server's own JSON-RPC error, "" if err is
// something else.
func refusalCode(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != CodeUpstream || e.Data == nil {
		return ""
	}
	var data struct {
		Code *int64 `json:"code"`
	}
	if json.Unmarshal(e.Data, &data) != nil || data.Code == nil {
		return ""
	}
	return strconv.FormatInt(*data.Code, 10)
}

// retryCause is why a call is made once more.
func retryCause(err error) string {
	if lost(err) {
		return "lost"
	}
	return "not_sent"
}

// traceStart records the start of the server that a call has waited for since a
// time, if one has ended meanwhile. A start is everybody's who waits for it, so
// that it is no call's own, and known only when it is over.
func (b *backend) traceStart(ctx context.Context, since time.Time) {
	if !tracing.Current(ctx).On() {
		return
	}
	b.mu.Lock()
	began, ended, failed := b.startBegan, b.startEnded, b.up == nil
	b.mu.Unlock()
	if ended.Before(since) || ended.Before(began) {
		return
	}
	if began.Before(since) {
		began = since
	}
	span := tracing.Past(ctx, "start server", began, ended)
	span.Text(tracing.Server, clip(b.name, 200))
	if failed {
		span.Fail(CodeServerFailed)
	}
	span.End()
}

// outward is ctx as far as servers may know of it.
func (b *backend) outward(ctx context.Context) context.Context {
	if b.proxy.opts.HideTrace {
		return tracing.Hide(ctx)
	}
	return ctx
}
