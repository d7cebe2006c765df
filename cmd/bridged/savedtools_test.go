package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSavedToolsAreWhereTheConfigurationSays(t *testing.T) {
	home := t.TempDir()
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	p, err := findPaths(getenv)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(home, "MCPs", "user_tools"); p.kept != want {
		t.Errorf("they are in %q, want %q", p.kept, want)
	}
	c := defaultConfig()
	call := func(method, params string) (string, error) {
		answer, err := savedTools(c, p, getenv).Call(t.Context(), method, json.RawMessage(params))
		return string(answer), err
	}
	if got, err := call("saved.save", `{"name":"f","source":"def f(): pass"}`); err != nil || !strings.Contains(got, `"path":"~/MCPs/user_tools/f.py"`) {
		t.Errorf("saving one: %s, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(p.kept, "f.py")); err != nil {
		t.Error(err)
	}
	c.Tools.MaxCount = 1
	if _, err := call("saved.save", `{"name":"g","source":"def g(): pass"}`); err == nil || !strings.Contains(err.Error(), "tools.max_count") {
		t.Errorf("one too many: %v", err)
	}
	c.Tools.Enabled = false
	if _, err := call("saved.read", `{"name":"f"}`); err == nil || !strings.Contains(err.Error(), "tools.enabled") {
		t.Errorf("when they are switched off: %v", err)
	}
	if names := savedTools(c, p, getenv).Names(); len(names) != 0 {
		t.Errorf("when they are switched off there are %q", names)
	}
	if got := tilde("/elsewhere/f", home); got != "/elsewhere/f" {
		t.Errorf("a path elsewhere is %q", got)
	}
}
