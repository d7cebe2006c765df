package discovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAnEntryOfOursMaySayWhoseWordsItUses(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "MCPs", "mine.json")
	load := func(entry string) Result {
		return Load(Options{Home: home, Instead: map[string][]byte{file: []byte(`{"mcpServers": {"a": ` + entry + `}}`)}})
	}
	getenv := func(name string) (string, bool) { return "<" + name + ">", name != "UNSET" }
	for _, row := range []struct {
		name, entry string
		right       func(Server) bool
	}{
		{"nobody's", `{"command": "x", "args": ["${A}", "${env:A}"]}`,
			func(s Server) bool { return s.Args[0] == "${A}" && s.Args[1] == "${env:A}" }},
		{"an agent's variables", `{"dialect": "claude-code", "command": "x", "args": ["${A}", "${UNSET:-b}"]}`,
			func(s Server) bool { return s.Args[0] == "<A>" && s.Args[1] == "b" }},
		{"another agent's", `{"dialect": "cursor", "command": "x", "args": ["${env:A}", "${A}"]}`,
			func(s Server) bool { return s.Args[0] == "<A>" && s.Args[1] == "${A}" }},
		{"an agent's own fields", `{"dialect": "codex", "url": "https://x/", "bearer_token_env_var": "T"}`,
			func(s Server) bool { return s.Headers["Authorization"] == "Bearer <T>" && s.Transport == HTTP }},
		{"an agent's unit of time", `{"dialect": "goose", "cmd": "x", "timeout": 7}`,
			func(s Server) bool { return s.StartTimeout == 7*time.Second || s.CallTimeout == 7*time.Second }},
	} {
		t.Run(row.name, func(t *testing.T) {
			res := load(row.entry)
			if len(res.Servers) != 1 || len(res.Problems) > 0 || res.Servers[0].Agent() != "seed" {
				t.Fatalf("found %+v", res)
			}
			s, err := res.Servers[0].Expand(getenv, home, home)
			if err != nil || !row.right(s) {
				t.Errorf("got %+v, %v", s, err)
			}
		})
	}
	for _, dialect := range []string{`"nobody"`, `1`} {
		res := load(`{"dialect": ` + dialect + `, "command": "x"}`)
		if len(res.Servers) > 0 || len(res.Problems) != 1 || !strings.Contains(res.Problems[0].Msg, "dialect") {
			t.Errorf("dialect %s: %+v", dialect, res)
		}
	}
	other := Load(Options{Home: home, Instead: map[string][]byte{
		filepath.Join(home, ".cursor", "mcp.json"): []byte(`{"mcpServers": {"a": {"dialect": "claude-code", "command": "x", "args": ["${A}"]}}}`),
	}})
	if s, err := other.Servers[0].Expand(getenv, home, home); err != nil || s.Args[0] != "${A}" {
		t.Errorf("in another agent's file: %+v, %v", s, err)
	}
}

func TestFilesCanBeTakenToHoldSomethingElse(t *testing.T) {
	home := t.TempDir()
	path := func(name string) string { return filepath.Join(home, name) }
	if err := os.Mkdir(path("MCPs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, server := range map[string]string{"MCPs/real.json": "real", "MCPs/gone.json": "gone", ".claude.json": "old"} {
		if err := os.WriteFile(path(name), []byte(`{"mcpServers": {"`+server+`": {"command": "x"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	res := Load(Options{Home: home, Instead: map[string][]byte{
		path("MCPs/new.json"): []byte(`{"mcpServers": {"new": {"command": "x"}}}`), path("MCPs/gone.json"): nil,
		path(".claude.json"): []byte(`{"mcpServers": {"other": {"command": "y"}}}`),
	}})
	var names []string
	for _, s := range res.Servers {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "new other real" || len(res.Problems) > 0 {
		t.Errorf("found %s, %v", got, res.Problems)
	}
}
