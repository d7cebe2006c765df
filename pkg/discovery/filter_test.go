package discovery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAgentsListsOfToolsAreReadInAllSpellings(t *testing.T) {
	for _, row := range []struct {
		name, fields string
		want         Filter
		approved     []string
	}{
		{"disabled and approved", `"disabledTools": ["rm"], "autoApprove": ["ls"]`, Filter{Deny: []string{"rm"}}, []string{"ls"}},
		{"excluded and included", `"includeTools": ["a", "b"], "excludeTools": ["b"]`, Filter{Allow: []string{"a", "b"}, Deny: []string{"b"}}, nil},
		{"always allowed", `"alwaysAllow": ["get"]`, Filter{}, []string{"get"}},
		{"tools", `"tools": ["list", "get"]`, Filter{Allow: []string{"list", "get"}}, nil},
		{"no tools", `"tools": []`, Filter{Allow: []string{}}, nil},
		{"tools that are settings", `"tools": {"a": {"approval_mode": "auto"}}`, Filter{}, nil},
		{"available tools", `"available_tools": ["a"]`, Filter{Allow: []string{"a"}}, nil},
		{"no available tools are all", `"available_tools": []`, Filter{}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			entry := `{"mcpServers": {"s": {"command": "x", ` + row.fields + `}}}`
			res, _ := tree{"home/MCPs/a.json": entry}.load(t)
			s := find(t, res.Servers, "s")
			if diff := cmp.Diff(row.want, s.Tools); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(row.approved, s.Approved); diff != "" {
				t.Errorf("approved (-want +got):\n%s", diff)
			}
			res, _ = tree{"work/.mcp.json": entry}.load(t)
			if s := find(t, res.Servers, "s"); s.Approved != nil {
				t.Errorf("a project's file approves %v", s.Approved)
			}
		})
	}
}

func TestPatternsOfTools(t *testing.T) {
	f := Filter{Allow: []string{"get_*", "a*b*c", "one"}, Deny: []string{"*secret*"}}
	for tool, want := range map[string]bool{
		"get_x": true, "get_": true, "get": false, "one": true, "one_": false, "abc": true, "a1b2c": true, "ac": false, "ab": false,
		"get_secrets": false, "secret": false,
	} {
		if got := f.Allows(tool); got != want {
			t.Errorf("%s: got %v, want %v", tool, got, want)
		}
	}
}

func TestClaudeCodesPermissionsAreHonoured(t *testing.T) {
	rules := func(deny, allow string) string {
		return `{"permissions": {"deny": [` + deny + `, "Bash(rm:*)"], "allow": [` + allow + `]}}`
	}
	res, _ := tree{
		"home/.claude.json":                `{"mcpServers": {"my docs": {"command": "x"}, "docs": {"command": "y"}, "off": {"command": "z"}}}`,
		"home/.claude/settings.json":       rules(`"mcp__docs__delete", "mcp__off"`, `"mcp__docs__search"`),
		"work/.claude/settings.json":       rules(`"mcp__my_docs__purge"`, `"mcp__docs__burn"`),
		"work/.claude/settings.local.json": rules(`"mcp__docs__my"`, `"mcp__my_docs"`),
	}.load(t)
	for _, row := range []struct{ server, denied, permitted, approved, asked string }{
		{"docs", "delete my", "search burn", "search", "burn other"},
		{"my docs", "purge", "search", "anything", ""},
		{"off", "a b", "", "", "a"},
	} {
		s := find(t, res.Servers, row.server)
		for _, tool := range strings.Fields(row.denied) {
			if s.Tools.Allows(tool) {
				t.Errorf("%s may call %s", row.server, tool)
			}
		}
		for _, tool := range strings.Fields(row.permitted) {
			if !s.Tools.Allows(tool) {
				t.Errorf("%s may not call %s", row.server, tool)
			}
		}
		for _, tool := range strings.Fields(row.approved) {
			if !s.Approves(tool) {
				t.Errorf("%s: %s is not approved", row.server, tool)
			}
		}
		for _, tool := range strings.Fields(row.asked) {
			if s.Approves(tool) {
				t.Errorf("%s: %s is approved", row.server, tool)
			}
		}
	}
}
