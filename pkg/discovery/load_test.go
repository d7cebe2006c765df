package discovery

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// A tree is a home folder and a project for one test: paths below home/ and
// work/ with the text of their files.
type tree map[string]string

// write makes the files and returns the folder that holds home and work, free
// of symbolic links.
func (tr tree) write(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range tr {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, "ROOT", filepath.ToSlash(root))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// load loads the tree with the project work as working folder.
func (tr tree) load(t *testing.T) (Result, string) {
	t.Helper()
	root := tr.write(t)
	return Load(Options{Home: filepath.Join(root, "home"), Cwd: filepath.Join(root, "work")}), root
}

func names(servers []Server) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Name)
	}
	return list
}

func find(t *testing.T, servers []Server, name string) Server {
	t.Helper()
	i := slices.IndexFunc(servers, func(s Server) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no server %q, only %q", name, names(servers))
	}
	return servers[i]
}

func problems(res Result) string {
	var b strings.Builder
	for _, p := range res.Problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

func TestEverySourceIsReadAndRemembered(t *testing.T) {
	res, root := tree{
		"home/MCPs/a.json":                 `{"mcpServers": {"seed": {"command": "a"}}}`,
		"home/.config/mcp/servers/b.json":  `{"mcpServers": {"shared": {"command": "b"}}}`,
		"home/.claude.json":                "{\"mcpServers\": {\"user\": {\"command\": \"c\"}},\n\"projects\": {\"ROOT/work\": {\"mcpServers\": {\"local\": {\"command\": \"d\"}}}}}",
		"home/.cursor/mcp.json":            `{"mcpServers": {"cursor": {"command": "e"}}}`,
		"work/.mcp.json":                   `{"mcpServers": {"project": {"command": "f"}}, "servers": {"studio": {"command": "g"}}}`,
		"work/.git/HEAD":                   "",
		"home/MCPs/.#a.json":               `{"mcpServers": {"hidden": {"command": "x"}}}`,
		"home/MCPs/readme.txt":             `not a config`,
		"home/.config/mcp/servers/c.json~": `not a config`,
	}.load(t)
	want := []string{"cursor", "local", "project", "seed", "shared", "studio", "user"}
	if diff := cmp.Diff(want, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if len(res.Problems) != 0 {
		t.Errorf("problems: %s", problems(res))
	}
	source := find(t, res.Servers, "local").Sources
	wantSource := []Source{{"claude-code", ScopeLocal, filepath.Join(root, "home", ".claude.json"),
		"projects." + root + "/work.mcpServers.local", 2}}
	if diff := cmp.Diff(wantSource, source); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
	if got := find(t, res.Servers, "studio"); got.Agent() != "visual-studio" || got.Root != filepath.Join(root, "work") {
		t.Errorf("studio: got agent %q, root %q", got.Agent(), got.Root)
	}
}

func TestVariablesMoveTheSources(t *testing.T) {
	root := tree{
		"home/.claude.json":  `{"mcpServers": {"old": {"command": "a"}}}`,
		"other/.claude.json": `{"mcpServers": {"new": {"command": "a"}}}`,
		"extra.json":         `{"mcpServers": {"extra": {"command": "b"}}}`,
	}.write(t)
	res := Load(Options{Home: root + "/home", Getenv: environment(map[string]string{
		"CLAUDE_CONFIG_DIR": root + "/other", "MCP_SERVERS_CONFIG": root + "/extra.json",
	})})
	if diff := cmp.Diff([]string{"extra", "new"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func TestExcludedAgentsAndFilesAreNotRead(t *testing.T) {
	root := tree{
		"home/MCPs/a.json":      `{"mcpServers": {"a": {"command": "a"}}}`,
		"home/MCPs/b.json":      `{"mcpServers": {"b": {"command": "b"}}}`,
		"home/.cursor/mcp.json": `{"mcpServers": {"c": {"command": "c"}}}`,
	}.write(t)
	res := Load(Options{Home: root + "/home", Exclude: []string{"cursor", filepath.Join(root, "home/MCPs/b.json")}})
	if diff := cmp.Diff([]string{"a"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func TestEncodingsAreRead(t *testing.T) {
	const text = "{ // mine\r\n  \"mcpServers\": { /* http */ \"docs\": { \"url\": \"https://example.test/a//b/*c*/\", \"description\": \"lectür\", }, },\r\n}\r\n"
	utf16Text := func(order binary.AppendByteOrder, bom string) string {
		out := []byte(bom)
		for _, u := range utf16.Encode([]rune(text)) {
			out = order.AppendUint16(out, u)
		}
		return string(out)
	}
	for name, content := range map[string]string{
		"plain UTF-8":          text,
		"UTF-8 with a mark":    "\xEF\xBB\xBF" + text,
		"UTF-16 little-endian": utf16Text(binary.LittleEndian, "\xFF\xFE"),
		"UTF-16 big-endian":    utf16Text(binary.BigEndian, "\xFE\xFF"),
	} {
		t.Run(name, func(t *testing.T) {
			res, _ := tree{"home/.cursor/mcp.json": content}.load(t)
			got := find(t, res.Servers, "docs")
			if got.URL != "https://example.test/a//b/*c*/" || got.Description != "lectür" || got.Sources[0].Line != 2 {
				t.Errorf("got %q, %q, line %d", got.URL, got.Description, got.Sources[0].Line)
			}
			if len(res.Problems) != 0 {
				t.Errorf("problems: %s", problems(res))
			}
		})
	}
}

func TestBrokenFilesAreToldAndSkipped(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a half-written file", "{\"mcpServers\": {\n\"a\": {\"command\": \"x\"}", "bad.json:2: the file ends in the middle"},
		{"a list at the top", `[{"command": "x"}]`, "bad.json:1: the document is not an object"},
		{"servers that are a list", `{"mcpServers": ["x"]}`, "(mcpServers): mcpServers is not an object"},
		{"text after the end", "{\"mcpServers\": {}}\n}", "bad.json:2: there is text after the end"},
		{"no JSON at all", "servers:\n  a: b", "bad.json:1: "},
		{"a comment without an end", `{"mcpServers": {} /* `, "the comment has no end"},
		{"deep nesting", `{"mcpServers": ` + strings.Repeat("[", 100_000), "nested more than 200 deep"},
		{"bytes that are no text", "{\"mcpServers\": {\"caf\xe9\": {\"command\": \"x\"}}}", "some bytes are no text"},
		{"a missing comma", "{\"mcpServers\": {}\n\"x\": 1}", "bad.json:2: unexpected '\"' after a member"},
		{"a large file", strings.Repeat(" ", maxFile+1), "reading the file: it is larger than 4 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, _ := tree{
				"home/MCPs/bad.json":  tt.text,
				"home/MCPs/good.json": `{"mcpServers": {"good": {"command": "x"}}}`,
			}.load(t)
			find(t, res.Servers, "good")
			if got := problems(res); !strings.Contains(got, tt.want) {
				t.Errorf("problems: got %q, want %q in it", got, tt.want)
			}
		})
	}
}

func TestQuietFilesHaveNoProblems(t *testing.T) {
	for name, text := range map[string]string{
		"an empty file":              "",
		"a comment alone":            "// nothing yet\n",
		"null":                       "null",
		"null servers":               `{"mcpServers": null}`,
		"null on the way":            `{"projects": null}`,
		"something else altogether":  `{"name": "x", "version": {"a": 1}}`,
		"the key within a string":    `{"history": "why is \"mcpServers\": {} empty?"}`,
		"no servers, trailing comma": `{"mcpServers": {},}`,
	} {
		t.Run(name, func(t *testing.T) {
			res, _ := tree{"home/MCPs/a.json": text, "home/.claude.json": text}.load(t)
			if len(res.Servers)+len(res.Problems) != 0 {
				t.Errorf("got %q, problems %q", names(res.Servers), problems(res))
			}
		})
	}
}

func TestABareFileIsNamedAfterItself(t *testing.T) {
	res, _ := tree{
		"home/MCPs/pantry.json": `{"command": "pantry", "args": ["x"]}`,
		"home/MCPs/map.json":    `{"one": {"command": "a"}, "two": {"url": "https://example.test"}}`,
	}.load(t)
	if diff := cmp.Diff([]string{"one", "pantry", "two"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

func TestLargeStateFileIsReadForItsKeysOnly(t *testing.T) {
	history := strings.Repeat(`{"display": "why is \"mcpServers\": {} empty?", "n": [1,2,3]},`, 200_000)
	res, _ := tree{"home/.claude.json": `{"history": [` + history + `], "mcpServers": {"a": {"command": "x"}}}`}.load(t)
	find(t, res.Servers, "a")
	if len(res.Problems) != 0 {
		t.Errorf("problems: %s", problems(res))
	}
}

func TestCountsAreBounded(t *testing.T) {
	files := tree{}
	for i := range maxFilesPerSource + 5 {
		files[fmt.Sprintf("home/MCPs/%04d.json", i)] = fmt.Sprintf(`{"mcpServers": {"s%04d": {"command": "x", "args": [%d]}}}`, i, i)
	}
	var many strings.Builder
	for i := range maxServersPerFile + 5 {
		fmt.Fprintf(&many, `"m%04d": {"command": "x", "args": [%d]},`, i, i)
	}
	files["home/.cursor/mcp.json"] = `{"mcpServers": {` + many.String() + `}}`
	res, _ := files.load(t)
	if got, want := len(res.Servers), maxFilesPerSource+maxServersPerFile; got != want {
		t.Errorf("got %d servers, want %d", got, want)
	}
	if got := problems(res); !strings.Contains(got, "only the first 200 of 205 files") || !strings.Contains(got, "only the first 1000 of 1005 servers") {
		t.Errorf("problems: %s", got)
	}
}
