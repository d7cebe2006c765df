//go:build integration

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/integration/rig"
	"github.com/bridged/bridged/pkg/ops"
)

func TestMain(m *testing.M) {
	// The rig knows our programs by where they are in the repository.
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	engines.Main(m)
}

const (
	// Names that would be markup if the page took them for it.
	evilClient = `<img src=x onerror="alert('client')">`
	evilServer = `<script>alert("server")</script>`

	// callTime bounds one call of the agent's.
	callTime = 10 * time.Minute
)

// A house is a daemon with an agent and a browser.
type house struct {
	*browser
	daemon *rig.Daemon
	url    string
	token  string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	r := engines.ForTest(t, engines.Rootful)
	settings := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(settings, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// The daemon gets it again after a restart, so that it can't choose one itself.
	port := strconv.Itoa(engines.Port(t))
	d, err := rig.Start(t.Context(), map[string]any{
		"everything": map[string]any{"command": "mcp-server-everything"},
		evilServer:   map[string]any{"command": "no-such-program"},
	}, "MCP_BRIDGE_RUNTIME="+r.Endpoint, "MCP_BRIDGE_IMAGE="+r.Image, "MCP_BRIDGE_IMPORTS=json",
		"BRIDGED_CONFIG="+settings, "MCP_BRIDGE_OPS_LISTEN=127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	h := &house{browser: startBrowser(t), daemon: d}
	access := h.access(t)
	h.url = access.URL
	token, err := os.ReadFile(access.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	h.token = strings.TrimSpace(string(token))
	return h
}

// access waits until the daemon answers on its port.
func (h *house) access(t *testing.T) ops.Access {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		s, err := ops.Get(t.Context(), filepath.Join(filepath.Dir(h.daemon.Socket), "ops.sock"))
		if err == nil && s.Ops.Address != "" {
			return s.Ops
		}
		if time.Now().After(end) {
			t.Fatalf("the daemon does not listen on its port: %+v, %v", s.Ops, err)
		}
	}
}

// config has a run and a call that waits last until the test ends them, on a slow
// machine too.
const config = `
[pool]
warm = 1

[run]
timeout = "15m"
max_timeout = "15m"

[policy]
confirm_timeout = "15m"

[[policy.rule]]
server = "everything"
tool = "get-sum"
action = "confirm"
`

// An agent is an MCP client of the shim.
type agent struct {
	t *testing.T
	*client.Client
}

// agent starts a shim, which ends with the test.
func (h *house) agent(t *testing.T, name string) *agent {
	t.Helper()
	shim, err := filepath.Abs("bin/bridge-shim")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewStdioMCPClientWithOptions(shim, h.daemon.Env, nil, transport.WithCommandFunc(
		func(ctx context.Context, command string, env, args []string) (*exec.Cmd, error) {
			cmd := exec.CommandContext(ctx, command, args...)
			cmd.Dir, cmd.Env = h.daemon.Dir, env
			return cmd, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may have ended
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = "2025-06-18"
	hello.Params.ClientInfo = mcp.Implementation{Name: name, Version: "1"}
	if _, err := c.Initialize(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	return &agent{t, c}
}

// begin runs code, and returns what is to be waited for.
func (a *agent) begin(ctx context.Context, code string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		var req mcp.CallToolRequest
		req.Params.Name, req.Params.Arguments = "run_python", map[string]any{
			"code": "from mcp.runtime import call_tool\n" + code, "servers": []string{"everything", evilServer},
		}
		res, err := a.CallTool(ctx, req)
		if err == nil && res.IsError {
			err = errors.New(words(res))
		}
		ended <- err
	}()
	return ended
}

// run runs code that must work.
func (a *agent) run(code string) {
	a.t.Helper()
	if err := <-a.begin(a.t.Context(), code); err != nil {
		a.t.Fatalf("%s\nfailed: %v", code, err)
	}
}

func words(res *mcp.CallToolResult) string {
	var all []string
	for _, c := range res.Content {
		if block, ok := c.(mcp.TextContent); ok {
			all = append(all, block.Text)
		}
	}
	return strings.Join(all, "\n")
}

// TestPage goes through a day of the page: each step is on what those before
// have left.
func TestPage(t *testing.T) {
	h := newHouse(t)
	steps := []struct {
		name string
		do   func(*testing.T)
	}{
		{"a token opens it", h.opens},
		{"a session and its runs", h.showsRuns},
		{"calls and servers", h.showsCalls},
		{"charts", h.showsCharts},
		{"approvals", h.asks},
		{"pausing", h.pauses},
		{"a restart of the daemon", h.restarts},
		{"looks", h.looks},
		{"a login that has ended", h.forgets},
	}
	for _, s := range steps {
		if !t.Run(s.name, s.do) {
			h.picture(t, "failed")
			t.FailNow()
		}
	}
}

func (h *house) picture(t *testing.T, name string) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("out/web", name+".png"))
	if err != nil {
		t.Fatal(err)
	}
	h.do(t, "picture", with{"file": file}, nil)
}

// clean checks that nothing has happened that never may.
func (h *house) clean(t *testing.T) {
	t.Helper()
	if trouble := get[[]string](t, h.browser, "trouble", nil); len(trouble) > 0 {
		t.Errorf("the page did what it may not:\n%s", strings.Join(trouble, "\n"))
	}
}

func (h *house) opens(t *testing.T) {
	const form = "input[name=token]"
	if code := h.open(t, with{}); code != http.StatusUnauthorized {
		t.Errorf("without a token the page comes with %d", code)
	}
	h.picture(t, "login")
	h.noBarriers(t)
	h.do(t, "fill", with{"selector": form, "text": "wrong-token-wrong-token"}, nil)
	h.do(t, "press", with{"key": "Enter"}, nil)
	h.until(t, "body", "That is not the token.")
	if n := get[int](t, h.browser, "count", with{"selector": form}); n != 1 {
		t.Errorf("%d forms after a wrong token", n)
	}
	h.do(t, "fill", with{"selector": form, "text": h.token}, nil)
	h.do(t, "press", with{"key": "Enter"}, nil)
	h.until(t, "#ready", "Ready")
	h.until(t, "#link", "Live")
	h.until(t, "#engine", "podman")
	h.until(t, "#sessions-none", "No agent")
	h.until(t, "#pool-key", "1 warm")
	h.clean(t)
}

// open opens the page and returns the code of the answer, which must have the
// headers that bind the browser.
func (h *house) open(t *testing.T, args with) int {
	t.Helper()
	args["url"] = h.url
	page := get[struct {
		Status  int
		Headers map[string]string
	}](t, h.browser, "open", args)
	for name, want := range map[string]string{
		"content-security-policy": "default-src 'none'", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
	} {
		if got := page.Headers[name]; !strings.Contains(got, want) {
			t.Errorf("the page comes with %s %q, want %s", name, got, want)
		}
	}
	return page.Status
}

func (h *house) noBarriers(t *testing.T) {
	t.Helper()
	for _, b := range get[[]string](t, h.browser, "barriers", nil) {
		t.Errorf("a barrier: %s", b)
	}
}

func (h *house) showsRuns(t *testing.T) {
	a := h.agent(t, evilClient)
	a.run("1 + 1")
	h.until(t, "#sessions th .name", evilClient)
	h.until(t, `#activity [data-kind="session_opened"]`, "opened")
	h.until(t, `#activity [data-outcome="ok"]`, "of "+evilClient)
	if err := <-a.begin(t.Context(), "raise ValueError('no')"); err == nil {
		t.Error("an error was none")
	}
	h.until(t, `#activity [data-outcome="error"]`, "error, ")

	// A run is there while it lasts: this one does until it is cancelled.
	ctx, cancel := context.WithCancel(t.Context())
	ended := a.begin(ctx, "import time\nwhile True: time.sleep(0.05)")
	h.until(t, `#activity [data-kind="run_begun"] .state`, "running")
	h.until(t, "#sessions td .state", "running")
	h.until(t, "#sessions td.number", "(1 running)")
	h.picture(t, "running")
	cancel()
	if err := <-ended; err == nil {
		t.Error("a run that was cancelled worked")
	}
	h.until(t, `#activity [data-outcome="interrupted"]`, "interrupted, ")
	if n := get[int](t, h.browser, "count", with{"selector": "main img, main script"}); n != 0 {
		t.Errorf("%d elements were made of a name", n)
	}
	h.clean(t)
}

func (h *house) showsCalls(t *testing.T) {
	a := h.agent(t, "caller")
	a.run("await call_tool('everything', 'echo', {'message': 'hello'})")
	h.until(t, `#activity [data-outcome="ok"]`, "everything.echo")
	h.until(t, `#activity [data-kind="server_started"]`, "everything started")
	h.until(t, "#servers tr", "everything")
	h.until(t, "#servers td .state", "started")
	if err := <-a.begin(t.Context(), fmt.Sprintf("await call_tool(%q, 'x', {})", evilServer)); err == nil {
		t.Error("a call of a server that can't start worked")
	}
	h.until(t, "#servers th .name", evilServer)
	h.until(t, "#servers td .state", "failed")
	h.until(t, `#activity [data-kind="server_failed"]`, evilServer)
	if n := get[int](t, h.browser, "count", with{"selector": "main img, main script"}); n != 0 {
		t.Errorf("%d elements were made of a name", n)
	}
	h.clean(t)
}

func (h *house) showsCharts(t *testing.T) {
	for _, selector := range []string{
		"#rate rect.ok", "#rate rect.not-ok", "#time circle.ok", "#time path.not-ok", "#use path.edge.leased", "#use path.edge.warm", "#pool-bar rect.warm",
	} {
		h.do(t, "until", with{"selector": selector}, nil)
	}
	for _, chart := range []struct{ selector, words string }{
		{"#rate svg", "Runs a minute: "}, {"#time svg", "How long runs took: Half took at most "}, {"#use svg", "Sandboxes in use and warm: Now "},
	} {
		label := get[string](t, h.browser, "attribute", with{"selector": chart.selector, "name": "aria-label"})
		if !strings.HasPrefix(label, chart.words) || strings.Contains(label, "NaN") || strings.Contains(label, "undefined") {
			t.Errorf("%s says %q", chart.selector, label)
		}
	}
	edge := get[string](t, h.browser, "attribute", with{"selector": "#use path.edge.leased", "name": "d"})
	if strings.Count(edge, "H") < 2 || strings.Contains(edge, "NaN") {
		t.Errorf("the pool's line is %q", edge)
	}
}

func (h *house) asks(t *testing.T) {
	a := h.agent(t, "asker")
	for _, row := range []struct {
		button, says string
		works        bool
	}{{"Deny: everything.get-sum", "You said: deny.", false}, {"Allow once: everything.get-sum", "You said: allow once.", true}} {
		ended := a.begin(t.Context(), "await call_tool('everything', 'get-sum', {'a': 2, 'b': 3})")
		h.until(t, "#approvals h3", "everything.get-sum")
		h.until(t, "#approvals pre", `"a"`)
		h.picture(t, "approval")
		h.do(t, "focus", with{"selector": fmt.Sprintf("#approvals button[aria-label=%q]", row.button)}, nil)
		h.do(t, "press", with{"key": "Enter"}, nil)
		h.until(t, "#approvals [role=status]", row.says)
		if err := <-ended; (err == nil) != row.works {
			t.Errorf("%s: the call ended with %v", row.button, err)
		}
		h.do(t, "until", with{"selector": "#approvals[hidden]"}, nil)
	}
	h.clean(t)
}

func (h *house) pauses(t *testing.T) {
	a := h.agent(t, "pauser")
	h.do(t, "focus", with{"selector": "#pause"}, nil)
	h.do(t, "press", with{"key": "Enter"}, nil)
	h.until(t, "#pause", "Resume (0 new)")
	before := get[[]string](t, h.browser, "texts", with{"selector": "#activity li"})
	a.run("'while paused'")
	h.until(t, "#sessions th .name", "pauser")
	h.until(t, "#rate-words", "runs in")
	h.do(t, "until", with{"selector": "#pause:not(:text('(0 new)'))"}, nil)
	if after := get[[]string](t, h.browser, "texts", with{"selector": "#activity li"}); len(after) != len(before) {
		t.Errorf("%d lines came while the list was paused", len(after)-len(before))
	}
	h.do(t, "press", with{"key": "Space"}, nil)
	h.until(t, "#pause", "Pause")
	h.until(t, `#activity [data-outcome="ok"]`, "of pauser")
}

func (h *house) restarts(t *testing.T) {
	h.daemon.Quit(syscall.SIGKILL)
	h.until(t, "#link", "The daemon does not answer: trying again")
	h.until(t, "#ready", "Not known")
	h.until(t, "#reason", "as it was at")
	h.picture(t, "gone")
	if err := h.daemon.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.until(t, "#link", "Live")
	h.until(t, "#activity", "The daemon was started again")
	h.until(t, "#ready", "Ready")
	h.agent(t, "afterwards").run("2 + 2")
	h.until(t, "#sessions th .name", "afterwards")
	h.until(t, `#activity [data-outcome="ok"]`, "of afterwards")
	h.clean(t)
}

// looks opens the page in light and dark, wide and narrow, each with things on it.
func (h *house) looks(t *testing.T) {
	a := h.agent(t, evilClient)
	a.run("await call_tool('everything', 'echo', {'message': 'hello'})")
	if err := <-a.begin(t.Context(), "1 / 0"); err == nil { // it is there to be red
		t.Error("an error was none")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := a.begin(ctx, "await call_tool('everything', 'get-sum', {'a': 2, 'b': 3})")
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{1400, 360} {
			t.Run(fmt.Sprintf("%s %d", scheme, width), func(t *testing.T) { h.look(t, scheme, width) })
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a run that was cancelled worked")
	}
}

func (h *house) look(t *testing.T, scheme string, width int) {
	cookies := get[[]any](t, h.browser, "cookies", nil)
	if code := h.open(t, with{"scheme": scheme, "width": width, "reduced": true, "cookies": cookies}); code != http.StatusOK {
		t.Errorf("with the cookie the page comes with %d", code)
	}
	h.until(t, "#link", "Live")
	h.until(t, "#approvals h3", "everything.get-sum")
	h.until(t, "#sessions th .name", evilClient)
	h.do(t, "until", with{"selector": "#time circle.ok"}, nil)
	h.picture(t, fmt.Sprintf("%s-%d", scheme, width))
	if over := get[int](t, h.browser, "overflow", nil); over > 0 {
		t.Errorf("the page is %d pixels wider than the window", over)
	}
	ground := get[string](t, h.browser, "style", with{"selector": "body", "name": "backgroundColor"})
	if dark := ground == "rgb(20, 23, 26)"; dark != (scheme == "dark") {
		t.Errorf("the ground is %s", ground)
	}
	h.noBarriers(t)
	walk := get[struct{ Reached, Unseen, Missed []string }](t, h.browser, "walk", nil)
	for _, want := range []string{"Allow once: everything.get-sum", "Deny: everything.get-sum", "Table of sessions", "Table of servers", "Pause"} {
		if !slices.Contains(walk.Reached, want) {
			t.Errorf("Tab reaches %q, and not %q", walk.Reached, want)
		}
	}
	if len(walk.Unseen) > 0 || len(walk.Missed) > 0 {
		t.Errorf("Tab shows no focus on %q and misses %q", walk.Unseen, walk.Missed)
	}
	h.clean(t)
}

func (h *house) forgets(t *testing.T) {
	h.do(t, "forget", nil, nil)
	h.do(t, "until", with{"selector": "input[name=token]"}, nil)
	h.clean(t)
}
