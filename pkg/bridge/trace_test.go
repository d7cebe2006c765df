package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/bridged/bridged/pkg/sandbox"
	"github.com/bridged/bridged/pkg/tracing"
)

// tracer returns a tracer, and what gives the spans that have ended.
func tracer() (tracing.Tracer, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	return sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test"), spans
}

// spansNamed waits for the ended spans of a name.
func spansNamed(t *testing.T, spans *tracetest.InMemoryExporter, name string, n int) []tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		found = nil
		for _, s := range spans.GetSpans() {
			if s.Name == name {
				found = append(found, s)
			}
		}
		if len(found) == n {
			return found
		}
	}
	t.Fatalf("got %d spans %q, want %d", len(found), name, n)
	return nil
}

const agentsParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestACallsTraceIsBelowTheAgents(t *testing.T) {
	tr, spans := tracer()
	var seen string
	b := &bench{run: func(ctx context.Context, _ sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		_, run := tracing.Start(ctx, "run")
		run.End()
		seen = tracing.ID(ctx)
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	}}
	_, path := start(t, b.open, Options{Tracer: tr})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"canary"},"_meta":{"traceparent":"` +
		agentsParent + `","tracestate":"vendor=1","baggage":"user=alice"}}}`)
	a.recv()
	call := spansNamed(t, spans, "tools/call run_python", 1)[0]
	turn, run := spansNamed(t, spans, "wait for turn", 1)[0], spansNamed(t, spans, "run", 1)[0]
	if call.Parent.SpanID().String() != "00f067aa0ba902b7" || seen != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("the call is below %s, the run in trace %s", call.Parent.SpanID(), seen)
	}
	if id := call.SpanContext.SpanID(); turn.Parent.SpanID() != id || run.Parent.SpanID() != id {
		t.Errorf("the turn is below %s and the run below %s, want %s", turn.Parent.SpanID(), run.Parent.SpanID(), id)
	}
	if text := fmt.Sprint(spans.GetSpans()); strings.Contains(text, "canary") || strings.Contains(text, "alice") {
		t.Errorf("the spans hold what they must not: %s", text)
	}
}

func TestCallsSpansTellHowTheyEnd(t *testing.T) {
	tr, spans := tracer()
	started := make(chan struct{}, 1)
	b := &bench{run: func(ctx context.Context, req sandbox.Request, out func(sandbox.Output)) (sandbox.Result, error) {
		switch req.Code {
		case "fail":
			return sandbox.Result{Status: sandbox.StatusError, Error: &sandbox.PyError{Type: "ValueError"}}, nil
		case "nothing":
			return sandbox.Result{}, errors.New("no sandbox")
		case "cancel":
			return untilCancelled(started)(ctx, req, out)
		}
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	}}
	_, path := start(t, b.open, Options{Tracer: tr})
	a := connect(t, path, Hello{})
	for i, row := range []struct{ line, want string }{
		{callLine("1", `{"code":"x"}`), "Unset"},
		{callLine("2", `{"code":"fail"}`), "Error tool_error"},
		{callLine("3", `{"code":"nothing"}`), "Error tool_error"},
		{callLine("4", `{"code":7}`), "Error tool_error"},
		{`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"other"}}`, "Error -32602"},
		{callLine("6", `{"code":"cancel"}`), "Error cancelled"},
	} {
		a.send(row.line)
		if strings.Contains(row.line, "cancel") {
			<-started
			a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`)
		} else {
			a.recv()
		}
		s := spansNamed(t, spans, "tools/call run_python", i+1)[i]
		if got := strings.TrimSpace(s.Status.Code.String() + " " + s.Status.Description); got != row.want {
			t.Errorf("%s: got %s, want %s", row.line, got, row.want)
		}
	}
}

// Without a tracer, what the agent sends is for servers all the same.
func TestWithoutATracerTheAgentsContextIsCarried(t *testing.T) {
	var meta string
	b := &bench{run: func(ctx context.Context, _ sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		meta = string(tracing.AppendMeta(ctx, nil))
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	}}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	for _, more := range []string{"", `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`} {
		a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"x"},"_meta":{"traceparent":"` + agentsParent + `"` + more + `}}}`)
		a.recv()
		if want := `,"traceparent":"` + agentsParent + `"`; meta != want {
			t.Errorf("got %s, want %s", meta, want)
		}
	}
}
