//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// labelTest tells the containers of one test from all others.
const labelTest = "io.bridged.test"

func sandboxOptions(t testing.TB, r *engines.Running) sandbox.Options {
	t.Helper()
	spec := runtime.DefaultSpec(r.Image)
	spec.Labels = map[string]string{labelTest: t.Name()}
	return sandbox.Options{Spec: spec, Boot: images.Boot(), Payload: images.Payload(), Imports: []string{"json"}}
}

// noContainers fails the test if it left a container behind.
func noContainers(t *testing.T, r *engines.Running, labels map[string]string) {
	t.Helper()
	list, err := r.Engine.List(context.Background(), labels)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		t.Errorf("container %s (%s) was left behind", c.ID, c.State)
	}
}

// testSandbox holds one engine to what a sandbox promises.
func testSandbox(t *testing.T, r *engines.Running) {
	pool := sandbox.NewPool(func(ctx context.Context) (*sandbox.Sandbox, error) {
		return sandbox.Launch(ctx, r.Engine, sandboxOptions(t, r))
	}, sandbox.PoolOptions{Warm: 1})
	defer func() {
		pool.Close()
		noContainers(t, r, map[string]string{labelTest: t.Name()})
	}()
	run := func(s *sandbox.Session, code string, timeout time.Duration) sandbox.Result {
		t.Helper()
		res, err := s.Run(t.Context(), sandbox.Request{Code: code, Timeout: timeout}, nil)
		if err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		return res
	}
	for _, row := range endings {
		t.Run(row.name, func(t *testing.T) {
			s := sandbox.NewSession(pool, sandbox.SessionOptions{})
			defer s.Close()
			if got := run(s, "x = 41; x + 1", 0).Value; got != "42" {
				t.Fatalf("got %s, want 42", got)
			}
			res := run(s, row.code, row.timeout)
			if res.Status != row.status {
				t.Errorf("status %s, want %s: %+v", res.Status, row.status, res)
			}
			if (res.StateLost != "") != row.lost || !strings.Contains(res.StateLost, row.cause) {
				t.Errorf("state lost: %q, want one that says %q", res.StateLost, row.cause)
			}
			after := run(s, "x", 0)
			if lost := after.Status == sandbox.StatusError; lost != row.lost {
				t.Errorf("the next call: %+v, want variables lost: %v", after, row.lost)
			}
		})
	}
}

// endings are ways in which a run can end, and what is left of the session.
var endings = []struct {
	name    string
	code    string
	timeout time.Duration
	status  sandbox.Status
	lost    bool
	cause   string
}{
	{name: "an error keeps variables", code: "1/0", status: sandbox.StatusError},
	{name: "an interrupted sleep keeps variables", code: "import time; time.sleep(60)", timeout: time.Second, status: sandbox.StatusTimeout},
	{name: "an interrupted await keeps variables", code: "import asyncio; await asyncio.sleep(60)", timeout: time.Second, status: sandbox.StatusTimeout},
	{name: "an interrupted repr keeps variables", code: "class R:\n  def __repr__(s):\n    while True: pass\nR()", timeout: time.Second, status: sandbox.StatusTimeout},
	{name: "code that goes on is killed", code: "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
		timeout: time.Second, status: sandbox.StatusTimeout, lost: true, cause: "did not stop"},
	{name: "os._exit ends the interpreter", code: "import os; os._exit(7)", status: sandbox.StatusLost, lost: true, cause: "exit code 7"},
	{name: "a crash in C ends the interpreter", code: "import ctypes; ctypes.string_at(0)", status: sandbox.StatusLost, lost: true, cause: "SIGSEGV"},
	{name: "a signal to oneself ends the interpreter", code: "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", status: sandbox.StatusLost, lost: true, cause: "SIGKILL"},
	{name: "process 1 can't be killed from inside", code: "import os\nfor s in (9, 15, 2):\n  os.kill(1, s) if s != 15 else None", status: sandbox.StatusOK},
	{name: "too much memory is a MemoryError where it can be", code: "bytearray(10**12)", status: sandbox.StatusError},
}

func TestSandboxes(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) { testSandbox(t, engines.ForTest(t, name)) })
	}
}
