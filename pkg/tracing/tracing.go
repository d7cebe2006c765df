package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope names this program as the maker of its spans.
const Scope = "github.com/bridged/bridged"

// The attributes of OpenTelemetry's conventions that spans have.
const (
	Method    = attribute.Key("mcp.method.name")
	Protocol  = attribute.Key("mcp.protocol.version")
	SessionID = attribute.Key("mcp.session.id") // the connection as logs name it; the whole id is a secret
	Operation = attribute.Key("gen_ai.operation.name")
	Tool      = attribute.Key("gen_ai.tool.name")
	RequestID = attribute.Key("jsonrpc.request.id")
	ErrorType = attribute.Key("error.type")
	Status    = attribute.Key("rpc.response.status_code")
	Transport = attribute.Key("network.transport")
	Address   = attribute.Key("server.address")
	Port      = attribute.Key("server.port")
)

// The attributes of our own.
const (
	Server     = attribute.Key("bridged.server")      // the MCP server's name in the configuration
	Outcome    = attribute.Key("bridged.outcome")     // of a call or a run, in the audit log's words
	Source     = attribute.Key("bridged.lease")       // "session", "warm" or "cold"
	Sandbox    = attribute.Key("bridged.sandbox")     // its id
	Killed     = attribute.Key("bridged.run.killed")  // the interpreter is gone, and the session's state with it
	TimeLimit  = attribute.Key("bridged.run.limit_s") // of the run, in seconds
	RetryCause = attribute.Key("bridged.retry.cause") // "not_sent", or "lost" for what only reads
)

// ExecuteTool is the value of [Operation] for tools' calls.
const ExecuteTool = "execute_tool"

// traced reports whether spans below ctx's are recorded. One that has ended still
// has children: what a run has left going makes calls.
func traced(ctx context.Context) (trace.Span, bool) {
	span := trace.SpanFromContext(ctx)
	sc := span.SpanContext()
	return span, sc.IsSampled() && !sc.IsRemote()
}

// A Tracer begins traces. Nil is none.
type Tracer = trace.Tracer

// Start begins a span below ctx's; the caller must End it. If that one is not
// recorded, neither is this, and ctx is returned as it is.
func Start(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, trace.SpanKindInternal)
}

// StartClient is [Start] for what is asked of another process.
func StartClient(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, trace.SpanKindClient)
}

func start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, Span) {
	parent, ok := traced(ctx)
	if !ok {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, Span{span: span}
}

// Serve begins the span of a request that is served: below ctx's, which may be
// another process's, or as the first of a new trace.
func Serve(ctx context.Context, tracer Tracer, name string) (context.Context, Span) {
	if tracer == nil {
		return ctx, Span{}
	}
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return ctx, Span{}
	}
	return ctx, Span{span: span}
}

// A Span is one that is recorded; the zero value is none, and all its methods do
// nothing.
type Span struct {
	span  trace.Span
	ended time.Time // zero means that End says when
}

// On reports whether the span is recorded: whether it is worth to find out what
// it should say.
func (s Span) On() bool { return s.span != nil }

// End ends the span.
func (s Span) End() {
	switch {
	case !s.On():
	case s.ended.IsZero():
		s.span.End()
	default:
		s.span.End(trace.WithTimestamp(s.ended))
	}
}

// Text sets an attribute. An empty value is none.
func (s Span) Text(key attribute.Key, value string) {
	if s.On() && value != "" {
		s.span.SetAttributes(key.String(value))
	}
}

// Int sets an attribute.
func (s Span) Int(key attribute.Key, value int) {
	if s.On() {
		s.span.SetAttributes(key.Int(value))
	}
}

// True sets an attribute to true.
func (s Span) True(key attribute.Key) {
	if s.On() {
		s.span.SetAttributes(key.Bool(true))
	}
}

// Fail says that what the span stands for failed, and in what way: a word of a
// fixed set. An empty one is no failure.
func (s Span) Fail(kind string) {
	if s.On() && kind != "" {
		s.span.SetAttributes(ErrorType.String(kind))
		s.span.SetStatus(codes.Error, kind)
	}
}

// Rename gives the span the name that it should have had.
func (s Span) Rename(name string) {
	if s.On() {
		s.span.SetName(name)
	}
}

// Event notes that something happened meanwhile.
func (s Span) Event(name string, key attribute.Key, value string) {
	if s.On() {
		s.span.AddEvent(name, trace.WithAttributes(key.String(value)))
	}
}

// Past records a span below ctx's of something that is over.
func Past(ctx context.Context, name string, began, ended time.Time) Span {
	parent, ok := traced(ctx)
	if !ok {
		return Span{}
	}
	_, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name, trace.WithTimestamp(began))
	return Span{span: span, ended: ended}
}

// Current returns ctx's span, if it is recorded.
func Current(ctx context.Context) Span {
	if span, ok := traced(ctx); ok {
		return Span{span: span}
	}
	return Span{}
}

// Carry returns to with the trace of from: for work that outlives the context of
// who has asked for it.
func Carry(to, from context.Context) context.Context {
	return With(to, trace.SpanFromContext(from))
}

// With returns ctx with a span, or as it is if that is of no trace.
func With(ctx context.Context, span trace.Span) context.Context {
	if span == nil || !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// Hide returns ctx without its trace.
func Hide(ctx context.Context) context.Context {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, nil)
}

// ID returns the id of ctx's trace as text, "" if there is none. It is known also
// where nothing is recorded, if the agent has sent one.
func ID(ctx context.Context) string {
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}
