package tracing

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const (
	parent  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
)

// metaOf writes a _meta with texts.
func metaOf(t *testing.T, pairs ...string) map[string]json.RawMessage {
	t.Helper()
	meta := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		text, err := json.Marshal(pairs[i+1])
		if err != nil {
			t.Fatal(err)
		}
		meta[pairs[i]] = text
	}
	return meta
}

func TestAnAgentsContextIsTakenAndPassedOn(t *testing.T) {
	ctx := FromMeta(t.Context(), metaOf(t, "traceparent", parent, "tracestate", `vendor=a"b,other=c`, "baggage", "user=alice"))
	if got := ID(ctx); got != traceID {
		t.Errorf("the trace is %q", got)
	}
	added := string(AppendMeta(ctx, nil))
	if want := `,"traceparent":"` + parent + `","tracestate":"vendor=a\"b,other=c"`; added != want {
		t.Errorf("got %s, want %s", added, want)
	}
	h := http.Header{"Tracestate": {"old=1"}}
	SetHeaders(ctx, h)
	if h.Get("traceparent") != parent || h.Get("tracestate") != `vendor=a"b,other=c` || h.Get("baggage") != "" {
		t.Errorf("got %v", h)
	}
	if got := AppendMeta(Hide(ctx), nil); got != nil {
		t.Errorf("a hidden trace is told: %s", got)
	}
	if got := ID(Carry(context.Background(), ctx)); got != traceID {
		t.Errorf("carried, the trace is %q", got)
	}
}

func TestAContextThatIsNoneIsLeftOut(t *testing.T) {
	for name, text := range map[string]string{
		"empty":               "",
		"zeros for a trace":   "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"zeros for a span":    "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"capitals":            strings.ToUpper(parent),
		"too short":           parent[:54],
		"more than version 0": parent + "-x",
		"version ff":          "ff" + parent[2:],
		"no hex":              strings.Replace(parent, "4b", "zz", 1),
		"very long":           parent + strings.Repeat("-", 1000),
	} {
		if ctx := FromMeta(t.Context(), metaOf(t, "traceparent", text)); ID(ctx) != "" || ctx != t.Context() {
			t.Errorf("%s: %q is taken", name, text)
		}
	}
	for name, raw := range map[string]string{"a number": "7", "null": "null", "an object": "{}", "a broken text": `"\ud800`} {
		if ID(FromMeta(t.Context(), map[string]json.RawMessage{"traceparent": json.RawMessage(raw)})) != "" {
			t.Errorf("%s is taken", name)
		}
	}
	long := metaOf(t, "traceparent", parent, "tracestate", strings.Repeat("k=v,", 200)+"k=v")
	if got := string(AppendMeta(FromMeta(t.Context(), long), nil)); strings.Contains(got, "tracestate") || !strings.Contains(got, parent) {
		t.Errorf("a state that is too long: %s", got)
	}
	if got := string(AppendMeta(FromMeta(t.Context(), metaOf(t, "traceparent", "01"+parent[2:]+"-more")), nil)); !strings.Contains(got, parent) {
		t.Errorf("of a later version, what we know of it: %s", got)
	}
}

func TestParametersGetTheContext(t *testing.T) {
	ctx := FromMeta(t.Context(), metaOf(t, "traceparent", parent))
	for before, want := range map[string]string{
		"":                            `{"_meta":{"traceparent":"` + parent + `"}}`,
		`{"uri":"<a>"}`:               `{"_meta":{"traceparent":"` + parent + `"},"uri":"<a>"}`,
		`{"n":1.0,"_meta":{"p":1e2}}`: `{"_meta":{"p":1e2,"traceparent":"` + parent + `"},"n":1.0}`,
		`[1]`:                         `[1]`,
		`{"_meta":7}`:                 `{"_meta":7}`,
	} {
		var params json.RawMessage
		if before != "" {
			params = json.RawMessage(before)
		}
		if got := string(AddMeta(ctx, params)); got != want {
			t.Errorf("%s: got %s, want %s", before, got, want)
		}
	}
	if got := AddMeta(t.Context(), nil); got != nil {
		t.Errorf("without a trace: %s", got)
	}
}

// newTracer returns a tracer, and what gives its spans in the order of their ends.
func newTracer(t *testing.T, o ...sdktrace.TracerProviderOption) (Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(append(o, sdktrace.WithSyncer(spans))...)
	return p.Tracer("test"), spans
}

func TestSpansHangTogether(t *testing.T) {
	tracer, spans := newTracer(t)
	ctx := FromMeta(t.Context(), metaOf(t, "traceparent", parent, "tracestate", "vendor=1"))
	ctx, call := Serve(ctx, tracer, "call")
	runCtx, run := Start(ctx, "run")
	run.Fail("timeout")
	run.Event("retry", RetryCause, "lost")
	run.End()
	_, late := StartClient(runCtx, "late") // its parent has ended
	late.Rename("later")
	late.End()
	began := time.Now().Add(-time.Hour)
	past := Past(ctx, "past", began, began.Add(time.Minute))
	past.End()
	call.End()
	got := spans.GetSpans()
	if len(got) != 4 {
		t.Fatalf("got %d spans", len(got))
	}
	for i, want := range []struct{ name, parent string }{{"run", "call"}, {"later", "run"}, {"past", "call"}, {"call", ""}} {
		s := got[i]
		parentName := ""
		for _, p := range got {
			if p.SpanContext.SpanID() == s.Parent.SpanID() {
				parentName = p.Name
			}
		}
		if s.Name != want.name || parentName != want.parent || s.SpanContext.TraceID().String() != traceID || s.SpanContext.TraceState().String() != "vendor=1" {
			t.Errorf("span %d: got %s below %q of %s, want %+v", i, s.Name, parentName, s.SpanContext.TraceID(), want)
		}
	}
	if root := got[3]; root.Parent.SpanID().String() != "00f067aa0ba902b7" || !root.Parent.IsRemote() || root.SpanKind != trace.SpanKindServer {
		t.Errorf("the first is below %s", root.Parent.SpanID())
	}
	if got[1].SpanKind != trace.SpanKindClient || got[2].EndTime.Sub(got[2].StartTime) != time.Minute || len(got[0].Events) != 1 {
		t.Errorf("got %+v", got)
	}
}

// A trace that is not recorded is told on, with our span in it and its flag off.
func TestATraceThatIsNotRecordedIsTold(t *testing.T) {
	tracer, spans := newTracer(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, call := Serve(t.Context(), tracer, "call")
	_, run := Start(ctx, "run")
	if call.On() || run.On() {
		t.Error("they are recorded")
	}
	call.End()
	if got := string(AppendMeta(ctx, nil)); !strings.HasSuffix(got, `-00"`) || len(spans.GetSpans()) != 0 {
		t.Errorf("told %s, recorded %v", got, spans.GetSpans())
	}
}

// Off, and with an agent's context alone, nothing is recorded and the calls below
// allocate nothing.
func TestOffCostsNothing(t *testing.T) {
	background := context.Background()
	params := json.RawMessage(`{"name":"run_python","arguments":{"code":"x"}}`)
	for name, ctx := range map[string]context.Context{
		"nothing": background, "an agent's": FromMeta(background, metaOf(t, "traceparent", parent)),
	} {
		n := testing.AllocsPerRun(100, func() {
			if HasMeta(params) {
				t.Error("it has none")
			}
			inner, root := Serve(ctx, nil, "call")
			inner, span := Start(inner, "run")
			span.Text(Outcome, "ok")
			span.Fail("")
			span.End()
			_, client := StartClient(inner, "tools/call")
			client.Event("retry", RetryCause, "lost")
			client.End()
			Current(inner).Int(Port, 1)
			past := Past(inner, "start", time.Time{}, time.Time{})
			past.End()
			root.End()
			if name == "nothing" {
				_ = Carry(background, inner)
				_ = Hide(inner)
				_ = ID(inner)
				_ = AppendMeta(inner, nil)
				_ = AddMeta(inner, params)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkOff is what tracing costs a call when it is off.
func BenchmarkOff(b *testing.B) {
	params := json.RawMessage(`{"name":"run_python","arguments":{"code":"x"}}`)
	b.ReportAllocs()
	for b.Loop() {
		ctx := context.Background()
		if HasMeta(params) {
			b.Fatal("it has none")
		}
		ctx, root := Serve(ctx, nil, "call")
		ctx, run := Start(ctx, "run")
		_, call := StartClient(Carry(ctx, ctx), "tools/call")
		_ = AppendMeta(ctx, nil)
		call.End()
		run.End()
		root.End()
	}
}
