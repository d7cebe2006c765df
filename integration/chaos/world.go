//go:build integration

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// waitTime bounds every wait for something that takes a second or two.
	waitTime   = 90 * time.Second
	serverName = "calc"
)

// calcServer is an MCP server whose one tool doubles a number.
const calcServer = `
import json, sys
tool = {"name": "double", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {}
    if m["method"] == "initialize": r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "calc", "version": "1"}}
    if m["method"] == "tools/list": r = {"tools": [tool]}
    if m["method"] == "tools/call":
        n = m["params"]["arguments"]["n"]
        r = {"content": [{"type": "text", "text": f"[{n}] doubled is {2 * n}"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

// A world is a home with a daemon, which is started again when it has died, and
// agents.
type world struct {
	engine *engines.Running
	dir    string // the home; on a small disk
	logs   string // what daemons say, elsewhere
	shim   string
	binary string
	env    []string
	agents []*agent
	lock   *os.File // keeps shims from starting a daemon: we do

	mu         sync.Mutex // guards the fields below
	daemon     *exec.Cmd
	gone       chan struct{} // closed when daemon has ended
	starts     int
	window     window
	violations []string
}

// A window is what came of one blow so far.
type window struct {
	blow    blow
	losses  []loss
	answers int
	refused int
	failed  int // calls of the server
	example string
}

// A loss is a session that an agent was told is gone.
type loss struct {
	agent int
	words string
}

// newWorld makes a home on a small disk.
func newWorld(r *engines.Running, dir, logs string) (*world, error) {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		return nil, err
	}
	w := &world{engine: r, dir: dir, logs: logs, shim: filepath.Join(bin, "bridge-shim"), binary: filepath.Join(bin, "bridged")}
	w.env = []string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "BRIDGED_SOCKET=" + w.socket("mcp.sock"),
		"MCP_BRIDGE_RUNTIME=" + r.Endpoint, "MCP_BRIDGE_IMAGE=" + r.Image, "MCP_BRIDGE_IMPORTS=json", "MCP_BRIDGE_POOL_WARM=1",
	}
	if w.lock, err = takeStart(w.socket("mcp.sock")); err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "calc.py")
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{serverName: map[string]any{"command": "python3", "args": []string{script}}}})
	if err != nil {
		return nil, err
	}
	return w, errors.Join(
		os.WriteFile(script, []byte(calcServer), 0o600),
		os.Mkdir(filepath.Join(dir, "MCPs"), 0o700),
		os.WriteFile(filepath.Join(dir, "MCPs", "servers.json"), config, 0o600),
	)
}

// takeStart takes the lock that a shim has while it starts a daemon. The others
// wait for that then.
func takeStart(socket string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(socket+".start", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // the first error says more
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return f, nil
}

func (w *world) socket(name string) string { return filepath.Join(w.dir, "run", name) }

// start starts a daemon and waits until it listens.
func (w *world) start(ctx context.Context) error {
	w.mu.Lock()
	w.starts++
	log, err := os.Create(filepath.Join(w.logs, fmt.Sprintf("daemon-%03d.log", w.starts)))
	if err != nil {
		w.mu.Unlock()
		return err
	}
	defer func() { _ = log.Close() }() // the daemon has its own
	cmd := exec.Command(w.binary, "serve")
	cmd.Env, cmd.Dir, cmd.Stderr = w.env, w.dir, log
	gone := make(chan struct{})
	err = cmd.Start()
	w.daemon, w.gone = cmd, gone
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("starting the daemon (run `make build` first): %w", err)
	}
	go func() { // it ends with the daemon
		defer close(gone)
		_ = cmd.Wait() // the log says why
	}()
	return w.until(ctx, "the daemon listens", func() bool {
		conn, err := net.Dial("unix", w.socket("ops.sock"))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// pid is that of the daemon.
func (w *world) pid() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.daemon.Process.Pid
}

// end sends the daemon a signal and waits until it has ended.
func (w *world) end(ctx context.Context, sig syscall.Signal) error {
	w.mu.Lock()
	daemon, gone := w.daemon, w.gone
	w.mu.Unlock()
	if err := daemon.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-gone:
		return nil
	case <-time.After(waitTime):
		return fmt.Errorf("the daemon does not end after %s", sig)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// until waits for something that must come.
func (w *world) until(ctx context.Context, what string, ok func() bool) error {
	for end := time.Now().Add(waitTime); !ok(); {
		if time.Now().After(end) {
			return fmt.Errorf("waiting until %s: it does not come within %s", what, waitTime)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// status asks the daemon; one that does not answer has an empty status.
func (w *world) status(ctx context.Context) ops.Status {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s, err := ops.Get(ctx, w.socket("ops.sock"))
	if err != nil {
		return ops.Status{}
	}
	return s
}

// idle waits until the daemon is ready and has no session.
func (w *world) idle(ctx context.Context) error {
	return w.until(ctx, "the daemon is ready and has no session", func() bool {
		s := w.status(ctx)
		return s.Ready && len(s.Sessions) == 0 && s.Pool.Leased == 0 && s.Pool.Creating == 0 && s.Pool.Warm == s.Pool.Target
	})
}

// containers lists those of daemons.
func (w *world) containers(ctx context.Context) ([]runtime.Container, error) {
	return w.engine.Engine.List(ctx, map[string]string{runtime.LabelManaged: "true"})
}

// files counts what the daemon has open.
func (w *world) files() (int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.pid()))
	return len(list), err
}

// memory is how much of the daemon is in memory, in bytes.
func (w *world) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", w.pid()))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm is %q", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

var goroutineHead = regexp.MustCompile(`(?m)^goroutine \d+ `)

// quit ends the daemon with SIGQUIT and returns its goroutines' stacks.
func (w *world) quit(ctx context.Context) (stacks string, count int, err error) {
	if err := w.end(ctx, syscall.SIGQUIT); err != nil {
		return "", 0, err
	}
	w.mu.Lock()
	name := filepath.Join(w.logs, fmt.Sprintf("daemon-%03d.log", w.starts))
	w.mu.Unlock()
	text, err := os.ReadFile(name)
	return string(text), len(goroutineHead.FindAll(text, -1)), err
}

// processes lists those that live in the home, by pid and name; only those whose
// command line holds part.
func (w *world) processes(part string) map[int]string {
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(cmdline) == 0 || !strings.Contains(string(cmdline), part) {
			continue // it has ended, or is another
		}
		if strings.Contains(string(environ), "HOME="+w.dir+"\x00") || strings.Contains(string(cmdline), w.dir) {
			found[pid] = strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
	}
	return found
}

func (w *world) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := "before any blow"
	if w.window.blow.fault != "" {
		at = "after: " + w.window.blow.fault
	}
	w.violations = append(w.violations, fmt.Sprintf("[%s, %s] ", time.Now().UTC().Format("15:04:05"), at)+fmt.Sprintf(format, args...))
}

func (w *world) lost(agent int, words string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.window.losses = append(w.window.losses, loss{agent, words})
}

func (w *world) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.window.answers++
}

func (w *world) refused(agent int, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.window.refused++
	w.window.example = fmt.Sprintf("agent %d: %.300s", agent, why)
}

func (w *world) failedCall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.window.failed++
}

// open begins the window of a blow.
func (w *world) open(b blow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.window = window{blow: b}
}

// close returns what came of it.
func (w *world) close() window {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.window
}
