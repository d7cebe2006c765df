package discovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// loadAs loads the tree as the given system would, with variables.
func (tr tree) loadAs(t *testing.T, goos string, vars map[string]string) (Result, string) {
	t.Helper()
	root := tr.write(t)
	for name, value := range vars {
		vars[name] = strings.ReplaceAll(value, "ROOT", root)
	}
	opts := Options{Home: root + "/home", Cwd: root + "/work", GOOS: goos, Getenv: environment(vars)}
	return Load(opts), root
}

func TestEverySystemHasItsPaths(t *testing.T) {
	const one = `{"mcpServers": {"s": {"command": "x"}}}`
	tests := []struct {
		file, goos, text, agent string
		vars                    map[string]string
	}{
		{file: "home/.config/Claude/claude_desktop_config.json", goos: "linux", text: one, agent: "claude-desktop"},
		{file: "home/.config/claude/claude_desktop_config.json", goos: "linux", text: one, agent: "claude-desktop"},
		{file: "xdg/Claude/claude_desktop_config.json", goos: "linux", text: one, agent: "claude-desktop", vars: map[string]string{"XDG_CONFIG_HOME": "ROOT/xdg"}},
		{file: "home/Library/Application Support/Claude/claude_desktop_config.json", goos: "darwin", text: one, agent: "claude-desktop"},
		{file: "home/AppData/Roaming/Claude/claude_desktop_config.json", goos: "windows", text: one, agent: "claude-desktop"},
		{file: "roam/Claude/claude_desktop_config.json", goos: "windows", text: one, agent: "claude-desktop", vars: map[string]string{"APPDATA": "ROOT/roam"}},
		{file: "home/Library/Application Support/Code - Insiders/User/mcp.json", goos: "darwin", text: `{"servers": {"s": {"command": "x"}}}`, agent: "vscode"},
		{file: "home/.config/Code/User/profiles/p1/mcp.json", goos: "linux", text: `{"servers": {"s": {"command": "x"}}}`, agent: "vscode"},
		{file: "home/.vscode-server/data/User/mcp.json", goos: "linux", text: `{"servers": {"s": {"command": "x"}}}`, agent: "vscode"},
		{file: "work/.devcontainer/devcontainer.json", goos: "linux", text: `{"customizations": {"vscode": {"mcp": {"servers": {"s": {"command": "x"}}}}}}`, agent: "vscode"},
		{file: "home/AppData/Local/github-copilot/intellij/mcp.json", goos: "windows", text: `{"servers": {"s": {"command": "x"}}}`, agent: "copilot-jetbrains"},
		{file: "home/.codeium/windsurf/mcp_config.json", goos: "linux", text: one, agent: "windsurf"},
		{file: "home/AppData/Roaming/zed/settings.json", goos: "windows", text: `{"context_servers": {"s": {"command": "x"}}}`, agent: "zed"},
		{file: "home/.config/amp/settings.json", goos: "linux", text: `{"amp.mcpServers": {"s": {"command": "x"}}}`, agent: "amp"},
		{file: "home/.vibe/config.toml", goos: "linux", text: "[[mcp_servers]]\nname = \"s\"\ncommand = \"x\"\n", agent: "vibe"},
		{file: "cx/config.toml", goos: "linux", text: "mcp_servers.s.command = 'x'\n", agent: "codex", vars: map[string]string{"CODEX_HOME": "ROOT/cx"}},
		{file: "home/AppData/Roaming/Block/goose/config/config.yaml", goos: "windows", text: "extensions:\n  s: {type: stdio, cmd: x, args: []}\n", agent: "goose"},
		{file: "home/AppData/Local/crush/crush.json", goos: "windows", text: `{"mcp": {"s": {"command": "x"}}}`, agent: "crush"},
		{file: "home/.local/share/crush/crush.json", goos: "darwin", text: `{"mcp": {"s": {"command": "x"}}}`, agent: "crush"},
		{file: "home/.config/kilo/kilo.jsonc", goos: "linux", text: `{"mcp": {"s": {"type": "local", "command": ["x"],}}}`, agent: "kilo-code"},
		{file: "home/.gemini/extensions/e/gemini-extension.json", goos: "linux", text: one, agent: "gemini-cli"},
		{file: "cl/settings/cline_mcp_settings.json", goos: "linux", text: one, agent: "cline", vars: map[string]string{"CLINE_DATA_DIR": "ROOT/cl"}},
		{file: "cl.json", goos: "linux", text: one, agent: "cline", vars: map[string]string{"CLINE_MCP_SETTINGS_PATH": "ROOT/cl.json"}},
		{file: "home/.config/5ire/mcp.json", goos: "linux", text: `{"servers": [{"key": "s", "command": "x"}]}`, agent: "5ire"},
		{file: "home/.config/mcp/mcp.json", goos: "linux", text: `{"programs": {"mcp": {"servers": {"s": {"command": "x"}}}}}`, agent: "home-manager"},
		{file: "work/.continue/mcpServers/s.json", goos: "linux", text: `{"command": "x"}`, agent: "continue"},
		{file: "work/.warp/.mcp.json", goos: "linux", text: `{"s": {"command": "x"}}`, agent: "warp"},
		{file: "home/AppData/Roaming/Qoder/SharedClientCache/mcp.json", goos: "windows", text: one, agent: "qoder"},
		{file: "work/.air/mcp.json", goos: "linux", text: one, agent: "air"},
	}
	for _, tt := range tests {
		t.Run(tt.goos+" "+tt.file, func(t *testing.T) {
			res, root := tree{tt.file: tt.text, "work/x": ""}.loadAs(t, tt.goos, tt.vars)
			if len(res.Servers) != 1 || len(res.Problems) != 0 {
				t.Fatalf("got %q, problems %q", names(res.Servers), problems(res))
			}
			s := res.Servers[0]
			if s.Name != "s" || s.Command != "x" || s.Agent() != tt.agent || s.Sources[0].Path != filepath.Join(root, tt.file) {
				t.Errorf("got %s of %s in %s", s.Name, s.Agent(), s.Sources[0].Path)
			}
		})
	}
}

func TestAgentsWordsAreUnderstood(t *testing.T) {
	tests := []struct {
		name, file, text string
		want             Server
	}{
		{"goose", "home/.config/goose/config.yaml", "extensions:\n  s:\n    type: streamable_http\n    uri: https://e.test/mcp\n    headers: {A: b}\n    timeout: 30\n    available_tools: []\n",
			Server{Transport: HTTP, URL: "https://e.test/mcp", Headers: map[string]string{"A": "b"}, StartTimeout: 30 * time.Second, CallTimeout: 30 * time.Second}},
		{"continue with a key", "home/.continue/config.yaml", "mcpServers:\n- name: s\n  url: https://e.test\n  apiKey: k\n",
			Server{Transport: Auto, URL: "https://e.test", Headers: map[string]string{"Authorization": "Bearer k"}}},
		{"cline without a type", "home/.cline/data/settings/cline_mcp_settings.json", `{"mcpServers": {"s": {"url": "https://e.test", "timeout": 99999}}}`,
			Server{Transport: SSE, URL: "https://e.test", StartTimeout: time.Hour, CallTimeout: time.Hour}},
		{"zed without a type", "home/.config/zed/settings.json", `{"context_servers": {"s": {"url": "https://e.test"}}}`,
			Server{Transport: HTTP, URL: "https://e.test"}},
		{"gemini's httpUrl", "home/.gemini/settings.json", `{"mcpServers": {"s": {"httpUrl": "https://a.test", "url": "https://b.test", "type": "sse"}}}`,
			Server{Transport: HTTP, URL: "https://a.test"}},
		{"windsurf's serverUrl", "home/.codeium/windsurf/mcp_config.json", `{"mcpServers": {"s": {"serverUrl": "https://a.test"}}}`,
			Server{Transport: Auto, URL: "https://a.test"}},
		{"opencode's tools", "home/.config/opencode/opencode.json", `{"mcp": {"s": {"type": "local", "command": ["x", "y"]}}, "tools": {"s_*": false, "t_*": false}}`,
			Server{Transport: Stdio, Command: "x", Args: []string{"y"}, Tools: Filter{Deny: []string{"*"}}}},
		{"amazon's agents", "home/.aws/amazonq/cli-agents/a.json", `{"mcpServers": {"s": {"command": "x"}}, "tools": ["@s/one", "@t"], "allowedTools": ["@s/one"]}`,
			Server{Transport: Stdio, Command: "x", Tools: Filter{Allow: []string{"one"}}, Approved: []string{"one"}}},
		{"codex's limits of starts and calls", "home/.codex/config.toml", "[mcp_servers.s]\ncommand = 'x'\nstartup_timeout_ms = 2500\n",
			Server{Transport: Stdio, Command: "x", StartTimeout: 2500 * time.Millisecond}},
		{"codex's limit of calls", "home/.codex/config.toml", "[mcp_servers.s]\ncommand = 'x'\ntool_timeout_sec = 90\n",
			Server{Transport: Stdio, Command: "x", CallTimeout: 90 * time.Second}},
		{"qwen's limits", "home/.qwen/settings.json", `{"mcpServers": {"s": {"command": "x", "discoveryTimeoutMs": 500, "timeout": 7000}}}`,
			Server{Transport: Stdio, Command: "x", StartTimeout: 500 * time.Millisecond, CallTimeout: 7 * time.Second}},
		{"librechat's limits", "work/librechat.yaml", "mcpServers:\n  s: {command: x, args: [], initTimeout: 10, timeout: 20}\n",
			Server{Transport: Stdio, Command: "x", StartTimeout: 10 * time.Millisecond, CallTimeout: 20 * time.Millisecond}},
		{"librechat with YAML's own words", "work/librechat.yaml", "base: &b {timeout: 5}\nmcpServers:\n  s:\n    <<: *b\n    command: x\n    args: ['a', 1.50, yes]\n    env: {N: null, P: 0x10}\n",
			Server{Transport: Stdio, Command: "x", Args: []string{"a", "1.50", "yes"}, Env: map[string]string{"P": "0x10"}, Unset: []string{"N"}, StartTimeout: 5 * time.Millisecond, CallTimeout: 5 * time.Millisecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, _ := tree{tt.file: tt.text, "work/x": ""}.load(t)
			if len(res.Servers) != 1 || len(res.Problems) != 0 {
				t.Fatalf("got %q, problems %q", names(res.Servers), problems(res))
			}
			got := res.Servers[0]
			got.Name, got.Sources, got.Root, got.dialect, got.vars = "", nil, "", "", nil
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Server{})); diff != "" {
				t.Errorf("server (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEntriesThatCannotBeUsedAreTold(t *testing.T) {
	tests := []struct{ file, text, want string }{
		{"home/.codex/config.toml", "[mcp_servers.s]\nurl = 'https://e.test'\nbearer_token = 'secret'\n", "bearer_token is refused by the agent"},
		{"home/.config/goose/config.yaml", "extensions:\n  s: {type: builtin, name: developer}\n", "the agent runs it inside itself"},
		{"home/.config/zed/settings.json", `{"context_servers": {"s": {"settings": {}}}}`, "an extension of the editor runs it"},
		{"work/.roo/mcp.json", `{"mcpServers": {"s": {"type": "sse", "command": "x", "url": "https://e.test"}}}`, "which the agent refuses"},
		{"home/.continue/config.yaml", "mcpServers:\n- uses: a/b\n", "it is a block of a hub"},
		{"home/.codex/config.toml", "[mcp_servers.s]\ncommand = 'x'\n[mcp_servers.s]\n", "config.toml:3: it is not valid TOML"},
		{"home/.codex/config.toml", "a = " + strings.Repeat("[", 1000), "nested more than 200 deep"},
		{"home/.continue/config.yaml", "mcpServers:\n  - name: \"a\n", "it is not valid YAML"},
		{"home/.continue/config.yaml", "a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
			"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\nmcpServers: [*f,*f,*f,*f]\n", "once its aliases are in place"},
		{"home/.continue/config.yaml", "mcpServers: &a [*a]\n", "an anchor contains itself"},
		{"home/.continue/config.yaml", strings.Repeat("a: b\n", 200_000), "more than 3000 keys"},
		{"home/.continue/config.yaml", strings.Repeat("- ", 1000) + "x", "nested more than 200 deep"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			res, _ := tree{tt.file: tt.text, "home/MCPs/n.json": `{"mcpServers": {"neighbour": {"command": "n"}}}`, "work/x": ""}.load(t)
			told := problems(res)
			if diff := cmp.Diff([]string{"neighbour"}, names(res.Servers)); diff != "" || !strings.Contains(told, tt.want) {
				t.Errorf("servers (-want +got):\n%s\nproblems: %q, want %q in it", diff, told, tt.want)
			}
			if strings.Contains(told, "secret") {
				t.Errorf("a problem holds a value: %s", told)
			}
		})
	}
}

func TestListsOfOtherAgentsSwitchServersOff(t *testing.T) {
	const three = `"mcpServers": {"a": {"command": "a"}, "B ": {"command": "b"}, "scrap": {"command": "c"}}`
	tests := []struct {
		name  string
		files tree
		want  string
	}{
		{"an empty allowed list blocks all", tree{"home/.gemini/settings.json": `{"mcp": {"allowed": []}, ` + three + `}`}, ""},
		{"names are compared without case and space", tree{"home/.gemini/settings.json": `{"mcp": {"allowed": ["A", "b"]}, ` + three + `}`}, "B  a"},
		{"excluded wins", tree{"home/.gemini/settings.json": `{"mcp": {"allowed": ["a", "b"], "excluded": ["A"]}, ` + three + `}`}, "B "},
		{"a project allows nothing that the person does not", tree{"home/.gemini/settings.json": `{"mcp": {"allowed": ["a"]}, ` + three + `}`,
			"work/.gemini/settings.json": `{"mcp": {"allowed": ["a", "scrap"]}}`}, "a"},
		{"enablement", tree{"home/.gemini/settings.json": `{` + three + `}`, "home/.gemini/mcp-server-enablement.json": `{"SCRAP": {"enabled": false}, "a": {"enabled": true}}`}, "B  a"},
		{"qwen has patterns", tree{"home/.qwen/settings.json": `{"mcp": {"allowed": ["?", "s*"], "excluded": ["*rap"]}, ` + three + `}`}, "a"},
		{"a plugin that is not enabled", tree{"home/.claude/plugins/cache/m/p/1.9/.mcp.json": `{` + three + `}`}, ""},
		{"the highest version of a plugin that is", tree{"home/.claude/plugins/cache/m/p/1.9/.mcp.json": `{` + three + `}`,
			"home/.claude/plugins/cache/m/p/1.10/.mcp.json": `{"new": {"command": "n"}}`, "home/.claude/settings.json": `{"enabledPlugins": {"p@m": true}}`}, "new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, _ := tt.files.load(t)
			if got := strings.Join(names(res.Servers), " "); got != tt.want {
				t.Errorf("got %q, want %q; disabled %q", got, tt.want, names(res.Disabled))
			}
		})
	}
}

func TestMergedFilesKeepThePersonsOwnWhenAProjectIsNotTrusted(t *testing.T) {
	root := tree{
		"home/.config/opencode/opencode.json": `{"mcp": {"s": {"type": "remote", "url": "https://mine.test", "headers": {"A": "token"}}}}`,
		"work/opencode.json":                  `{"mcp": {"s": {"url": "https://theirs.test"}}}`,
	}.write(t)
	opts := Options{Home: root + "/home", Cwd: root + "/work"}
	if got := find(t, Load(opts).Servers, "s"); got.URL != "https://theirs.test" || got.Headers["A"] != "token" || got.Sources[0].Scope != ScopeProject {
		t.Errorf("merged: got %s with %v of %s", got.URL, got.Headers, got.Sources[0].Scope)
	}
	opts.Trust = func(Server) string { return "not approved" }
	res := Load(opts)
	if got := find(t, res.Servers, "s"); got.URL != "https://mine.test" || len(res.Held) != 1 {
		t.Errorf("untrusted: got %s, held %q", got.URL, names(res.Held))
	}
}

func TestDialects(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(" text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := environment(map[string]string{"A": "a", "E": ""})
	tests := []struct {
		dialect   dialect
		text      string
		args, env string // what it becomes there
		missing   string // in the error
	}{
		{windsurfDialect, "${env:A} ${file:" + secret + "} $A ${A}", "a text $A ${A}", "a text $A ${A}", ""},
		{windsurfDialect, "${file:/none/such}", "${file:/none/such}", "${file:/none/such}", "file /none/such cannot be read"},
		{opencodeDialect, "{env:A} {file:" + secret + "} ${A} {env:NONE}", "a text ${A} ", "a text ${A} ", "variable NONE"},
		{geminiDialect, "$A ${A} ${NONE:-d} $NONE $$ %A%", "a a d $NONE $$ %A%", "a a d  $$ %A%", "variable NONE"},
		{geminiWindowsDialect, "%A% $A", "%A% a", "a a", ""},
		{copilotDialect, "$A ${A} ${NONE:-d}", "a a d", "a a d", ""},
		{clineDialect, "${env:A} ${workspaceFolder} $A", "a ${workspaceFolder} $A", "a ${workspaceFolder} $A", ""},
		{rooDialect, "${env:A} ${workspaceFolder}", "a /w", "a /w", ""},
		{amazonDialect, "${env:A} ${env:NONE}", "${env:A} ${env:NONE}", "a ${NONE}", "variable NONE"},
		{kiroDialect, "${A} ${env:A}", "${A} ${env:A}", "a ${env:A}", ""},
		{crushDialect, `$A ${A} ${E:-d} ${E-d} \$A`, `a a d  $A`, `a a d  $A`, ""},
		{crushDialect, "x $(touch /tmp/no) $A", "x $(touch /tmp/no) $A", "x $(touch /tmp/no) $A", "commands in config files are not run"},
		{crushDialect, "`id`", "`id`", "`id`", "commands in config files are not run"},
		{librechatDialect, "${A} {{LIBRECHAT_USER_ID}}", "${A} {{LIBRECHAT_USER_ID}}", "a {{LIBRECHAT_USER_ID}}", ""},
		{dockerDialect, "{{s.host}} ${A}", "h ${A}", "h ${A}", ""},
		{dockerDialect, "{{s.none}}", "{{s.none}}", "{{s.none}}", "value s.none is not in config.yaml"},
		{continueDialect, "${{ secrets.A }} ${{inputs.X}}", "a ${{inputs.X}}", "a ${{inputs.X}}", "input X"},
		{continueJSONDialect, "${A}", "${A}", "a", ""},
	}
	for _, tt := range tests {
		t.Run(string(tt.dialect)+" "+tt.text, func(t *testing.T) {
			s := Server{Name: "x", dialect: tt.dialect, Args: []string{tt.text}, Env: map[string]string{"V": tt.text}, vars: map[string]string{"s.host": "h"}}
			got, err := s.Expand(env, dir, "/w")
			if got.Args[0] != tt.args || got.Env["V"] != tt.env {
				t.Errorf("got %q in args and %q in env, want %q and %q", got.Args[0], got.Env["V"], tt.args, tt.env)
			}
			if (err != nil) != (tt.missing != "") || err != nil && !strings.Contains(err.Error(), tt.missing) {
				t.Errorf("got the error %v, want %q in it", err, tt.missing)
			}
		})
	}
}
