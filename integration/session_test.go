//go:build integration

package integration

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
)

// onEngine returns a home whose daemon uses an engine of the tests.
func onEngine(t testing.TB, r *engines.Running, extra ...string) *home {
	t.Helper()
	return newHome(t, append([]string{"MCP_BRIDGE_RUNTIME=" + r.Endpoint, "MCP_BRIDGE_IMAGE=" + r.Image}, extra...)...)
}

// realServers are MCP servers as their authors publish them.
func realServers(h *home) map[string]any {
	return map[string]any{
		"everything": map[string]any{"command": "mcp-server-everything"},
		"files":      map[string]any{"command": "mcp-server-filesystem", "args": []string{h.dir}},
		"time":       map[string]any{"command": "mcp-server-time"},
		"broken":     map[string]any{"command": "no-such-program"},
	}
}

// TestSessions drives whole sessions through the real shim on every engine.
func TestSessions(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			h := onEngine(t, r)
			h.servers(t, realServers(h))
			d := h.serve(t)
			d.ready(t)
			t.Run("one tool that names the servers", func(t *testing.T) { testTool(t, h) })
			t.Run("variables, output and errors", func(t *testing.T) { testValues(t, h) })
			t.Run("real servers", func(t *testing.T) { testServers(t, h) })
			t.Run("progress and cancellation", func(t *testing.T) { testCancel(t, h) })
			t.Run("an agent that hangs up", func(t *testing.T) { testHangUp(t, h, d, r) })
			d.stop(t, syscall.SIGINT)
			noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
		})
	}
}

func testTool(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	list, err := a.ListTools(context.Background(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != 1 || list.Tools[0].Name != "run_python" {
		t.Fatalf("got %+v, want run_python alone", list.Tools)
	}
	for _, name := range []string{"everything", "files", "time"} {
		if !strings.Contains(list.Tools[0].Description, name) {
			t.Errorf("description %q does not name %s", list.Tools[0].Description, name)
		}
	}
}

func testValues(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	a.run("import os\nx = 20\ndef double(n):\n    return 2 * n")
	if got := a.run("print('hi'); os.system('echo there'); double(x) + 2"); got != "hi\nthere\n42" {
		t.Errorf("got %q", got)
	}
	res := a.call(map[string]any{"code": "double(None)"})
	if !res.IsError || !strings.Contains(text(res), "TypeError") || !strings.Contains(text(res), "return 2 * n") {
		t.Errorf("got %+v, want a TypeError with the source line", res)
	}
	data, err := json.Marshal(res.StructuredContent)
	if err != nil || !strings.Contains(string(data), `"type":"TypeError"`) {
		t.Errorf("structured content %s, %v", data, err)
	}
	b := h.agent(t, h.dir)
	if res := b.call(map[string]any{"code": "x"}); !strings.Contains(text(res), "NameError") {
		t.Errorf("another agent sees x: %+v", res)
	}
}

func testServers(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	if err := os.WriteFile(filepath.Join(h.dir, "note.txt"), []byte("from the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, code, want string
		servers          []string
	}{
		{"all servers are known before any is loaded",
			"from mcp import runtime\nprint(sorted(runtime.discovered_servers()))", "['broken', 'everything', 'files', 'time']", nil},
		{"search covers servers that are not loaded, and one that can't start hides nothing",
			"hits = await runtime.search_tool_docs('read the contents of a text file')\nprint(any(h['server'] == 'files' and 'read' in h['tool'] for h in hits))", "True", nil},
		{"a server that is not loaded can't be called",
			"try:\n    await runtime.call_tool('files', 'list_allowed_directories', {})\nexcept runtime.MCPError as e:\n    print(str(e)[:33])", "Server files is not available", nil},
		{"a proxy calls a tool",
			"r = await mcp_files.read_text_file(path='" + h.dir + "/note.txt')\nprint('from the host' in str(r))", "True", []string{"files"}},
		{"servers stay loaded, and modules are proxies too",
			"from mcp.servers.files import list_directory\nprint('note.txt' in str(await list_directory(path='" + h.dir + "')))", "True", nil},
		{"a loop and gather",
			"import asyncio\nrs = await asyncio.gather(*[mcp_everything.echo(message=f'm{i}') for i in range(50)])\nprint(len(rs), 'm7' in str(rs[7]))", "50 True", []string{"everything"}},
		{"a server from PyPI", "print('Berlin' in str(await mcp_servers['time']['get_current_time'](timezone='Europe/Berlin')))", "True", []string{"time"}},
		{"calls without await", "print('sync' in str(runtime.call_tool_sync('everything', 'echo', {'message': 'sync'})))", "True", nil},
		{"an error of a tool is an exception",
			"try:\n    await mcp_files.read_text_file(path='/etc/shadow')\nexcept runtime.MCPError as e:\n    print(e.server, e.tool)", "files read_text_file", nil},
		{"a typo has advice",
			"try:\n    await mcp_files.read_text_fil(path='x')\nexcept runtime.MCPError as e:\n    print('read_text_file' in str(e))", "True", nil},
	} {
		if got := a.run(row.code, row.servers...); !strings.Contains(got, row.want) {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
	res := a.call(map[string]any{"code": "1", "servers": []string{"flies"}})
	if !res.IsError || !strings.Contains(text(res), "flies") || !strings.Contains(text(res), "files") {
		t.Errorf("loading a server with a typo: got %q, want advice", text(res))
	}
}

func testCancel(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	a.run("x = 1")
	req := mcp.CallToolRequest{}
	req.Params.Name = "run_python"
	req.Params.Arguments = map[string]any{"code": "import time\nprint('begun', flush=True)\ntime.sleep(60)", "timeout": 60}
	req.Params.Meta = &mcp.Meta{ProgressToken: "p"}
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			a.mu.Lock()
			begun := strings.Contains(strings.Join(a.progress, ""), "begun")
			a.mu.Unlock()
			if begun {
				cancel()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	began := time.Now()
	if _, err := a.CallTool(ctx, req); err == nil {
		t.Error("a canceled call has a result")
	}
	a.mu.Lock()
	if !strings.Contains(strings.Join(a.progress, ""), "begun") {
		t.Errorf("progress %q, want what was printed", a.progress)
	}
	a.mu.Unlock()
	if got := a.run("x"); got != "1" {
		t.Errorf("after a cancellation x is %q, want 1", got)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("the canceled code kept the session for %s", d)
	}
}

func testHangUp(t *testing.T, h *home, d *daemon, r *engines.Running) {
	before := d.status(t)
	a := h.agent(t, h.dir)
	a.run("x = 1")
	go func() {
		req := mcp.CallToolRequest{}
		req.Params.Name, req.Params.Arguments = "run_python", map[string]any{"code": "while True: pass", "timeout": 100}
		_, _ = a.CallTool(context.Background(), req) // it is hung up on
	}()
	d.until(t, "the code runs", func() bool {
		for _, s := range d.status(t).Sessions {
			if s.Running > 0 {
				return true
			}
		}
		return false
	})
	if err := a.Close(); err != nil {
		t.Logf("closing the shim: %v", err)
	}
	d.until(t, "the session is gone and its sandbox too", func() bool {
		s := d.status(t)
		return len(s.Sessions) <= len(before.Sessions) && s.Pool.Leased <= before.Pool.Leased
	})
	_ = r
}

// The daemon starts without an engine, says so, and recovers by itself.
func TestNoEngine(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	dir := t.TempDir()
	gate := filepath.Join(dir, "e.sock")
	h := newHome(t, "MCP_BRIDGE_RUNTIME=unix://"+gate, "MCP_BRIDGE_IMAGE="+r.Image)
	d := h.serve(t)
	a := h.agent(t, h.dir)
	res := a.call(map[string]any{"code": "1+1"})
	if !res.IsError || !strings.Contains(text(res), gate) {
		t.Errorf("without an engine: got %q, want an error that names %s", text(res), gate)
	}
	if s := d.status(t); s.Ready || !strings.Contains(s.Engine.Error, gate) {
		t.Errorf("status without an engine: %+v", s.Engine)
	}
	if err := os.Symlink(strings.TrimPrefix(r.Endpoint, "unix://"), gate); err != nil {
		t.Fatal(err)
	}
	if got := a.run("1+1"); got != "2" {
		t.Errorf("once an engine is there: got %q, want 2", got)
	}
	d.ready(t)
}

func TestImageProblemsAreExplained(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_IMAGE=localhost/no-such:1")
	d := h.serve(t)
	res := h.agent(t, h.dir).call(map[string]any{"code": "1"})
	if !res.IsError || !strings.Contains(text(res), "localhost/no-such:1") || !strings.Contains(text(res), "bridged image") {
		t.Errorf("without the image: got %q", text(res))
	}
	d.stop(t, syscall.SIGINT)
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}

func TestImageWithoutPythonIsExplained(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	const ref = "localhost/bridged-test:empty"
	var tarball bytes.Buffer
	w := tar.NewWriter(&tarball)
	for _, dir := range []string{"tmp/", "workspace/", "projects/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Engine.Import(t.Context(), ref, &tarball, nil, nil); err != nil {
		t.Fatal(err)
	}
	h := onEngine(t, r, "MCP_BRIDGE_IMAGE="+ref)
	d := h.serve(t)
	res := h.agent(t, h.dir).call(map[string]any{"code": "1"})
	if !res.IsError || !strings.Contains(text(res), "has no python3") {
		t.Errorf("with an image without Python: got %q", text(res))
	}
	d.stop(t, syscall.SIGINT)
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}

// A daemon that died leaves containers. The next one removes these and no
// others.
func TestOrphansOfACrashAreRemoved(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r)
	d := h.serve(t)
	d.full(t)
	other := onEngine(t, r)
	keep := other.serve(t)
	keep.full(t)
	h.agent(t, h.dir).run("x = 1")
	all := map[string]string{runtime.LabelManaged: "true"}
	d.stop(t, syscall.SIGKILL)
	before, err := r.Engine.List(context.Background(), all)
	if err != nil || len(before) < 3 {
		t.Fatalf("got %d containers, %v; want those of two daemons", len(before), err)
	}
	next := h.serve(t)
	next.ready(t)
	next.stop(t, syscall.SIGINT)
	if s := keep.status(t); !s.Ready {
		t.Errorf("the other daemon lost its sandboxes: %+v", s)
	}
	if got := other.agent(t, other.dir).run("1+1"); got != "2" {
		t.Errorf("the other daemon: got %q, want 2", got)
	}
	keep.stop(t, syscall.SIGINT)
	noContainers(t, r, all)
}

// The shim starts a daemon when none listens, and many shims start one.
func TestShimsStartOneDaemon(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "BRIDGED_BIN="+abs(t, bridged))
	const n = 10
	answers := make(chan string, n)
	for range n {
		a := &agent{}
		go func() {
			a = h.agent(t, h.dir)
			answers <- a.run("1+1")
		}()
	}
	for range n {
		if got := <-answers; got != "2" {
			t.Errorf("got %q, want 2", got)
		}
	}
	d := &daemon{home: h, log: &lockedBuffer{}, done: make(chan struct{})}
	s := d.status(t)
	if len(s.Sessions) != n {
		t.Errorf("the daemon has %d sessions, want %d", len(s.Sessions), n)
	}
	if err := syscall.Kill(s.PID, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(waitTime); syscall.Kill(s.PID, 0) == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the daemon does not end")
		}
		var ws syscall.WaitStatus
		_, _ = syscall.Wait4(s.PID, &ws, syscall.WNOHANG, nil) // in case it is our child by now
	}
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}

func abs(t testing.TB, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Garbage on the socket ends that connection at most.
func TestGarbageOnTheSocketHurtsNobody(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r)
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("x = 5")
	for _, junk := range []string{"", "\n", "{}\n", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("x", 3<<20), "{\"bridged\":99}\n", "\x00\xff\n"} {
		conn, err := net.Dial("unix", h.socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, junk)
		conn.Close()
	}
	if got := a.run("x"); got != "5" {
		t.Errorf("got %q, want 5", got)
	}
}
