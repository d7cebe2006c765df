//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

// A repository that was just cloned defines a server. It runs after the person
// has approved it, in the agent's session as it is; and a server that the person
// adds to a file of theirs is there in the next call.
func TestACloneRunsNothingUntilItIsApproved(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_POOL_WARM=1")
	started := filepath.Join(h.dir, "started")
	script := h.file(t, "server.py", fmt.Sprintf("open(%q, 'a').write('x')\n", started)+plainServer)
	project := filepath.Dir(h.file(t, "clone/.mcp.json", fmt.Sprintf(`{"mcpServers": {"theirs": {"command": "python3", "args": [%q]}}}`, script)))
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, project)
	res := a.call(map[string]any{"code": "1", "servers": []string{"theirs"}})
	if !res.IsError || !strings.Contains(text(res), "'bridged servers approve theirs' in the folder "+project) {
		t.Errorf("loading it: %s", text(res))
	}
	a.run("from mcp import runtime\nawait runtime.search_tool_docs('who')")
	if _, err := os.Stat(started); err == nil {
		t.Fatal("the clone's server was started")
	}
	approve := h.command(abs(t, bridged), "servers", "approve", "theirs", "--yes")
	approve.Dir = project
	if out, err := approve.CombinedOutput(); err != nil || !strings.Contains(string(out), script) {
		t.Fatalf("approving: %v\n%s", err, out)
	}
	a.run("await mcp_theirs.who()", "theirs")
	h.file(t, ".claude.json", fmt.Sprintf(`{"mcpServers": {"mine": {"command": "python3", "args": [%q]}}}`, script))
	a.run("await mcp_mine.who()", "mine")
}
