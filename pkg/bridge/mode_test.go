package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
)

func TestBlankLinesAreFolded(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"nothing but blank lines", "\n \n\t\n", ""},
		{"one line without an end", "a", "a"},
		{"a blank line stays one", "a\n\nb", "a\n\nb"},
		{"several become one", "a\n\n \n\t\nb\n", "a\n\nb"},
		{"those at the ends are left out", "\n\na\n\n", "a"},
		{"an indent is none", "\n  a\n\n\n    b  \n", "  a\n\n    b  "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := foldBlank(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The text of a mode that is no plain text is what structuredContent has, and
// clients too old for that have it all the same.
func TestModesTellTheStructuredResult(t *testing.T) {
	res := sandbox.Result{
		Status: "error", Output: []sandbox.Output{{Stream: 1, Text: "a\n\n\n\n[bridged] b\n"}}, Notices: []string{"n"},
		Error: &sandbox.PyError{Type: "E", Message: "m", Traceback: "E: m"},
		Rich:  []sandbox.Rich{{MIME: "image/png", Data: encoded("png", 1, 1)}},
		Files: []sandbox.File{{URI: "bridged://f", Name: "f", Size: 3}},
	}
	for _, v := range []view{{mode: JSON, budget: DefaultMaxTokens}, {mode: JSON, budget: 16000, structured: true}} {
		got := v.result(res)
		want := `{"status":"error","stdout":"a\n\n\n\n[bridged] b\n","error":{"type":"E","message":"m","traceback":"E: m"},` +
			`"notices":["n"],"files":[{"uri":"bridged://f","name":"f","size":3}],"duration_ms":0}`
		text, ok := got.Content[0].(mcp.TextContent)
		if !ok || text.Text != want || !got.IsError || len(got.Content) != 3 {
			t.Errorf("structured %v: got %+v, want first %s, then a picture and a file", v.structured, got.Content, want)
		}
		line, err := encodeLine(got.StructuredContent)
		if v.structured && (err != nil || string(line) != want+"\n") {
			t.Errorf("structuredContent: got %s, %v", line, err)
		}
		refused := v.refusal(errors.New("busy: try again"), []string{"n"})
		want = `{"status":"not_run","error":{"message":"busy: try again"},"notices":["n"],"duration_ms":0}`
		if diff := cmp.Diff([]string{want}, shown(t, refused)); diff != "" || !refused.IsError {
			t.Errorf("refusal, isError %v (-want +got):\n%s", refused.IsError, diff)
		}
	}
}

func TestTheModeIsTheShimsOrElseTheClients(t *testing.T) {
	byClient := func(client string) Mode {
		if client == "json-reader" {
			return JSON
		}
		return Compact
	}
	for _, tt := range []struct {
		name   string
		env    string // of the shim
		client string
		mode   func(string) Mode
		want   []string
	}{
		{"plain text by default", "", "x", nil, []string{"5"}},
		{"what the server says of the client", "", "json-reader", byClient, []string{`{"status":"ok","result":"5","duration_ms":0}`}},
		{"what it says of others", "", "x", byClient, []string{"5"}},
		{"the shim's environment wins", "compact", "json-reader", byClient, []string{"5"}},
		{"and for every client", " json ", "x", nil, []string{`{"status":"ok","result":"5","duration_ms":0}`}},
		{"a mode that there is not is told once", "yaml", "x", byClient, []string{"5", "[bridged] MCP_BRIDGE_OUTPUT_MODE of bridge-shim: \"yaml\" is no output mode: use compact, toon or json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{run: func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
				return sandbox.Result{Status: sandbox.StatusOK, Value: "5"}, nil
			}}
			_, path := start(t, b.open, Options{Mode: tt.mode})
			a := connect(t, path, Hello{Env: map[string]string{modeVariable: tt.env}})
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":%q,"version":"1"}}}`, tt.client))
			a.reply()
			for i, want := range [][]string{tt.want, tt.want[:1]} {
				a.send(callLine(fmt.Sprint(i+1), `{"code":"x"}`))
				var got []string
				for _, c := range a.reply().call(t).Content {
					got = append(got, c.Text)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("call %d (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}

func TestModesHaveNames(t *testing.T) {
	for _, m := range []Mode{Compact, TOON, JSON} {
		if got, err := ParseMode(string(m)); got != m || err != nil {
			t.Errorf("ParseMode(%q): got %q, %v", m, got, err)
		}
	}
	if _, err := ParseMode("JSON"); err == nil || !strings.Contains(err.Error(), "use compact, toon or json") {
		t.Errorf("ParseMode of a wrong name: got %v", err)
	}
}
