package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestPlaces(t *testing.T) {
	usual := fmt.Sprintf("/run/user/%d/bridged/mcp.sock", os.Getuid())
	for _, tt := range []struct {
		name string
		env  map[string]string
		want places
	}{
		{"a socket said outright is the only one", map[string]string{"BRIDGED_SOCKET": "/a/s", "HOME": "/h", "XDG_RUNTIME_DIR": "/r"},
			places{[]string{"/a/s"}, "/h/.local/state/bridged"}},
		{"without a home the log goes beside the socket", map[string]string{"BRIDGED_SOCKET": "/a/s"}, places{[]string{"/a/s"}, "/a"}},
		{"the runtime folder first", map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/r"},
			places{[]string{"/r/bridged/mcp.sock", "/h/.local/state/bridged/mcp.sock", usual}, "/h/.local/state/bridged"}},
		{"a state folder", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/st"},
			places{[]string{"/st/bridged/mcp.sock", usual}, "/st/bridged"}},
		{"a runtime folder alone", map[string]string{"XDG_RUNTIME_DIR": "/r"},
			places{[]string{"/r/bridged/mcp.sock", usual}, "/r/bridged"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findPlaces(func(k string) string { return tt.env[k] })
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestTheHelloKeepsToItsLimit(t *testing.T) {
	h := newHello([]string{
		"HUGE=" + strings.Repeat("x", maxEnv), "A=1", "EMPTY=", "=odd", "alone",
		strings.Repeat("N", maxEnv) + "=v", "HALF=" + strings.Repeat("y", maxEnv/2),
	}, claim{session: "s"})
	if len(h.Env) != 3 || h.Env["A"] != "1" || len(h.Env["HALF"]) != maxEnv/2 || h.Session != "s" {
		t.Errorf("got %d variables", len(h.Env))
	}
	if want := []string{strings.Repeat("N", 100), "HUGE"}; len(h.Omitted) != 2 || h.Omitted[0] != want[0] && h.Omitted[1] != want[0] {
		t.Errorf("omitted: got %.120q, want %.120q", h.Omitted, want)
	}
}

func TestASocketOfAnotherUserIsNotUsed(t *testing.T) {
	path := "/etc/passwd" // root's
	if os.Geteuid() == 0 {
		path = filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkOwner(path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("got %v", err)
	}
}

// The form of results that one agent wants is not every agent's default.
func TestTheDaemonDoesNotGetTheAgentsOutputMode(t *testing.T) {
	got := shared([]string{"A=1", "MCP_BRIDGE_OUTPUT_MODE=json", "MCP_BRIDGE_TIMEOUT=9"})
	if want := []string{"A=1", "MCP_BRIDGE_TIMEOUT=9"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLinesAreReadWhole(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{lines: make(chan piece), eof: make(chan struct{})}
	go a.read(r)
	long := strings.Repeat("x", 2*maxLine+5)
	go func() {
		_, _ = w.WriteString("a\n\n" + long + "\nend")
		_ = w.Close()
	}()
	var got []string
	var now strings.Builder
	for p := range a.lines {
		if p.first != (now.Len() == 0) || len(p.data) > maxLine+(64<<10) {
			t.Fatalf("a piece of %d bytes, first %v after %d bytes", len(p.data), p.first, now.Len())
		}
		now.Write(p.data)
		if p.last {
			got = append(got, now.String())
			now.Reset()
		}
	}
	<-a.eof
	want := []string{"a\n", "\n", long + "\n", "end\n"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %d lines, want %d", len(got), len(want))
	}
}

// FuzzParse checks that what is taken for a request can be answered.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"x"}`, `{"id":"\u0041","method":"x"}`, `{"id":null,"method":"x"}`,
		`{"id":{"a":[1]},"method":"x"}`, `{"method":"notifications/cancelled","params":{"requestId":"x"}}`, `[{"id":1}]`, `{"id":1,"result":{}}`, ``,
		`{"id": 1 ,"method":5}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m := parse(line)
		if m.isRequest() && m.isAnswer() {
			t.Error("both a request and an answer")
		}
		_, _ = m.cancels()
		if !m.isRequest() {
			return
		}
		out := errorLine(m.ID, "why \"so\"\n\xff")
		var back message
		if err := json.Unmarshal(out, &back); err != nil || string(back.ID) != string(m.ID) || out[len(out)-1] != '\n' {
			t.Errorf("answer %q: %v", out, err)
		}
	})
}
