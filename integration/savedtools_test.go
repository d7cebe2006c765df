//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bridged/bridged/integration/engines"
)

// TestSavedTools saves a function in one session and uses it in others, also
// after the daemon was started anew, with files that a person has written beside.
func TestSavedTools(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_POOL_WARM=1")
	script := h.file(t, "server.py", plainServer)
	h.servers(t, map[string]any{"plain": map[string]any{"command": "python3", "args": []string{script}}})
	d := h.serve(t)
	d.ready(t)
	first := h.agent(t, h.dir)
	got := first.run("import re\nWORD = re.compile(r'\\w+')\nasync def shout(text: str) -> str:\n    '''Says words of a title aloud.'''\n" +
		"    return '-'.join(WORD.findall(text)).upper() + str(await mcp_plain.who())[:0]\nsave_tool(shout)")
	if !strings.Contains(got, "<saved tool shout: version 1, ~/MCPs/user_tools/shout.py>") {
		t.Errorf("saving it gave %q", got)
	}
	h.file(t, "MCPs/user_tools/broken.py", "def broken(:\n")
	h.file(t, "MCPs/user_tools/user_tools.py", "def many():\n    return 'of many'\n")

	use := func(when string, a *agent) {
		t.Helper()
		if got := a.run("await shout('a b'), many(), sorted(mcp_servers)"); !strings.Contains(got, "('A-B', 'of many', ['plain'])") {
			t.Errorf("%s it gave %q", when, got)
		}
		res := a.call(map[string]any{"code": "broken()"})
		if !res.IsError || !strings.Contains(text(res), "~/MCPs/user_tools/broken.py, line 1: SyntaxError") {
			t.Errorf("%s a broken one gave %q", when, text(res))
		}
		got := a.run("from mcp import runtime\nawait runtime.search_tool_docs('speak the words of a title aloud', limit=1)")
		if !strings.Contains(got, "shout (saved tool): Says words of a title aloud.\n    (text: str) -> str") {
			t.Errorf("%s a search gave %q", when, got)
		}
	}
	second := h.agent(t, h.dir)
	use("in another session", second)
	path := filepath.Join(h.dir, "MCPs", "user_tools", "shout.py")
	if err := os.WriteFile(path, []byte("def shout(text): return 'edited'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := second.run("shout('x'), [(r['name'], r.get('version', 0)) for r in list_tools_saved()]"); !strings.Contains(got, "('edited', [('broken', 1), ('many', 0), ('shout', 2)])") {
		t.Errorf("after a person has edited it: %q", got)
	}
	second.run("restore_tool('shout')")

	d.stop(t, syscall.SIGINT)
	d = h.serve(t)
	d.ready(t)
	use("after the daemon was started anew", h.agent(t, h.dir))
}
