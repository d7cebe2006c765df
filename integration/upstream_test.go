//go:build integration

package integration

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/integration/misbehave"
	"github.com/bridged/bridged/pkg/proxy/oauthtest"
)

// strays are lines as servers print them among their messages.
const strays = "fake 1.2 ready\n\n\x1b[32mall set \U0001F680\x1b[0m\n" + `{"level":"info","msg":"x"}` + "\n123\nnull\n[]\n"

// misbehaving are servers by their names. Each writes what it gets to a log.
func misbehaving(t *testing.T, h *home) {
	t.Helper()
	entries := map[string]any{}
	for name, c := range map[string]misbehave.Config{
		"fake":   {},
		"other":  {},
		"noisy":  {Before: strays, Between: "took 3 ms\n", After: "\n\ndone\n", Stderr: 300_000},
		"rushed": {},
		"paged":  {Many: 250, Page: 40},
	} {
		c.Log = h.logOf(name)
		entry, err := c.Entry()
		if err != nil {
			t.Fatal(err)
		}
		entries[name] = entry
	}
	remote, end := oauthtest.Unstarted(misbehave.Config{Log: h.logOf("remote")}.Handler())
	t.Cleanup(end)
	remote.Start()
	entries["remote"] = map[string]any{"type": "http", "url": remote.URL + "/mcp"}
	entries["older"] = map[string]any{"type": "sse", "url": remote.URL + "/sse"}
	h.servers(t, entries)
	h.config(t, "[[server]]\nname = \"rushed\"\ncall_timeout = \"3s\"\n")
}

func (h *home) logOf(server string) string { return filepath.Join(h.dir, server+".log") }

// received are the messages that a server has got of a method.
func (h *home) received(t *testing.T, server, method string) []string {
	t.Helper()
	text, err := os.ReadFile(h.logOf(server))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\n") && strings.Contains(line, `"method":"`+method+`"`) { // else it is being written
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// config writes config.toml.
func (h *home) config(t *testing.T, text string) {
	t.Helper()
	dir := filepath.Join(h.dir, ".config", "bridged")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestServersThatMisbehave calls them from code, through shim and daemon.
func TestServersThatMisbehave(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r)
	misbehaving(t, h)
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("import hashlib\nfrom mcp import runtime\nasync def up(server, tool, args={}, **more):\n    return await runtime.call_tool(server, tool, args, **more)",
		"fake", "other", "noisy", "rushed", "paged", "remote", "older")
	for _, row := range upstreamRows() {
		t.Run(row.name, func(t *testing.T) {
			sub := &agent{t: t, Client: a.Client, stderr: a.stderr}
			if got := sub.run(row.code); got != row.want {
				t.Errorf("%s\ngot  %s\nwant %s", row.code, brief(got), brief(row.want))
			}
		})
	}
	t.Run("numbers reach the server as they are", func(t *testing.T) { testExactNumbers(t, h) })
	t.Run("a call that may have had its effect is made once", func(t *testing.T) { testPaidOnce(t, h) })
	t.Run("cancellation gets to the server that works", func(t *testing.T) { testCancelUpstream(t, h, d) })
	t.Run("forty calls side by side, twice", func(t *testing.T) { testForty(t, h) })
}

func brief(text string) string {
	if len(text) > 1500 {
		return text[:1500] + "..."
	}
	return text
}

// exact are values that a detour over floats would change.
const exact = `{"i": 2**53 + 1, "n": -(2**63), "big": 12345678901234567890123456789, "f": 1.0, "e": 1e21, "s": "9007199254740993", "z": [2**64, {"y": 2**53 + 1}], "a": None}`

type upstreamRow struct{ name, code, want string }

func upstreamRows() []upstreamRow {
	rows := []upstreamRow{
		{"lines that are no messages", "await up('noisy', 'echo', {'v': 1})", "{'v': 1}"},
		{"numbers, both ways", "a = " + exact + "\nr = await up('fake', 'echo', a)\nr == a, type(r['f']).__name__, list(r) == list(a)", "(True, 'float', True)"},
		{"numbers over HTTP", "await up('remote', 'echo', a) == a, await up('older', 'echo', a) == a", "(True, True)"},
		{"a large result over HTTP", "[len(await up(s, 'big', {'n': 5 << 20})) for s in ('remote', 'older')]", "[5242880, 5242880]"},
		{"numbers in what is beside", "r = await up('fake', 'echo', a, raw=True)\nr['_meta']['nested'][0] == a", "True"},
		{"blocks of all kinds", "b = await up('fake', 'blocks', {'bare': True})\n" +
			"[type(x).__name__ for x in b], str(b[0]), b[1].data[:4], b[2].mime_type, b[5].uri, dict(b[6])",
			`(['Text', 'Image', 'Audio', 'Resource', 'Resource', 'ResourceLink', 'Unknown'], 'first', b'\x89PNG', 'audio/wav', 'test://link', {'type': 'json', 'json': {}})`},
		{"a large blob", "hashlib.sha256(b[4].data).hexdigest(), b[3].text", fmt.Sprintf("('%x', 'embedded')", sha256.Sum256(misbehave.Blob()))},
		{"structured content beside blocks", "r = await up('fake', 'blocks', raw=True)\n" +
			"await up('fake', 'blocks'), len(r['content']), r['_meta']", "({'ok': True}, 7, {'seen': 1})"},
		{"content that is empty", "await up('fake', 'content', {'is': []})", "[]"},
		{"no content", "await up('fake', 'content')", "[]"},
		{"content that is null", "await up('fake', 'content', {'is': None})", "[]"},
		{"many tools on pages", "len(dir(mcp_paged)) >= 257, await mcp_paged.tool_0250()", "(True, 'tool_0250')"},
	}
	for _, n := range []int{65_535, 65_536, 65_537, 1 << 20, 5 << 20, 20 << 20} {
		rows = append(rows, upstreamRow{
			fmt.Sprintf("a result of %d bytes", n),
			fmt.Sprintf("r = await up('fake', 'big', {'n': %d})\nlen(r), hashlib.sha256(r.encode()).hexdigest()", n),
			fmt.Sprintf("(%d, '%x')", n, sha256.Sum256([]byte(misbehave.Text(n)))),
		})
	}
	return append(rows, upstreamRow{
		"a result over the limit",
		"try: await up('fake', 'big', {'n': 33 << 20})\nexcept Exception as e: print('32 MiB' in str(e))\nawait up('fake', 'echo', {'v': 'ok'})", "True\n{'v': 'ok'}",
	})
}

func testExactNumbers(t *testing.T, h *home) {
	calls := h.received(t, "fake", "tools/call")
	for _, call := range calls {
		if strings.Contains(call, `"n":-9223372036854775808`) && strings.Contains(call, `"big":12345678901234567890123456789`) &&
			strings.Contains(call, `"f":1.0`) && strings.Index(call, `"i":9007199254740993`) < strings.Index(call, `"z":[18446744073709551616,`) {
			return
		}
	}
	t.Errorf("no call has the numbers as they were: %s", brief(strings.Join(calls, "\n")))
}

func testPaidOnce(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	for _, row := range []struct{ how, server, code string }{
		{"exit", "fake", "outcome_unknown"},
		{"never", "rushed", "timeout"},
		{"exit", "remote", "outcome_unknown"},
		{"503", "remote", "outcome_unknown"},
		{"exit", "older", "outcome_unknown"},
	} {
		file := filepath.Join(h.dir, row.server+row.how)
		code := fmt.Sprintf("from mcp import runtime\ntry: await runtime.call_tool(%q, 'pay', {'file': %q, 'how': %q})\nexcept runtime.MCPError as e: print(e.code)\n"+
			"(await runtime.call_tool(%q, 'echo', {'v': 1}))", row.server, file, row.how, row.server)
		if got := a.run(code, row.server); got != row.code+"\n{'v': 1}" {
			t.Errorf("%s of %s: got %q, want the code %s and a next call that works", row.how, row.server, got, row.code)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "paid\n" {
			t.Errorf("%s of %s: the effect is %q, %v; want exactly one line", row.how, row.server, text, err)
		}
	}
}

// testCancelUpstream cancels calls by a time limit and by the agent's word. Two
// servers have requests with the same ids.
func testCancelUpstream(t *testing.T, h *home, d *daemon) {
	a := h.agent(t, h.dir)
	a.run("from mcp import runtime\nawait runtime.call_tool('other', 'echo', {})", "fake", "other")
	slow := "await runtime.call_tool('fake', 'slow', {})"
	if res := a.call(map[string]any{"code": slow, "timeout": 1}); !res.IsError {
		t.Errorf("a call without an answer came to %s", text(res))
	}
	checkCancelled(t, h, d, 1)
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	go func() { // the notification of the agent's client goes out with the cancelled context
		d.until(t, "the server works", func() bool { return len(slowCalls(t, h)) == 2 })
		cancel()
	}()
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = "run_python", map[string]any{"code": slow, "timeout": 60}
	if _, err := a.CallTool(ctx, req); err == nil {
		t.Error("a call that was cancelled has an answer")
	}
	checkCancelled(t, h, d, 2)
	if list := h.received(t, "other", "notifications/cancelled"); len(list) > 0 {
		t.Errorf("a server that was idle got %v", list)
	}
}

// slowCalls are the ids of the calls that get no answer.
func slowCalls(t *testing.T, h *home) []string {
	t.Helper()
	var ids []string
	for _, line := range h.received(t, "fake", "tools/call") {
		var r struct {
			ID     json.RawMessage `json:"id"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Params.Name == "slow" {
			ids = append(ids, string(r.ID))
		}
	}
	return ids
}

// checkCancelled waits until n calls, and nothing else, are cancelled under the
// ids that the server was given.
func checkCancelled(t *testing.T, h *home, d *daemon, n int) {
	t.Helper()
	var cancelled []string
	d.until(t, "the server is told", func() bool {
		cancelled = h.received(t, "fake", "notifications/cancelled")
		return len(cancelled) >= n
	})
	ids := slowCalls(t, h)
	if len(cancelled) != n || len(ids) != n {
		t.Fatalf("%d calls and %d cancellations: %v", len(ids), len(cancelled), cancelled)
	}
	for i, line := range cancelled {
		if !strings.Contains(line, `"requestId":`+ids[i]) {
			t.Errorf("cancelled %s, want the id %s", line, ids[i])
		}
	}
}

// testForty makes calls of which one fails and one is never answered, from
// two agents at once.
func testForty(t *testing.T, h *home) {
	const code = `
import asyncio, time
from mcp import runtime
how = {7: "fail", 9: "never"}
calls = [runtime.call_tool("rushed", "sleep_echo", {"ms": 500 - 10 * i, "v": i, "how": how.get(i, "")}) for i in range(40)]
began = time.monotonic()
r = await asyncio.gather(*calls, return_exceptions=True)
print([i for i, x in enumerate(r) if x != str(i) and x != i], type(r[7]).__name__, "no 7" in str(r[7]), getattr(r[9], "code", r[9]))
`
	var agents sync.WaitGroup
	for range 2 {
		a := h.agent(t, h.dir)
		agents.Go(func() {
			a.run("1") // its sandbox is there
			began := time.Now()
			if got, want := a.run(code, "rushed"), "[7, 9] MCPError True timeout"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if sum := 40 * 300 * time.Millisecond; time.Since(began) > sum {
				t.Errorf("it took %s, as if one call was made after the other", time.Since(began))
			}
		})
	}
	agents.Wait()
}
