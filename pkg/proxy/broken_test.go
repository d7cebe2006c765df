package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

func TestNumbersThatJSONDoesNotHaveAreReadAsNull(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"all of them", `{"a":NaN,"b":[Infinity,-Infinity, -NaN],"c":1}`, `{"a":null,"b":[null,null, null],"c":1}`},
		{"in texts", `{"a":"NaN \" Infinity","NaN":NaN,"b":"\\"}`, `{"a":"NaN \" Infinity","NaN":null,"b":"\\"}`},
		{"none", `{"a":"NaN"}`, ""},
		{"a text without an end", `{"a":NaN,"b":"NaN`, `{"a":null,"b":"NaN`},
		{"an escape at the end", `{"a":NaN,"b":"\`, `{"a":null,"b":"\`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(repairNumbers([]byte(tt.line))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAnAnswerThatIsNoJSONEndsItsCallAtOnce(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	raw, err := call(t, s, "fake", "raw", args{"Raw": `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"x":NaN,"y":[-Infinity]}}}`})
	if err != nil || string(raw) != `{"content":[],"structuredContent":{"x":null,"y":[null]}}` {
		t.Errorf("NaN: got %s, %v", raw, err)
	}
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	for name, result := range map[string]string{"deep": deep, "a comma too many": `{"content":[],}`, "a word": `undefined`} {
		_, err := call(t, s, "fake", "raw", args{"Raw": `{"jsonrpc":"2.0","id":ID,"result":` + result + `}`})
		if t.Run(name, func(t *testing.T) { wantCode(t, err, CodeUpstream, "not valid JSON") }); t.Failed() {
			return
		}
	}
	if got := must(t, s, "big", args{"N": 3}); got != "bbb" {
		t.Errorf("a call after that: got %q", got)
	}
}

// FuzzPipe has a server write anything: a call that is under way ends, with its
// own answer or an error, nothing panics, and nothing stays behind.
func FuzzPipe(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1000,"result":{}}` + "\n", `{"jsonrpc":"2.0","id":"1000","error":{"code":1}}`,
		`{"jsonrpc":"2.0","id":1000,"result":{"x":NaN}}` + "\n" + `{"jsonrpc":"2.0","id":1000,"result":{}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}},7]`,
		"\xef\xbb\xbf\r\nlog {\"\n{\"jsonrpc\":\"2.0\",\"id\":1e3,\"id\":null,\"result\":\"\\ud800\"}", `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 300) + `,"method":"x"}`,
		strings.Repeat("[", 20_000), `{"jsonrpc":"2.0","id":1000,"result":` + strings.Repeat(`{"a":`, 11_000) + "1" + strings.Repeat("}", 11_000) + "}",
	} {
		f.Add([]byte(seed), 0)
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":1000,"result":"`+strings.Repeat("x", 300)+`"}`), 100)
	f.Fuzz(func(t *testing.T, out []byte, limit int) {
		if limit <= 0 || limit > 1<<20 {
			limit = 1 << 20
		}
		p := newPipe(sink{}, bytes.NewReader(out), limit, &strayLog{})
		answers, err := p.expect(firstID, "x")
		if err != nil {
			t.Fatal(err)
		}
		p.read()
		p.fail(errStopped)
		a := <-answers
		if (a.response == nil) == (a.err == nil) {
			t.Fatalf("got %+v", a)
		}
		if a.response != nil && (a.response.Error == nil && len(a.response.Result) > 0 && !json.Valid(a.response.Result) || !sameID(a.response)) {
			t.Fatalf("got %s", a.response.Result)
		}
		if _, err := p.expect(firstID+1, "x"); !errors.Is(err, errStopped) || len(p.pending) != 0 {
			t.Fatalf("%d calls are left, %v", len(p.pending), err)
		}
	})
}

func sameID(r *transport.JSONRPCResponse) bool {
	return r.ID == mcp.NewRequestId(int64(firstID))
}

// A sink is the stdin of a server that reads everything.
type sink struct{ io.Writer }

func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) Close() error                { return nil }
