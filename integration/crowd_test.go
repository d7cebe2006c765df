//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/runtime"
)

// plainServer is an MCP server of a few lines: its one tool tells its process.
const plainServer = `
import json, os, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}},
         "tools/list": {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]},
         "tools/call": {"content": [{"type": "text", "text": str(os.getpid())}]}}.get(m["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

// plainServerIn writes the server and returns its definition.
func (h *home) plainServer(t *testing.T) map[string]any {
	t.Helper()
	return map[string]any{"command": "python3", "args": []string{h.file(t, "server.py", plainServer)}}
}

// file writes a file below the home folder and returns its path.
func (h *home) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// processes returns the live processes whose command line holds text.
func processes(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(line), text) {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

// A hundred agents in one project, with a server of the user's that they share
// and one of the project's that each has for itself, as far as its cap goes.
func TestAHundredAgents(t *testing.T) {
	const callers = 8
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_POOL_WARM=2", "MCP_BRIDGE_PROJECT_CONFIGS=allow")
	h.servers(t, map[string]any{"shared": h.plainServer(t)})
	h.file(t, ".config/bridged/config.toml", "[[server]]\nname = \"shared\"\neager = true\n[[server]]\nname = \"own\"\nmax = 4\n")
	h.file(t, "project/.mcp.json", fmt.Sprintf(`{"mcpServers": {"own": {"command": "python3", "args": [%q]}}}`, filepath.Join(h.dir, "server.py")))
	d := h.serve(t)
	d.ready(t)
	d.until(t, "the eager server runs before any agent", func() bool { return serving(d.status(t), "shared") == 1 })
	d.full(t)
	before := openFiles(t, d)
	agents := make([]*agent, 100)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range agents {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			agents[i] = h.agent(t, filepath.Join(h.dir, "project"))
		})
	}
	wg.Wait()
	if n := len(d.status(t).Sessions); n != len(agents) {
		t.Errorf("there are %d sessions", n)
	}
	seen := make([]map[string]bool, 2) // processes of each server
	seen[0], seen[1] = map[string]bool{}, map[string]bool{}
	var mu sync.Mutex // guards seen
	for _, a := range agents[:callers] {
		wg.Go(func() {
			got := strings.Fields(strings.Trim(a.run(askBoth, "shared", "own"), "'"))
			if len(got) != 2 {
				t.Errorf("got %q", got)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[0][got[0]], seen[1][got[1]] = true, true
		})
	}
	wg.Wait()
	if len(seen[0]) != 1 || len(seen[1]) != callers {
		t.Errorf("%d agents were served by %d processes of the shared server and %d of the other", callers, len(seen[0]), len(seen[1]))
	}
	s := d.status(t)
	if n := serving(s, "own"); n > 4 || s.ServerRoom.Count > 5 {
		t.Errorf("%d of the project's servers run, %d in all", n, s.ServerRoom.Count)
	}
	for _, a := range agents {
		_ = a.Close()
	}
	d.until(t, "the agents are gone", func() bool { return len(d.status(t).Sessions) == 0 })
	d.until(t, "one server is left", func() bool { return len(processes(t, filepath.Join(h.dir, "server.py"))) == 1 })
	d.until(t, "its files are closed", func() bool { return openFiles(t, d) <= before })
	d.stop(t, syscall.SIGINT)
	if left := processes(t, h.dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}

// askBoth asks both servers who they are. The one with a cap may be busy.
const askBoth = `
import asyncio
from mcp.runtime import MCPError
async def who(server):
    while True:
        try: return await server.who()
        except MCPError as e:
            if e.code != "busy": raise
            await asyncio.sleep(0.05)
def plain(r): return r if isinstance(r, str) else str(r["content"][0]["text"] if isinstance(r, dict) else r)
" ".join([plain(await who(mcp_shared)), plain(await who(mcp_own))])
`

// serving counts the processes of a server.
func serving(s ops.Status, name string) int {
	n := 0
	for _, v := range s.Servers {
		if v.Name == name && v.State == "started" {
			n++
		}
	}
	return n
}

func TestServersAreShownAndTried(t *testing.T) {
	h := newHome(t, "MCP_BRIDGE_RUNTIME=unix:///nonexistent.sock")
	good := h.plainServer(t)
	h.servers(t, map[string]any{
		"good": good, "broken": map[string]any{"command": "no-such-program"},
		"eager": map[string]any{"command": good["command"], "args": good["args"], "env": map[string]any{"TOKEN": "canary-in-a-table"}},
	})
	h.file(t, ".config/bridged/config.toml", "[[server]]\nname = \"eager\"\neager = true\n")
	if text, code := h.bridged(t, "servers", "test", "good"); code != 0 || !strings.Contains(text, "\u2713 tools       1: who") {
		t.Errorf("a server that works: %d\n%s", code, text)
	}
	if text, code := h.bridged(t, "servers", "test", "broken"); code != 1 || !strings.Contains(text, `"no-such-program" is not found`) {
		t.Errorf("a server that does not: %d\n%s", code, text)
	}
	if left := processes(t, filepath.Join(h.dir, "server.py")); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if text, code := h.bridged(t, "servers"); code != 0 || !strings.Contains(text, "no daemon answers") || strings.Count(text, "configured") != 3 {
		t.Errorf("without a daemon: %d\n%s", code, text)
	}
	d := h.serve(t)
	d.until(t, "the eager server runs", func() bool { return serving(d.status(t), "eager") == 1 })
	text, code := h.bridged(t, "servers", "-v")
	if code != 0 || !strings.Contains(text, fmt.Sprint("pid ", d.status(t).Servers[0].PID)) || strings.Count(text, "configured") != 2 || strings.Contains(text, "canary") {
		t.Errorf("with a daemon: %d\n%s", code, text)
	}
}

// bridged runs our command and returns what it prints, and its exit code.
func (h *home) bridged(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	cmd := h.command(abs(t, bridged), args...)
	cmd.Dir = h.dir
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })() // it hangs
	_ = cmd.Wait()                                                    // its exit code tells
	return out.String(), cmd.ProcessState.ExitCode()
}

// The kernel ends a killed daemon's servers; what those have started is ended
// too, as when npx or a shell is the server.
func TestNothingOfAServerOutlivesAKilledDaemon(t *testing.T) {
	h := newHome(t, "MCP_BRIDGE_RUNTIME=unix:///nonexistent.sock")
	plain := h.file(t, "server.py", plainServer)
	deaf := "import os, signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n"
	script := fmt.Sprintf("setsid python3 %s & python3 %s", h.file(t, "deaf.py", deaf), plain)
	h.servers(t, map[string]any{"tree": map[string]any{"command": "sh", "args": []string{"-c", script + "; true"}}})
	h.file(t, ".config/bridged/config.toml", "[[server]]\neager = true\n")
	d := h.serve(t)
	d.until(t, "the tree stands", func() bool {
		return serving(d.status(t), "tree") == 1 && len(processes(t, h.dir+"/deaf.py")) > 0
	})
	d.stop(t, syscall.SIGKILL)
	for end := time.Now().Add(waitTime); ; time.Sleep(50 * time.Millisecond) {
		left := processes(t, h.dir)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("processes are left: %v", left)
		}
	}
}
