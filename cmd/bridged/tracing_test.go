package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bridged/bridged/pkg/tracing"
)

func TestWhenTracesAreMade(t *testing.T) {
	for _, row := range []struct {
		name, endpoint string
		env            map[string]string
		on             bool
		why            string
	}{
		{name: "nothing said"},
		{name: "by the configuration", endpoint: "http://localhost:4318", on: true},
		{name: "by the address in the environment", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, on: true},
		{name: "by that of traces", env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, on: true},
		{name: "by the exporter", env: map[string]string{"OTEL_TRACES_EXPORTER": "console, otlp"}, on: true},
		{name: "no exporter", env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}},
		{name: "another exporter", env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, why: "only otlp"},
		{name: "switched off for all", env: map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}},
		{name: "switched off against the configuration", endpoint: "http://x", env: map[string]string{"OTEL_SDK_DISABLED": "true"}, why: "OTEL_SDK_DISABLED"},
		{name: "switched off by the configuration", endpoint: "off", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}},
		{name: "gRPC", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, why: "port 4318"},
		{name: "gRPC for others", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, on: true},
	} {
		c := defaultConfig()
		c.Trace.Endpoint = word(row.endpoint)
		on, why := c.traceSetting(func(name string) string { return row.env[name] })
		if on != row.on || !strings.Contains(why, row.why) || (row.why == "") != (why == "") {
			t.Errorf("%s: got %v because %q, want %v and %q", row.name, on, why, row.on, row.why)
		}
	}
}

func TestWrongTraceSettingsAreRefused(t *testing.T) {
	wantRefused(t, "[trace]\nendpoint = \"localhost:4318\"\n", "trace.endpoint", "http://localhost:4318")
	wantRefused(t, "[trace]\nendpoint = \"http://user:canary@localhost\"\n", "trace.headers")
	wantRefused(t, "[trace]\nheaders = [\"canary\"]\n", "trace.headers, number 1", "NAME=VALUE")
	wantRefused(t, "[trace]\nsample = 2\n", "from 0 to 1")
	for _, file := range []string{"[trace]\nendpoint = \"http://u:canary@x\"\n", "[trace]\nheaders = [\"a b=canary\"]\n"} {
		if _, err := loadConfig(flagsFor(t, "--config", writeConfig(t, file)), env()); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("got %v, want an error that tells no secret", err)
		}
	}
}

// A collector takes spans over HTTP, as its answer says.
type collector struct {
	*httptest.Server
	answer func(w http.ResponseWriter)

	mu      sync.Mutex // guards the fields below
	headers http.Header
	path    string
	spans   []string // names
}

func newCollector(t *testing.T, answer func(w http.ResponseWriter)) *collector {
	t.Helper()
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var req coltracepb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(text, &req) != nil {
			t.Errorf("got a body of %d bytes that is no OTLP: %v", len(text), err)
		}
		c.mu.Lock()
		c.headers, c.path = r.Header, r.URL.Path
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					c.spans = append(c.spans, s.Name)
				}
			}
		}
		c.mu.Unlock()
		answer(w)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// traceTo returns what traces to a collector.
func traceTo(t *testing.T, c *config) *traces {
	t.Helper()
	tr, err := startTraces(c, func(string) string { return "" }, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// patientTraceTo returns what waits, at its end, for a collector on a machine that
// has other things to do.
func patientTraceTo(t *testing.T, c *config) *traces {
	t.Helper()
	tr := traceTo(t, c)
	tr.patience = soon
	return tr
}

func TestSpansReachTheCollector(t *testing.T) {
	got := newCollector(t, func(http.ResponseWriter) {})
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("Bearer secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := defaultConfig()
	c.Trace.Endpoint, c.Trace.Headers = word(got.URL), wordList{"Authorization=file:" + key, "X-Team=a=b"}
	tr := patientTraceTo(t, c)
	ctx, call := tracing.Serve(t.Context(), tr.tracer(), "call")
	_, run := tracing.Start(ctx, "run")
	run.End()
	call.End()
	tr.close()
	if names := strings.Join(got.names(), " "); names != "run call" || got.path != "/v1/traces" {
		t.Errorf("got spans %q at %s", names, got.path)
	}
	if got.headers.Get("Authorization") != "Bearer secret" || got.headers.Get("X-Team") != "a=b" {
		t.Errorf("got headers %v", got.headers)
	}
	if s := tr.status(); s.Exported != 2 || s.Waiting != 0 || s.Failed != 0 || s.Dropped != 0 || s.Error != "" {
		t.Errorf("got status %+v", s)
	}
	if off := traceTo(t, defaultConfig()); off.tracer() != nil || off.status() != nil {
		t.Error("traces are made though nobody wants them")
	}
}

// A collector that takes nothing costs a bounded number of spans in memory, the
// others are counted, and the daemon's end does not wait for it.
func TestACollectorThatHangsCostsNothingButSpans(t *testing.T) {
	release := make(chan struct{})
	got := newCollector(t, func(http.ResponseWriter) { <-release })
	defer close(release)
	c := defaultConfig()
	c.Trace.Endpoint = word(got.URL)
	tr := traceTo(t, c)
	const more = 100
	for range maxSpans + more {
		_, span := tracing.Serve(context.Background(), tr.tracer(), "call")
		span.End()
	}
	if s := tr.status(); s.Dropped != more || s.Waiting != maxSpans {
		t.Errorf("got status %+v, want %d dropped", s, more)
	}
	ended := make(chan struct{})
	go func() { tr.close(); close(ended) }() // ends after flushTimeout
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the end waits for the collector")
	}
}

func TestACollectorThatRefusesIsTold(t *testing.T) {
	got := newCollector(t, func(w http.ResponseWriter) { http.Error(w, "no such tenant", http.StatusForbidden) })
	c := defaultConfig()
	c.Trace.Endpoint = word(got.URL + "/otlp/v1/traces")
	tr := patientTraceTo(t, c)
	_, span := tracing.Serve(t.Context(), tr.tracer(), "call")
	span.End()
	tr.close()
	if s := tr.status(); s.Failed != 1 || !strings.Contains(s.Error, "403") || got.path != "/otlp/v1/traces" {
		t.Errorf("got status %+v at %s", s, got.path)
	}
}

// What traces agents have begun decides over theirs, and the share over ours.
func TestAShareOfTracesIsMade(t *testing.T) {
	got := newCollector(t, func(http.ResponseWriter) {})
	c := defaultConfig()
	c.Trace.Endpoint, c.Trace.Sample = word(got.URL), ratio{given: true}
	tr := patientTraceTo(t, c)
	_, ours := tracing.Serve(t.Context(), tr.tracer(), "ours")
	ours.End()
	meta := tracing.FromMeta(t.Context(), map[string]json.RawMessage{"traceparent": json.RawMessage(`"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"`)})
	_, theirs := tracing.Serve(meta, tr.tracer(), "theirs")
	theirs.End()
	tr.close()
	if names := strings.Join(got.names(), " "); names != "theirs" {
		t.Errorf("got spans %q", names)
	}
}
