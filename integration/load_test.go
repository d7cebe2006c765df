//go:build integration

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/bridge"
)

const (
	// maxDaemonMemory is what docs/limits.md states for this load, in bytes.
	maxDaemonMemory = 512 << 20

	loadShims   = 200 // at once
	loadCallers = 32  // of them, which call
	loadCalls   = 32  // of each, at once: as many as may wait
	loadTime    = 10 * time.Minute
)

// TestLoad has as many agents as there may be at once, a thousand calls that
// wait, clients that send garbage and one that reads nothing. Each call is
// answered rightly, nobody waits for ever, and the daemon stays small.
func TestLoad(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_POOL_MAX=4", "MCP_BRIDGE_POOL_WARM=2", "MCP_BRIDGE_POOL_WAIT=10m", "MCP_BRIDGE_YIELD_AFTER=never", "MCP_BRIDGE_TIMEOUT=120s", "MCP_BRIDGE_LOG_LEVEL=warn")
	d := h.serve(t)
	d.ready(t)
	before := openFiles(t, d)
	agents := manyAgents(t, h)
	idle := d.memory(t)
	slow := h.slowReader(t)
	stopGarbage := h.garbage(t)
	testCallers(t, agents[:loadCallers])
	testBurst(t, agents[loadCallers:])
	slow.check(t)
	sent := stopGarbage()
	d.until(t, "the others have hung up", func() bool { return len(d.status(t).Sessions) == loadShims-loadCallers })
	testTooManyConnections(t, h, d)
	peak := d.memory(t)
	t.Logf("the daemon has used %d MiB at most, %d MiB with %d idle agents; %d KiB of garbage came", peak>>20, idle>>20, len(agents), sent>>10)
	if peak > maxDaemonMemory {
		t.Errorf("the daemon has used %d MiB, and docs/limits.md says %d", peak>>20, maxDaemonMemory>>20)
	}
	for _, a := range agents {
		_ = a.Close() // some have closed before
	}
	d.until(t, "the agents are gone", func() bool { return len(d.status(t).Sessions) == 0 })
	d.until(t, "their files are closed", func() bool { return openFiles(t, d) <= before+8 }) // with those of warm sandboxes
	if got := h.agent(t, h.dir).run("6*7"); got != "42" {
		t.Errorf("afterwards a call is answered with %q", got)
	}
}

// manyAgents starts shims.
func manyAgents(t *testing.T, h *home) []*agent {
	t.Helper()
	agents := make([]*agent, loadShims)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range agents {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			agents[i] = h.agent(t, h.dir)
		})
	}
	wg.Wait()
	return agents
}

// memory is the most that the daemon has had in memory so far, in bytes.
func (d *daemon) memory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("the kernel does not tell the daemon's memory")
	return 0
}

// testCallers has agents queue calls, many more than there are sandboxes. All of
// them come to their turn, each agent's in order and in one sandbox.
func testCallers(t *testing.T, agents []*agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), loadTime)
	defer cancel()
	var wg sync.WaitGroup
	var right atomic.Int64
	for n, a := range agents {
		var calls sync.WaitGroup
		for i := range loadCalls {
			calls.Go(func() {
				code := fmt.Sprintf("seen = globals().get('seen', 0) + 1\n%d * 1000 + %d", n, i)
				if got := text(a.try(ctx, t, code)); got == strconv.Itoa(n*1000+i) {
					right.Add(1)
				} else {
					t.Errorf("agent %d, call %d: got %q", n, i, got)
				}
			})
		}
		wg.Go(func() {
			calls.Wait()
			if got := text(a.try(ctx, t, "seen")); got != strconv.Itoa(loadCalls) {
				t.Errorf("agent %d: got %q calls in its sandbox, want %d", n, got, loadCalls)
			}
			_ = a.Close() // its sandbox is the next one's
		})
	}
	wg.Wait()
	if want := int64(len(agents) * loadCalls); right.Load() != want {
		t.Errorf("%d of %d calls were answered rightly", right.Load(), want)
	}
}

// try is call with a context, from any goroutine.
func (a *agent) try(ctx context.Context, t *testing.T, code string) *mcp.CallToolResult {
	t.Helper()
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = "run_python", map[string]any{"code": code}
	res, err := a.CallTool(ctx, req)
	if err != nil {
		return mcp.NewToolResultText(err.Error())
	}
	return res
}

// testBurst has one agent make more calls at once than may wait, and others none
// the worse for it.
func testBurst(t *testing.T, agents []*agent) {
	t.Helper()
	const burst = 100
	ctx, cancel := context.WithTimeout(t.Context(), loadTime)
	defer cancel()
	greedy, others := agents[0], agents[1:4]
	var wg sync.WaitGroup
	var ran, busy atomic.Int64
	for range burst {
		wg.Go(func() {
			switch got := text(greedy.try(ctx, t, "import time; time.sleep(0.02); 'ran'")); {
			case strings.Contains(got, "ran") && !strings.Contains(got, "busy"):
				ran.Add(1)
			case strings.Contains(got, "busy") && (strings.Contains(got, "wait for one, then try again") || strings.Contains(got, "wait for their answers")):
				busy.Add(1)
			default:
				t.Errorf("got %q, want that it ran, or that it is busy and what to do", got)
			}
		})
	}
	for _, a := range others {
		wg.Go(func() {
			if got := text(a.try(ctx, t, "1+1")); got != "2" {
				t.Errorf("another agent meanwhile: got %q", got)
			}
		})
	}
	wg.Wait()
	if ran.Load() < 33 || ran.Load()+busy.Load() != burst {
		t.Errorf("of a burst of %d calls %d ran and %d were told that it is busy", burst, ran.Load(), busy.Load())
	}
}

// dial connects as a shim does, and returns what the daemon says to it.
func (h *home) dial(t *testing.T) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	conn, err := net.Dial("unix", h.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test may have
	env, err := json.Marshal(map[string]any{"bridged": 1, "version": "test", "pid": os.Getpid(), "cwd": h.dir, "env": map[string]string{"HOME": h.dir}})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(loadTime)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append(env, '\n')); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(conn, 1<<20)
	welcome, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return conn, r, welcome
}

// A slowReader has made calls with long answers, and reads a little at a time.
type slowReader struct {
	conn  net.Conn
	calls int
	wrote chan error    // what came of the writing, which may wait for the reading
	hurry chan struct{} // closed when it is to read on
	over  chan struct{} // closed when nothing is read any more

	answers map[int]int // how often each call was answered; after over, as what follows
	size    int
	err     error // why nothing is read any more
}

// Read is that of the connection, 1 KiB in a twentieth of a second until it is to
// hurry.
func (s *slowReader) Read(p []byte) (int, error) {
	select {
	case <-s.hurry:
	case <-time.After(50 * time.Millisecond):
		p = p[:min(len(p), 1<<10)]
	}
	return s.conn.Read(p)
}

func (h *home) slowReader(t *testing.T) *slowReader {
	t.Helper()
	conn, _, _ := h.dial(t)
	s := &slowReader{conn: conn, calls: 30, wrote: make(chan error, 1), hurry: make(chan struct{}), over: make(chan struct{}), answers: map[int]int{}}
	go s.listen() // ends with the connection at the latest
	picture := `import base64, io, zlib, struct, os
def chunk(k, d): return struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))
class P:
    def _repr_png_(self):
        rows = b''.join(b'\0' + os.urandom(3 * 400) for _ in range(400))
        return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 400, 400, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows, 0)) + chunk(b'IEND', b'')
P()`
	code, err := json.Marshal(picture)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the connection at the latest
		for i := range s.calls {
			if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_python","arguments":{"code":%s}}}`+"\n", i, code); err != nil {
				s.wrote <- err
				return
			}
		}
		s.wrote <- nil
	}()
	return s
}

// listen reads answers until all are there.
func (s *slowReader) listen() {
	defer close(s.over)
	for r := bufio.NewReader(s); len(s.answers) < s.calls; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			s.err = err
			return
		}
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(line, &m) == nil && m.ID != nil && m.Result != nil { // and no notification
			s.answers[*m.ID]++
			s.size += len(line)
		}
	}
}

// check reads on at last: every call has one answer.
func (s *slowReader) check(t *testing.T) {
	t.Helper()
	close(s.hurry)
	<-s.over
	if err := <-s.wrote; err != nil || s.err != nil {
		t.Errorf("making the calls: %v; reading the answers: %v after %d", err, s.err, len(s.answers))
	}
	for id, n := range s.answers {
		if n != 1 {
			t.Errorf("call %d is answered %d times", id, n)
		}
	}
	if s.size < 1<<20 {
		t.Errorf("the answers have %d bytes: they are no load", s.size)
	}
	_ = s.conn.Close() // nothing is lost with it
}

// garbage has clients send what is no request, a megabyte a second each: JSON
// that breaks off, other text, bytes that are no text, and a line without an end.
// stop ends that and returns how many bytes were sent.
func (h *home) garbage(t *testing.T) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var sent atomic.Int64
	for _, piece := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":` + strings.Repeat("[", 400) + "\n",
		strings.Repeat("lorem ipsum ", 80) + "\n",
		strings.Repeat("\xff\xfe\x00", 300) + "\n",
		strings.Repeat("x", 1000),
		`[` + strings.Repeat(`{"jsonrpc":"2.0"},`, 60) + `1]` + "\n",
	} {
		conn, r, _ := h.dial(t)
		go func() { _, _ = r.WriteTo(discard{}) }() // ends with the connection
		wg.Go(func() {
			defer conn.Close() //nolint:errcheck // nothing is lost with it
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				n, err := conn.Write([]byte(strings.Repeat(piece, 10<<10/len(piece))))
				sent.Add(int64(n))
				if err != nil {
					t.Errorf("the daemon has hung up on garbage: %v", err)
					return
				}
			}
		})
	}
	return func() int64 {
		cancel()
		wg.Wait()
		return sent.Load()
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// testTooManyConnections opens more than there may be. The one over the bound is
// told what to do, and the others go on.
func testTooManyConnections(t *testing.T, h *home, d *daemon) {
	t.Helper()
	var conns []net.Conn
	for range bridge.DefaultMaxSessions + 1 {
		conn, _, welcome := h.dial(t)
		conns = append(conns, conn)
		if !strings.Contains(welcome, `"error"`) {
			continue
		}
		if n := len(d.status(t).Sessions); n != bridge.DefaultMaxSessions {
			t.Errorf("there are %d sessions when one is refused", n)
		}
		if !strings.Contains(welcome, "256 sessions are open, which is the limit; close an agent and try again") {
			t.Errorf("the one over the bound is told %s", welcome)
		}
		for _, conn := range conns {
			_ = conn.Close() // nothing is lost with it
		}
		return
	}
	t.Errorf("%d connections more are taken", len(conns))
}
