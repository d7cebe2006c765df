//go:build integration

package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/runtime"
)

// A troubled is a daemon whose engine gets into trouble, with an agent whose
// session is to live through it.
type troubled struct {
	t      *testing.T
	r      *engines.Running
	h      *home
	d      *daemon
	keeper *agent
	image  string
	disk   *engines.SmallDisk
}

// TestEngineTrouble puts an engine into all the trouble that there is. Each time
// status says so, the daemon recovers by itself, and no session ends that need
// not.
func TestEngineTrouble(t *testing.T) {
	for _, name := range []engines.Name{engines.Rootful, engines.Docker} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			r := engines.ForTest(t, name)
			image, err := r.Tag(t.Context(), "trouble")
			if err != nil {
				t.Fatal(err)
			}
			b := &troubled{t: t, r: r, image: image}
			b.serve()
			b.run("containers meet their end from outside", b.containers)
			b.run("the image vanishes", b.imageVanishes)
			b.run("the service hangs", b.hangs)
			b.run("the service ends and comes back", b.ends)
			b.run("the service is killed and comes back", b.killed)
			b.stop()
			b.disk = r.SmallDisk(t)
			b.serve()
			b.run("the disk is full", b.diskFull)
			b.stop()
		})
	}
}

// serve starts a daemon and the agent.
func (b *troubled) serve() {
	b.h = onEngine(b.t, b.r, "MCP_BRIDGE_POOL_WARM=1", "MCP_BRIDGE_IMAGE="+b.image)
	b.d = b.h.serve(b.t)
	b.d.ready(b.t)
	b.keeper = b.h.agent(b.t, b.h.dir)
	b.keeper.run("import time\nkept = 41")
}

// stop ends the daemon, which must leave nothing.
func (b *troubled) stop() {
	b.d.stop(b.t, syscall.SIGINT)
	noContainers(b.t, b.r, map[string]string{runtime.LabelManaged: "true"})
}

func (b *troubled) run(name string, test func(t *testing.T)) {
	b.t.Run(name, func(t *testing.T) {
		test(t)
		b.d.until(t, "the daemon has recovered", func() bool { s := b.d.status(t); return s.Ready && s.Pool.Warm == 1 })
	})
}

// kept fails the test if the session of the keeper was lost.
func (b *troubled) kept(t *testing.T) {
	t.Helper()
	b.keeper.t = t
	if got := b.keeper.run("kept"); got != "41" {
		t.Errorf("the session that lives: got %q, want 41 and no word", got)
	}
}

// A doom is how a container meets its own.
type doom struct {
	name, says string
	bring      func(ctx context.Context, r *engines.Running, id runtime.ID) error
}

var dooms = []doom{
	{"killed", "its container was stopped from outside (exit code 137)", func(ctx context.Context, r *engines.Running, id runtime.ID) error {
		return r.Engine.Kill(ctx, id, "SIGKILL")
	}},
	{"removed", "its container", func(ctx context.Context, r *engines.Running, id runtime.ID) error {
		return r.Engine.Remove(ctx, id)
	}},
	{"restarted", "", func(ctx context.Context, r *engines.Running, id runtime.ID) error {
		_ = r.Do(ctx, http.MethodPost, "/containers/"+string(id)+"/restart?t=0") // the daemon may have removed it before it is through
		return nil
	}},
}

func (b *troubled) containers(t *testing.T) {
	for _, e := range dooms {
		b.endIdle(t, e)
		b.endRunning(t, e)
	}
	b.kept(t)
}

// endIdle ends the container of a session that does nothing.
func (b *troubled) endIdle(t *testing.T, e doom) {
	a := b.h.agent(t, b.h.dir)
	a.run("x = 1")
	id, sandbox := b.newest(t)
	if err := e.bring(t.Context(), b.r, id); err != nil {
		t.Fatal(err)
	}
	b.d.until(t, "it is known that a container was "+e.name, func() bool {
		for _, s := range b.d.status(t).Sessions {
			for _, p := range s.Pythons {
				if p.Sandbox == sandbox {
					return false
				}
			}
		}
		return true
	})
	if got := a.run("'x' in globals()"); !strings.HasPrefix(got, "False") || !strings.Contains(got, "The interpreter was replaced") || !strings.Contains(got, e.says) {
		t.Errorf("%s while idle: got %q, want a new sandbox and %q", e.name, got, e.says)
	}
}

// endRunning ends the container of a session whose code runs.
func (b *troubled) endRunning(t *testing.T, e doom) {
	a := b.h.agent(t, b.h.dir)
	a.run("import time")
	id, _ := b.newest(t)
	answer := make(chan *mcp.CallToolResult, 1)
	go func() { answer <- a.call(map[string]any{"code": "time.sleep(100)", "timeout": 100}) }()
	b.d.until(t, "the code runs", func() bool { return running(b.d.status(t)) == 1 })
	if err := e.bring(t.Context(), b.r, id); err != nil {
		t.Fatal(err)
	}
	if got := text(<-answer); !strings.Contains(got, "state lost") || !strings.Contains(got, e.says) {
		t.Errorf("%s while code runs: got %q, want %q", e.name, got, e.says)
	}
	if got := a.run("1 + 1"); got != "2" {
		t.Errorf("after a container was %s: got %q", e.name, got)
	}
}

// newest returns the container and the sandbox that were leased last.
func (b *troubled) newest(t *testing.T) (runtime.ID, string) {
	t.Helper()
	var id runtime.ID
	var sandbox string
	var since int64
	for _, s := range b.d.status(t).Sessions {
		for _, p := range s.Pythons {
			if at := s.Since.UnixNano(); p.Sandbox != "" && at > since {
				since, sandbox = at, p.Sandbox
			}
		}
	}
	list, err := b.r.Engine.List(t.Context(), map[string]string{runtime.LabelSandbox: sandbox})
	if err != nil || len(list) != 1 {
		t.Fatalf("sandbox %q has containers %v: %v", sandbox, list, err)
	}
	id = list[0].ID
	return id, sandbox
}

// refused uses up the warm sandboxes, and waits until a call and status say why
// there are no others.
func (b *troubled) refused(t *testing.T, what, want string) *agent {
	t.Helper()
	var a *agent
	b.d.until(t, what+" is told to an agent", func() bool {
		a = b.h.agent(t, b.h.dir)
		res := a.call(map[string]any{"code": "1"})
		if res.IsError && !strings.Contains(text(res), want) {
			t.Fatalf("%s: got %q, want %q", what, text(res), want)
		}
		return res.IsError
	})
	b.d.until(t, what+" is told by status", func() bool {
		s := b.d.status(t)
		return !s.Ready && strings.Contains(s.Reason, want)
	})
	b.kept(t)
	return a
}

// served waits until an agent that was refused has a sandbox.
func (b *troubled) served(t *testing.T, a *agent) {
	t.Helper()
	b.d.until(t, "the agent is served", func() bool { return !a.call(map[string]any{"code": "1"}).IsError })
}

func (b *troubled) imageVanishes(t *testing.T) {
	if err := b.r.Untag(t.Context(), b.image); err != nil {
		t.Fatal(err)
	}
	a := b.refused(t, "a missing image", "bridged image pull "+b.image)
	if _, err := b.r.Tag(t.Context(), "trouble"); err != nil {
		t.Fatal(err)
	}
	b.served(t, a)
}

func (b *troubled) diskFull(t *testing.T) {
	if err := b.disk.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := b.refused(t, "a full disk", "the disk that the container engine keeps its containers on is full")
	if err := b.disk.Free(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.served(t, a)
}

func (b *troubled) hangs(t *testing.T) {
	thaw := func() {
		if err := b.r.Thaw(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if err := b.r.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer thaw() // again does no harm
	got := text(b.keeper.call(map[string]any{"code": "time.sleep(100)", "timeout": 2}))
	if !strings.Contains(got, "The container engine does not answer") || strings.Contains(got, "state lost") {
		t.Errorf("a call while the engine hangs: got %q, want its time limit, why, and no loss", got)
	}
	b.d.until(t, "status says that the engine hangs", func() bool {
		s := b.d.status(t)
		return !s.Ready && strings.Contains(s.Engine.Error, "does not answer")
	})
	if code := readyz(t, b.h); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz while the engine hangs: got %d, want 503", code)
	}
	thaw()
	b.d.ready(t)
	b.kept(t)
}

// readyz asks the daemon whether it is ready.
func readyz(t *testing.T, h *home) int {
	t.Helper()
	resp, err := h.ask("/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (b *troubled) ends(t *testing.T) {
	b.comesBack(t, b.r.End)
}

func (b *troubled) killed(t *testing.T) {
	b.comesBack(t, b.r.Crash)
}

// comesBack ends the service in the middle of a call, and starts it again.
func (b *troubled) comesBack(t *testing.T, stop func(context.Context) error) {
	b.keeper.run("import time\nkept = 41")
	answer := make(chan *mcp.CallToolResult, 1)
	go func() { answer <- b.keeper.call(map[string]any{"code": "time.sleep(8)\nkept + 1", "timeout": 60}) }()
	b.d.until(t, "the code runs", func() bool { return running(b.d.status(t)) == 1 })
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.d.until(t, "status says that the engine is gone", func() bool {
		s := b.d.status(t)
		return !s.Ready && strings.Contains(s.Engine.Error, b.r.Endpoint)
	})
	if err := b.r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.d.ready(t)
	got := text(<-answer)
	if b.r.Kind == runtime.Docker { // Docker's containers end with it
		if !strings.Contains(got, "state lost") {
			t.Errorf("the call: got %q, want it to say that the state is lost", got)
		}
		b.keeper.run("1 + 1")
		return
	}
	if got != "42" {
		t.Errorf("the call: got %q, want its result", got)
	}
	b.kept(t)
}

// TestEngineIsReplacedAtItsSocket gives the socket of one engine to another, and
// back. Sessions on the first go on, and nothing is left of them.
func TestEngineIsReplacedAtItsSocket(t *testing.T) {
	first, second := engines.ForTest(t, engines.Rootful), engines.ForTest(t, engines.Docker)
	gate := filepath.Join(t.TempDir(), "e.sock")
	point := func(r *engines.Running) {
		next := gate + ".next"
		if err := os.Symlink(strings.TrimPrefix(r.Endpoint, "unix://"), next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, gate); err != nil {
			t.Fatal(err)
		}
	}
	point(first)
	h := newHome(t, "MCP_BRIDGE_RUNTIME=unix://"+gate, "MCP_BRIDGE_IMAGE="+first.Image, "MCP_BRIDGE_POOL_WARM=1")
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("x = 1")
	uses := func(r *engines.Running) {
		t.Helper()
		d.until(t, "the daemon uses "+string(r.Name), func() bool { s := d.status(t); return s.Ready && s.Engine.Name == r.Kind })
	}
	point(second)
	uses(second)
	if got := a.run("x"); got != "1" {
		t.Errorf("the session on the first engine: got %q, want 1", got)
	}
	b, c := h.agent(t, h.dir), h.agent(t, h.dir)
	b.run("y = 2")
	c.run("y = 3")
	if list, err := second.Engine.List(t.Context(), map[string]string{runtime.LabelManaged: "true"}); err != nil || len(list) == 0 {
		t.Errorf("the second engine has containers %v, %v; want some", list, err)
	}
	point(first)
	uses(first)
	if got := b.run("y") + c.run("y"); got != "23" {
		t.Errorf("the sessions on the second engine: got %q, want 23", got)
	}
	d.until(t, "what was left on the first engine is removed", func() bool {
		list, err := first.Engine.List(t.Context(), map[string]string{runtime.LabelManaged: "true"})
		known := d.status(t).Sandboxes
		return err == nil && !slices.ContainsFunc(list, func(c runtime.Container) bool {
			return !slices.ContainsFunc(known, func(s ops.Sandbox) bool { return s.Container == string(c.ID) })
		})
	})
	d.stop(t, syscall.SIGINT)
	for _, r := range []*engines.Running{first, second} { // the daemon could reach but one of them in the end
		point(r)
		next := h.serve(t)
		next.ready(t)
		next.until(t, "what was left is removed", func() bool {
			list, err := r.Engine.List(t.Context(), map[string]string{runtime.LabelManaged: "true"})
			return err == nil && len(list) == next.status(t).Pool.Warm
		})
		next.stop(t, syscall.SIGINT)
		noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
	}
}
