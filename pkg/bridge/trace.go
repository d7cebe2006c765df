package bridge

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/tracing"
)

// traced begins a tool call's span, below the agent's own if it has sent one in
// _meta. Where nothing is traced, ctx carries that one on all the same.
func (s *session) traced(ctx context.Context, m message) (context.Context, tracing.Span) {
	if tracing.HasMeta(m.params) {
		ctx = tracing.FromMeta(ctx, metaOf(m.params))
	}
	ctx, span := tracing.Serve(ctx, s.srv.opts.Tracer, string(mcp.MethodToolsCall)+" "+toolName)
	if span.On() {
		span.Text(tracing.Method, string(mcp.MethodToolsCall))
		span.Text(tracing.Operation, tracing.ExecuteTool)
		span.Text(tracing.Tool, toolName)
		span.Text(tracing.SessionID, s.id[:8])
		span.Text(tracing.RequestID, strings.Trim(string(m.id), `"`))
		span.Text(tracing.Protocol, s.client.ProtocolVersion())
		span.Text(tracing.Transport, "pipe")
		s.log.Debug().Str("trace", tracing.ID(ctx)).Msg("call")
	}
	return ctx, span
}

// metaOf returns the members of a request's _meta. Names are compared exactly.
func metaOf(params json.RawMessage) map[string]json.RawMessage {
	var members, meta map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil || json.Unmarshal(members["_meta"], &meta) != nil {
		return nil
	}
	return meta
}

// endSpan ends a tool call's span with what its answer says.
func endSpan(span tracing.Span, reply any, cancelled bool) {
	if !span.On() {
		return
	}
	a, _ := reply.(answer)
	switch result, _ := a.Result.(*mcp.CallToolResult); {
	case cancelled:
		span.Fail("cancelled")
	case a.Error != nil:
		code := strconv.Itoa(codeOf(a.Error))
		span.Text(tracing.Status, code)
		span.Fail(code)
	case result != nil && result.IsError:
		span.Fail("tool_error")
	}
	span.End()
}

// codeOf returns the code of an answer's error.
func codeOf(failed any) int {
	switch e := failed.(type) {
	case wireError:
		return e.Code
	case mcp.JSONRPCErrorDetails:
		return e.Code
	}
	return codeInternal
}
