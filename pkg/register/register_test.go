package register

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const shim = "/opt/bridged/bin/bridge-shim"

// newRegistrar has a home and a state folder of its own.
func newRegistrar(t *testing.T) *Registrar {
	t.Helper()
	dir := t.TempDir()
	return &Registrar{
		Where: Where{GOOS: "linux", Home: filepath.Join(dir, "home"), Getenv: func(string) string { return "" }},
		Shim:  shim, Dir: filepath.Join(dir, "state", "register"),
	}
}

func apply(t *testing.T, c *Change, err error) *Change {
	t.Helper()
	if err == nil {
		err = c.Apply()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRegisterMakesAFileWhereThereIsNone(t *testing.T) {
	json := func(key, before, inside string) string {
		return "{\n  \"" + key + "\": {\n    \"bridged\": {\n" + before + inside + "\n    }\n  }\n}\n"
	}
	command := `      "command": "` + shim + `"`
	want := map[string]string{
		"claude-code":    json("mcpServers", "      \"type\": \"stdio\",\n", command),
		"claude-desktop": json("mcpServers", "", command),
		"cursor":         json("mcpServers", "", command),
		"vscode":         json("servers", "      \"type\": \"stdio\",\n", command),
		"windsurf":       json("mcpServers", "", command),
		"gemini-cli":     json("mcpServers", "", command),
		"codex":          "[mcp_servers.bridged]\ncommand = \"" + shim + "\"\n",
		"opencode":       json("mcp", "      \"type\": \"local\",\n", `      "command": ["`+shim+`"]`),
		"zed":            json("context_servers", "", command+",\n      \"args\": []"),
		"cline":          json("mcpServers", "", command),
		"goose": "extensions:\n  bridged:\n    enabled: true\n    type: stdio\n    name: bridged\n    cmd: " + shim +
			"\n    args: []\n",
		"continue": "name: Local Assistant\nversion: 1.0.0\nschema: v1\nmcpServers:\n  - name: bridged\n    command: " + shim + "\n",
	}
	for _, name := range Clients() {
		for state, text := range map[string]string{"absent": "", "empty": "", "with a byte order mark alone": mark} {
			t.Run(name+" "+state, func(t *testing.T) {
				r := newRegistrar(t)
				at := clientPath(r, name)
				if state != "absent" {
					put(t, at, text)
				}
				c, err := r.Register(name)
				apply(t, c, err)
				if diff := cmp.Diff(text+want[name], get(t, at)); diff != "" {
					t.Errorf("the file (-want +got):\n%s", diff)
				}
				isRegistered(t, r, name)
				c, err = r.Unregister(name)
				apply(t, c, err)
				if state == "absent" && exists(at) {
					t.Error("Unregister leaves a file that was not there before")
				}
				if state != "absent" && get(t, at) != text {
					t.Errorf("Unregister leaves %q", get(t, at))
				}
			})
		}
	}
}

func clientPath(r *Registrar, name string) string {
	for i := range clients {
		if clients[i].name == name {
			return r.path(&clients[i])
		}
	}
	return ""
}

// isRegistered checks that registering again has nothing to do.
func isRegistered(t *testing.T, r *Registrar, name string) {
	t.Helper()
	c, err := r.Register(name)
	if err != nil {
		t.Fatal(err)
	}
	if c.What != "" || c.Diff() != "" {
		t.Errorf("registering again would %s", c.What)
	}
}

// layouts are texts before and after, in the ways in which people write.
var layouts = []struct {
	name, client, before, after string
}{
	{
		"a server with its comment stays, and so do trailing commas", "vscode",
		"// mine\n{\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"}, // note\n\t},\n\t\"inputs\": [],\n}\n",
		"// mine\n{\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"}, // note\n\t\t\"bridged\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"" + shim + "\"\n\t\t},\n\t},\n\t\"inputs\": [],\n}\n",
	},
	{
		"a comment behind the last server is not behind the comma", "cursor",
		"{\n    \"mcpServers\": {\n        \"a\": {} // note\n    }\n}",
		"{\n    \"mcpServers\": {\n        \"a\": {}, // note\n        \"bridged\": {\n            \"command\": \"" + shim + "\"\n        }\n    }\n}",
	},
	{
		"line ends of Windows and a byte order mark stay", "claude-desktop",
		mark + "{\r\n  \"theme\": \"dark\"\r\n}\r\n",
		mark + "{\r\n  \"theme\": \"dark\",\r\n  \"mcpServers\": {\r\n    \"bridged\": {\r\n      \"command\": \"" + shim + "\"\r\n    }\r\n  }\r\n}\r\n",
	},
	{
		"a file on one line stays on one line", "windsurf",
		`{"mcpServers":{"a":{"command":"x"}}}`,
		`{"mcpServers":{"a":{"command":"x"}, "bridged": {"command": "` + shim + `"}}}`,
	},
	{
		"an empty map is filled", "gemini-cli",
		"{\n  \"mcpServers\": {},\n  \"a\": 1\n}\n",
		"{\n  \"mcpServers\": {\n    \"bridged\": {\n      \"command\": \"" + shim + "\"\n    }\n  },\n  \"a\": 1\n}\n",
	},
	{
		"a comment ends the file", "cline",
		"{\n} // end",
		"{\n  \"mcpServers\": {\n    \"bridged\": {\n      \"command\": \"" + shim + "\"\n    }\n  }\n} // end",
	},
	{
		"null is replaced", "cline",
		"{\n  \"mcpServers\": null\n}\n",
		"{\n  \"mcpServers\": {\n    \"bridged\": {\n      \"command\": \"" + shim + "\"\n    }\n  }\n}\n",
	},
	{
		"an empty document gets lines", "cline",
		"{}",
		"{\n  \"mcpServers\": {\n    \"bridged\": {\n      \"command\": \"" + shim + "\"\n    }\n  }\n}",
	},
	{
		"of equal keys the last is the one that counts", "cursor",
		"{\"mcpServers\": {\"a\": {}}, \"mcpServers\": {\"b\": {}}}",
		"{\"mcpServers\": {\"a\": {}}, \"mcpServers\": {\"b\": {}, \"bridged\": {\"command\": \"" + shim + "\"}}}",
	},
	{
		"TOML without an end of line gets one", "codex",
		"model = \"m\" # note\n[mcp_servers.a]\ncommand = \"x\"",
		"model = \"m\" # note\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.bridged]\ncommand = \"" + shim + "\"\n",
	},
	{
		"YAML: the entry is indented like its neighbours", "goose",
		"extensions:\n    a: # note\n        cmd: x\n        text: |\n            one\n\n            two\n\n# next\nmodel: m\n",
		"extensions:\n    a: # note\n        cmd: x\n        text: |\n            one\n\n            two\n    bridged:\n      enabled: true\n      type: stdio\n      name: bridged\n      cmd: " + shim + "\n      args: []\n\n# next\nmodel: m\n",
	},
	{
		"YAML: an empty map in braces becomes a block", "goose",
		"model: m\nextensions: {} # none\nlast: 1\n",
		"model: m\nextensions: # none\n  bridged:\n    enabled: true\n    type: stdio\n    name: bridged\n    cmd: " + shim + "\n    args: []\nlast: 1\n",
	},
	{
		"YAML: a list at the key's own indentation", "continue",
		"name: n\nmcpServers:\n- name: a\n  command: x\nversion: 1\n",
		"name: n\nmcpServers:\n- name: a\n  command: x\n- name: bridged\n  command: " + shim + "\nversion: 1\n",
	},
	{
		"an entry with another shim gets the path and keeps the rest", "cline",
		`{"mcpServers": {"mine": {"command": "/old/bridge-shim", "autoApprove": ["run_python"]}}}`,
		`{"mcpServers": {"mine": {"command": "` + shim + `", "autoApprove": ["run_python"]}}}`,
	},
	{
		"so does one of TOML", "codex",
		"[mcp_servers.bridged]\ncommand = '/old/bridge-shim' # mine\nenabled = true\n",
		"[mcp_servers.bridged]\ncommand = \"" + shim + "\" # mine\nenabled = true\n",
	},
	{
		"and one of YAML", "continue",
		"mcpServers:\n  - command: /old/bridge-shim # mine\n    name: bridged\n",
		"mcpServers:\n  - command: \"" + shim + "\" # mine\n    name: bridged\n",
	},
}

func TestRegisterKeepsHowAFileIsWritten(t *testing.T) {
	for _, row := range layouts {
		t.Run(row.name, func(t *testing.T) {
			r := newRegistrar(t)
			at := clientPath(r, row.client)
			put(t, at, row.before)
			c, err := r.Register(row.client)
			apply(t, c, err)
			if diff := cmp.Diff(row.after, get(t, at)); diff != "" {
				t.Fatalf("the file (-want +got):\n%s", diff)
			}
			isRegistered(t, r, row.client)
			if strings.Contains(row.before, "bridge-shim") {
				return
			}
			c, err = r.Unregister(row.client)
			apply(t, c, err)
			if diff := cmp.Diff(row.before, get(t, at)); diff != "" {
				t.Errorf("after Unregister (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnregisterKeepsWhatOthersHaveWrittenSince(t *testing.T) {
	for _, row := range layouts {
		t.Run(row.name, func(t *testing.T) {
			r := newRegistrar(t)
			at := clientPath(r, row.client)
			put(t, at, row.before)
			c, err := r.Register(row.client)
			apply(t, c, err)
			comment := map[bool]string{true: "# later\n", false: "// later\n"}[strings.Contains("codex goose continue", row.client)]
			later := strings.TrimRight(get(t, at), "\r\n") + "\n" + comment
			put(t, at, later)
			c, err = r.Unregister(row.client)
			apply(t, c, err)
			got := get(t, at)
			if strings.Contains(got, "bridge-shim") || !strings.Contains(got, "later") {
				t.Errorf("Unregister leaves:\n%s", got)
			}
			if _, err := r.Unregister(row.client); !errors.Is(err, ErrNotRegistered) {
				t.Errorf("Unregister once more: got %v, want %v", err, ErrNotRegistered)
			}
			c, err = r.Register(row.client)
			apply(t, c, err)
		})
	}
}

func TestWhatCannotBeEditedIsLeftAlone(t *testing.T) {
	for _, row := range []struct{ name, client, text, want string }{
		{"half a document", "cursor", "{\n  \"mcpServers\": {\n", "mcp.json:3: "},
		{"an array", "cursor", "[]", "not an object"},
		{"text behind the document", "cursor", "{}\n}", "mcp.json:2: "},
		{"servers that are a list", "cursor", `{"mcpServers": []}`, "form that the agent reads"},
		{"a server of that name", "cursor", `{"mcpServers": {"bridged": {"command": "x"}}}`, "another name"},
		{"broken TOML", "codex", "a = 1\nb = \n", "config.toml:2: "},
		{"servers in an inline table", "codex", "mcp_servers = { a = { command = \"x\" } }\n", "by hand"},
		{"broken YAML", "goose", "a: 1\nb: [1\n", "config.yaml:2: "},
		{"YAML in braces", "goose", "extensions: {a: {cmd: x}}\n", "by hand"},
		{"another encoding", "cursor", "\xff\xfe{\x00}\x00", "UTF-8"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRegistrar(t)
			at := clientPath(r, row.client)
			put(t, at, row.text)
			_, err := r.Register(row.client)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got error %v, want one with %q", err, row.want)
			}
			if got := get(t, at); got != row.text {
				t.Errorf("the file is %q", got)
			}
			if exists(r.Dir) {
				t.Error("something was kept in the state folder")
			}
		})
	}
}

func TestAFileThatAnEditorHasSavedIsLeftAlone(t *testing.T) {
	r := newRegistrar(t)
	at := clientPath(r, "cursor")
	put(t, at, "{}")
	c, err := r.Register("cursor")
	if err != nil {
		t.Fatal(err)
	}
	put(t, at, `{"saved": true}`)
	if err := c.Apply(); !errors.Is(err, ErrChanged) {
		t.Errorf("Apply: got %v, want %v", err, ErrChanged)
	}
	if got := get(t, at); got != `{"saved": true}` {
		t.Errorf("the file is %q", got)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(at), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the file: %v, %v", left, err)
	}
	// What the manifest says of a write that did not happen does no harm.
	c, err = r.Register("cursor")
	apply(t, c, err)
	c, err = r.Unregister("cursor")
	apply(t, c, err)
	if got := get(t, at); got != `{"saved": true}` {
		t.Errorf("after Unregister the file is %q", got)
	}
}

func TestLinksAndModesStay(t *testing.T) {
	r := newRegistrar(t)
	at, target := clientPath(r, "cursor"), filepath.Join(r.Home, "dotfiles", "mcp.json")
	put(t, target, "{}")
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, at); err != nil {
		t.Fatal(err)
	}
	c, err := r.Register("cursor")
	apply(t, c, err)
	if c.Path != target {
		t.Errorf("the change is to %s, want %s", c.Path, target)
	}
	info, err := os.Lstat(at)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if info, err = os.Stat(target); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file's mode is %v, %v; want 0640", info.Mode(), err)
	}
}

func TestBackupsAreThePersonsAlone(t *testing.T) {
	r := newRegistrar(t)
	put(t, clientPath(r, "cursor"), "{}")
	c, err := r.Register("cursor")
	apply(t, c, err)
	files, err := os.ReadDir(r.Dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("in the state folder: %v, %v; want a backup and the manifest", files, err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 0600", f.Name(), info.Mode(), err)
		}
	}
	c, err = r.Unregister("cursor")
	apply(t, c, err)
	if files, err = os.ReadDir(r.Dir); err != nil || len(files) != 1 {
		t.Errorf("after Unregister: %v, %v; want the manifest alone", files, err)
	}
}

func TestDiff(t *testing.T) {
	r := newRegistrar(t)
	at := clientPath(r, "cursor")
	put(t, at, "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4\n}")
	c, err := r.Register("cursor")
	if err != nil {
		t.Fatal(err)
	}
	want := "--- " + at + "\n+++ " + at + "\n@@ -2,5 +2,10 @@\n   \"a\": 1,\n   \"b\": 2,\n   \"c\": 3,\n-  \"d\": 4\n+  \"d\": 4,\n" +
		"+  \"mcpServers\": {\n+    \"bridged\": {\n+      \"command\": \"" + shim + "\"\n+    }\n+  }\n }\n\\ No newline at end of file\n"
	if diff := cmp.Diff(want, c.Diff()); diff != "" {
		t.Errorf("Diff (-want +got):\n%s", diff)
	}
}

func TestPlaces(t *testing.T) {
	vars := map[string]string{"CODEX_HOME": "/c", "XDG_CONFIG_HOME": "/x", "APPDATA": "/roaming", "CLAUDE_CONFIG_DIR": "relative"}
	w := func(goos, project string) Where {
		return Where{GOOS: goos, Home: "/h", Project: project, Getenv: func(k string) string { return vars[k] }}
	}
	for _, row := range []struct {
		where        Where
		client, want string
	}{
		{w("linux", ""), "claude-code", "/h/.claude.json"},
		{w("linux", ""), "codex", "/c/config.toml"},
		{w("linux", ""), "claude-desktop", "/x/Claude/claude_desktop_config.json"},
		{w("darwin", ""), "claude-desktop", "/h/Library/Application Support/Claude/claude_desktop_config.json"},
		{w("windows", ""), "claude-desktop", "/roaming/Claude/claude_desktop_config.json"},
		{w("linux", ""), "vscode", "/x/Code/User/mcp.json"},
		{w("darwin", ""), "zed", "/h/.config/zed/settings.json"},
		{w("windows", ""), "goose", "/roaming/Block/goose/config/config.yaml"},
		{w("linux", "/p"), "claude-code", "/p/.mcp.json"},
		{w("linux", "/p"), "codex", "/p/.codex/config.toml"},
		{w("linux", "/p"), "windsurf", ""},
	} {
		if got := clientPath(&Registrar{Where: row.where}, row.client); got != row.want {
			t.Errorf("%s on %s, project %q: got %q, want %q", row.client, row.where.GOOS, row.where.Project, got, row.want)
		}
	}
}

func TestPresentAreThoseWithAFileOrItsFolder(t *testing.T) {
	r := newRegistrar(t)
	put(t, filepath.Join(r.Home, ".cursor", "other.json"), "")
	put(t, filepath.Join(r.Home, ".claude", "settings.json"), "")
	put(t, filepath.Join(r.Home, ".codex", "config.toml"), "")
	if diff := cmp.Diff([]string{"claude-code", "cursor", "codex"}, r.Present()); diff != "" {
		t.Errorf("Present (-want +got):\n%s", diff)
	}
	r.Project = filepath.Join(r.Home, "project")
	put(t, filepath.Join(r.Project, ".vscode", "settings.json"), "{}")
	if diff := cmp.Diff([]string{"vscode"}, r.Present()); diff != "" {
		t.Errorf("Present in a project (-want +got):\n%s", diff)
	}
}
