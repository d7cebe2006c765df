//go:build integration

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/docker"
	"github.com/bridged/bridged/pkg/runtime/podman"
	"github.com/bridged/bridged/pkg/sandbox"
)

// A daemon whose end is tried out is a process of its own: this program again,
// with a holderJob in its environment.
const holderVar = "BRIDGED_TEST_HOLDER"

// A holderJob is what such a process does: it launches a sandbox, prints its
// ticket, and runs pieces of code one after the other, each with a key that is
// its number. Of each it prints when its code has printed something.
type holderJob struct {
	Kind, Endpoint, Image, Label string
	Grace                        time.Duration
	Codes                        []string
	Repeat                       int // times that the last one is run again
	Pad                          int // bytes that the last one ends with
}

// hold does what its environment says, if it does, and never returns then.
func hold() {
	text := os.Getenv(holderVar)
	if text == "" {
		return
	}
	if err := holdSandbox(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func holdSandbox(text string) error {
	var job holderJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	connect := podman.Dial
	if job.Kind == runtime.Docker {
		connect = docker.Dial
	}
	ctx := context.Background()
	engine, err := connect(ctx, job.Endpoint)
	if err != nil {
		return err
	}
	s, err := sandbox.Launch(ctx, engine, adoptOptions(job.Image, job.Label, job.Grace))
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.Ticket()); err != nil {
		return err
	}
	job.Codes[len(job.Codes)-1] += strings.Repeat("x", job.Pad)
	for i := range len(job.Codes) + job.Repeat {
		req := sandbox.Request{Key: fmt.Sprint(i), Code: job.Codes[min(i, len(job.Codes)-1)], Timeout: time.Minute}
		res := s.Run(ctx, req, func(sandbox.Output) { fmt.Printf("printed %d\n", i) })
		s.Ack(req.Key)
		fmt.Printf("ended %d %s\n", i, res.Status)
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until it is killed
	return err
}

func adoptOptions(image, label string, grace time.Duration) sandbox.Options {
	spec := runtime.DefaultSpec(image)
	spec.Labels = map[string]string{labelTest: label}
	return sandbox.Options{
		Spec: spec, Boot: images.Boot(), Payload: images.Payload(), Relay: images.Relay(), Imports: []string{"json"}, Grace: grace,
	}
}

// A holder is such a process.
type holder struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	ticket sandbox.Ticket
}

// newHolder starts one. It is killed with the test, and its container removed.
func newHolder(t *testing.T, r *engines.Running, grace time.Duration, codes ...string) *holder {
	t.Helper()
	return startHolder(t, r, holderJob{Grace: grace, Codes: codes})
}

func startHolder(t *testing.T, r *engines.Running, j holderJob) *holder {
	t.Helper()
	j.Kind, j.Endpoint, j.Image, j.Label = r.Kind, r.Endpoint, r.Image, t.Name()
	job, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{t: t, cmd: exec.Command(self)}
	h.cmd.Env = append(os.Environ(), holderVar+"="+string(job))
	h.cmd.Stderr = os.Stderr
	_, err = h.cmd.StdinPipe()
	if err == nil {
		var out io.Reader
		out, err = h.cmd.StdoutPipe()
		h.out = bufio.NewReader(out)
	}
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.kill()
		if err := r.Engine.Remove(context.Background(), runtime.ID(h.ticket.Container)); err != nil {
			t.Error(err)
		}
	})
	if err := json.Unmarshal([]byte(h.line()), &h.ticket); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *holder) line() string {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.t.Fatalf("the process that holds the sandbox ended: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// until waits for a line.
func (h *holder) until(want string) {
	h.t.Helper()
	for h.line() != want {
	}
}

// kill ends it as kill -9 does.
func (h *holder) kill() {
	_ = h.cmd.Process.Kill() // it may have been killed before
	_ = h.cmd.Wait()
}

// An heir adopts what a holder has left.
type heir struct {
	*testing.T
	r       *engines.Running
	sandbox *sandbox.Sandbox
	pool    *sandbox.Pool
	session *sandbox.Session
}

func newHeir(t *testing.T, r *engines.Running, ticket sandbox.Ticket) *heir {
	t.Helper()
	sb, err := sandbox.Adopt(t.Context(), r.Engine, adoptOptions(r.Image, t.Name(), time.Minute), ticket)
	if err != nil {
		t.Fatal(err)
	}
	pool := sandbox.NewPool(nil, sandbox.PoolOptions{})
	t.Cleanup(pool.Close)
	return &heir{t, r, sb, pool, sandbox.NewSession(pool, sandbox.SessionOptions{Adopted: sb})}
}

// run runs code, with a key unless that is "".
func (h *heir) run(key, code string, timeout time.Duration) sandbox.Result {
	h.Helper()
	res, err := h.session.Run(h.Context(), sandbox.Request{Key: key, Code: code, Timeout: timeout}, nil)
	if err != nil {
		h.Fatalf("%.100s: %v", code, err)
	}
	return res
}

func (h *heir) want(code, value string) {
	h.Helper()
	if res := h.run("", code, 0); res.Value != value {
		h.Errorf("%s: got %+v, want %s", code, res, value)
	}
}

func printedBy(res sandbox.Result) string {
	var b strings.Builder
	for _, o := range res.Output {
		b.WriteString(o.Text)
	}
	return b.String()
}

// A sandbox outlives its daemon, however that ends, and another one adopts it.
func TestAdoption(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			t.Run("a run goes on without a daemon", func(t *testing.T) { testAdoptedRun(t, r) })
			t.Run("no code runs twice", func(t *testing.T) { testAdoptedOnce(t, r) })
			t.Run("interrupts arrive", func(t *testing.T) { testAdoptedInterrupts(t, r) })
			t.Run("again and again", func(t *testing.T) { testAdoptedAgain(t, r) })
			t.Run("a paused one", func(t *testing.T) { testAdoptedPaused(t, r) })
			t.Run("a daemon that is shut out", func(t *testing.T) { testShutOut(t, r) })
			t.Run("who may not come in", func(t *testing.T) { testRefused(t, r) })
			t.Run("the one that nobody adopts", func(t *testing.T) { testAbandoned(t, r) })
		})
	}
}

func testAdoptedRun(t *testing.T, r *engines.Running) {
	const counting = "import time\nfor i in range(40):\n  print(i, flush=True)\n  time.sleep(0.05)\nx + 1"
	h := newHolder(t, r, time.Minute, "x = 41", counting)
	h.until("printed 1")
	h.kill()
	heir := newHeir(t, r, h.ticket)
	if left := heir.session.Unfinished(); len(left) != 1 || left[0].Key != "1" {
		t.Errorf("unfinished %+v, want the second run", left)
	}
	res := heir.run("1", counting, 0)
	want := ""
	for i := range 40 {
		want += fmt.Sprintln(i)
	}
	if res.Value != "42" || printedBy(res) != want {
		t.Errorf("got %s %q and output %q, want all that it printed", res.Status, res.Value, printedBy(res))
	}
	heir.session.Ack("1")
	if _, err := heir.session.Run(t.Context(), sandbox.Request{Key: "1", Code: "x = 0"}, nil); !errors.Is(err, sandbox.ErrRanBefore) {
		t.Errorf("the same call once more: %v, want that it ran before", err)
	}
	heir.want("x", "41")
}

// The daemon dies while it sends the code of a call, mostly in the middle.
func testAdoptedOnce(t *testing.T, r *engines.Running) {
	const code, padding = "n += 1  # ", 2 << 20
	padded := code + strings.Repeat("x", padding)
	for round := range 3 {
		h := startHolder(t, r, holderJob{Grace: time.Minute, Codes: []string{"n = 0", code}, Repeat: 10_000, Pad: padding})
		h.until("ended 2 ok")
		time.Sleep(time.Duration(3*round) * time.Millisecond) // any moment will do
		h.kill()
		last := 2 // the last run of which we know
		for {
			line, err := h.out.ReadString('\n')
			if err != nil {
				break
			}
			_, _ = fmt.Sscanf(line, "ended %d ok", &last)
		}
		heir := newHeir(t, r, h.ticket)
		next := last + 1
		if res, err := heir.session.Run(t.Context(), sandbox.Request{Key: fmt.Sprint(next), Code: padded}, nil); err != nil && !errors.Is(err, sandbox.ErrRanBefore) || res.Error != nil {
			t.Fatalf("got %+v, %v", res, err)
		}
		if res := heir.run("", "n", 0); res.Value != fmt.Sprint(next) {
			t.Errorf("round %d: %s calls have run, want %d", round, res.Value, next)
		}
		heir.session.Close()
	}
}

func testAdoptedInterrupts(t *testing.T, r *engines.Running) {
	h := newHolder(t, r, time.Minute, "x = 5\nimport time\nprint('go', flush=True)\ntime.sleep(0.1)\nwhile True: pass")
	h.until("printed 0")
	h.kill()
	heir := newHeir(t, r, h.ticket)
	if res := heir.run("0", "", time.Second); res.Status != sandbox.StatusTimeout || res.StateLost != "" {
		t.Errorf("the run of before: %+v", res)
	}
	for _, code := range []string{
		"import time; time.sleep(600)",
		"import asyncio; await asyncio.sleep(600)",
		"import re; re.match('(a+)+$', 'a' * 40 + 'b')", // C code that holds Python's lock
	} {
		if res := heir.run("", code, time.Second); res.Status != sandbox.StatusTimeout || res.StateLost != "" {
			t.Errorf("%s: %+v", code, res)
		}
	}
	heir.want("x", "5")
}

func testAdoptedAgain(t *testing.T, r *engines.Running) {
	h := newHolder(t, r, time.Minute, "x = 0")
	h.until("ended 0 ok")
	h.kill()
	for round := range 3 {
		heir := newHeir(t, r, h.ticket)
		heir.want("x += 1; x", fmt.Sprint(round+1))
		heir.run("", "import threading, time\ndef late():\n  time.sleep(1)\n  print('late', flush=True)\nlast = threading.Thread(target=late)\nlast.start()", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		heir.pool.Leave(ctx)
		cancel()
		heir.session.Close()
	}
	time.Sleep(1500 * time.Millisecond) // the last one prints while nobody is there
	heir := newHeir(t, r, h.ticket)
	res := heir.run("", "last.join(); x", 0)
	if res.Value != "3" || !strings.Contains(printedBy(res), "late\n") {
		t.Errorf("got %+v, want what was printed meanwhile", res)
	}
}

func testAdoptedPaused(t *testing.T, r *engines.Running) {
	h := newHolder(t, r, 10*time.Second, "x = 7")
	h.until("ended 0 ok")
	err := r.Pause(t.Context(), runtime.ID(h.ticket.Container))
	if _, refused := errors.AsType[*runtime.EngineError](err); refused && r.Name == engines.Rootless {
		t.Logf("this engine can't pause: %v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	h.kill()
	time.Sleep(12 * time.Second) // longer than it waits for a daemon: its clock stands still
	newHeir(t, r, h.ticket).want("x", "7")
}

func testShutOut(t *testing.T, r *engines.Running) {
	o := adoptOptions(r.Image, t.Name(), time.Minute)
	stale, err := sandbox.Launch(t.Context(), r.Engine, o)
	if err != nil {
		t.Fatal(err)
	}
	stale.Run(t.Context(), sandbox.Request{Code: "x = 'good'", Timeout: time.Minute}, nil)
	heir := newHeir(t, r, stale.Ticket())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		stale.Run(context.Background(), sandbox.Request{Code: "x = 'stale'", Timeout: time.Minute}, nil)
	}()
	heir.want("import time; time.sleep(1); x", "'good'")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stale.Leave(ctx)
	<-ran
	heir.want("x", "'good'")
}

// Code that has found the door, and knows what the relay looks like.
const intruder = `
import array, os, socket
names = [l.split()[-1] for l in open("/proc/net/unix") if "@bridged-" in l]
def knock(name):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect("\0" + name[1:])
    try:
        s.sendmsg([b"secret nonce\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))])
        return s.recv(10)
    except (BrokenPipeError, ConnectionResetError):
        return b""
def status(pid, key):
    return next(l.split()[1] for l in open(f"/proc/{pid}/status") if l.startswith(key + ":"))
relays = [p for p in os.listdir("/proc") if p.isdigit() and b"bridged-relay" in open(f"/proc/{p}/cmdline", "rb").read()]
def touch(pid):
    out = []
    for what in (lambda: open(f"/proc/{pid}/mem", "rb"), lambda: os.kill(int(pid), 9), lambda: os.listdir(f"/proc/{pid}/fd")):
        try:
            what()
            out.append("it can")
        except PermissionError:
            pass
    return out
[len(set(names)), [knock(n) for n in set(names)], [[status(p, k) for k in ("Uid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")] for p in relays], [touch(p) for p in relays]]
`

func testRefused(t *testing.T, r *engines.Running) {
	h := newHolder(t, r, time.Minute, "x = 1")
	h.until("ended 0 ok")
	h.kill()
	o := adoptOptions(r.Image, t.Name(), time.Minute)
	bad := h.ticket
	bad.Secret = strings.Repeat("0", 64)
	if _, err := sandbox.Adopt(t.Context(), r.Engine, o, bad); err == nil || !strings.Contains(err.Error(), "does not know the secret") {
		t.Fatalf("a wrong secret: %v", err)
	}
	bad = h.ticket
	bad.User = "65534:65534" // the code's own
	if _, err := sandbox.Adopt(t.Context(), r.Engine, o, bad); err == nil {
		t.Fatal("the user of the code came in")
	}
	heir := newHeir(t, r, h.ticket)
	heir.want(intruder, "[1, [b''], [['65533', '0000000000000000', '0000000000000000', '1', '2']], [[]]]")
	heir.want("x", "1")
	heir.session.Close()
	if _, err := sandbox.Adopt(t.Context(), r.Engine, o, h.ticket); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("one that has ended: %v", err)
	}
}

func testAbandoned(t *testing.T, r *engines.Running) {
	h := newHolder(t, r, 8*time.Second, "import time\nprint('go', flush=True)\ntime.sleep(600)")
	h.until("printed 0")
	h.kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := r.Engine.Wait(ctx, runtime.ID(h.ticket.Container)); err != nil {
		t.Fatalf("it does not end: %v", err)
	}
	if _, err := sandbox.Adopt(t.Context(), r.Engine, adoptOptions(r.Image, t.Name(), time.Minute), h.ticket); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("got %v, want that it is gone", err)
	}
}
