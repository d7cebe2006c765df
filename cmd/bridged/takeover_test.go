package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/register"
)

// newRegistrar edits files of a person who has none.
func newRegistrar(t *testing.T, goos string) *register.Registrar {
	t.Helper()
	home := t.TempDir()
	return &register.Registrar{
		Shim: "/opt/bridged/bin/bridge-shim", Dir: filepath.Join(home, "state"),
		Where: register.Where{GOOS: goos, Home: home, Getenv: func(string) string { return "" }},
	}
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Both have a table of agents' files. What register writes, discovery must find.
func TestWhatRegisterWritesIsWhereDiscoveryLooks(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, client := range register.Clients() {
			t.Run(goos+"/"+client, func(t *testing.T) {
				r := newRegistrar(t, goos)
				project := filepath.Join(r.Home, "project")
				res := discovery.Load(discovery.Options{Home: r.Home, Cwd: project, GOOS: goos, Sources: []string{client}})
				for _, where := range []string{"", project} {
					r.Project = where
					for _, path := range r.Files(client) {
						if !slices.Contains(res.Looked, path) {
							t.Errorf("discovery does not look at %s", path)
						}
					}
				}
			})
		}
	}
}

func TestWhatRegisterWritesIsReadByDiscovery(t *testing.T) {
	for _, client := range register.Clients() {
		t.Run(client, func(t *testing.T) {
			r := newRegistrar(t, "linux")
			r.Shim = "/opt/other/server" // one that does not lead back to us
			places := []string{"", filepath.Join(r.Home, "project")}
			for _, where := range places {
				if r.Project = where; len(r.Files(client)) == 0 {
					continue
				}
				c, err := r.Register(client)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Apply(); err != nil {
					t.Fatal(err)
				}
				res := discovery.Load(discovery.Options{Home: r.Home, Cwd: where, Sources: []string{client}})
				if len(res.Servers) != 1 || res.Servers[0].Name != register.Name || res.Servers[0].Command != r.Shim || len(res.Problems) > 0 {
					t.Errorf("discovery finds %+v in %s", res, c.Path)
				}
			}
		})
	}
}

// movables are servers in agents' own ways, with variables where there are some.
var movables = map[string]string{
	"claude-code": `{"mcpServers": {
		"a": {"type": "stdio", "command": "x", "args": ["${A:-b}", "$A"], "env": {"K": "${KEY}"}},
		"b": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}`,
	"claude-desktop": `{"mcpServers": {"a": {"command": "x", "args": ["${A}"]}}}`,
	"cursor":         `{"mcpServers": {"a": {"command": "x", "env": {"K": "${env:KEY}"}, "args": ["${userHome}/x"]}, "b": {"url": "https://x/mcp"}}}`,
	"vscode":         `{"servers": {"a": {"command": "x", "env": {"K": "${env:KEY}"}, "args": ["a${pathSeparator}b"]}, "b": {"type": "sse", "url": "https://x/sse"}}}`,
	"windsurf":       `{"mcpServers": {"a": {"serverUrl": "https://x/mcp", "headers": {"K": "${env:KEY}"}}, "b": {"command": "x", "args": ["${file:/no/such}"]}}}`,
	"gemini-cli":     `{"mcpServers": {"a": {"command": "x", "args": ["$A", "${B:-c}"], "env": {"K": "$KEY"}, "timeout": 5000}, "b": {"httpUrl": "https://x/mcp"}}}`,
	"codex": `
[mcp_servers.a]
command = "x"
env_vars = ["KEY"]
startup_timeout_sec = 5
[mcp_servers.b]
url = "https://x/mcp"
bearer_token_env_var = "TOKEN"
env_http_headers = {"X-Key" = "KEY"}
http_headers = {"X-Plain" = "1"}
`,
	"opencode": `{"mcp": {"a": {"type": "local", "command": ["x", "{env:A}"], "environment": {"K": "{file:/no/such}"}, "timeout": 5000}, "b": {"type": "remote", "url": "https://x/mcp"}}}`,
	"zed":      `{"context_servers": {"a": {"command": "x", "args": ["$A"], "timeout": 5}, "b": {"url": "https://x/mcp"}}}`,
	"cline":    `{"mcpServers": {"a": {"command": "x", "env": {"K": "${env:KEY}"}, "timeout": 30}, "b": {"url": "https://x/sse"}}}`,
	"goose":    "extensions:\n  a:\n    type: stdio\n    enabled: true\n    name: a\n    cmd: x\n    args: []\n    env_keys: [KEY]\n    timeout: 300\n",
	"continue": "name: n\nmcpServers:\n  - name: a\n    command: x\n    env:\n      K: ${{ secrets.KEY }}\n  - name: b\n    type: streamable-http\n    url: https://x/mcp\n",
}

func TestServersThatMoveStayWhatTheyAre(t *testing.T) {
	for _, client := range register.Clients() {
		t.Run(client, func(t *testing.T) {
			r := newRegistrar(t, "linux")
			putFile(t, r.Files(client)[0], movables[client])
			before := readAs(r.Where, client, nil)
			c, err := takeOver(r, client)
			if err != nil {
				t.Fatal(err)
			}
			if len(before) == 0 || len(c.Moves()) != len(before) {
				t.Errorf("%q move of %d; %q", c.Moves(), len(before), c.Notes())
			}
			if err := c.Apply(); err != nil {
				t.Fatal(err)
			}
			after := readAs(r.Where, "seed", nil)
			for name, was := range before {
				if why := differ(r.Where, was, after[name]); why != "" {
					t.Errorf("%s: %s", name, why)
				}
			}
		})
	}
}

func TestAServerThatWouldBecomeAnotherStays(t *testing.T) {
	r := newRegistrar(t, "linux")
	// Claude Code reserves the name, so that bridged does not use the server.
	putFile(t, r.Files("claude-code")[0], `{"mcpServers": {"workspace": {"command": "x"}, "fine": {"command": "y"}}}`)
	c, err := takeOver(r, "claude-code")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"fine"}, c.Moves()); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if len(c.Notes()) != 1 || !strings.HasPrefix(c.Notes()[0], "workspace stays: bridged cannot read its definition") {
		t.Errorf("notes: %q", c.Notes())
	}
}

func TestDifferencesOfServersAreNamed(t *testing.T) {
	w := register.Where{Home: "/h"}
	a := discovery.Server{Name: "a", Transport: discovery.Stdio, Command: "x", Args: []string{"1"}, Env: map[string]string{"A": "1"}}
	b := a
	b.Args, b.Env, b.Headers = []string{}, map[string]string{"A": "2"}, map[string]string{}
	if got := differ(w, a, b); got != "it would have another args, env" {
		t.Errorf("got %q", got)
	}
	for _, row := range []struct{ was, is discovery.Server }{{a, discovery.Server{}}, {discovery.Server{}, a}} {
		if differ(w, row.was, row.is) == "" {
			t.Error("one that is not there is the same")
		}
	}
	if got := differ(w, a, a); got != "" {
		t.Errorf("one and the same: %q", got)
	}
}
