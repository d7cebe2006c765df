package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// memoryRun runs `bridged memory` in a home folder, and returns what it printed.
func memoryRun(t *testing.T, home, input string, args ...string) (string, error) {
	t.Helper()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("MCP_BRIDGE_STATE_DIR", "")
	cmd := memoryCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestMemoryCommands(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "MCPs", "user_tools", "memory")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plan.json": `{"key": "plan", "value": {"a": "<é>"}}`, "bad.json": "{", "evil%1B[31m.json": `{"value": 1}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	backup := filepath.Join(home, "backup.json")
	for _, step := range []struct {
		args []string
		want string // in the output
		err  string // in the error
	}{
		{args: []string{"list"}, want: "plan"},
		{args: []string{"list", "pl"}, want: "plan"},
		{args: []string{"list", "zz"}, want: "no memories"},
		{args: []string{"list", "--project"}, want: "no memories"},
		{args: []string{"list", "--json", "pl"}, want: `"key":"plan"`},
		{args: []string{"show", "plan"}, want: "{\n  \"a\": \"<é>\"\n}\n"},
		{args: []string{"show", "none"}, err: `there is no memory "none"`},
		{args: []string{"show", "bad"}, err: "ends in the middle"},
		{args: []string{"export", backup}, err: "bad"},
		{args: []string{"rm", "plan", "none"}, err: `there is no memory "none"`},
		{args: []string{"show", "plan"}, err: "there is no memory"},
		{args: []string{"show", "--history", "plan"}, want: "1  "},
		{args: []string{"restore", "plan"}, want: "restored as version 2"},
		{args: []string{"restore", "--version", "7", "plan"}, err: "no version 7"},
		{args: []string{"rm", "plan"}},
		{args: []string{"import", backup}, want: "1 added, 0 replaced, 1 the same"},
		{args: []string{"import", filepath.Join(home, "nowhere")}, err: "no such file"},
	} {
		out, err := memoryRun(t, home, "", step.args...)
		if step.err == "" && err != nil || step.err != "" && (err == nil || !strings.Contains(err.Error(), step.err)) {
			t.Errorf("%v: got error %v, want %q", step.args, err, step.err)
		}
		if !strings.Contains(out, step.want) || strings.Contains(out, "\x1b") {
			t.Errorf("%v printed %q, want %q and no escape sequence", step.args, out, step.want)
		}
	}
}

func TestMemoriesTravelThroughAPipe(t *testing.T) {
	home := t.TempDir()
	text := `{"bridged_memories": 1, "memories": [{"key": "k", "value": 1}, {"key": "p", "value": 2, "project": "/some/app"}]}`
	if out, err := memoryRun(t, home, text, "import", "-"); err != nil || !strings.HasPrefix(out, "2 added") {
		t.Fatalf("got %q, %v", out, err)
	}
	out, err := memoryRun(t, home, "", "export")
	if err != nil || !strings.Contains(out, `"project": "/some/app"`) {
		t.Fatalf("got %q, %v", out, err)
	}
	changed := strings.Replace(out, `"value": 1`, `"value": 5`, 1)
	if out, err := memoryRun(t, home, changed, "import", "-"); err != nil || !strings.Contains(out, "1 differ and were left") {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := memoryRun(t, home, changed, "import", "-", "--replace"); err != nil || !strings.Contains(out, "1 replaced") {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := memoryRun(t, home, "", "show", "k"); err != nil || out != "5\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestStateFolderMovesWhatOutlivesSessions(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for dir, want := range map[string]string{
		"": home + "/MCPs/user_tools", "~/kept": home + "/kept/user_tools", "/srv/kept": "/srv/kept/user_tools",
	} {
		t.Setenv("MCP_BRIDGE_STATE_DIR", dir)
		if _, p, err := loadFor(memoryCommand()); err != nil || p.kept != want {
			t.Errorf("with %q: got %q, %v; want %q", dir, p.kept, err, want)
		}
	}
	t.Setenv("MCP_BRIDGE_STATE_DIR", "kept")
	if _, _, err := loadFor(memoryCommand()); err == nil || !strings.Contains(err.Error(), "memory.folder") {
		t.Errorf("a relative folder gives %v", err)
	}
}
