package discovery

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOpenCodesTextInAVariable(t *testing.T) {
	files := tree{
		"home/.config/opencode/opencode.json": `{"mcp": {"s": {"type": "local", "command": ["user"]}, "u": {"type": "local", "command": ["u"]}}}`,
		"work/opencode.json":                  `{"mcp": {"s": {"type": "local", "command": ["project"], "environment": {"A": "1"}}}}`,
		"work/token":                          " secret\n",
	}
	res, root := files.loadAs(t, "linux", map[string]string{
		"OPENCODE_CONFIG_CONTENT": `{"mcp": {"s": {"command": ["content"]}, // stronger than the project's
			"c": {"type": "remote", "url": "https://c.test", "headers": {"X": "{file:token}"}}, "d": 5,}}`,
	})
	s := find(t, res.Servers, "s")
	if s.Command != "content" || s.Env["A"] != "1" || s.Sources[0].Scope != ScopeProject {
		t.Errorf("got %s with %v of scope %s", s.Command, s.Env, s.Sources[0].Scope)
	}
	c := find(t, res.Servers, "c")
	if got := c.Sources[0].String(); got != "$OPENCODE_CONFIG_CONTENT:2 (mcp.c)" || c.Sources[0].Scope != ScopeUser {
		t.Errorf("got %s of scope %s", got, c.Sources[0].Scope)
	}
	c, err := c.Expand(environment(nil), root+"/home", root+"/work")
	if err != nil || c.Headers["X"] != "secret" {
		t.Errorf("got %v, %v", c.Headers, err)
	}
	find(t, res.Servers, "u")
	if got := problems(res); !strings.Contains(got, "$OPENCODE_CONFIG_CONTENT:2 (mcp.d): the entry is a number") {
		t.Errorf("problems: %s", got)
	}

	res, _ = files.loadAs(t, "linux", map[string]string{"OPENCODE_CONFIG_CONTENT": "{\n\"mcp\": {"})
	if got := problems(res); !strings.Contains(got, "$OPENCODE_CONFIG_CONTENT:2: the file ends") {
		t.Errorf("problems: %s", got)
	}
	if s := find(t, res.Servers, "s"); s.Command != "project" {
		t.Errorf("got %s", s.Command)
	}
}

func TestOpenCodesValuesOutsideOfStrings(t *testing.T) {
	res, root := tree{
		"home/.config/opencode/opencode.jsonc": `{ // {env:COMMENT} {file:nowhere}
			"mcp": {
				"a": {"type": "local", "command": {file:./a.json}, "timeout": {env:MS}, "enabled": {env:ON}, "environment": {"B": "{env:B}"}},
				"b": {"type": "local", "command": [{env:PROGRAM}], "timeout": {env:UNSET}},
				"c": {file:absent.json},
				"z": {"type": "local", "command": ["z"]},
			}}`,
		"home/.config/opencode/a.json": "[\"a\", // the program\n \"-v\",\n]\n",
		"work/x":                       "",
	}.loadAs(t, "linux", map[string]string{"MS": "700", "ON": "false", "PROGRAM": `b "quoted"`, "B": "b"})
	a := find(t, res.Disabled, "a")
	if diff := cmp.Diff([]string{"-v"}, a.Args); diff != "" || a.Command != "a" || a.StartTimeout != 700*time.Millisecond || a.Env["B"] != "{env:B}" {
		t.Errorf("got %+v", a)
	}
	if b := find(t, res.Servers, "b"); b.Command != `b "quoted"` || b.Sources[0].Line != 4 {
		t.Errorf("got %q on line %d", b.Command, b.Sources[0].Line)
	}
	if z := find(t, res.Servers, "z"); z.Sources[0].Line != 6 {
		t.Errorf("z is on line %d", z.Sources[0].Line)
	}
	for _, want := range []string{":4: {env:UNSET} has no value", ":5: {file:absent.json} has no value", ":5 (mcp.c): the entry is null"} {
		if !strings.Contains(problems(res), want) {
			t.Errorf("no problem %q in\n%s", want, problems(res))
		}
	}
	if !slices.Contains(res.Looked, filepath.Join(root, "home/.config/opencode/absent.json")) {
		t.Errorf("looked at %q", res.Looked)
	}
}

func TestAScriptIsToldAndNotRun(t *testing.T) {
	res, _ := tree{
		"work/.crushrc": "# mcp in a comment\nexport X=1\ncrush_mcp add git\n", "work/crushrc": "alias ll=ls\n",
		"work/.crush.json": `{"mcp": {"s": {"command": "x"}}}`,
	}.load(t)
	find(t, res.Servers, "s")
	if got := problems(res); strings.Count(got, "\n") != 1 || !strings.Contains(got, ".crushrc:3: it is a script") {
		t.Errorf("problems: %s", got)
	}
}

func TestAmazonsOldFilesCountWhenAnAgentSaysSo(t *testing.T) {
	const legacy = `{"mcpServers": {"old": {"command": "x"}}}`
	tests := []struct {
		name  string
		files tree
		on    bool
	}{
		{"no agents", tree{}, true},
		{"an agent that says nothing", tree{"home/.aws/amazonq/cli-agents/a.json": `{"mcpServers": {"new": {"command": "n"}}}`}, false},
		{"an agent that says so", tree{"home/.aws/amazonq/cli-agents/a.json": `{"useLegacyMcpJson": true}`}, true},
		{"an agent that says no beside one that says so", tree{
			"home/.aws/amazonq/cli-agents/a.json": `{"useLegacyMcpJson": false}`, "home/.aws/amazonq/agents/default.json": `{"useLegacyMcpJson": true}`}, true},
		{"a project's agent says nothing of the person's file", tree{"work/.amazonq/cli-agents/a.json": `{"useLegacyMcpJson": false}`}, true},
	}
	for _, tt := range tests {
		tt.files["home/.aws/amazonq/mcp.json"], tt.files["work/x"] = legacy, ""
		res, _ := tt.files.load(t)
		list := res.Disabled
		if tt.on {
			list = res.Servers
		}
		if !slices.Contains(names(list), "old") {
			t.Errorf("%s: on %q, off %q", tt.name, names(res.Servers), names(res.Disabled))
		}
	}
}

func TestKirosVariablesNeedApprovalWhereThereIsAList(t *testing.T) {
	const file = `{"mcpServers": {"s": {"command": "x", "env": {"A": "${A}", "B": "${B}"}}}}`
	tests := []struct {
		name, settings, text, want string
	}{
		{"no list", "", "", ""},
		{"a list with both", "home/.kiro/settings/cli.json", `{"kiroAgent.mcpApprovedEnvVars": ["A", "B"]}`, ""},
		{"a list with one", "home/.config/Kiro/User/settings.json", `{"kiroAgent.mcpApprovedEnvVars": ["A"]}`, "variable B is not among those that are approved in Kiro"},
		{"an empty list", "home/.kiro/settings/cli.json", `{"kiroAgent.mcpApprovedEnvVars": []}`, "variable A is not among those that are approved in Kiro"},
	}
	for _, tt := range tests {
		files := tree{"home/.kiro/settings/mcp.json": file, "work/x": ""}
		if tt.settings != "" {
			files[tt.settings] = tt.text
		}
		vars := map[string]string{"A": "1", "B": "2"}
		res, root := files.loadAs(t, "linux", vars)
		s, err := find(t, res.Servers, "s").Expand(environment(vars), root+"/home", root+"/work")
		if tt.want == "" && (err != nil || s.Env["B"] != "2") || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, %v", tt.name, s.Env, err)
		}
	}
}

// loadManaged loads a tree whose folder system holds the machine's settings.
func (tr tree) loadManaged(t *testing.T, goos string) Result {
	t.Helper()
	root := tr.write(t)
	l := newTestLoader(Options{Home: root + "/home", Cwd: root + "/work", GOOS: goos, Getenv: environment(nil)})
	l.system = root + "/system"
	for i := range sources {
		l.readSource(i)
	}
	l.mergeFiles()
	l.switchOff()
	return l.resolve()
}

func TestAnAdministratorsWordOnClaudeCode(t *testing.T) {
	const user = `{"mcpServers": {"a": {"command": "npx", "args": ["-y", "a"]}, "b": {"command": "npx", "args": ["b"]}, "c": {"url": "https://c.corp.test/mcp"}, "d": {"url": "https://d.test"}}}`
	tests := []struct {
		name, goos, file, text string
		on                     []string
	}{
		{"nothing", "linux", "x", "", []string{"a", "b", "c", "d"}},
		{"servers of the machine alone", "linux", "system/claude-code/managed-mcp.json", `{"mcpServers": {"m": {"command": "m"}}}`, []string{"m"}},
		{"those on macOS", "darwin", "system/ClaudeCode/managed-mcp.json", `{"mcpServers": {"m": {"command": "m"}}}`, []string{"m"}},
		{"those on Windows", "windows", "system/ClaudeCode/managed-mcp.json", `{"mcpServers": {"m": {"command": "m"}}}`, []string{"m"}},
		{"no servers at all", "linux", "system/claude-code/managed-mcp.json", `{"mcpServers": {}}`, []string{}},
		{"servers of the machine that can't be read", "linux", "system/claude-code/managed-mcp.json", `{"mcpServers": {`, []string{}},
		{"allowed names", "linux", "system/claude-code/managed-settings.json", `{"allowedMcpServers": [{"serverName": "a"}, {"serverName": "d"}]}`, []string{"a", "d"}},
		{"nothing is allowed", "linux", "system/claude-code/managed-settings.json", `{"allowedMcpServers": []}`, []string{}},
		{"allowed commands", "linux", "system/claude-code/managed-settings.json",
			`{"allowedMcpServers": [{"serverCommand": ["npx", "b"]}, {"serverName": "a"}, {"serverName": "d"}]}`, []string{"b", "d"}},
		{"allowed addresses", "linux", "system/claude-code/managed-settings.json",
			`{"allowedMcpServers": [{"serverUrl": "https://*.corp.test/*"}, {"serverName": "b"}]}`, []string{"b", "c"}},
		{"denied names, commands and addresses", "linux", "system/claude-code/managed-settings.json",
			`{"deniedMcpServers": [{"serverName": "b"}, {"serverCommand": ["npx", "-y", "a"]}, {"serverUrl": "https://d.test"}, {"other": 1}, 5]}`, []string{"c"}},
		{"denial is stronger than allowance", "linux", "system/claude-code/managed-settings.json",
			`{"allowedMcpServers": [{"serverName": "a"}, {"serverName": "b"}], "deniedMcpServers": [{"serverName": "b"}]}`, []string{"a"}},
		{"a person's own list of allowed ones says nothing", "linux", "home/.claude/settings.json", `{"allowedMcpServers": []}`, []string{"a", "b", "c", "d"}},
	}
	for _, tt := range tests {
		files := tree{"home/.claude.json": user, "home/.cursor/mcp.json": `{"mcpServers": {"other": {"command": "o"}}}`, "work/x": "", tt.file: tt.text}
		res := files.loadManaged(t, tt.goos)
		got := slices.DeleteFunc(names(res.Servers), func(name string) bool { return name == "other" })
		if diff := cmp.Diff(tt.on, got); diff != "" {
			t.Errorf("%s: on (-want +got):\n%soff: %q", tt.name, diff, names(res.Disabled))
		}
		find(t, res.Servers, "other")
	}
}

func TestClaudeCodesLimitsComeFromItsEnvironment(t *testing.T) {
	files := tree{"home/.claude.json": `{"mcpServers": {"s": {"command": "x"}}}`, "home/.cursor/mcp.json": `{"mcpServers": {"o": {"command": "x"}}}`, "work/x": ""}
	res, root := files.load(t)
	for text, want := range map[string]time.Duration{"2500": 2500 * time.Millisecond, "x": 0, "-1": 0, "9223372036854775807": maxTimeout} {
		env := environment(map[string]string{"MCP_TIMEOUT": text})
		s, err := find(t, res.Servers, "s").Expand(env, root+"/home", root+"/work")
		o, _ := find(t, res.Servers, "o").Expand(env, root+"/home", root+"/work")
		if err != nil || s.StartTimeout != want || s.CallTimeout != 0 || o.StartTimeout != 0 {
			t.Errorf("%s: got %s, %s and %s, %v", text, s.StartTimeout, s.CallTimeout, o.StartTimeout, err)
		}
	}
}

func TestAServerThroughMCPRemoteIsTheServer(t *testing.T) {
	tests := []struct {
		name, a, b string
		same       bool
	}{
		{"the plain form", `{"command": "npx", "args": ["-y", "mcp-remote", "https://a.test/mcp"]}`, `{"url": "https://a.test/mcp"}`, true},
		{"a version and options", `{"command": "npx", "args": ["mcp-remote@0.1.2", "https://a.test/mcp", "3334", "--transport", "http-only", "--allow-http"]}`, `{"url": "https://a.test/mcp", "type": "http"}`, true},
		{"through cmd", `{"command": "cmd", "args": ["/c", "npx", "-y", "mcp-remote", "https://a.test/mcp"]}`, `{"url": "https://a.test/mcp"}`, true},
		{"bunx and npm", `{"command": "npm", "args": ["exec", "--", "mcp-remote", "https://a.test/mcp"]}`, `{"url": "https://a.test/mcp"}`, true},
		{"a header with a variable of the entry", `{"command": "npx", "args": ["mcp-remote", "https://a.test/mcp", "--header", "Authorization:${AUTH}"], "env": {"AUTH": "Bearer t"}}`,
			`{"url": "https://a.test/mcp", "headers": {"Authorization": "Bearer t"}}`, true},
		{"another header", `{"command": "npx", "args": ["mcp-remote", "https://a.test/mcp", "--header", "Authorization: other"]}`,
			`{"url": "https://a.test/mcp", "headers": {"Authorization": "Bearer t"}}`, false},
		{"another address", `{"command": "npx", "args": ["mcp-remote", "https://b.test/mcp"]}`, `{"url": "https://a.test/mcp"}`, false},
		{"another program", `{"command": "node", "args": ["mcp-remote", "https://a.test/mcp"]}`, `{"url": "https://a.test/mcp"}`, false},
		{"an argument of another package", `{"command": "npx", "args": ["wrapper", "mcp-remote", "https://a.test/mcp"]}`, `{"url": "https://a.test/mcp"}`, false},
	}
	for _, tt := range tests {
		res, _ := tree{"home/.claude.json": `{"mcpServers": {"s": ` + tt.a + `}}`, "home/.cursor/mcp.json": `{"mcpServers": {"s": ` + tt.b + `}}`, "work/x": ""}.load(t)
		if got := len(res.Servers) == 1 && len(res.Servers[0].Sources) == 2; got != tt.same {
			t.Errorf("%s: one server is %t, want %t; servers %q", tt.name, got, tt.same, names(res.Servers))
		}
	}
}

func TestWordsOfAgentsThatSayWhyNot(t *testing.T) {
	res, _ := tree{
		"home/.docker/mcp/catalogs/c.yaml": "registry:\n  tools:\n    type: poci\n    image: x/y\n    tools:\n    - {name: t}\n",
		"work/x":                           "",
	}.load(t)
	if got := problems(res); !strings.Contains(got, "c.yaml:2 (registry.tools): it is of type poci: each of its tools is a container") {
		t.Errorf("problems: %s", got)
	}
}

func TestGeminisTrustApprovesAllTools(t *testing.T) {
	const text = `{"mcpServers": {"s": {"command": "x", "trust": true}, "t": {"command": "x", "trust": "yes"}}}`
	res, _ := tree{"home/.gemini/settings.json": text, "work/x": ""}.load(t)
	if s, other := find(t, res.Servers, "s"), find(t, res.Servers, "t"); !s.Approves("any") || other.Approves("any") {
		t.Errorf("approved: %q and %q", s.Approved, other.Approved)
	}
	res, _ = tree{"work/.gemini/settings.json": text}.load(t)
	if s := find(t, res.Servers, "s"); s.Approves("any") {
		t.Errorf("a project's file approves %q", s.Approved)
	}
}

func TestValuesThatOnlyAnEditorHas(t *testing.T) {
	res, root := tree{"work/.vscode/mcp.json": `{"servers": {"s": {"command": "x", "args": ["${config:a.b}", "${command:c}", "${file}", "${workspaceFolder:work}", "${other}"]}}}`}.load(t)
	s, err := find(t, res.Servers, "s").Expand(environment(nil), root+"/home", root+"/work")
	if err == nil || !strings.Contains(err.Error(), "input command:c, config:a.b, file is only known to the editor") {
		t.Errorf("got %v", err)
	}
	if s.Args[3] != root+"/work" || s.Args[4] != "${other}" {
		t.Errorf("got %q", s.Args)
	}
}

func TestADefinitionNamesItsAuthorizationServer(t *testing.T) {
	for text, want := range map[string]string{
		"https://login.test/.well-known/oauth-authorization-server": "https://login.test/.well-known/oauth-authorization-server",
		"http://127.0.0.1:9/meta":                                   "http://127.0.0.1:9/meta",
		"http://login.test/meta":                                    "",
		"https://me:pass@login.test/meta":                           "",
		"file:///etc/passwd":                                        "",
	} {
		res, _ := tree{"home/.claude.json": `{"mcpServers": {"s": {"type": "http", "url": "https://s.test", "oauth": {"authServerMetadataUrl": "` + text + `"}}}}`, "work/x": ""}.load(t)
		if got := find(t, res.Servers, "s").OAuth.Metadata; got != want {
			t.Errorf("%s: got %q", text, got)
		}
		if told := strings.Contains(problems(res), "it is no URL with https"); told == (want != "") {
			t.Errorf("%s: problems: %s", text, problems(res))
		}
	}
}

func TestAPluginsServerGivesWayToTheSameServerOfAnotherName(t *testing.T) {
	const plugin = "home/.claude/plugins/cache/m/p/1.0/.mcp.json"
	files := tree{
		"home/.claude.json":          `{"mcpServers": {"mine": {"type": "http", "url": "https://a.test/mcp"}, "off": {"command": "x", "disabled": true}}}`,
		plugin:                       `{"mcpServers": {"twin": {"type": "http", "url": "https://a.test/mcp"}, "own": {"command": "own"}, "x": {"command": "x"}}}`,
		"home/.claude/settings.json": `{"enabledPlugins": {"p@m": true}}`,
		"home/.cursor/mcp.json":      `{"mcpServers": {"cursors": {"command": "own"}}}`,
		"work/x":                     "",
	}
	res, root := files.load(t)
	if diff := cmp.Diff([]string{"cursors", "mine", "own", "x"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if len(res.Shadowed) != 1 || res.Shadowed[0].Server.Name != "twin" || res.Shadowed[0].By.Path != filepath.Join(root, "home/.claude.json") {
		t.Errorf("shadowed: %+v", res.Shadowed)
	}
}

func TestValuesOutsideOfStringsInAProjectsFile(t *testing.T) {
	res, _ := tree{
		"home/secret.json": `{"SECRET": {"command": "x"}}`, "work/in.json": `{"in": {"type": "local", "command": ["in"]}}`,
		"work/.git/x": "", "work/opencode.json": `{"mcp": {file:~/secret.json}}`, "work/.opencode/opencode.json": `{"mcp": {file:../in.json}}`,
		"work/opencode.jsonc": `{"mcp": {{env:KEY}: {"type": "local", "command": ["k"]}}}`,
	}.loadAs(t, "linux", map[string]string{"KEY": `"KEY"`})
	if diff := cmp.Diff([]string{"in"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	for _, want := range []string{"work/opencode.json:1: {file:~/secret.json} has no value", "opencode.jsonc:1 (mcp): unexpected '{' where a quoted key should be"} {
		if !strings.Contains(problems(res), want) {
			t.Errorf("no problem %q in\n%s", want, problems(res))
		}
	}
}

func TestLibreChatsKeysAndCursorsLogin(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`{key: k}`:                            {"Authorization": "Bearer k"},
		`{key: k, authorization_type: basic}`: {"Authorization": "Basic k"},
		`{key: k, authorization_type: custom, custom_header: X-K}`: {"X-K": "k"},
		`{source: user}`: nil,
	} {
		res, _ := tree{"work/librechat.yaml": "mcpServers:\n  s: {url: 'https://s.test', apiKey: " + text + "}\n"}.load(t)
		if diff := cmp.Diff(want, find(t, res.Servers, "s").Headers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	res, _ := tree{"home/.cursor/mcp.json": `{"mcpServers": {"s": {"url": "https://s.test", "auth": {"CLIENT_ID": "c", "scopes": ["a", "b"]}}, "t": {"url": "https://t.test", "auth": "oauth"}}}`, "work/x": ""}.load(t)
	if o := find(t, res.Servers, "s").OAuth; o.ClientID != "c" || len(o.Scopes) != 2 || len(res.Problems) != 0 {
		t.Errorf("got %+v, problems %s", o, problems(res))
	}
}
