package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The keys in _meta, which are those of the W3C's headers.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
	baggage     = "baggage"
)

const (
	// maxParent bounds a traceparent, in bytes: later versions may be longer than
	// the 55 of the first.
	maxParent = 128

	// maxState bounds a tracestate, in bytes. The W3C wants 512 to be passed on.
	maxState = 512
)

// IsMetaKey reports whether a key in _meta is one of a trace's context.
func IsMetaKey(key string) bool {
	return key == traceparent || key == tracestate || key == baggage
}

// HasMeta reports whether a request's parameters may hold a trace context. It is
// quick, and tells no lies but for texts that quote the key.
func HasMeta(params []byte) bool { return bytes.Contains(params, []byte(`"`+traceparent+`"`)) }

// FromMeta returns ctx with the trace context that _meta holds, as another
// process's. What is not of the W3C's form counts as absent, and so does all
// baggage: it is for others than us, and may say more of the user than MCP
// servers should know.
func FromMeta(ctx context.Context, meta map[string]json.RawMessage) context.Context {
	parent := textOf(meta[traceparent], maxParent)
	if parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
		traceparent: parent, tracestate: textOf(meta[tracestate], maxState),
	})
}

// textOf returns a JSON string of bounded length, "" if it is none.
func textOf(raw json.RawMessage, limit int) string {
	var text string
	if len(raw) > 6*limit || len(raw) == 0 || json.Unmarshal(raw, &text) != nil || len(text) > limit {
		return ""
	}
	return text
}

// AppendMeta appends the members of _meta that tell a server of ctx's trace, each
// with a comma before it. Without a trace it appends nothing.
func AppendMeta(ctx context.Context, b []byte) []byte {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return b
	}
	b = fmt.Appendf(b, `,%q:%q`, traceparent, parentOf(sc))
	if state := sc.TraceState().String(); state != "" {
		if text, err := json.Marshal(state); err == nil { // a string always marshals
			b = fmt.Appendf(b, `,%q:%s`, tracestate, text)
		}
	}
	return b
}

// AddMeta returns a request's parameters with what [AppendMeta] says in their
// _meta. They are one JSON object, or nil for none; ones that can't be read stay
// as they are.
func AddMeta(ctx context.Context, params json.RawMessage) json.RawMessage {
	added := AppendMeta(ctx, nil)
	if added == nil {
		return params
	}
	added = append(append([]byte("{"), added[1:]...), '}')
	members, meta := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if params != nil && (json.Unmarshal(params, &members) != nil || members == nil) {
		return params
	}
	if raw, ok := members["_meta"]; ok && json.Unmarshal(raw, &meta) != nil {
		return params
	}
	if json.Unmarshal(added, &meta) != nil {
		return params
	}
	var err error
	if members["_meta"], err = json.Marshal(meta); err != nil {
		return params
	}
	whole, err := encode(members)
	if err != nil {
		return params
	}
	return whole
}

// encode writes v and leaves HTML's characters as they are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding parameters: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// SetHeaders tells an HTTP server of ctx's trace, if there is one.
func SetHeaders(ctx context.Context, h http.Header) {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return
	}
	h.Set(traceparent, parentOf(sc))
	h.Del(tracestate)
	if state := sc.TraceState().String(); state != "" {
		h.Set(tracestate, state)
	}
}

// parentOf writes a traceparent of version 00.
func parentOf(sc trace.SpanContext) string {
	return fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags()&(trace.FlagsSampled|trace.FlagsRandom))
}
