//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/runtime"
)

// twoKinds are one engine of each kind, for what has little to do with engines.
var twoKinds = []engines.Name{engines.Rootless, engines.Docker}

// onEngines runs a test with a daemon of its own on each engine, and looks
// whether it leaves a container.
func onEngines(t *testing.T, names []engines.Name, test func(t *testing.T, h *home, d *daemon, r *engines.Running), env ...string) {
	for _, name := range names {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			h := onEngine(t, r, env...)
			d := h.serve(t)
			d.ready(t)
			test(t, h, d, r)
			d.stop(t, syscall.SIGINT)
			noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
		})
	}
}

// in runs code that must work in a named session.
func (a *agent) in(session, code string) string {
	a.t.Helper()
	res := a.call(map[string]any{"code": code, "session": session})
	if res.IsError {
		a.t.Fatalf("%s: %s\nfailed: %s", session, code, text(res))
	}
	return text(res)
}

// python returns a session of an agent, of which the daemon must have but one.
func (d *daemon) python(t testing.TB, session string) ops.Python {
	t.Helper()
	s := d.status(t)
	if len(s.Sessions) != 1 {
		t.Fatalf("there are %d agents, want one", len(s.Sessions))
	}
	for _, p := range s.Sessions[0].Pythons {
		if p.Name == session {
			return p
		}
	}
	t.Fatalf("there is no session %q: %+v", session, s.Sessions[0].Pythons)
	return ops.Python{}
}

func TestNamedSessions(t *testing.T) {
	onEngines(t, twoKinds, func(t *testing.T, h *home, d *daemon, _ *engines.Running) {
		h.servers(t, map[string]any{"everything": map[string]any{"command": "mcp-server-everything"}})
		a := h.agent(t, h.dir)
		testSideBySide(t, a, d)
		a.in("s1", "x = 's1'")
		a.in("s2", "x = 's2'")
		if got := a.in("s1", "x") + a.in("s2", "x"); got != "'s1''s2'" {
			t.Errorf("got %s, want each session's own", got)
		}
		if res := a.call(map[string]any{"code": "x"}); !strings.Contains(text(res), "NameError") {
			t.Errorf("the default session: got %q, want no x", text(res))
		}
		res := a.call(map[string]any{"code": "1", "session": "s3"})
		if got := text(res); !res.IsError || !strings.Contains(got, `the default one, "s1", "s2". Use one of these, or end one with reset=true and no code`) {
			t.Errorf("a session too many: got %q", got)
		}
		for _, session := range []string{"s1", "s2"} {
			res := a.call(map[string]any{"code": "str(await mcp_everything.echo(message='hello'))", "session": session, "servers": []string{"everything"}})
			if res.IsError || !strings.Contains(text(res), "hello") {
				t.Errorf("%s: got %q from a server", session, text(res))
			}
		}
		if s := d.status(t).Servers; len(s) != 1 || s[0].Calls != 2 {
			t.Errorf("servers %+v, want one process that had both calls", s)
		}
		a.call(map[string]any{"reset": true, "session": "s1"})
		if st := d.python(t, "s1").State; st != "none" {
			t.Errorf("s1 is %s after a reset without code, want none", st)
		}
		if got := a.in("s2", "x"); got != "'s2'" {
			t.Errorf("s2 after the reset of s1: got %s", got)
		}
		if got := a.in("s3", "1"); got != "1" { // s1 makes room
			t.Errorf("s3: got %s", got)
		}
	}, "MCP_BRIDGE_MAX_SESSIONS=3")
}

// testSideBySide makes three calls at once: two of one session, one of another.
func testSideBySide(t *testing.T, a *agent, d *daemon) {
	a.in("s1", "import time; log = []")
	a.in("s2", "import time")
	var mu sync.Mutex
	var order []string
	var wg sync.WaitGroup
	call := func(session, code, want string) {
		wg.Go(func() {
			got := a.in(session, code)
			mu.Lock()
			defer mu.Unlock()
			order = append(order, got)
			if got != want {
				t.Errorf("%s: got %q, want %q", code, got, want)
			}
		})
	}
	call("s1", "print('A1'); time.sleep(5); log.append('A'); print('A2')", "A1\nA2")
	d.until(t, "the first call is there", func() bool { return d.python(t, "s1").Running == 1 })
	// Its answer comes so much later that nobody takes it for the earlier one.
	call("s1", "log.append('B'); time.sleep(1); print('B')", "B")
	d.until(t, "the second call is there", func() bool { return d.python(t, "s1").Running == 2 })
	call("s2", "print('C')", "C")
	wg.Wait()
	if diff := cmp.Diff([]string{"C", "A1\nA2", "B"}, order); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if got := a.in("s1", "log"); got != "['A', 'B']" {
		t.Errorf("ran %s, want A before B", got)
	}
}

func TestIdleSessions(t *testing.T) {
	onEngines(t, engines.All, func(t *testing.T, h *home, d *daemon, r *engines.Running) {
		a := h.agent(t, h.dir)
		a.run("import threading, time\nn = 0\ndef count():\n    global n\n    while True:\n        n += 1\n        time.sleep(0.01)\nthreading.Thread(target=count, daemon=True).start()")
		sandbox := d.python(t, "").Sandbox
		state := func() string {
			list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelSandbox: sandbox})
			if err != nil || len(list) != 1 {
				t.Fatalf("got containers %v and %v, want one", list, err)
			}
			return list[0].State
		}
		if r.Name == engines.Rootless {
			d.until(t, "it is known that the engine can't pause", func() bool {
				return strings.Contains(strings.Join(d.status(t).Engine.Degraded, ";"), "idle sandboxes are not paused")
			})
		} else {
			d.until(t, "the session is paused", func() bool { return d.python(t, "").State == "paused" })
			if got := state(); got != "paused" {
				t.Errorf("the container is %s, want paused", got)
			}
		}
		if got := a.run("n > 0 and threading.active_count()"); got == "False" || d.python(t, "").Sandbox != sandbox {
			t.Errorf("after the pause: got %s in sandbox %s, want the same one %s", got, d.python(t, "").Sandbox, sandbox)
		}
		d.until(t, "the session's sandbox has ended", func() bool { return d.python(t, "").State == "none" })
		d.until(t, "its container is gone", func() bool {
			list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelSandbox: sandbox})
			return err == nil && len(list) == 0
		})
		if got := a.run("'n' in globals()"); !strings.HasPrefix(got, "False") || !strings.Contains(got, "the session was idle for 8s, the limit (run.session_idle)") {
			t.Errorf("afterwards: got %q, want a fresh sandbox and why", got)
		}
		d.until(t, "the session is idle again", func() bool { return d.python(t, "").State != "running" })
		if err := a.Close(); err != nil { // maybe paused by now
			t.Logf("closing the shim: %v", err)
		}
	}, "MCP_BRIDGE_PAUSE_AFTER=1s", "MCP_BRIDGE_SESSION_IDLE=8s")
}

func TestAFullPoolMakesRoom(t *testing.T) {
	onEngines(t, twoKinds, func(t *testing.T, h *home, d *daemon, r *engines.Running) {
		if s := d.status(t); s.Pool.Max != 2 {
			t.Fatalf("at most %d sandboxes, want the 2 that the memory allows", s.Pool.Max)
		}
		a := h.agent(t, h.dir)
		a.in("s1", "x = 1")
		a.in("s2", "x = 2")
		a.in("s1", "x")
		if got := a.in("s3", "1"); got != "1" {
			t.Errorf("a third session: got %s", got)
		}
		list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelManaged: "true"})
		if err != nil || len(list) != 2 {
			t.Errorf("there are %d containers, want 2 (%v)", len(list), err)
		}
		if got := a.in("s1", "x"); got != "1" {
			t.Errorf("s1: got %s, want it kept, since s2 was unused for longer", got)
		}
		if got := a.in("s2", "'x' in globals()"); !strings.HasPrefix(got, "False") || !strings.Contains(got, "its sandbox was ended to make room for another session's; 2 of 256 MiB each are allowed (pool.memory is 600 MiB)") {
			t.Errorf("s2: got %q, want a fresh sandbox and why", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, session := range []string{"s1", "s2"} {
			wg.Go(func() {
				req := mcp.CallToolRequest{}
				req.Params.Name, req.Params.Arguments = "run_python", map[string]any{"code": "import time; time.sleep(100)", "session": session, "timeout": 100}
				if res, err := a.CallTool(ctx, req); err == nil {
					t.Errorf("the code ended: %q", text(res))
				}
			})
		}
		d.until(t, "both run", func() bool {
			return running(d.status(t)) == 2 && d.python(t, "s1").State == "running" && d.python(t, "s2").State == "running"
		})
		res := a.call(map[string]any{"code": "1", "session": "s4"})
		if got := text(res); !res.IsError || !strings.Contains(got, "code runs in all of them") {
			t.Errorf("while all run: got %q, want a refusal", got)
		}
		cancel()
		wg.Wait()
		d.until(t, "both are interrupted", func() bool { return running(d.status(t)) == 0 })
		if got := a.in("s4", "1"); got != "1" {
			t.Errorf("s4: got %s", got)
		}
	}, "MCP_BRIDGE_MEMORY=256m", "MCP_BRIDGE_POOL_MEMORY=600m", "MCP_BRIDGE_POOL_WARM=1", "MCP_BRIDGE_POOL_WAIT=never")
}

// Somebody pauses containers with the engine's own means.
func TestContainersPausedFromOutside(t *testing.T) {
	for _, name := range engines.All {
		if name == engines.Rootless { // on cgroups v1 it can't pause
			continue
		}
		t.Run(string(name), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			r := engines.ForTest(t, name)
			h := onEngine(t, r)
			d := h.serve(t)
			d.ready(t)
			a := h.agent(t, h.dir)
			a.run("import time; x = 1")
			pause := func() {
				list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelSandbox: d.python(t, "").Sandbox})
				if err == nil && len(list) == 1 {
					err = r.Pause(t.Context(), list[0].ID)
				}
				if err != nil || len(list) != 1 {
					t.Errorf("pausing %v: %v", list, err)
				}
			}
			pause()
			if got := a.run("x"); !strings.HasPrefix(got, "1\n") || !strings.Contains(got, "paused from outside before it could run") {
				t.Errorf("paused while idle: got %q", got)
			}
			answer := make(chan *mcp.CallToolResult, 1)
			go func() { answer <- a.call(map[string]any{"code": "time.sleep(60)", "timeout": 10}) }()
			d.until(t, "it runs", func() bool { return running(d.status(t)) == 1 })
			time.Sleep(4 * time.Second) // past the look at its start, which is after one
			pause()
			got := text(<-answer)
			for _, want := range []string{"timeout: the code was stopped at its time limit of 10s", "paused from outside while the code ran", "Variables are kept"} {
				if !strings.Contains(got, want) {
					t.Errorf("paused in a run: got %q, want %q", got, want)
				}
			}
			if got := a.run("x"); got != "1" {
				t.Errorf("afterwards: got %q, want 1", got)
			}
			pause()
			if err := a.Close(); err != nil {
				t.Logf("closing the shim: %v", err)
			}
			d.until(t, "the session is gone", func() bool { s := d.status(t); return len(s.Sessions) == 0 && s.Pool.Leased == 0 })
			d.stop(t, syscall.SIGINT)
			noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
		})
	}
}

// Sessions that use all there is leave the others room.
func TestBusyNeighbours(t *testing.T) {
	onEngines(t, engines.All, func(t *testing.T, h *home, d *daemon, _ *engines.Running) {
		busy, a := h.agent(t, h.dir), h.agent(t, h.dir)
		n := 2 * goruntime.NumCPU()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				req := mcp.CallToolRequest{}
				req.Params.Name = "run_python"
				req.Params.Arguments = map[string]any{"code": "while True: b = bytearray(1 << 24)", "session": fmt.Sprint("busy ", i), "timeout": 100}
				if res, err := busy.CallTool(ctx, req); err == nil {
					t.Errorf("the busy code ended: %q", text(res))
				}
			})
		}
		d.until(t, "all of them spin", func() bool {
			spin := 0
			for _, s := range d.status(t).Sessions {
				for _, p := range s.Pythons {
					if p.State == "running" && p.Sandbox != "" {
						spin++
					}
				}
			}
			return spin == n
		})
		began := time.Now()
		if got := a.run("1 + 1"); got != "2" {
			t.Errorf("a new session: got %s", got)
		}
		session := time.Since(began)
		began = time.Now()
		if _, err := a.ListTools(t.Context(), mcp.ListToolsRequest{}); err != nil {
			t.Error(err)
		}
		tools := time.Since(began)
		began = time.Now()
		res := a.call(map[string]any{"code": "x = 1\nwhile True: pass", "timeout": 1})
		if got := text(res); !strings.Contains(got, "time limit of 1s") || !strings.Contains(got, "Variables are kept") {
			t.Errorf("an interrupt: got %q", got)
		}
		t.Logf("beside %d busy sessions: a new session's first call took %s, tools/list %s, an interrupt %s",
			n, session, tools, time.Since(began)-time.Second)
		cancel()
		wg.Wait()
		d.until(t, "all are interrupted", func() bool { return running(d.status(t)) == 0 })
	}, "MCP_BRIDGE_MEMORY=256m")
}

// TestAnySequenceLeavesNothing plays what agents and people with access to the
// engine can do, at random, and looks whether anything outlives it.
func TestAnySequenceLeavesNothing(t *testing.T) {
	for _, name := range []engines.Name{engines.Rootless, engines.Rootful, engines.Docker} {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			h := onEngine(t, r, "MCP_BRIDGE_POOL_MAX=4", "MCP_BRIDGE_POOL_WARM=1", "MCP_BRIDGE_YIELD_AFTER=1s", "MCP_BRIDGE_PAUSE_AFTER=1s", "MCP_BRIDGE_SESSION_IDLE=3s")
			d := h.serve(t)
			d.ready(t)
			h.agent(t, h.dir).run("1") // what the daemon opens once is open
			d.until(t, "that agent's session is idle", func() bool { return d.status(t).Pool.Leased == 0 && d.status(t).Ready })
			before := openFiles(t, d)
			seed := uint64(7)
			t.Logf("seed %d", seed)
			playAgents(t, h, r, rand.New(rand.NewPCG(seed, 1)))
			d.until(t, "all but the first agent are gone", func() bool {
				s := d.status(t)
				return len(s.Sessions) == 1 && s.Pool.Leased == 0 && s.Ready
			})
			d.until(t, "no container is left but the warm one", func() bool {
				list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelManaged: "true"})
				return err == nil && len(list) == d.status(t).Pool.Warm
			})
			// Idle connections to the engine come and go.
			d.until(t, "no file is left open", func() bool { return openFiles(t, d) <= before+2 })
			d.stop(t, syscall.SIGINT)
			noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
		})
	}
}

func playAgents(t *testing.T, h *home, r *engines.Running, rng *rand.Rand) {
	var wg sync.WaitGroup
	agents := []*agent{h.agent(t, h.dir), h.agent(t, h.dir), h.agent(t, h.dir)}
	codes := []string{"1", "import time; time.sleep(2)", "while True: pass", "import os; os._exit(3)", "1/0", "",
		"import threading, time; threading.Thread(target=lambda: time.sleep(100), daemon=True).start()",
		"while True:\n  try:\n    while True: pass\n  except BaseException: pass"}
	for range 60 {
		a, code, session := agents[rng.IntN(len(agents))], codes[rng.IntN(len(codes))], fmt.Sprint("s", rng.IntN(2))
		patience := time.Duration(rng.IntN(3000)) * time.Millisecond
		switch rng.IntN(8) {
		case 0:
			list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelManaged: "true"})
			if err != nil || len(list) == 0 {
				continue
			}
			id := list[rng.IntN(len(list))].ID
			// Any of these may be refused: it may be gone, or what it is to become.
			switch rng.IntN(4) {
			case 0:
				_ = r.Engine.Kill(t.Context(), id, "SIGKILL")
			case 1:
				_ = r.Engine.Remove(t.Context(), id)
			case 2:
				_ = r.Engine.Pause(t.Context(), id)
			case 3:
				_ = r.Engine.Unpause(t.Context(), id)
			}
		case 1:
			time.Sleep(patience)
		default:
			reset := rng.IntN(6) == 0
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				req := mcp.CallToolRequest{}
				req.Params.Name = "run_python"
				req.Params.Arguments = map[string]any{"code": code, "timeout": 2, "session": session, "reset": reset}
				_, _ = a.CallTool(ctx, req) // whatever comes of it
			})
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		}
	}
	for _, a := range agents { // in the middle of what they do
		_ = a.Close()
	}
	wg.Wait()
}

// openFiles counts the daemon's file descriptors.
func openFiles(t *testing.T, d *daemon) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// memory is how much of the daemon is in memory, in bytes.
func memory(t *testing.T, d *daemon) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}

// heap returns how many bytes the daemon keeps. What it uses beside that is up to
// how many callers were there at once, and when it last looked for garbage.
func (h *home) heap(t *testing.T) int64 {
	t.Helper()
	var n int64
	for range 2 { // a pool's entries last until the second time
		_, rest, _ := strings.Cut(h.get(t, "/debug/pprof/heap?gc=1&debug=1"), "# HeapAlloc = ")
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatalf("the profile does not say how large the heap is: %v", err)
		}
	}
	return n
}

// Agents that ask for what does not exist, and ones that leave at once, cost
// nothing for good.
func TestAbandonedRequestsCostNothing(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_POOL_MAX=3", "MCP_BRIDGE_POOL_WARM=1", "MCP_BRIDGE_MAX_SESSIONS=3", "MCP_BRIDGE_OPS_PPROF=true")
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	for _, session := range []string{"", "a", "b"} {
		a.in(session, "1")
	}
	play := func(n int) {
		for i := range n {
			res := a.call(map[string]any{"code": "1", "session": fmt.Sprintf("%064d", i)})
			if !res.IsError || !strings.Contains(text(res), "run.max_sessions") {
				t.Fatalf("session %d: got %q", i, text(res))
			}
			req := mcp.CallToolRequest{}
			req.Params.Name = fmt.Sprint("tool", i)
			if _, err := a.CallTool(t.Context(), req); err == nil {
				t.Fatalf("tool %d was called", i)
			}
			for _, hello := range []string{"", "{\"bridged\":1,\"cwd\":\"/\",\"session\":\"gone\"}\n"} {
				conn, err := net.Dial("unix", h.socket)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(conn, hello) // it may be hung up on
				conn.Close()
			}
		}
		d.until(t, "they are all gone", func() bool { return len(d.status(t).Sessions) == 1 })
	}
	play(500)
	files, size := openFiles(t, d), h.heap(t)
	play(5000)
	d.until(t, "no file is left open", func() bool { return openFiles(t, d) <= files })
	grown := h.heap(t) - size
	if grown > 4<<20 {
		t.Errorf("the daemon keeps %d KiB more", grown>>10)
	}
	list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelManaged: "true"})
	if err != nil || len(list) != 3 {
		t.Errorf("there are %d containers, want those of 3 sessions (%v)", len(list), err)
	}
	if got := a.in("b", "1 + 1"); got != "2" {
		t.Errorf("afterwards: got %s, want 2", got)
	}
	t.Logf("after 5000 unknown sessions, tools and callers each: %d files, %d MiB in memory, of which %d KiB are kept that were not before",
		openFiles(t, d), memory(t, d)>>20, grown>>10)
}

// Code that was stopped at its time limit does nothing any more.
func TestStoppedCodeStandsStill(t *testing.T) {
	onEngines(t, twoKinds, func(t *testing.T, h *home, _ *daemon, _ *engines.Running) {
		a := h.agent(t, h.dir)
		res := a.call(map[string]any{"timeout": 1, "code": "import time\nfor i in range(80):\n    time.sleep(0.1); open('/tmp/log', 'a').write('x')"})
		if got := text(res); !res.IsError || !strings.Contains(got, "its time limit of 1s") {
			t.Errorf("got %q, want a timeout", got)
		}
		if got := a.run("n = len(open('/tmp/log').read()); time.sleep(1.5); 0 < n < 30 and n == len(open('/tmp/log').read())"); got != "True" {
			t.Errorf("the log had grown meanwhile: %s", got)
		}
	})
}

// A container is paused while the engine's service dies and comes back.
func TestAPausedContainerAndAnEngineCrash(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "MCP_BRIDGE_PAUSE_AFTER=1s")
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("x = 1")
	sandbox := d.python(t, "").Sandbox
	d.until(t, "the session is paused", func() bool { return d.python(t, "").State == "paused" })
	if err := r.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := a.call(map[string]any{"code": "x"}); !res.IsError {
		t.Errorf("without an engine: got %q", text(res))
	}
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.ready(t)
	if got := a.run("x"); got != "1" || d.python(t, "").Sandbox != sandbox {
		t.Errorf("once the engine is back: got %q in sandbox %s, want 1 in %s", got, d.python(t, "").Sandbox, sandbox)
	}
	d.stop(t, syscall.SIGINT)
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}
