package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/bridged/bridged/pkg/tracing"
)

// tracedRun returns a context as that of a run's calls, and what gives the spans
// that have ended below it.
func tracedRun(t *testing.T) (context.Context, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, cancel := context.WithTimeout(t.Context(), 2*hang)
	t.Cleanup(cancel)
	ctx, span := tracing.Serve(ctx, p.Tracer("test"), "run")
	t.Cleanup(span.End)
	return ctx, spans
}

// told is a span as the tests compare it.
func told(s tracetest.SpanStub, keys ...attribute.Key) string {
	words := []string{s.Name}
	for _, key := range keys {
		for _, a := range s.Attributes {
			if a.Key == key {
				words = append(words, fmt.Sprint(a.Value.String()))
			}
		}
	}
	return strings.Join(words, " ")
}

func TestACallIsTracedAndItsServerIsTold(t *testing.T) {
	b := newBench(t)
	audit := &fakeAudit{}
	s := open(t, newProxy(t, quick()), b.server("fake", fakeConfig{Tools: fakeList([]string{"trace"})}))
	s.opts.Audit = audit
	ctx, spans := tracedRun(t)
	raw, err := askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "trace", "arguments": args{"v": "canary"}})
	if err != nil {
		t.Fatal(err)
	}
	got := spans.GetSpans()
	if len(got) != 3 {
		t.Fatalf("got spans %v", got)
	}
	start, list, call := got[0], got[1], got[2]
	if start.Name != "start server" || list.Name != "list tools" || start.Parent.SpanID() != list.SpanContext.SpanID() ||
		list.Parent.SpanID() != call.SpanContext.SpanID() || call.Parent.SpanID() != trace.SpanContextFromContext(ctx).SpanID() {
		t.Errorf("got %s, %s and %s, or with other parents", start.Name, list.Name, call.Name)
	}
	if !start.EndTime.After(start.StartTime) || start.EndTime.After(call.EndTime) || start.StartTime.Before(call.StartTime) {
		t.Errorf("the start lasts from %s to %s, and the call from %s to %s", start.StartTime, start.EndTime, call.StartTime, call.EndTime)
	}
	words := told(call, tracing.Method, tracing.Operation, tracing.Tool, tracing.Server, tracing.Outcome, tracing.Transport, tracing.Protocol)
	if want := "tools/call trace tools/call execute_tool trace fake ok pipe 2025-11-25"; words != want || call.SpanKind != trace.SpanKindClient {
		t.Errorf("got %s, want %s", words, want)
	}
	want := fmt.Sprintf("00-%s-%s-01 ", call.SpanContext.TraceID(), call.SpanContext.SpanID())
	if text := textOf(t, raw); text != want {
		t.Errorf("the server was told %q, want %q", text, want)
	}
	if record := audit.last(t); record.Trace != call.SpanContext.TraceID().String() {
		t.Errorf("the record's trace is %q", record.Trace)
	}
	if text := fmt.Sprint(got); strings.Contains(text, "canary") {
		t.Errorf("the spans hold an argument: %s", text)
	}
}

func TestSpansTellHowCallsEnd(t *testing.T) {
	b := newBench(t)
	o := quick()
	o.Settings = []Setting{{RetryReads: []string{"exit"}}}
	s := open(t, newProxy(t, o), b.server("fake", fakeConfig{}))
	must(t, s, "echo", args{}) // starts it
	for _, row := range []struct{ tool, want string }{
		{"echo", "tools/call echo ok"},
		{"raw", "tools/call raw tool_error tool_error"},
		{"refuse", "tools/call refuse upstream -32001 -32001"},
		{"made up by code", "tools/call unknown_tool unknown_tool"},
		{"hang", "tools/call hang timeout timeout"},
		{"exit", "tools/call exit unknown unknown"},
	} {
		limitCalls(s, time.Minute)
		if row.tool == "hang" {
			limitCalls(s, 300*time.Millisecond)
		}
		ctx, spans := tracedRun(t)
		_, _ = askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": row.tool, "arguments": args{"raw": failing}}) // the span tells
		got := spans.GetSpans()
		call := got[len(got)-1]
		if words := told(call, tracing.Outcome, tracing.Status, tracing.ErrorType); words != row.want {
			t.Errorf("%s: got %s, want %s", row.tool, words, row.want)
		}
		if retried := len(call.Events) == 1; retried != (row.tool == "exit") {
			t.Errorf("%s: got events %v", row.tool, call.Events)
		}
		if text := fmt.Sprint(call); strings.Contains(text, "not today") {
			t.Errorf("%s: the span holds what the server said: %s", row.tool, text)
		}
	}
}

func TestOtherRequestsAreTracedAndTold(t *testing.T) {
	b := newBench(t)
	s := open(t, newProxy(t, quick()), b.server("fake", fakeConfig{Capabilities: `{"tools":{},"resources":{}}`}))
	must(t, s, "echo", args{}) // starts it
	ctx, spans := tracedRun(t)
	raw, err := askCtx(ctx, t, s, "resources.read", args{"server": "fake", "uri": "test://canary"})
	if err != nil {
		t.Fatal(err)
	}
	got := spans.GetSpans()
	if len(got) != 1 || told(got[0], tracing.Method, tracing.Tool, tracing.Outcome) != "resources/read resources/read ok" || strings.Contains(fmt.Sprint(got), "canary") {
		t.Fatalf("got %v", got)
	}
	if want := fmt.Sprintf(`"traceparent":"00-%s-%s-01"`, got[0].SpanContext.TraceID(), got[0].SpanContext.SpanID()); !strings.Contains(string(raw), want) {
		t.Errorf("the server was told %s, want %s in it", raw, want)
	}
}

func TestRemoteServersAreToldInHeadersToo(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		f := (&httpFake{Legacy: legacy}).start(t)
		s := remoteSession(t, f, quick(), nil)
		ctx, spans := tracedRun(t)
		if _, err := askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "echo", "arguments": args{}}); err != nil {
			t.Fatal(err)
		}
		got := spans.GetSpans()
		call := got[len(got)-1]
		if want := fmt.Sprintf("00-%s-%s-01", call.SpanContext.TraceID(), call.SpanContext.SpanID()); f.last("tools/call echo").Get("traceparent") != want {
			t.Errorf("the headers were %v, want %s", f.last("tools/call echo"), want)
		}
		at, err := url.Parse(f.url)
		if err != nil {
			t.Fatal(err)
		}
		if words, want := told(call, tracing.Transport, tracing.Address, tracing.Port), "tools/call echo tcp "+at.Hostname()+" "+at.Port(); words != want {
			t.Errorf("got %s, want %s", words, want)
		}
		if h := f.last("initialize"); h.Get("traceparent") != "" {
			t.Errorf("the start, which is everybody's, was told of one call's trace: %v", h)
		}
	})
}

// Without tracing the agent's own context goes through as it came, and HideTrace
// keeps all of it from servers.
func TestAnAgentsContextGoesThroughUnlessHidden(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	meta := map[string]json.RawMessage{"traceparent": json.RawMessage(strconv.Quote(parent)), "tracestate": json.RawMessage(`"a=1"`)}
	for _, hide := range []bool{false, true} {
		t.Run(fmt.Sprintf("hidden: %v", hide), func(t *testing.T) {
			b := newBench(t)
			o := quick()
			o.HideTrace = hide
			s := open(t, newProxy(t, o), b.server("fake", fakeConfig{Tools: fakeList([]string{"trace"})}))
			audit := &fakeAudit{}
			s.opts.Audit = audit
			raw, err := askCtx(tracing.FromMeta(t.Context(), meta), t, s, "tools.call", args{"server": "fake", "tool": "trace", "arguments": args{}})
			if err != nil {
				t.Fatal(err)
			}
			want := parent + " a=1"
			if hide {
				want = " "
			}
			if text := textOf(t, raw); text != want {
				t.Errorf("the server was told %q, want %q", text, want)
			}
			if record := audit.last(t); record.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" {
				t.Errorf("the record's trace is %q", record.Trace)
			}
		})
	}
}
