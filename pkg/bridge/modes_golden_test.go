package bridge

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
	"github.com/bridged/bridged/pkg/tokens"
	"github.com/bridged/bridged/pkg/toon"
)

var update = flag.Bool("update", false, "rewrite testdata/modes/*")

func stdout(text string) []sandbox.Output {
	return []sandbox.Output{{Stream: sandbox.Stdout, Text: text}}
}

// typical are results as agents get them day by day. The texts are what the
// harness makes of such values.
var typical = []struct {
	name string
	res  sandbox.Result
}{
	{"a table", sandbox.Result{
		Value: "[{'id': 101, 'title': 'Crash on start', 'state': 'open', 'votes': 12}, {'id': 102, 'title': 'Typo, in docs', 'state': 'closed', 'votes': 0}]",
		Data:  json.RawMessage(`[{"id":101,"title":"Crash on start","state":"open","votes":12},{"id":102,"title":"Typo, in docs","state":"closed","votes":0}]`),
	}},
	{"nested data", sandbox.Result{
		Value: "{'repo': 'o/r', 'owner': {'login': 'ann', 'teams': ['core', 'docs']}, 'branches': [{'name': 'main', 'checks': []}, {'name': 'dev', 'checks': ['lint']}], 'parent': None}",
		Data:  json.RawMessage(`{"repo":"o/r","owner":{"login":"ann","teams":["core","docs"]},"branches":[{"name":"main","checks":[]},{"name":"dev","checks":["lint"]}],"parent":null}`),
	}},
	{"printed JSON", sandbox.Result{Output: stdout("[{\"host\": \"a1\", \"cpu\": 0.5},\n {\"host\": \"a2\", \"cpu\": 12.25}]\n")}},
	{"a log", sandbox.Result{Output: stdout("2026-01-02 03:04:05 INFO  starting: 3 workers\n2026-01-02 03:04:06 WARN  queue is 80% full\n\n\n2026-01-02 03:04:09 ERROR worker 2: \"exit status 1\"\n")}},
	{"output of both kinds and a value", sandbox.Result{
		Output: []sandbox.Output{{Stream: sandbox.Stdout, Text: "reading\n"}, {Stream: sandbox.Stderr, Text: "UserWarning: slow\n"}, {Stream: sandbox.Stdout, Text: "done\n"}},
		Value:  "'ok: 5'", Data: json.RawMessage(`"ok: 5"`),
	}},
	{"a traceback", sandbox.Result{
		Status: sandbox.StatusError, Output: stdout("begun\n"),
		Error: &sandbox.PyError{Type: "NameError", Message: "name 'mcp_github' is not defined", Traceback: "Traceback (most recent call last):\n  File \"<call 3>\", line 2, in <module>\n    await mcp_github.list_issues()\n          ^^^^^^^^^^\nNameError: name 'mcp_github' is not defined\nhint: pass servers=[\"github\"] to run_python to load that server"},
	}},
	{"nothing", sandbox.Result{}},
	{"a timeout", sandbox.Result{
		Status: sandbox.StatusTimeout, Output: stdout("page 1\npage 2\n"), Duration: 30 * time.Second,
		Limit: "30s, the default (run.timeout); pass a larger timeout if it needs longer, at most 2m (run.max_timeout)",
	}},
	{"a lost sandbox", sandbox.Result{Status: sandbox.StatusLost, StateLost: "it used up its memory", Duration: 1500 * time.Millisecond}},
	{"a picture and a file", sandbox.Result{
		Rich:  []sandbox.Rich{{MIME: "image/png", Data: encoded("png", 2, 1)}},
		Files: []sandbox.File{{URI: "bridged://s/f/1", Name: "report.csv", MIME: "text/csv", Size: 12}}, Notices: []string{"saved on the user's machine: /home/ann/report.csv"},
	}},
	{"background output", sandbox.Result{Output: []sandbox.Output{{Stream: sandbox.Stdout, Text: "tick\n", Background: true}}, Value: "7", Data: json.RawMessage("7")}},
	{"still running", sandbox.Result{Status: statusRunning, Output: stdout("10%\n"), Notices: []string{"still running (run 2); call with empty code to wait for the rest"}, Duration: 50 * time.Second}},
}

// told writes the text blocks of a result one after the other, others in short.
func told(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		switch c := c.(type) {
		case mcp.TextContent:
			fmt.Fprintln(&b, c.Text)
		case mcp.ImageContent:
			fmt.Fprintf(&b, "(%s)\n", c.MIMEType)
		case mcp.ResourceLink:
			fmt.Fprintf(&b, "(link to %s)\n", c.URI)
		}
	}
	return b.String()
}

// The files in testdata/modes show each mode's words for typical results.
func TestTypicalResultsInEveryMode(t *testing.T) {
	for _, mode := range []Mode{Compact, TOON, JSON} {
		v := view{mode: mode, budget: 16000, structured: true, audio: true}
		var b strings.Builder
		for _, row := range typical {
			if row.res.Status == "" {
				row.res.Status = sandbox.StatusOK
			}
			got := v.result(row.res)
			fmt.Fprintf(&b, "-- %s --\n%s", row.name, told(got))
			checkSame(t, mode, row.name, got)
		}
		refused := v.refusal(errors.New("nothing ran: server \"githb\" is not known; did you mean github?"), []string{"n"})
		fmt.Fprintf(&b, "-- a refusal --\n%s", told(refused))
		checkSame(t, mode, "a refusal", refused)
		golden(t, filepath.Join("testdata", "modes", string(mode)+".txt"), b.String())
	}
}

// checkSame wants the first block to hold what structuredContent does, if it is
// no plain text.
func checkSame(t *testing.T, mode Mode, name string, r *mcp.CallToolResult) {
	t.Helper()
	if mode == Compact {
		return
	}
	line, err := encodeLine(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := r.Content[0].(mcp.TextContent) // one of another type has no text
	text := first.Text
	if mode == TOON {
		data, err := toon.Decode(text, toon.DecodeOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text = string(data)
	}
	var got, want any
	if json.Unmarshal([]byte(text), &got) != nil || json.Unmarshal(line, &want) != nil {
		t.Fatalf("%s: no JSON: %s or %s", name, text, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: structuredContent and the text (-want +got):\n%s", name, diff)
	}
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestDataThatIsNotFitIsText(t *testing.T) {
	v := view{mode: TOON, budget: 100, structured: true}
	for _, tt := range []struct{ name, data, want string }{
		{"more than the budget", "[" + strings.Repeat("1,", 99) + "1]", "status: ok\nresult: short\nduration_ms: 0"},
		{"a bell", `"\u0007"`, "status: ok\nresult: short\nduration_ms: 0"},
		{"nothing", "", "status: ok\nresult: short\nduration_ms: 0"},
		{"a key twice, which TOON cannot hold", `{"a":1,"a":2}`, `{"status":"ok","result":{"a":1,"a":2},"duration_ms":0}`},
		{"lists so deep that JSON is shorter", strings.Repeat("[", 40) + "1,{}" + strings.Repeat("]", 40), `{"status":"ok","result":` + strings.Repeat("[", 40) + "1,{}" + strings.Repeat("]", 40) + `,"duration_ms":0}`},
		{"null, which a value may hold", `[null]`, "status: ok\nresult[1]: null\nduration_ms: 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := v.result(sandbox.Result{Status: sandbox.StatusOK, Value: "short", Data: json.RawMessage(tt.data)})
			if diff := cmp.Diff([]string{tt.want}, shown(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Large results cost about the budget in every mode: data that is too much is
// told as the text that the sandbox made of it, and text is cut before it is
// written down.
func TestLargeResultsKeepToTheBudgetInEveryMode(t *testing.T) {
	const budget = 4000
	var rows strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&rows, `,{"id":%d,"title":"an ordinary title","state":"open"}`, i)
	}
	table := "[" + rows.String()[1:] + "]"
	lines := strings.Repeat("2026-01-02 03:04:05 INFO an ordinary line\n", 5000)
	for _, mode := range []Mode{TOON, JSON} {
		v := view{mode: mode, budget: budget, structured: true}
		for name, res := range map[string]sandbox.Result{
			"data":    {Status: sandbox.StatusOK, Value: "[{'id': 0, ...}, ...]\n(list of 2000 items, abridged)", Data: json.RawMessage(table)},
			"printed": {Status: sandbox.StatusOK, Output: stdout(table)},
			"a log":   {Status: sandbox.StatusOK, Output: stdout(lines), Value: "7", Data: json.RawMessage("7")},
		} {
			got := v.result(res)
			if n := tokens.Count(told(got)); n > budget*5/4 {
				t.Errorf("%s as %s: %d tokens, want about %d at most", name, mode, n, budget)
			}
			checkSame(t, mode, name, got)
		}
		small := json.RawMessage("[" + rows.String()[1:strings.Index(rows.String(), `,{"id":100,`)] + "]")
		if got := told(v.result(sandbox.Result{Status: sandbox.StatusOK, Value: "abridged", Data: small})); strings.Contains(got, "abridged") || !strings.Contains(got, "99") {
			t.Errorf("data that fits, as %s: got\n%s", mode, got)
		}
	}
}
