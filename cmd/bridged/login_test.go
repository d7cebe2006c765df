package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bridged/bridged/pkg/proxy/oauthtest"
)

// loginHome makes a home folder whose project has the server guarded.
func loginHome(t *testing.T, url string) (project string) {
	t.Helper()
	home := t.TempDir()
	project = filepath.Join(home, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"guarded-one": map[string]any{"type": "http", "url": url}, "local": map[string]any{"command": "true"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, ".mcp.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"HOME": home, "XDG_STATE_HOME": filepath.Join(home, "state"), "XDG_CONFIG_HOME": filepath.Join(home, "config"),
		"XDG_RUNTIME_DIR": home, "DISPLAY": "", "WAYLAND_DISPLAY": "", "MCP_BRIDGE_PROJECT_CONFIGS": "allow",
	} {
		t.Setenv(name, value)
	}
	t.Chdir(project)
	return project
}

// A screen is what a person sees of a command, who opens the page on it.
type screen struct {
	guard *oauthtest.Server

	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	if _, rest, ok := strings.Cut(string(p), "\n  http"); ok {
		address, _, _ := strings.Cut("http"+rest, "\n")
		go s.guard.Approve(address) //nolint:errcheck // the login fails then
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// bridged runs a command line and returns what it printed.
func (s *screen) bridged(ctx context.Context, args ...string) (string, error) {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(s)
	root.SetErr(s)
	err := root.ExecuteContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text.String()
	s.text.Reset()
	return text, err
}

func TestLoginOnTheCommandLine(t *testing.T) {
	g := oauthtest.Start()
	t.Cleanup(g.Close)
	loginHome(t, g.URL())
	s := &screen{guard: g}
	out, err := s.bridged(t.Context(), "servers", "test", "guarded-one")
	if err == nil || !strings.Contains(out, "bridged login guarded-one") {
		t.Fatalf("before the login: %v\n%s", err, out)
	}
	out, err = s.bridged(t.Context(), "login", "guarded_one", "--no-browser")
	if err != nil || !strings.Contains(out, "logged in to guarded-one") {
		t.Fatalf("login: %v\n%s", err, out)
	}
	out, err = s.bridged(t.Context(), "servers", "test", "guarded-one")
	if err != nil || !strings.Contains(out, "1: whoami") || !strings.Contains(out, "by streamable HTTP") {
		t.Fatalf("after the login: %v\n%s", err, out)
	}
	if out, err = s.bridged(t.Context(), "logout", "guarded-one"); err != nil {
		t.Fatalf("logout: %v\n%s", err, out)
	}
	if _, err = s.bridged(t.Context(), "logout", "guarded-one"); err == nil || !strings.Contains(err.Error(), "nobody is logged in") {
		t.Errorf("second logout: %v", err)
	}
}

func TestLoginsThatCannotBeMadeSayWhy(t *testing.T) {
	loginHome(t, "https://127.0.0.1:1/mcp")
	s := &screen{}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"login", "guarded-on"}, "did you mean guarded-one?"},
		{[]string{"login", "xyz"}, "bridged servers"},
		{[]string{"login", "local"}, "reached by stdio"},
		{[]string{"login", "guarded-one", "--client-secret-env", "NO_SUCH"}, "--client-id"},
		{[]string{"login", "guarded-one"}, "connection refused"},
		{[]string{"logout", "local"}, "reached by stdio"},
	} {
		if _, err := s.bridged(t.Context(), row.args...); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v: got %v, want %q", row.args, err, row.want)
		}
	}
}

func TestBrowserIsOpenedOnlyWhereThereIsAScreen(t *testing.T) {
	for _, row := range []struct{ goos, display, want string }{
		{"linux", "", ""}, {"linux", ":0", "xdg-open"}, {"darwin", "", "open"}, {"freebsd", "", ""},
	} {
		got := browser(row.goos, func(name string) string {
			if name == "DISPLAY" {
				return row.display
			}
			return ""
		})
		if got != row.want {
			t.Errorf("%s with display %q: got %q, want %q", row.goos, row.display, got, row.want)
		}
	}
}
