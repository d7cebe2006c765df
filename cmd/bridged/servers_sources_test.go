package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/discovery"
)

func TestSourcesSayWhatBecameOfEachDefinition(t *testing.T) {
	c := newClone(t, `{"theirs": {"command": "x"}}`)
	for name, text := range map[string]string{
		".claude.json": `{"mcpServers": {
  "git": {"command": "git-mcp"},
  "off": {"command": "x", "disabled": true},
  "db": {"command": "x", "env": {"TOKEN": "${NO_SUCH_TOKEN}"}},
  "us": {"command": "bridge-shim"}},
 "projects": {"` + c.project + `": {"mcpServers": {"db": {"command": "local"}}}}}`,
		".cursor/mcp.json": `{"mcpServers": {"git": {"command": "git-mcp"}, "key": {"command": "x", "args": ["${env:NO_SUCH_TOKEN}"]}}}`,
	} {
		path := filepath.Join(c.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newSourceReport(c.load(), func(s discovery.Server) error {
		_, err := s.Expand(os.LookupEnv, c.home, c.project)
		return err
	})
	var got []string
	for _, d := range r.Definitions {
		rel, err := filepath.Rel(c.home, d.Path)
		if err != nil {
			t.Fatal(err)
		}
		why, _, _ := strings.Cut(strings.ReplaceAll(d.Why, c.home+"/", ""), " and needs")
		got = append(got, fmt.Sprintf("%s %s %s %s %s:%d|%s", d.Server, d.State, d.Agent, d.Scope, rel, d.Line, why))
	}
	want := []string{
		"db used claude-code local .claude.json:6|",
		"db shadowed claude-code user .claude.json:4|by .claude.json:6 (projects." + c.project + ".mcpServers.db)",
		"git used claude-code user .claude.json:2|",
		"git same cursor user .cursor/mcp.json:1|as .claude.json:2 (mcpServers.git)",
		"key unusable cursor user .cursor/mcp.json:1|server key needs a value: variable NO_SUCH_TOKEN is not set in the agent's environment",
		"off disabled claude-code user .claude.json:3|switched off: disabled: true",
		"theirs held claude-code project clone/.mcp.json:1|it is defined by the project's own file",
	}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], c.home+"/", "")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil || !strings.Contains(out.String(), "mcpServers.us): it would start this bridge inside itself") {
		t.Errorf("printed, %v:\n%s", err, &out)
	}
	for _, want := range []string{"the project's own file; it runs x\n", "\nheld: not used until you have looked at it: bridged servers approve [NAME...]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed\n%s\nwant %q in it", &out, want)
		}
	}
	out.Reset()
	if err := printServers(&out, mergeServers(nil, c.load()).Servers, false); err != nil || !strings.Contains(out.String(), "bridged servers approve [NAME...]") {
		t.Errorf("printed, %v:\n%s", err, &out)
	}
}

func TestOneOfSeveralServersOfANameCanBeApproved(t *testing.T) {
	c := newClone(t, `{"db": {"command": "x"}}`)
	putFile(t, filepath.Join(c.project, ".cursor", "mcp.json"), `{"mcpServers": {"db": {"command": "y"}}}`)
	for name, want := range map[string]int{"db": 2, "cursor/db": 1, "claude-code/db": 1} {
		list, err := wanted(c.load(), []string{name})
		if err != nil || len(list) != want {
			t.Errorf("%s: %d definitions, %v; want %d", name, len(list), err, want)
		}
	}
	if _, err := wanted(c.load(), []string{"vscode/db"}); err == nil {
		t.Error("another agent's: no error")
	}
}
