package sandbox

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/bridged/bridged/pkg/tracing"
)

// spansOf runs code once below a span of its own, and returns what ended: the
// lease and the run.
func spansOf(t *testing.T, s *Session, req Request) (lease, run tracetest.SpanStub) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	ctx, call := tracing.Serve(t.Context(), sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test"), "call")
	defer call.End()
	if _, err := s.Run(ctx, req, nil); err != nil {
		t.Fatal(err)
	}
	got := spans.GetSpans()
	if len(got) != 2 || got[0].Name != "lease sandbox" || got[1].Name != "run code" {
		t.Fatalf("got spans %v", got)
	}
	for _, span := range got {
		if span.Parent.SpanID() != trace.SpanContextFromContext(ctx).SpanID() {
			t.Errorf("%s is not below the call", span.Name)
		}
	}
	return got[0], got[1]
}

// words joins the values of a span's attributes.
func words(s tracetest.SpanStub) string {
	var list []string
	for _, a := range s.Attributes {
		if a.Key != tracing.Sandbox {
			list = append(list, string(a.Key)+"="+a.Value.String())
		}
	}
	return strings.Join(list, " ")
}

func TestALeaseAndARunAreTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{Warm: 1, Max: 3})
		synctest.Wait()
		e.Delay("create", time.Second)
		first, second := NewSession(p, SessionOptions{}), NewSession(p, SessionOptions{})
		defer first.Close()
		defer second.Close()
		for _, row := range []struct {
			session    *Session
			code       string
			lease, run string
			failed     string
		}{
			{first, "1", "bridged.lease=warm", "bridged.run.limit_s=30 bridged.outcome=ok", ""},
			{second, "1", "bridged.lease=cold", "bridged.run.limit_s=30 bridged.outcome=ok", ""},
			{first, "sleep", "bridged.lease=session", "bridged.run.limit_s=1 bridged.outcome=timeout error.type=timeout", "timeout"},
			{first, "ignore", "bridged.lease=session", "bridged.run.limit_s=1 bridged.outcome=timeout error.type=timeout bridged.run.killed=true", "timeout"},
		} {
			req := Request{Code: row.code}
			if row.failed != "" {
				req.Timeout = time.Second
			}
			lease, run := spansOf(t, row.session, req)
			if got := words(lease); got != row.lease {
				t.Errorf("%s: the lease is %s, want %s", row.code, got, row.lease)
			}
			if got := words(run); got != row.run || run.Status.Description != row.failed {
				t.Errorf("%s: the run is %s (%s), want %s", row.code, got, run.Status.Description, row.run)
			}
		}
	})
}

// Calls are part of the trace of the run that makes them, and those of background
// code of the last.
func TestCallsArePartOfTheRunsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := launchFake(t, func(h *fakeHarness) int {
			f, _ := h.until("run")
			h.line(`{"t":"rpc","id":1,"method":"within","params":{}}`)
			h.until("reply")
			h.done(f.Run)
			h.line(`{"t":"rpc","id":2,"method":"behind","params":{}}`)
			h.until("reply")
			return interpreter(h)
		})
		seen := make(chan trace.SpanContext, 2)
		s.calls.bind(rpcFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			seen <- trace.SpanContextFromContext(ctx)
			return json.RawMessage(`1`), nil
		}))
		spans := tracetest.NewInMemoryExporter()
		ctx, call := tracing.Serve(t.Context(), sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test"), "call")
		defer call.End()
		s.traced(ctx, request("calls"), nil)
		within, behind := <-seen, <-seen
		run := spans.GetSpans()[0].SpanContext
		if within.SpanID() != run.SpanID() || behind.SpanID() != run.SpanID() {
			t.Errorf("the calls are below %s and %s, the run is %s", within.SpanID(), behind.SpanID(), run.SpanID())
		}
	})
}
