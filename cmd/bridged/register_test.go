package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// registerHome is a home folder of its own, with Cursor's file in it.
func registerHome(t *testing.T) (file string) {
	t.Helper()
	home := t.TempDir()
	shims := filepath.Join(home, "bin")
	file = filepath.Join(home, ".cursor", "mcp.json")
	for _, dir := range []string{shims, filepath.Dir(file)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(shims, "bridge-shim"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"HOME": home, "PATH": shims, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "XDG_RUNTIME_DIR": home,
		"CODEX_HOME": "", "CLAUDE_CONFIG_DIR": "", "CLINE_DATA_DIR": "", "CONTINUE_GLOBAL_DIR": "", "BRIDGED_SOCKET": "",
	} {
		t.Setenv(name, value)
	}
	return file
}

func bridged(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetIn(strings.NewReader(""))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestRegisterAndBack(t *testing.T) {
	file := registerHome(t)
	holds := func(want string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the file is %q, %v; want %q in it", text, err, want)
		}
	}
	out, err := bridged(t, "register", "--dry-run")
	if err != nil || !strings.Contains(out, "+++ "+file) || !strings.Contains(out, "cursor: would add bridged") {
		t.Errorf("--dry-run: %q, %v", out, err)
	}
	holds("{}\n")
	if _, err = bridged(t, "register"); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("without a terminal: got %v, want an error that names --yes", err)
	}
	holds("{}\n")
	out, err = bridged(t, "register", "--yes")
	if err != nil || strings.Contains(out, "+++") || !strings.Contains(out, "cursor: add bridged: done") {
		t.Errorf("--yes: %q, %v", out, err)
	}
	holds("/bin/bridge-shim")
	if out, err = bridged(t, "register"); err != nil || !strings.Contains(out, "nothing to do") {
		t.Errorf("once more: %q, %v", out, err)
	}
	if out, err = bridged(t, "unregister", "--yes"); err != nil {
		t.Errorf("unregister: %q, %v", out, err)
	}
	holds("{}\n")
	if _, err = bridged(t, "register", "--client", "nobody"); err == nil || !strings.Contains(err.Error(), "claude-code") {
		t.Errorf("an unknown agent: got %v, want the known ones", err)
	}
}

func TestRegisterAsks(t *testing.T) {
	file := registerHome(t)
	for answer, want := range map[string]bool{"y\n": true, "n\n": false, "\n": false, "": false} {
		if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := (registerFlags{}).registrar()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := newAsker(registerFlags{client: "cursor"}, strings.NewReader(answer), &out)
		a.terminal = true
		if err := a.changeAll(r, r.Register); err != nil {
			t.Errorf("answer %q: %v", answer, err)
		}
		text, err := os.ReadFile(file)
		if done := strings.Contains(string(text), "bridge-shim"); err != nil || done != want {
			t.Errorf("answer %q: changed %v, %v; want %v", answer, done, err, want)
		}
	}
}

func TestTakeOverIsTold(t *testing.T) {
	file := registerHome(t)
	text := `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "${input:X}"}, "c": {"command": "${env:X}"}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bridged(t, "register", "--take-over", "--project"); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("of a project: %v", err)
	}
	out, err := bridged(t, "register", "--take-over", "--yes")
	if err != nil || !strings.Contains(out, "cursor: b stays: command has an input") || !strings.Contains(out, "cursor: c moves as it is written") || !strings.Contains(out, "move 2 to ") {
		t.Errorf("--take-over: %q, %v", out, err)
	}
	if out, err = bridged(t, "unregister", "--yes"); err != nil {
		t.Errorf("unregister: %q, %v", out, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != text {
		t.Errorf("after unregister: %q, %v", got, err)
	}
}
