//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/ops"
)

// ask asks the daemon's operations socket. The caller closes the answer's body.
func (h *home) ask(path string) (*http.Response, error) {
	var d net.Dialer
	c := http.Client{Timeout: waitTime, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "unix", h.ops())
	}}}
	return c.Get("http://bridged" + path)
}

// get returns the body of an answer, which must be a good one.
func (h *home) get(t testing.TB, path string) string {
	t.Helper()
	resp, err := h.ask(path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s, %v", path, resp.StatusCode, text, err)
	}
	return string(text)
}

// eventsUntil returns the daemon's events up to one that is wanted.
func (h *home) eventsUntil(t testing.TB, wanted func(ops.Event) bool) []ops.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	enough := errors.New("enough")
	var got []ops.Event
	err := ops.Follow(ctx, h.ops(), ops.FollowOptions{Recent: 1000}, func(e ops.Event) error {
		if got = append(got, e); wanted(e) {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatalf("after %+v: %v", got, err)
	}
	return got
}

// TestOperations looks at what a daemon tells of what an agent does.
func TestOperations(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_POOL_WARM=1")
	h.servers(t, map[string]any{"everything": map[string]any{"command": "mcp-server-everything", "env": map[string]string{"KEY": "hunter2"}}})
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("secret = 'hunter2'; print(await mcp_everything.echo(message=secret))", "everything")
	a.call(map[string]any{"code": "1/0", "session": "second"})
	var s ops.Status
	d.until(t, "its engine has told what sandboxes use", func() bool {
		status := h.get(t, "/status")
		fitsSchema(t, h, status)
		s = ops.Status{}
		if err := json.Unmarshal([]byte(status), &s); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(s.Sandboxes, func(v ops.Sandbox) bool { return v.Usage == nil })
	})
	for _, v := range s.Sandboxes {
		if v.Usage.MemoryBytes < 1<<20 || v.Usage.CPUSeconds <= 0 || v.Usage.PIDs < 1 {
			t.Errorf("sandbox %s uses %+v", v.ID, v.Usage)
		}
	}
	if v := s.Sessions[0]; v.MemoryBytes == nil || *v.MemoryBytes < 1<<20 || v.CPUSeconds == nil {
		t.Errorf("session: %+v", v)
	}
	if err := a.Close(); err != nil { // the client kills a shim whose session takes two seconds to end
		t.Logf("closing the shim: %v", err)
	}
	events := h.eventsUntil(t, func(e ops.Event) bool { return e.Type == ops.SessionClosed })
	checkEvents(t, events, s)
	checkMetrics(t, h, d)
	text, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "1/0", "ZeroDivision"} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
}

func fitsSchema(t *testing.T, h *home, status string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(h.get(t, "/status.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("status.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("status.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(status))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%v: %s", err, status)
	}
}

// checkEvents compares events of one session with what it did.
func checkEvents(t *testing.T, events []ops.Event, s ops.Status) {
	t.Helper()
	session, count := s.Sessions[0].ID, map[ops.EventType]int{}
	for _, e := range events {
		count[e.Type]++
		switch e.Type {
		case ops.RunBegun, ops.RunEnded, ops.CallBegun, ops.CallEnded:
			if e.Session != session || e.Client != "test 1" {
				t.Errorf("%+v, want session %s of test 1", e, session)
			}
		case ops.EngineFound:
			if !strings.Contains(e.Detail, s.Engine.Version) {
				t.Errorf("%+v, want %s", e, s.Engine.Version)
			}
		case ops.ServerStarted:
			if e.Server != "everything" || e.Reason != "first" || e.Duration <= 0 {
				t.Errorf("%+v", e)
			}
		}
	}
	for kind, want := range map[ops.EventType]int{
		ops.SessionOpened: 1, ops.SessionClosed: 1, ops.RunBegun: 2, ops.RunEnded: 2,
		ops.CallBegun: 1, ops.CallEnded: 1, ops.ServerStarted: 1, ops.SandboxLeased: 2,
	} {
		if count[kind] != want {
			t.Errorf("%d events %s, want %d: %+v", count[kind], kind, want, events)
		}
	}
	if count[ops.EngineFound] < 1 || count[ops.EngineFound] != count[ops.EngineLost]+1 { // a slow machine may lose it for a while
		t.Errorf("the engine was found %d times and lost %d times", count[ops.EngineFound], count[ops.EngineLost])
	}
	find := func(kind ops.EventType, ok func(ops.Event) bool) ops.Event {
		i := slices.IndexFunc(events, func(e ops.Event) bool { return e.Type == kind && ok(e) })
		if i < 0 {
			t.Errorf("no such %s in %+v", kind, events)
			return ops.Event{}
		}
		return events[i]
	}
	begun := find(ops.RunBegun, func(e ops.Event) bool { return e.Python == "" })
	if e := find(ops.RunEnded, func(e ops.Event) bool { return e.Run == begun.Run }); e.Status != "ok" || e.Duration <= 0 || e.Sandbox == "" {
		t.Errorf("%+v, want ok", e)
	}
	if e := find(ops.RunEnded, func(e ops.Event) bool { return e.Python == "second" }); e.Status != "error" {
		t.Errorf("%+v, want an error", e)
	}
	begun = find(ops.CallBegun, func(e ops.Event) bool { return e.Server == "everything" && e.Tool == "echo" })
	if e := find(ops.CallEnded, func(e ops.Event) bool { return e.Call == begun.Call }); e.Outcome != "ok" || e.Duration <= 0 {
		t.Errorf("%+v, want ok", e)
	}
}

// checkMetrics looks for the numbers of what the session did, which come a moment
// after it.
func checkMetrics(t *testing.T, h *home, d *daemon) {
	t.Helper()
	wanted := []string{
		`bridged_ready 1`, `bridged_engine_up 1`, `bridged_pool_target_sandboxes 1`, `bridged_sessions 0`,
		`bridged_run_duration_seconds_count{status="ok"} 1`, `bridged_run_duration_seconds_count{status="error"} 1`,
		`bridged_sandbox_lease_wait_seconds_count 2`,
		`bridged_server_calls_total{outcome="ok",server="everything"} 1`,
		`bridged_server_call_duration_seconds_count{server="everything"} 1`,
		`bridged_server_request_bytes_total{server="everything"} 21`, // {"message":"hunter2"}
		`bridged_server_starts_total{server="everything"} 1`, `bridged_server_restarts_total{server="everything"} 0`,
		`bridged_sandboxes_ended_total{reason="closed"} 2`, `bridged_sandboxes_ended_total{reason="stuck"} 0`,
		`bridged_sandbox_frames_refused_total 0`, `bridged_agent_messages_refused_total 0`, `bridged_servers{state="started"} 1`,
	}
	var text string
	d.until(t, "the metrics have settled", func() bool {
		text = h.get(t, "/metrics")
		wanted = slices.DeleteFunc(wanted, func(line string) bool { return strings.Contains(text, "\n"+line+"\n") })
		if len(wanted) > 0 {
			t.Logf("not yet: %v", wanted)
		}
		return len(wanted) == 0
	})
	for _, busy := range []string{"agent_received", "agent_sent", "sandbox_received", "sandbox_sent"} {
		if strings.Contains(text, "\nbridged_"+busy+"_bytes_total 0\n") {
			t.Errorf("no bytes: %s", busy)
		}
	}
}

// TestOperationsOverAPort asks a daemon without an engine over TCP.
func TestOperationsOverAPort(t *testing.T) {
	taken, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", engines.Port(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	h := newHome(t, "MCP_BRIDGE_RUNTIME=unix:///nowhere/engine.sock", "MCP_BRIDGE_OPS_LISTEN="+taken.Addr().String(), "MCP_BRIDGE_OPS_PPROF=true")
	d := h.serve(t)
	d.until(t, "it says that the port is taken", func() bool { return strings.Contains(d.status(t).Ops.Error, "address already in use") })
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	d.until(t, "it has the port", func() bool { return d.status(t).Ops.Address != "" })
	at := d.status(t).Ops
	if at.Error != "" || !at.Profiles || at.Address != taken.Addr().String() || !strings.HasPrefix(at.URL, "http://bridged.localhost:") {
		t.Errorf("status: %+v", at)
	}
	info, err := os.Stat(at.TokenFile)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%s: %v, %v", at.TokenFile, info, err)
	}
	token, err := os.ReadFile(at.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		path, token string
		code        int
		say         string
	}{
		{"/healthz", "", http.StatusOK, "ok"},
		{"/readyz", "", http.StatusUnauthorized, "token"},
		{"/status", "wrong", http.StatusUnauthorized, "token"},
		{"/readyz", string(token), http.StatusServiceUnavailable, "/nowhere/engine.sock"},
		{"/status", string(token), http.StatusOK, `"ready": false`},
		{"/metrics", string(token), http.StatusOK, "bridged_engine_up 0"},
		{"/debug/pprof/heap?debug=1", string(token), http.StatusOK, "heap profile"},
		{"/approvals", string(token), http.StatusOK, "[]"},
		{"/catalog", string(token), http.StatusNotFound, ""},
	} {
		req, err := http.NewRequest(http.MethodGet, "http://"+at.Address+row.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if row.token != "" {
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(row.token))
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != row.code || !strings.Contains(string(text), row.say) {
			t.Errorf("%s: %d %.300s, %v; want %d with %q", row.path, resp.StatusCode, text, err, row.code, row.say)
		}
	}
	out, err := h.command(bridged, "status").CombinedOutput()
	if !strings.Contains(string(out), at.URL+", token in "+at.TokenFile) {
		t.Errorf("bridged status: %v, %s", err, out)
	}
}
