package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridged/bridged/pkg/memory"
)

// toolsCLI runs `bridged tools` in a home of its own.
func toolsCLI(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := rootCommand()
	cmd.SetArgs(append([]string{"tools"}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestSavedToolsAreShownAndRemovedWithoutADaemon(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("BRIDGED_SOCKET", filepath.Join(home, "run", "mcp.sock"))
	t.Setenv("MCP_BRIDGE_TOOLS", "off") // a person may look all the same
	want := func(out string, err error, words ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("%q is not in:\n%s", w, out)
			}
		}
	}
	out, err := toolsCLI(t, "list")
	want(out, err, "no saved tools")
	tools := memory.NewTools(memory.ToolOptions{Folder: filepath.Join(home, "MCPs", "user_tools")})
	for _, source := range []string{"def f(): return 1", "def f():\n    '''Does\x1b it.'''\n    return 2"} {
		if _, err := tools.Save(t.Context(), memory.ToolSave{Name: "f", Source: source}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "MCPs", "user_tools", "bad.py"), []byte("\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = toolsCLI(t, "list")
	want(out, err, "f     2", "~/MCPs/user_tools/f.py", "Does", "bad", "not in UTF-8")
	if strings.Contains(out, "\x1b") {
		t.Errorf("the list could steer a terminal: %q", out)
	}
	out, err = toolsCLI(t, "list", "--json")
	want(out, err, `"signature":"f()"`, `"versions":[1,2]`)
	out, err = toolsCLI(t, "show", "f")
	want(out, err, "return 2")
	if strings.Contains(out, "\x1b") {
		t.Errorf("the source could steer a terminal: %q", out)
	}
	out, err = toolsCLI(t, "show", "f", "--version", "1")
	want(out, err, "return 1")
	out, err = toolsCLI(t, "show", "f", "--history")
	want(out, err, "1  ", "2  ")
	out, err = toolsCLI(t, "restore", "f")
	want(out, err, "restored as version 3")
	out, err = toolsCLI(t, "rm", "f")
	want(out, err)
	if _, err := toolsCLI(t, "rm", "f", "g"); err == nil || !strings.Contains(err.Error(), `restore_tool("f")`) || !strings.Contains(err.Error(), "no saved tool g") {
		t.Errorf("removing what is not there: %v", err)
	}
	out, err = toolsCLI(t, "restore", "f")
	want(out, err, "restored as version 4")
}
