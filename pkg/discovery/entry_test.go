package discovery

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// decodeText decodes one entry as the given row of the table would.
func decode(t *testing.T, row source, text string) (Server, string, error) {
	t.Helper()
	n, err := parseValue([]byte(text), 1)
	if err != nil {
		t.Fatalf("parsing %s: %v", text, err)
	}
	s, notes, err := decodeEntry(&row, "x", n)
	var told []string
	for _, n := range notes {
		told = append(told, strings.TrimSpace(n.field+" "+n.msg))
	}
	return s, strings.Join(told, "\n"), err
}

func TestDecodeEntry(t *testing.T) {
	tests := []struct {
		name string
		text string
		want Server
		note string
	}{
		{name: "numbers and booleans become text, null is dropped",
			text: `{"command": "c", "args": ["--n", 3, 1.50, true, null], "env": {"PORT": 8080, "DEBUG": true, "X": null, "E": "", "R": 1.50, "ID": 9007199254740993}}`,
			want: Server{Transport: Stdio, Command: "c", Args: []string{"--n", "3", "1.50", "true"}, Unset: []string{"X"},
				Env: map[string]string{"PORT": "8080", "DEBUG": "true", "E": "", "R": "1.50", "ID": "9007199254740993"}}},
		{name: "spaces around a URL are trimmed",
			text: `{"url": " https://example.test/mcp\n"}`,
			want: Server{Transport: Auto, URL: "https://example.test/mcp"}},
		{name: "args may be one text", text: `{"command": "c", "args": "one two"}`,
			want: Server{Transport: Stdio, Command: "c", Args: []string{"one two"}}},
		{name: "args may be null", text: `{"command": "c", "args": null, "env": null}`,
			want: Server{Transport: Stdio, Command: "c"}},
		{name: "the command may be a list", text: `{"command": ["bun", "x", 1], "environment": {"A": "1"}}`,
			want: Server{Transport: Stdio, Command: "bun", Args: []string{"x", "1"}, Env: map[string]string{"A": "1"}}},
		{name: "the command may be an object", text: `{"command": {"path": "/opt/old", "args": ["serve"], "env": {"A": "1"}}}`,
			want: Server{Transport: Stdio, Command: "/opt/old", Args: []string{"serve"}, Env: map[string]string{"A": "1"}}},
		{name: "a command line without a path is split", text: `{"command": "fake --port 1"}`,
			want: Server{Transport: Stdio, Command: "fake", Args: []string{"--port", "1"}}},
		{name: "a path with spaces is not split", text: `{"command": "/opt/My Tools/run"}`,
			want: Server{Transport: Stdio, Command: "/opt/My Tools/run"}},
		{name: "a Windows path with spaces is not split", text: `{"command": "C:\\Program Files\\x\\run.exe"}`,
			want: Server{Transport: Stdio, Command: `C:\Program Files\x\run.exe`}},
		{name: "a command line with quotes is left and told", text: `{"command": "python -c \"print(1)\""}`,
			want: Server{Transport: Stdio, Command: `python -c "print(1)"`}, note: "command it looks like a whole command line"},
		{name: "shell characters in args stay text", text: `{"command": "c", "args": ["a b", "\"q\"", ";", "$(id)"]}`,
			want: Server{Transport: Stdio, Command: "c", Args: []string{"a b", `"q"`, ";", "$(id)"}}},
		{name: "env may be a list", text: `{"command": "c", "env": ["A=1=2", "bad", 3]}`,
			want: Server{Transport: Stdio, Command: "c", Env: map[string]string{"A": "1=2"}}, note: "env[1] it is not NAME=value"},
		{name: "an object as a variable is left out and told", text: `{"command": "c", "env": {"A": {"x": 1}, "B": "b"}}`,
			want: Server{Transport: Stdio, Command: "c", Env: map[string]string{"B": "b"}}, note: "env.A the value is no text"},
		{name: "streamable HTTP has many spellings", text: `{"type": "streamable_http", "url": "https://e.test", "headers": {"X-A": 1, "X-N": null}}`,
			want: Server{Transport: HTTP, URL: "https://e.test", Headers: map[string]string{"X-A": "1"}}},
		{name: "the transport may be an object", text: `{"transport": {"type": "streamableHttp"}, "url": "https://e.test"}`,
			want: Server{Transport: HTTP, URL: "https://e.test"}},
		{name: "httpUrl forces HTTP", text: `{"httpUrl": "https://e.test"}`,
			want: Server{Transport: HTTP, URL: "https://e.test"}},
		{name: "local means stdio", text: `{"type": "local", "command": "c"}`,
			want: Server{Transport: Stdio, Command: "c"}},
		{name: "the type decides between command and url", text: `{"type": "sse", "command": "c", "url": "https://e.test"}`,
			want: Server{Transport: SSE, URL: "https://e.test"}},
		{name: "an unknown type is told and tried", text: `{"type": "carrier-pigeon", "url": "https://e.test"}`,
			want: Server{Transport: Auto, URL: "https://e.test"}, note: "type the type is unknown"},
		{name: "a web socket is told by its scheme", text: `{"url": "wss://e.test"}`,
			want: Server{Transport: Websocket, URL: "wss://e.test"}},
		{name: "a unix socket is a URL", text: `{"type": "http", "url": "unix:///tmp/a.sock#/mcp"}`,
			want: Server{Transport: HTTP, URL: "unix:///tmp/a.sock#/mcp"}},
		{name: "a header with a line break is left out", text: `{"url": "https://e.test", "headers": {"X": "a\r\nY: b", "Bad Name": "c", "Z": "d"}}`,
			want: Server{Transport: Auto, URL: "https://e.test", Headers: map[string]string{"Z": "d"}}, note: "headers.X it is not a valid header"},
		{name: "tools are filtered", text: `{"command": "c", "disabledTools": ["rm"], "includeTools": []}`,
			want: Server{Transport: Stdio, Command: "c", Tools: Filter{Allow: []string{}, Deny: []string{"rm"}}}},
		{name: "a duplicate field is told and the last counts", text: `{"command": "a", "command": "b"}`,
			want: Server{Transport: Stdio, Command: "b"}, note: "command the key is there more than once"},
		{name: "disabled switches off", text: `{"command": "c", "disabled": true}`,
			want: Server{Transport: Stdio, Command: "c", DisabledBy: "disabled: true"}},
		{name: "a switch may be a text", text: `{"command": "c", "disabled": "True"}`,
			want: Server{Transport: Stdio, Command: "c", DisabledBy: "disabled: true"}},
		{name: "not enabled is off", text: `{"command": "c", "enabled": false}`,
			want: Server{Transport: Stdio, Command: "c", DisabledBy: "enabled: false"}},
		{name: "not active is off", text: `{"command": "c", "isActive": false}`,
			want: Server{Transport: Stdio, Command: "c", DisabledBy: "isActive: false"}},
		{name: "a state may be off", text: `{"command": "c", "state": "disabled"}`,
			want: Server{Transport: Stdio, Command: "c", DisabledBy: "state: disabled"}},
		{name: "not disabled is on", text: `{"command": "c", "disabled": false, "enabled": true}`,
			want: Server{Transport: Stdio, Command: "c"}},
		{name: "a switch that is neither is told", text: `{"command": "c", "disabled": "maybe"}`,
			want: Server{Transport: Stdio, Command: "c"}, note: "disabled it is neither true nor false"},
		{name: "a headers helper is not run", text: `{"url": "https://e.test", "headersHelper": "rm -rf /"}`,
			want: Server{Transport: Auto, URL: "https://e.test"}, note: "headersHelper commands in config files are not run"},
		{name: "a timeout has the agent's unit", text: `{"command": "c", "timeout": 1500}`,
			want: Server{Transport: Stdio, Command: "c", StartTimeout: 1500 * time.Millisecond, CallTimeout: 1500 * time.Millisecond}},
		{name: "a timeout is bounded", text: `{"command": "c", "timeout": 1e300}`,
			want: Server{Transport: Stdio, Command: "c", StartTimeout: maxTimeout, CallTimeout: maxTimeout}},
		{name: "a timeout that is none is told", text: `{"command": "c", "timeout": "soon"}`,
			want: Server{Transport: Stdio, Command: "c"}, note: "timeout it is not a positive number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, notes, err := decode(t, source{agent: "test", timeout: milliseconds}, tt.text)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			tt.want.Name = "x"
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Server{})); diff != "" {
				t.Errorf("server (-want +got):\n%s", diff)
			}
			if tt.note == "" && notes != "" || !strings.Contains(notes, tt.note) {
				t.Errorf("notes: got %q, want %q", notes, tt.note)
			}
		})
	}
}

func TestUnusableEntries(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a text", `"oops"`, "the entry is a string, not an object"},
		{"nothing in it", `{}`, "neither a command nor a url"},
		{"both ways and no type", `{"command": "c", "url": "https://e.test"}`, "both a command and a url"},
		{"a command that is a number", `{"command": 3}`, "command is a number, not a string"},
		{"an argument that is an object", `{"command": "c", "args": [{}]}`, "args[0] is an object"},
		{"args that are an object", `{"command": "c", "args": {}}`, "args is an object, not a list"},
		{"a NUL in an argument", `{"command": "c", "args": ["a\u0000b"]}`, "args contains a NUL"},
		{"stdio without a command", `{"type": "stdio", "url": "https://e.test"}`, "the type is stdio but there is no command"},
		{"http without a url", `{"type": "http", "command": "c"}`, "the type is http but there is no url"},
		{"a URL without a scheme", `{"url": "example.test/mcp"}`, "url has no scheme"},
		{"a URL of a file", `{"url": "file:///etc/passwd"}`, "a scheme that no MCP server uses"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := decode(t, source{agent: "test"}, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestUntypedURLsFollowTheAgent(t *testing.T) {
	got, _, err := decode(t, source{agent: "test", untyped: SSE}, `{"url": "https://e.test"}`)
	if err != nil || got.Transport != SSE {
		t.Errorf("got %v, %v, want sse", got.Transport, err)
	}
}

func TestOneBadEntryAmongGoodOnes(t *testing.T) {
	res, _ := tree{"home/.cursor/mcp.json": `{"mcpServers": {
		"ok": {"command": "fake"},
		"num": {"command": "fake", "env": {"PORT": 8080}, "args": ["--n", 3]},
		"sp": {"url": " https://example.test/mcp"},
		"str": "oops",
		"none": {},
		"both": {"command": "fake", "url": "https://example.test"},
		"odd": {"type": "carrier-pigeon", "url": "https://example.test/odd"},
		"": {"command": "fake2"},
		"broken": {"command": tru, "args": ["hush-hush"]},
		"secret": {"command": hush-hush },
		"bad name ✓": {"command": "fake3"}}}`}.load(t)
	if diff := cmp.Diff([]string{"bad name ✓", "num", "odd", "ok", "sp"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	told := problems(res)
	for _, want := range []string{
		":5 (mcpServers.str): ", ":6 (mcpServers.none): ", ":7 (mcpServers.both): ", ":8 (mcpServers.odd.type): ",
		":9 (mcpServers.): ", ":10 (mcpServers.broken): ", ":11 (mcpServers.secret): ", ":12 (mcpServers.bad name ✓): ",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("problems lack %q:\n%s", want, told)
		}
	}
	if strings.Contains(told, "hush-hush") {
		t.Errorf("problems hold a value:\n%s", told)
	}
}

func TestFilterAllows(t *testing.T) {
	tests := []struct {
		name   string
		filter Filter
		want   bool
	}{
		{"everything without a filter", Filter{}, true},
		{"what is listed", Filter{Allow: []string{"a"}}, true},
		{"not what is not listed", Filter{Allow: []string{"b"}}, false},
		{"nothing of an empty list", Filter{Allow: []string{}}, false},
		{"everything with a star", Filter{Allow: []string{"*"}}, true},
		{"not what is denied", Filter{Allow: []string{"a"}, Deny: []string{"a"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.filter.Allows("a"); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestNamesAreChecked(t *testing.T) {
	long := strings.Repeat("n", maxName+1)
	res, _ := tree{"work/.mcp.json": `{"mcpServers": {
		"workspace": {"command": "a"},
		"tab\there": {"command": "b"},
		"` + long + `": {"command": "c"},
		"mail index/2.0 (é)": {"command": "d"},
		"__proto__": {"command": "e"},
		"huge": {"command": "f", "args": ["` + strings.Repeat("x", maxEntry) + `"]}}}`}.load(t)
	if diff := cmp.Diff([]string{"__proto__", "mail index/2.0 (é)"}, names(res.Servers)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	told := problems(res)
	for _, want := range []string{
		":2 (mcpServers.workspace): the name \"workspace\" is reserved by claude-code; the entry is skipped",
		"the name contains a control character", "the name is longer than 200 bytes",
		"in Python it is mail_index_2_0_é", ":7 (mcpServers.huge): larger than 256 KiB",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("problems lack %q:\n%s", want, told)
		}
	}
}

func TestProblemsKnowTheirLine(t *testing.T) {
	res, root := tree{"home/.cursor/mcp.json": "{\n\"mcpServers\": {\n\n\"a\": { // here\n\"command\": \"x\",\n\"env\": {\n\"A\": {},\n\"B\": 1\n},\n\"cwd\": 3,\n\"disabledTools\": {}\n}}}"}.load(t)
	got := strings.ReplaceAll(problems(res), root, "")
	want := "/home/.cursor/mcp.json:7 (mcpServers.a.env.A): the value is no text, so it is left out\n" +
		"/home/.cursor/mcp.json:10 (mcpServers.a.cwd): it is no text, so it is left out\n" +
		"/home/.cursor/mcp.json:11 (mcpServers.a.disabledTools): disabledTools is an object, not a list\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	source := find(t, res.Servers, "a").Sources[0]
	if got, want := source.String(), root+"/home/.cursor/mcp.json:4 (mcpServers.a)"; got != want {
		t.Errorf("source: got %s, want %s", got, want)
	}
}
