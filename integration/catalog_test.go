//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/integration/engines"
)

// A daemon that was restarted knows the tools of servers that were seen before.
// It starts none for a search, and one that can't be started any more keeps its
// tools, marked stale.
func TestACatalogueOutlivesTheDaemon(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_POOL_WARM=1", "MCP_BRIDGE_CATALOG_AGE=never")
	starts := filepath.Join(h.dir, "starts")
	script := h.file(t, "server.py", fmt.Sprintf("open(%q, 'a').write('x')\n", starts)+plainServer)
	h.servers(t, map[string]any{"plain": map[string]any{"command": "python3", "args": []string{script}}})
	d := h.serve(t)
	d.ready(t)
	catalog := func(args ...string) string {
		t.Helper()
		out, err := h.command(abs(t, bridged), append([]string{"catalog"}, args...)...).CombinedOutput()
		if err != nil {
			t.Logf("catalog %v: %v", args, err)
		}
		return string(out)
	}
	if out := catalog("refresh", "--all"); !strings.Contains(out, "\u2713 plain  1 tool, not known before") {
		t.Errorf("refresh: %s", out)
	}
	d.stop(t, syscall.SIGINT)

	began := time.Now()
	d = h.serve(t)
	if out := catalog(); !strings.Contains(out, "plain   catalogued  1") {
		t.Errorf("catalogue after a restart: %s", out)
	}
	t.Logf("catalogue there %s after the start of the daemon", time.Since(began).Round(time.Millisecond))
	d.ready(t)
	a := h.agent(t, h.dir)
	const search = "from mcp import runtime\nprint(await runtime.search_tool_docs('who'))"
	out := a.run(search)
	if !strings.Contains(out, "mcp_plain.who") || strings.Contains(out, "stale") {
		t.Errorf("found %s", out)
	}
	if s := d.status(t); s.ServerRoom.Count != 0 {
		t.Errorf("%d servers run after a search, want none: %+v", s.ServerRoom.Count, s.Servers)
	}
	if n, err := os.ReadFile(starts); err != nil || string(n) != "x" {
		t.Errorf("starts: %q, %v; want the one of the refresh", n, err)
	}

	h.file(t, "server.py", "import sys\nsys.exit('no licence')\n")
	if out := catalog("refresh"); !strings.Contains(out, "\u2717 plain") || !strings.Contains(out, "no licence") {
		t.Errorf("refresh of one that can't be started: %s", out)
	}
	if out := a.run(search); !strings.Contains(out, "mcp_plain.who") || !strings.Contains(out, "stale: ") || !strings.Contains(out, "no licence") {
		t.Errorf("found %s", out)
	}
	if out := a.run("help(mcp_plain.who)", "plain"); !strings.Contains(out, "no licence") {
		t.Errorf("help: %s", out)
	}
	d.stop(t, syscall.SIGINT)
}
