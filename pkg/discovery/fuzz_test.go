package discovery

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDocument feeds any bytes to the path that every JSON file takes. Nothing
// may panic, lines must lie in the file, and names must be text.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{", `{"mcpServers": null}`, `{"mcpServers": {"a": {"command": "x"}}}`,
		"\xEF\xBB\xBF{\"mcpServers\": {\"a\": {\"command\": [\"x\", 1]},},} // end",
		"\xFF\xFE{\x00}\x00", "\xFE\xFF\x00{",
		`{"mcpServers": {"a": {"command": "x"}, "a": {"url": " https://e.test "}}, "mcpServers": {}}`,
		`{"mcpServers": {"a": {"command": "x" "args": []}}}`,
		`{/**/"mcpServers"/**/:/**/{"\u0061\ud800": {"command": tru}}}`,
		`{"mcpServers": {"a": {"env": {"A": null, "A": 1.50, "B": {}}, "args": [null, [], {}], "command": {"path": "p"}}}}`,
		strings.Repeat(`{"mcpServers":`, 300), strings.Repeat("[", 300), `{"mcpServers": {"a": /`, `{"a"`, `{"\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, _ := decodeText(data)
		if !utf8.Valid(text) {
			t.Fatalf("the decoded text is not UTF-8: %q", text)
		}
		lines := 1 + strings.Count(string(text), "\n")
		l := &loader{opts: Options{Getenv: environment(nil)}, rejected: map[string]bool{}, filled: map[string]base{}}
		doc, err := parseDocument("fuzz.json", text, l.report)
		if err != nil {
			if line := lineOf(text, err); line < 1 || line > lines {
				t.Errorf("error on line %d of %d: %v", line, lines, err)
			}
			return
		}
		r := &fileReader{loader: l, doc: doc, key: []string{"mcpServers"}}
		if at, ok, err := doc.find(r.key...); err == nil && ok {
			r.readServers(at)
		}
		r.readBare()
		for _, p := range l.problems {
			if p.Line < 0 || p.Line > lines {
				t.Errorf("a problem on line %d of %d: %s", p.Line, lines, p)
			}
		}
		for _, c := range l.found {
			if !utf8.ValidString(c.Name) || c.Name == "" {
				t.Errorf("a server is called %q", c.Name)
			}
		}
	})
}

// fuzzTree feeds any bytes to a decoder of whole files. Nothing may panic, and
// lines must lie in the file; 0 is unknown.
func fuzzTree(f *testing.F, decode func([]byte) (node, error), seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, _ := decodeText(data)
		lines := 1 + strings.Count(string(text), "\n") + strings.Count(string(text), "\r")
		n, err := decode(text)
		if err != nil {
			if line := lineOf(nil, err); line < 0 || line > lines+1 {
				t.Errorf("error on line %d of %d: %v", line, lines, err)
			}
			return
		}
		checkLines(t, n, lines+1)
	})
}

func checkLines(t *testing.T, n node, lines int) {
	if n.line < 1 || n.line > lines {
		t.Errorf("a value on line %d of %d", n.line, lines)
	}
	for _, item := range n.items {
		checkLines(t, item, lines)
	}
	for _, f := range n.fields {
		checkLines(t, f.val, lines)
	}
}

func FuzzTOML(f *testing.F) {
	fuzzTree(f, parseTOML, "", "a = 1", "[a.b]\nc.d = [1, {e = 'x'}]\n[[f]]\ng = 1.5\n[[f]]\n[f.h]\ni = true\n",
		"[mcp_servers]\ninline = { command = \"x\" }\n[mcp_servers.\"a.b\".env]\n\"X.Y\" = '''\nz'''\n", "a = 2020-01-01T00:00:00Z", "[a]\n[a]\n", strings.Repeat("[", 300))
}

func FuzzYAML(f *testing.F) {
	fuzzTree(f, parseYAML, "", "a: 1", "a: &x {b: [1, two, null]}\nc: *x\nd: {<<: *x, e: !!str 1}\n", "- a\n- b: |\n    text\n",
		"mcpServers:\n  - name: x\n    command: [a, b]\n", "a: *a", "? [a]\n: b\n", "a: &a [*a]", "--- \n...\n---\nb: 1", strings.Repeat("[", 300), strings.Repeat("- ", 300))
}
