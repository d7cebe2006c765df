//go:build integration

package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/tokens"
)

// A result that is too large is cut to its budget, and says how to have the
// rest, which can be had.
func TestLargeResultsKeepToTheirTokens(t *testing.T) {
	const budget = 600
	h := onEngine(t, engines.ForTest(t, engines.Rootful))
	h.serve(t, fmt.Sprintf("--output-max-tokens=%d", budget)).ready(t)
	a := h.agent(t, h.dir)
	whole := regexp.MustCompile(`out\[\d+\]`)
	file := regexp.MustCompile(`/\S*/run-\d+\.txt`)
	for _, row := range []struct {
		name, code string
		shown      []string // in the text
		rest       *regexp.Regexp
		check      string // of an expression that gives the rest
	}{
		{"nested data that is printed", "import json\nprint(json.dumps({'rows': [{'id': i, 'body': 'words ' * 40} for i in range(200)], 'total': 200}))",
			[]string{`{"rows": [{"id": 0, `, ` more], "total": 200}`}, file, "len(json.load(open(%q))['rows']) == 200"},
		{"more of it than is sent whole", "print(json.dumps({'rows': [{'id': i, 'body': 'words ' * 40} for i in range(900)], 'total': 900}))",
			[]string{`{"rows": [{"id": 0, `, `+ more] …}`, `"total": 900}`}, file, "len(json.load(open(%q))['rows']) == 900"},
		{"a table that is printed", "print('id square')\nfor i in range(5000): print(i, i * i)",
			[]string{"id square\n0 0\n1 1\n", "4999 24990001", " lines, "}, file, "len(list(open(%q))) == 5001"},
		{"a value that is formatted by head and tail", "list(range(100_000))",
			[]string{"[0, 1, 2, ", ", 99999]\n(list of 100000 items, abridged)"}, whole, "len(eval(%q)) == 100_000"},
		{"a value whose characters take many tokens", "'\u6f22\u5b57\u00e9' * 700", []string{"characters of the value were cut"}, whole, "len(eval(%q)) == 2100"},
	} {
		got := a.ask(row.code)
		for _, want := range row.shown {
			if !strings.Contains(got.text, want) {
				t.Errorf("%s: %q is not in %s", row.name, want, got.text)
			}
		}
		// The notices come on top.
		if n := tokens.Count(got.text); n > budget+150 {
			t.Errorf("%s: %d tokens, want about %d at most", row.name, n, budget)
		}
		check := fmt.Sprintf(row.check, row.rest.FindString(got.text))
		if got := a.ask(check).Result; got != "True" {
			t.Errorf("%s: %s came to %s", row.name, check, got)
		}
	}
	if got := a.ask("print('few words')"); len(got.Notices) > 0 || got.text != "few words" {
		t.Errorf("a small result: %+v", got)
	}
}
