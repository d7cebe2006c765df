//go:build integration

package integration

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
)

// restartEngines are those on which restarts are tried: one of each kind. On the
// others the same is true, and takes as long.
var restartEngines = []engines.Name{engines.Rootful, engines.Docker}

// TestRestartsNobodyNotices ends daemons in every way, at every time, and has
// the agent see nothing of it but a delay.
func TestRestartsNobodyNotices(t *testing.T) {
	for _, name := range restartEngines {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			h := onEngine(t, r)
			d := h.serve(t)
			d.ready(t)
			a := h.agent(t, h.dir)
			for _, end := range []struct {
				name string
				end  func(d *daemon) *daemon // returns the next one
			}{
				{"killed", func(d *daemon) *daemon { d.stop(t, syscall.SIGKILL); return h.serve(t) }},
				{"terminated", func(d *daemon) *daemon { d.stop(t, syscall.SIGTERM); return h.serve(t) }},
				{"replaced", func(d *daemon) *daemon { next := h.serve(t, "--replace"); d.ended(t); return next }},
			} {
				t.Run(end.name+" between calls", func(t *testing.T) { d = betweenCalls(t, a, d, end.end) })
				t.Run(end.name+" in mid-run", func(t *testing.T) { d = inMidRun(t, a, d, end.end) })
			}
			d.stop(t, syscall.SIGINT)
			t.Run("a run that outlived its call", func(t *testing.T) { outlived(t, h) })
			t.Run("stopped", func(t *testing.T) { stopped(t, h, r) })
		})
	}
}

// ended waits until a daemon has ended by itself.
func (d *daemon) ended(t *testing.T) {
	t.Helper()
	select {
	case <-d.done:
	case <-time.After(2 * waitTime):
		t.Fatalf("the daemon does not end:\n%s", d.log)
	}
}

// betweenCalls has sessions keep what they have, the named ones too.
func betweenCalls(t *testing.T, a *agent, d *daemon, end func(*daemon) *daemon) *daemon {
	a.run("x = 41")
	side := func(code string) string {
		t.Helper()
		return text(a.call(map[string]any{"code": code, "session": "side"}))
	}
	side("y = 6\nopen('/workspace/kept', 'w').write('here')")
	d = end(d)
	if got := a.run("x + 1"); got != "42" {
		t.Errorf("the default session: got %q, want 42", got)
	}
	if got := side("print(y * 7, open('/workspace/kept').read())"); got != "42 here" {
		t.Errorf("the named session: got %q", got)
	}
	return d
}

// An outcome is what came of a call that was made in the background.
type outcome struct {
	text string
	err  error
}

// inBackground makes a call in the background. Its progress has the token.
func (a *agent) inBackground(args map[string]any, token string) <-chan outcome {
	got := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 4*waitTime)
		defer cancel()
		req := mcp.CallToolRequest{}
		req.Params.Name, req.Params.Arguments = "run_python", args
		req.Params.Meta = &mcp.Meta{ProgressToken: token}
		res, err := a.CallTool(ctx, req)
		if err != nil {
			got <- outcome{err: err}
			return
		}
		got <- outcome{text: text(res)}
	}()
	return got
}

// said waits until progress has shown a text.
func (a *agent) said(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(2 * waitTime); ; time.Sleep(20 * time.Millisecond) {
		a.mu.Lock()
		shown := strings.Contains(strings.Join(a.progress, "\n"), what)
		a.mu.Unlock()
		if shown {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the code never said %q", what)
		}
	}
}

func (a *agent) want(t *testing.T, what string, got <-chan outcome, want string) {
	t.Helper()
	select {
	case g := <-got:
		if g.err != nil || g.text != want {
			t.Errorf("%s: got %q, %v, want %q", what, g.text, g.err, want)
		}
	case <-time.After(4 * waitTime):
		t.Fatalf("%s: no answer comes", what)
	}
}

// inMidRun has a run go on to its end, and the calls behind it run once.
func inMidRun(t *testing.T, a *agent, d *daemon, end func(*daemon) *daemon) *daemon {
	mark := t.Name()
	a.run("import os, time\nfor f in ('/tmp/first', '/tmp/second'):\n    if os.path.exists(f): os.remove(f)")
	first := a.inBackground(map[string]any{"timeout": 100, "code": "open('/tmp/first', 'a').write('x')\nprint('begun " + mark + "', flush=True)\ntime.sleep(8)\nprint('the end')"}, "first of "+mark)
	a.said(t, "begun "+mark)
	second := a.inBackground(map[string]any{"code": "open('/tmp/second', 'a').write('x')\nprint('then')"}, "second of "+mark)
	d.until(t, "the second call waits", func() bool {
		for _, s := range d.status(t).Sessions {
			if s.Running >= 2 {
				return true
			}
		}
		return false
	})
	d = end(d)
	a.want(t, "the run under way", first, "begun "+mark+"\nthe end")
	a.want(t, "the call behind it", second, "then")
	if got := a.run("print(len(open('/tmp/first').read()), len(open('/tmp/second').read()))"); got != "1 1" {
		t.Errorf("they ran so often: %s", got)
	}
	return d
}

// outlived has a run whose call was answered be collected from the next daemon.
func outlived(t *testing.T, h *home) {
	h.file(t, "yield.toml", "[run]\nyield_after = \"1s\"\n")
	args := []string{"--config", filepath.Join(h.dir, "yield.toml")}
	d := h.serve(t, args...)
	d.ready(t)
	a := h.agent(t, h.dir)
	got := text(a.call(map[string]any{"timeout": 100, "code": "import time\nz = 7\ntime.sleep(6)\nprint('late')"}))
	if !strings.Contains(got, "still running") {
		t.Fatalf("got %q", got)
	}
	d.stop(t, syscall.SIGKILL)
	h.serve(t, args...)
	for end := time.Now().Add(2 * waitTime); ; {
		if got = text(a.call(map[string]any{"code": ""})); !strings.Contains(got, "still running") || time.Now().After(end) {
			break
		}
	}
	if !strings.Contains(got, "late") || strings.Contains(got, "restarted") {
		t.Errorf("collected: got %q", got)
	}
	if got := a.run("print(z)"); got != "7" {
		t.Errorf("got %q, want 7", got)
	}
}

// stopped has nothing be left of a daemon that is stopped.
func stopped(t *testing.T, h *home, r *engines.Running) {
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("x = 1")
	out, err := h.command(bridged, "stop").CombinedOutput()
	if err != nil || string(out) != "stopped\n" {
		t.Fatalf("bridged stop: %v\n%s", err, out)
	}
	d.ended(t)
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
	left, err := filepath.Glob(filepath.Join(filepath.Dir(h.socket), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		// These hold elections, and stay: of a daemon, and of the shim that starts
		// one, which the other agent's has tried if it found none at some time.
		if !strings.HasSuffix(path, ".lock") && !strings.HasSuffix(path, ".start") {
			t.Errorf("%s is left", path)
		}
	}
}

// TestReplacingUnderLoad replaces the daemon again and again while agents count
// and others connect: no call is lost or made twice, and nobody is refused.
func TestReplacingUnderLoad(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r)
	d := h.serve(t)
	d.ready(t)
	stop := make(chan struct{})
	var working sync.WaitGroup
	agents := make([]*agent, 3)
	for i := range agents {
		agents[i] = h.agent(t, h.dir)
		agents[i].run("n = 0")
	}
	counted := make([]int, len(agents))
	for i, a := range agents {
		working.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				counted[i]++
				a.want(t, "counting", a.inBackground(map[string]any{"code": "n += 1\nprint(n)"}, fmt.Sprint(i, counted[i])), strconv.Itoa(counted[i]))
			}
		})
	}
	working.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			conn, err := net.Dial("unix", h.socket)
			if err != nil {
				t.Errorf("a connection was refused: %v", err)
				return
			}
			_ = conn.Close()
		}
	})
	for range 3 {
		next := h.serve(t, "--replace")
		d.ended(t)
		d = next
		d.until(t, "all agents are back", func() bool { return len(d.status(t).Sessions) >= len(agents) })
	}
	close(stop)
	working.Wait()
	for i, a := range agents {
		if got := a.run("print(n)"); got != strconv.Itoa(counted[i]) {
			t.Errorf("agent %d counted to %s in %d calls", i, got, counted[i])
		}
	}
	d.stop(t, syscall.SIGINT)
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}

// A session whose agent is gone too is ended when its time of grace is over, and
// what no session claims is removed at once.
func TestSessionsThatNobodyComesBackForAreEnded(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r)
	h.file(t, "grace.toml", "[run]\nadopt_grace = \"5s\"\n")
	d := h.serve(t, "--config", filepath.Join(h.dir, "grace.toml"))
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("x = 1")
	s := d.status(t).Sessions
	if len(s) != 1 {
		t.Fatalf("%d sessions", len(s))
	}
	if err := syscall.Kill(d.cmd.Process.Pid, syscall.SIGSTOP); err != nil { // it sees nothing of the shim's end
		t.Fatal(err)
	}
	if err := syscall.Kill(s[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.stop(t, syscall.SIGKILL)
	d = h.serve(t, "--config", filepath.Join(h.dir, "grace.toml"))
	d.until(t, "its sandbox is gone, and its file", func() bool {
		list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelManaged: "true", runtime.LabelSandbox: s[0].Pythons[0].Sandbox})
		files, globErr := filepath.Glob(filepath.Join(filepath.Dir(h.socket), "sessions", "*"))
		return err == nil && globErr == nil && len(list) == 0 && len(files) == 0
	})
	d.stop(t, syscall.SIGINT)
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}

// A shim starts the next daemon itself where nothing else does.
func TestAShimStartsTheNextDaemon(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r, "BRIDGED_BIN="+abs(t, bridged))
	a := h.agent(t, h.dir)
	a.run("x = 5")
	d := &daemon{home: h, log: &lockedBuffer{}, done: make(chan struct{})}
	first := d.status(t).PID
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := a.run("print(x)"); got != "5" {
		t.Errorf("got %q, want 5", got)
	}
	if again := d.status(t).PID; again == first {
		t.Errorf("process %d still runs", again)
	}
	if out, err := h.command(bridged, "stop").CombinedOutput(); err != nil {
		t.Errorf("bridged stop: %v\n%s", err, out)
	}
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}
