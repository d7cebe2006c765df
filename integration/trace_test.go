//go:build integration

package integration

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/audit"
)

// metaServer is an MCP server whose one tool tells the _meta of its call.
const metaServer = `
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}},
         "tools/list": {"tools": [{"name": "meta", "inputSchema": {"type": "object"}}]},
         "tools/call": {"content": [], "structuredContent": m.get("params", {}).get("_meta", {})}}.get(m["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

// A collector keeps the spans that it is sent over OTLP.
type collector struct {
	url string

	mu    sync.Mutex // guards the fields below
	spans []*tracepb.Span
	about []string // of the resource, as name=value
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var req coltracepb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(text, &req) != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s with %d bytes is no OTLP: %v", r.URL, len(text), err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				c.about = append(c.about, a.Key+"="+a.Value.GetStringValue())
			}
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

func (c *collector) all() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*tracepb.Span(nil), c.spans...)
}

// tree writes the spans below a parent, in the order of their begins, a line
// each: names of those above, and the values of some attributes.
func tree(spans []*tracepb.Span, parent []byte, above string, keys ...string) []string {
	var lines []string
	for _, s := range spans {
		if string(s.ParentSpanId) != string(parent) {
			continue
		}
		line := strings.TrimPrefix(above+" > "+s.Name, " > ")
		values := ""
		for _, key := range keys {
			for _, a := range s.Attributes {
				if a.Key == key {
					values += " " + a.Value.GetStringValue()
				}
			}
		}
		lines = append(lines, line+":"+values)
		lines = append(lines, tree(spans, s.SpanId, line, keys...)...)
	}
	return lines
}

// The trace of one call, from the agent to an MCP server, as a collector gets it.
func TestOneTraceFromTheAgentToTheServers(t *testing.T) {
	const (
		traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
		parent  = "00f067aa0ba902b7"
	)
	c := newCollector(t)
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_TRACE_ENDPOINT="+c.url, "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "OTEL_BSP_SCHEDULE_DELAY=100")
	h.servers(t, map[string]any{
		"meta":       map[string]any{"command": "python3", "args": []string{h.file(t, "meta.py", metaServer)}},
		"everything": map[string]any{"command": "mcp-server-everything"},
	})
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	ctx, cancel := context.WithTimeout(t.Context(), 3*waitTime)
	defer cancel()
	req := mcp.CallToolRequest{}
	req.Params.Name = "run_python"
	req.Params.Arguments = map[string]any{
		"code":    "seen = await mcp_meta.meta()\nawait mcp_everything.echo(message='canary')\n1/0 if 'canary' in str(seen) else seen",
		"servers": []string{"meta", "everything"},
	}
	req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{
		"traceparent": "00-" + traceID + "-" + parent + "-01", "tracestate": "vendor=1", "baggage": "user=alice",
	}}
	res, err := a.CallTool(ctx, req)
	if err != nil || res.IsError {
		t.Fatalf("got %v, %v", res, err)
	}
	d.until(t, "the whole trace is there", func() bool {
		for _, s := range c.all() {
			if s.Name == "tools/call run_python" {
				return true
			}
		}
		return false
	})
	spans := c.all()
	remote, err := hex.DecodeString(parent)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(tree(spans, remote, "", "gen_ai.tool.name", "bridged.server", "bridged.lease", "bridged.outcome", "error.type"), "\n")
	const call, run = "tools/call run_python", "tools/call run_python > run code"
	want := strings.Join([]string{
		call + ": run_python",
		call + " > wait for turn:",
		call + " > lease sandbox: warm",
		run + ": ok",
		run + " > list tools:", // the proxy object's, which looks for the method
		run + " > list tools > start server: meta",
		run + " > tools/call meta: meta meta ok",
		run + " > list tools:",
		run + " > list tools > start server: everything",
		run + " > tools/call echo: echo everything ok",
	}, "\n")
	if sorted(got) != sorted(want) {
		t.Errorf("got the trace\n%s\nwant\n%s", got, want)
	}
	for _, s := range spans {
		if id := hex.EncodeToString(s.TraceId); id != traceID || s.TraceState != "vendor=1" {
			t.Errorf("%s is of trace %s with state %q", s.Name, id, s.TraceState)
		}
		if s.Name == "tools/call meta" {
			checkTold(t, text(res), fmt.Sprintf("00-%s-%s-01", traceID, hex.EncodeToString(s.SpanId)))
		}
		if told := s.String(); strings.Contains(told, "canary") || strings.Contains(told, "alice") {
			t.Errorf("a span holds what it must not: %s", told)
		}
	}
	if about := strings.Join(c.about, " "); !strings.Contains(about, "service.name=bridged") || !strings.Contains(about, "deployment.environment.name=test") {
		t.Errorf("the spans are of %s", about)
	}
	d.until(t, "the spans are counted as sent", func() bool { // a moment after the collector has them
		s := d.status(t).Traces
		return s != nil && s.Exported >= int64(len(spans)) && s.Waiting == 0
	})
	if s := d.status(t).Traces; s.Dropped+s.Failed > 0 {
		t.Errorf("got status %+v", s)
	}
	checkAuditTrace(t, h, d, traceID)
}

// checkTold looks at what the server was told of the trace.
func checkTold(t *testing.T, seen, parent string) {
	t.Helper()
	if !strings.Contains(seen, parent) || !strings.Contains(seen, "vendor=1") || strings.Contains(seen, "alice") {
		t.Errorf("the server saw %s, want %s with the agent's state and no baggage", seen, parent)
	}
}

// checkAuditTrace wants the audit log's lines to name the trace.
func checkAuditTrace(t *testing.T, h *home, d *daemon, traceID string) {
	t.Helper()
	d.until(t, "the audit log names the trace in the lines of the run and its calls", func() bool {
		n := 0
		for line := range strings.Lines(h.audit(t, "--json", "--kind", "run,call")) {
			var l audit.Line
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			if l.Trace == traceID {
				n++
			}
		}
		return n == 3
	})
}

// sorted sorts lines: spans come in batches.
func sorted(lines string) string {
	list := strings.Split(lines, "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}
