//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
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

const still = "still running (run "

// TestLongRuns lets runs outlive the patience of their calls on every engine.
func TestLongRuns(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			r := engines.ForTest(t, name)
			h := onEngine(t, r, "MCP_BRIDGE_YIELD_AFTER=1s", "MCP_BRIDGE_MAX_TIMEOUT=2h")
			d := h.serve(t)
			d.ready(t)
			t.Run("output is kept and told once", func(t *testing.T) { testCollect(t, h) })
			t.Run("other code is refused meanwhile", func(t *testing.T) { testBusy(t, h) })
			t.Run("a cancelled wait ends the run", func(t *testing.T) { testCancelledWait(t, h, d) })
			t.Run("a reset ends the run", func(t *testing.T) { testResetLate(t, h) })
			t.Run("its own time limit ends the run", func(t *testing.T) { testLateTimeout(t, h) })
			t.Run("with a token there is progress, and without none", func(t *testing.T) { testProgress(t, h) })
			t.Run("an agent that is killed takes its run with it", func(t *testing.T) { testKilledShim(t, h, d, r) })
			t.Run("an agent that was suspended gets its answer", func(t *testing.T) { testSuspendedShim(t, h, d) })
			a := h.agent(t, h.dir)
			a.late("while True: pass", 3600)
			d.stop(t, syscall.SIGINT)
			noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
		})
	}
}

// late starts code whose call must be answered before it ends.
func (a *agent) late(code string, timeout int) string {
	a.t.Helper()
	res := a.call(map[string]any{"code": code, "timeout": timeout})
	if res.IsError || !strings.Contains(text(res), still) {
		a.t.Fatalf("%s\ngot %q, want an answer before its end", code, text(res))
	}
	return text(res)
}

// done runs code and waits for its end, should that take longer than a call's
// patience on a busy machine.
func (a *agent) done(code string) string {
	a.t.Helper()
	answer := text(a.call(map[string]any{"code": code}))
	if !strings.Contains(answer, still) {
		return answer
	}
	return strings.TrimSuffix(a.collect(), "\n")
}

// collect goes on waiting until the run has ended, and returns what was told.
func (a *agent) collect() string {
	a.t.Helper()
	var told strings.Builder
	for end := time.Now().Add(waitTime); time.Now().Before(end); {
		answer := text(a.call(map[string]any{"code": ""}))
		told.WriteString(answer + "\n")
		if !strings.Contains(answer, still) {
			return told.String()
		}
	}
	a.t.Fatalf("the run does not end: %s", told.String())
	return ""
}

func testCollect(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	told := a.late("import time\nfor i in range(5):\n    print(f'line {i}')\n    time.sleep(0.7)\n'the end'", 60) + "\n" + a.collect()
	var lines []string
	for line := range strings.Lines(told) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "line ") || strings.HasPrefix(line, "'the end") {
			lines = append(lines, line)
		}
	}
	want := []string{"line 0", "line 1", "line 2", "line 3", "line 4", "'the end'"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("what was told in all (-want +got):\n%s", diff)
	}
	if got := a.done(""); got != "(no output)" {
		t.Errorf("afterwards: got %q, want nothing again", got)
	}
	if a.mu.Lock(); len(a.beats) != 0 {
		t.Errorf("there was progress without a token: %v", a.beats)
	}
	a.mu.Unlock()
}

func testBusy(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	a.late("import time\nprint('one')\ntime.sleep(8)\nx = 5", 60)
	res := a.call(map[string]any{"code": "x = 6"})
	if got := text(res); !res.IsError || !strings.Contains(got, "busy, nothing ran: run 1 still goes on; call run_python with empty code") {
		t.Errorf("got %q, want it refused with advice", got)
	}
	a.collect()
	if got := a.done("x"); got != "5" {
		t.Errorf("x is %s, want 5", got)
	}
}

func testCancelledWait(t *testing.T, h *home, d *daemon) {
	a := h.agent(t, h.dir)
	a.done("x = 1")
	a.late("import time\nwhile True: time.sleep(0.01)", 3600)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = "run_python", map[string]any{"code": ""}
	if res, err := a.CallTool(ctx, req); err == nil {
		t.Errorf("a cancelled call was answered with %q", text(res))
	}
	d.until(t, "the run is over", func() bool { return running(d.status(t)) == 0 })
	if got := a.done("x"); got != "1" {
		t.Errorf("x is %s afterwards, want 1", got)
	}
}

func running(s ops.Status) int {
	n := 0
	for _, v := range s.Sessions {
		n += v.Running
	}
	return n
}

func testResetLate(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	a.done("x = 1")
	a.late("while True: pass", 3600)
	got := text(a.call(map[string]any{"code": "'x' in globals()", "reset": true}))
	if strings.Contains(got, still) {
		got = a.collect()
	}
	if !strings.HasPrefix(got, "False") || !strings.Contains(got, "started over") {
		t.Errorf("got %q, want a fresh sandbox", got)
	}
	if got := a.done("1 + 1"); got != "2" {
		t.Errorf("the next call: got %s", got)
	}
}

func testLateTimeout(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	a.done("x = 1")
	a.late("import time\nprint('before')\ntime.sleep(60)", 3)
	told := a.collect()
	for _, want := range []string{"timeout: the code was stopped at its time limit of 3s, as the call asked", "at most 2h (run.max_timeout)", "Variables are kept until the session has been idle for 30m."} {
		if !strings.Contains(told, want) {
			t.Errorf("got %q, want %q", told, want)
		}
	}
	if got := a.done("x"); got != "1" {
		t.Errorf("x is %s afterwards, want 1", got)
	}
}

// testProgress lets two calls be silent for longer than an agent waits for a
// sign of life.
func testProgress(t *testing.T, h *home) {
	a := h.agent(t, h.dir)
	var wg sync.WaitGroup
	for i, token := range []any{"p", 0} {
		wg.Go(func() {
			req := mcp.CallToolRequest{}
			req.Params.Name = "run_python"
			req.Params.Arguments = map[string]any{"code": "import time; time.sleep(11); 'done'", "timeout": 100, "session": fmt.Sprint("s", i)}
			req.Params.Meta = &mcp.Meta{ProgressToken: token}
			ctx, cancel := context.WithTimeout(context.Background(), waitTime)
			defer cancel()
			if res, err := a.CallTool(ctx, req); err != nil || text(res) != "'done'" {
				t.Errorf("got %+v and %v, want it done at once", res, err)
			}
		})
	}
	wg.Wait()
	before := a.pulse()
	for _, token := range []string{"p", "0"} {
		beats := before[token]
		if len(beats) == 0 || !slices.IsSorted(beats) || len(slices.Compact(slices.Clone(beats))) != len(beats) {
			t.Errorf("token %s: got progress %v, want values that rise", token, beats)
		}
	}
	time.Sleep(time.Second)
	if diff := cmp.Diff(before, a.pulse()); diff != "" {
		t.Errorf("progress after the result: %s", diff)
	}
}

// pulse returns the progress so far.
func (a *agent) pulse() map[string][]float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	copied := map[string][]float64{}
	for token, beats := range a.beats {
		copied[token] = slices.Clone(beats)
	}
	return copied
}

func testKilledShim(t *testing.T, h *home, d *daemon, r *engines.Running) {
	d.until(t, "the other agents are gone", func() bool { return len(d.status(t).Sessions) == 0 })
	a := h.agent(t, h.dir)
	a.late("while True: pass", 3600)
	s := d.status(t)
	if len(s.Sessions) != 1 || len(s.Sessions[0].Pythons) != 1 || s.Sessions[0].Pythons[0].State != "running" {
		t.Fatalf("got sessions %+v, want one, which runs", s.Sessions)
	}
	mine := s.Sessions[0]
	if err := syscall.Kill(mine.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.until(t, "the session is gone", func() bool { return len(d.status(t).Sessions) == 0 })
	d.until(t, "its container is gone", func() bool {
		list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelSandbox: mine.Pythons[0].Sandbox})
		return err == nil && len(list) == 0
	})
}

func testSuspendedShim(t *testing.T, h *home, d *daemon) {
	d.until(t, "the other agents are gone", func() bool { return len(d.status(t).Sessions) == 0 })
	a := h.agent(t, h.dir)
	a.done("x = 1")
	pid := d.status(t).Sessions[0].PID
	answer := make(chan string, 1)
	// It runs for less than a call's patience: a busy machine may see nothing of
	// that, and then it runs once more.
	d.until(t, "the code is seen running", func() bool {
		go func() { answer <- a.done("import time; time.sleep(0.5); x + 1") }()
		for len(answer) == 0 {
			if running(d.status(t)) == 1 {
				return true
			}
			time.Sleep(20 * time.Millisecond)
		}
		if got := <-answer; got != "2" {
			t.Fatalf("got %q, want 2", got)
		}
		return false
	})
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	d.until(t, "the code has ended", func() bool { return running(d.status(t)) == 0 })
	time.Sleep(time.Second)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "2" {
		t.Errorf("got %q, want 2", got)
	}
	if got := a.done("x"); got != "1" {
		t.Errorf("afterwards x is %s, want 1", got)
	}
}
