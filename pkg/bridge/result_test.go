package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
	"github.com/bridged/bridged/pkg/tokens"
)

var newest = view{mode: Compact, budget: DefaultMaxTokens, structured: true, audio: true}

// shown returns the text blocks of a result, and other blocks as their type.
func shown(t *testing.T, r *mcp.CallToolResult) []string {
	t.Helper()
	var out []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case mcp.TextContent:
			out = append(out, c.Text)
		case mcp.ImageContent:
			out = append(out, c.MIMEType)
		case mcp.AudioContent:
			out = append(out, c.MIMEType)
		default:
			t.Errorf("a block of type %T", c)
		}
	}
	return out
}

func TestResults(t *testing.T) {
	out := func(texts ...string) []sandbox.Output {
		var o []sandbox.Output
		for i, s := range texts {
			o = append(o, sandbox.Output{Stream: 1 + i%2, Text: s})
		}
		return o
	}
	for _, tt := range []struct {
		name    string
		res     sandbox.Result
		text    []string
		json    string
		isError bool
	}{
		{"nothing to show", sandbox.Result{Status: "ok"}, []string{"(no output)"}, `{"status":"ok","duration_ms":0}`, false},
		{"a value", sandbox.Result{Status: "ok", Value: "2", Duration: 1500 * time.Microsecond}, []string{"2"},
			`{"status":"ok","result":"2","duration_ms":1}`, false},
		{"output as it came, then the value", sandbox.Result{Status: "ok", Output: out("a", "b\n", "c"), Value: "3"}, []string{"ab\nc\n3"},
			`{"status":"ok","stdout":"ac","stderr":"b\n","result":"3","duration_ms":0}`, false},
		{"words that look like an error", sandbox.Result{Status: "ok", Output: out("Error: all fine\n[bridged] state lost: x\n")},
			[]string{"Error: all fine\n\\[bridged] state lost: x"},
			`{"status":"ok","stdout":"Error: all fine\n[bridged] state lost: x\n","duration_ms":0}`, false},
		{"words of bridged's in a print, a value and a trace", sandbox.Result{Status: "error", Output: out("[bridged] a"), Value: "[bridged] b", Error: &sandbox.PyError{Traceback: "E: \n[bridged] c"}},
			[]string{"\\[bridged] a\n\\[bridged] b\nE: \n\\[bridged] c"},
			`{"status":"error","stdout":"[bridged] a","result":"[bridged] b","error":{"traceback":"E: \n[bridged] c"},"duration_ms":0}`, true},
		{"an exception", sandbox.Result{Status: "error", Output: out("a\n"), Error: &sandbox.PyError{Type: "E", Message: "m", Traceback: "Traceback\nE: m\n"}},
			[]string{"a\nTraceback\nE: m"},
			`{"status":"error","stdout":"a\n","error":{"type":"E","message":"m","traceback":"Traceback\nE: m\n"},"duration_ms":0}`, true},
		{"an exception without words", sandbox.Result{Status: "error", Error: &sandbox.PyError{Type: "Exception"}},
			[]string{"Exception"}, `{"status":"error","error":{"type":"Exception"},"duration_ms":0}`, true},
		{"a timeout", sandbox.Result{Status: "timeout", Output: out("a"), Duration: 2 * time.Second, Limit: "2s, as the call asked", Notices: []string{"it was\nslow"}},
			[]string{"a", "[bridged] timeout: the code was stopped at its time limit of 2s, as the call asked\n[bridged] it was slow"},
			`{"status":"timeout","stdout":"a","error":{"message":"timeout: the code was stopped at its time limit of 2s, as the call asked"},"notices":["it was slow"],"duration_ms":2000}`, true},
		{"a lost sandbox", sandbox.Result{Status: "lost", StateLost: "out of memory"},
			[]string{"[bridged] lost: the sandbox ended after 0.0 s, before the code did; the next call gets a fresh one, so run again what it needs\n[bridged] state lost: out of memory"},
			`{"status":"lost","error":{"message":"lost: the sandbox ended after 0.0 s, before the code did; the next call gets a fresh one, so run again what it needs"},"state_lost":"out of memory","duration_ms":0}`, true},
		{"background output apart", sandbox.Result{Status: "ok", Output: append(out("two\n"), sandbox.Output{Stream: 1, Text: "bg 1\n", Background: true})},
			[]string{"Output of code that an earlier call left running:\nbg 1", "two"},
			`{"status":"ok","stdout":"two\n","background":"bg 1\n","duration_ms":0}`, false},
		{"output that the sandbox cut", sandbox.Result{Status: "ok", Cut: 7, Output: []sandbox.Output{{Stream: 1, Text: "head"}, {Stream: 1, Text: "tail", Cut: 7}}},
			[]string{"head\n…[7 characters cut]…\ntail", "[bridged] 7 characters of the output were cut. Filter before printing."},
			`{"status":"ok","stdout":"head\n…[7 characters cut]…\ntail","notices":["7 characters of the output were cut. Filter before printing."],"duration_ms":0}`, false},
		{"a picture", sandbox.Result{Status: "ok", Rich: []sandbox.Rich{{MIME: "image/png", Data: encoded("png", 1, 1)}, {MIME: "application/x", Data: []byte("yy")}}},
			[]string{"image/png", "[bridged] application/x of 2 bytes was left out: agents can't show it"},
			`{"status":"ok","notices":["application/x of 2 bytes was left out: agents can't show it"],"duration_ms":0}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := newest.result(tt.res)
			if diff := cmp.Diff(tt.text, shown(t, got)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			line, err := encodeLine(got.StructuredContent)
			if diff := cmp.Diff(tt.json+"\n", string(line)); err != nil || diff != "" {
				t.Errorf("structured, error %v (-want +got):\n%s", err, diff)
			}
			if got.IsError != tt.isError {
				t.Errorf("isError: got %v, want %v", got.IsError, tt.isError)
			}
		})
	}
}

func TestOldClientsGetWhatTheirVersionKnows(t *testing.T) {
	old := view{mode: Compact, budget: DefaultMaxTokens}
	got := old.result(sandbox.Result{Status: "ok", Value: "1", Rich: []sandbox.Rich{{MIME: "audio/wav", Data: []byte("RIFF")}}})
	if got.StructuredContent != nil {
		t.Errorf("structuredContent: got %v", got.StructuredContent)
	}
	want := []string{"1", "[bridged] audio/wav of 4 bytes was left out: this client's version of MCP has no sounds"}
	if diff := cmp.Diff(want, shown(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLargeResultsKeepToTheBudget(t *testing.T) {
	count := counter(t)
	lines := strings.Repeat("an ordinary line of text\n", 1000) + "END"
	var numbers strings.Builder
	for i := range 200000 {
		fmt.Fprintf(&numbers, "%d, ", i)
	}
	for _, tt := range []struct {
		name string
		res  sandbox.Result
		cut  string
	}{
		{"one long line", sandbox.Result{Status: "ok", Output: []sandbox.Output{{Stream: 1, Text: "HEAD" + strings.Repeat("x", 300000) + "TAIL"}}}, "characters of the output were cut"},
		{"output that the sandbox cut already", sandbox.Result{Status: "ok", Cut: 1e6, Output: []sandbox.Output{{Stream: 1, Text: "HEAD" + lines}, {Stream: 1, Text: lines + "TAIL", Cut: 1e6}}}, "characters of the output were cut. Filter"},
		{"a long value", sandbox.Result{Status: "ok", Value: "HEAD" + numbers.String() + "TAIL"}, "characters of the value were cut: _ is all of it"},
		{"Chinese", sandbox.Result{Status: "ok", Value: "HEAD" + strings.Repeat("漢字仮名", 25000) + "TAIL", Whole: "out[7]"}, "characters of the value were cut: out[7] is all of it"},
		{"emoji", sandbox.Result{Status: "ok", Value: "HEAD" + strings.Repeat("🚀é漢", 25000) + "TAIL", Whole: "out[7]"}, "characters of the value were cut: out[7] is all of it"},
		{"all at once", sandbox.Result{Status: "error", Output: []sandbox.Output{{Stream: 1, Text: "HEAD" + lines}, {Stream: 2, Text: lines}},
			Value: lines, Error: &sandbox.PyError{Type: "E", Message: lines, Traceback: lines + "TAIL"}}, "characters of the traceback were cut"},
		{"notices without end", sandbox.Result{Status: "ok", Output: []sandbox.Output{{Stream: 1, Text: "HEAD" + lines + "TAIL"}}, Notices: strings.Split(lines, "\n")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := newest.result(tt.res)
			blocks := shown(t, got)
			text := strings.Join(blocks, "\n")
			if n, limit := count(blocks[0]), newest.budget; n > limit {
				t.Errorf("%d tokens of text, want at most %d", n, limit)
			}
			raw, err := json.Marshal(got)
			if err != nil || !utf8.Valid(raw) || strings.Contains(string(raw), `\ufffd`) || strings.ContainsRune(string(raw), utf8.RuneError) {
				t.Errorf("broken text, error %v", err)
			}
			if n := count(string(raw)); n > 22000 { // some agents count both forms and refuse 25000
				t.Errorf("%d tokens, want at most 22000", n)
			}
			if !strings.HasPrefix(text, "HEAD") || !strings.Contains(blocks[0], "TAIL") {
				t.Errorf("head or tail is missing: %.80s … %s", blocks[0], blocks[0][max(0, len(blocks[0])-80):])
			}
			if !strings.Contains(blocks[len(blocks)-1], tt.cut) {
				t.Errorf("the notice %q does not say %q", blocks[len(blocks)-1], tt.cut)
			}
		})
	}
}

func TestDocumentsKeepToTheBudgetWhateverTheyEscape(t *testing.T) {
	for _, line := range []string{"\"\"\"\n", "\ta\tb\tc\n", `C:\a\b` + "\n", "an ordinary line\n"} {
		for _, mode := range []Mode{Compact, TOON, JSON} {
			v := view{mode: mode, budget: 1000, structured: true}
			got := shown(t, v.result(sandbox.Result{Status: "ok", Output: []sandbox.Output{{Stream: 1, Text: strings.Repeat(line, 9000)}}}))
			n := tokens.Count(strings.Join(got, "\n"))
			if n > v.budget*5/4+envelope || n < v.budget/2 {
				t.Errorf("%s of %q: %d tokens, want about %d", mode, line, n, v.budget)
			}
			if !strings.Contains(strings.Join(got, "\n"), "characters of the output were cut") {
				t.Errorf("%s of %q does not tell of the cut: %.300s", mode, line, got)
			}
		}
	}
}

func TestCutsFallBetweenCharacters(t *testing.T) {
	for shift := range 8 {
		s := strings.Repeat("a", shift) + strings.Repeat("🚀é漢", 5000)
		for limit := 200; limit < 212; limit++ {
			got := cutMiddle(s, limit)
			if !utf8.ValidString(got) || len(got) > limit+8 {
				t.Fatalf("cutMiddle at %d: valid %v, %d bytes", limit, utf8.ValidString(got), len(got))
			}
			head, tail, _ := strings.Cut(got, " …[")
			said, tail, _ := strings.Cut(tail, " characters cut]… ")
			if kept := utf8.RuneCountInString(head + tail); fmt.Sprint(utf8.RuneCountInString(s)-kept) != said {
				t.Fatalf("%d kept and %s cut of %d characters", kept, said, utf8.RuneCountInString(s))
			}
		}
	}
	if got := cutMiddle("abc", 0); !strings.Contains(got, "3 characters cut") {
		t.Errorf("cutMiddle without room: got %q", got)
	}
}

func TestRefusalsSayThatNothingRan(t *testing.T) {
	got := newest.refusal(errors.New("busy: try again"), []string{"n"})
	if diff := cmp.Diff([]string{"busy: try again", "[bridged] n"}, shown(t, got)); diff != "" || !got.IsError {
		t.Errorf("isError %v (-want +got):\n%s", got.IsError, diff)
	}
	line, err := encodeLine(got.StructuredContent)
	want := `{"status":"not_run","error":{"message":"busy: try again"},"notices":["n"],"duration_ms":0}` + "\n"
	if string(line) != want || err != nil {
		t.Errorf("structured: got %s, %v, want %s", line, err, want)
	}
}
