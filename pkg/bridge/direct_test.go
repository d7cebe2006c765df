package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// A call whose tool is spelled with an escape is not taken directly, so both
// ways can be compared from outside.
func TestDirectCallsAreAnsweredAsMCPGoDoes(t *testing.T) {
	b := &bench{run: func(_ context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
		o := sandbox.Output{Stream: sandbox.Stdout, Text: "<hi> & \u2028\n"}
		output(o)
		return sandbox.Result{Status: sandbox.StatusOK, Output: []sandbox.Output{o}, Value: req.Code,
			Rich: []sandbox.Rich{{MIME: "image/png", Data: []byte("png")}, {MIME: "audio/wav", Data: []byte("wav")}}}, nil
	}}
	params := []string{
		`"arguments":{"code":"x+1"}`,
		`"arguments":{"code":"x+1","timeout":5,"reset":true,"servers":["github"]}`,
		`"arguments":{"code":"é\ud83d\ude00\u0000"},"_meta":{"progressToken":9007199254740993}`,
		`"arguments":{"code":"x"},"_meta":{}`,
		`"arguments":{"code":"x"},"_meta":null`,
		`"arguments":"{\"code\":\"x\"}"`,
		`"arguments":{"code":5}`,
		`"arguments":{"kode":"x"}`,
		`"arguments":[1]`,
		`"arguments":null`,
		`"arguments":{}`,
	}
	for _, version := range []string{mcp.ProtocolVersion20241105, mcp.ProtocolVersion20250326, mcp.ProtocolVersion20250618} {
		_, path := start(t, b.open, Options{})
		a := connect(t, path, Hello{})
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, version))
		a.recv()
		for _, p := range append(params, "") {
			direct := a.answer(`"name":"run_python"`, p)
			whole := a.answer(`"name":"run\u005fpython"`, p)
			if diff := cmp.Diff(whole, direct); diff != "" {
				t.Errorf("%s: %s: the direct answer differs (-mcp-go +direct):\n%s", version, p, diff)
			}
		}
	}
}

// answer calls a tool and returns the answer, without progress.
func (a *agent) answer(name, rest string) string {
	if rest != "" {
		name += ","
	}
	a.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{` + name + rest + `}}`)
	for {
		if line := a.recv(); !strings.Contains(line, "notifications/progress") {
			return line
		}
	}
}

func TestDirectCallTakesTheOrdinaryAlone(t *testing.T) {
	tests := []struct {
		name, method, params string
		want                 bool
	}{
		{"a call", "tools/call", `{"name":"run_python","arguments":{"code":"x"}}`, true},
		{"a call without arguments", "tools/call", `{"name":"run_python"}`, true},
		{"a progress token", "tools/call", `{"name":"run_python","_meta":{"progressToken":1}}`, true},
		{"an empty _meta", "tools/call", `{"name":"run_python","_meta":null}`, true},
		{"another method", "tools/list", `{"name":"run_python"}`, false},
		{"another tool", "tools/call", `{"name":"run_ruby"}`, false},
		{"no tool", "tools/call", `{"arguments":{}}`, false},
		{"no params", "tools/call", ``, false},
		{"params that are null", "tools/call", `null`, false},
		{"an escaped name", "tools/call", `{"name":"run\u005fpython"}`, false},
		{"a name in capitals", "tools/call", `{"Name":"run_python"}`, false},
		{"a task", "tools/call", `{"name":"run_python","task":{}}`, false},
		{"a protocol without handshake", "tools/call", `{"name":"run_python","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, false},
		{"a _meta that is no object", "tools/call", `{"name":"run_python","_meta":7}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, ok := directCall(message{method: tt.method, params: json.RawMessage(tt.params)})
			if ok != tt.want {
				t.Errorf("got %+v, %v; want %v", req, ok, tt.want)
			}
		})
	}
}
