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
		l := &loader{opts: Options{Getenv: environment(nil)}, rejected: map[string]bool{}}
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
