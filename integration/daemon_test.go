//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/ops"
)

const (
	// waitTime bounds every wait for something that takes a second or two.
	waitTime = 60 * time.Second
	bridged  = "../bin/bridged"
	shim     = "../bin/bridge-shim"
)

// A home is a person's home folder with config files, and a daemon's socket.
type home struct {
	dir    string
	socket string
	env    []string
}

// newHome makes an empty home. Extra variables are NAME=value.
func newHome(t testing.TB, extra ...string) *home {
	t.Helper()
	dir, err := os.MkdirTemp("", "bridged") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	h := &home{dir: dir, socket: filepath.Join(dir, "run", "mcp.sock")}
	h.env = append([]string{
		"HOME=" + dir, "PATH=" + os.Getenv("BRIDGED_TEST_SERVERS") + ":" + os.Getenv("PATH"), "BRIDGED_SOCKET=" + h.socket,
		"MCP_BRIDGE_IMPORTS=json", "LANG=C.UTF-8",
	}, extra...)
	return h
}

// servers writes ~/MCPs/test.json.
func (h *home) servers(t testing.TB, entries map[string]any) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(h.dir, "MCPs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "MCPs", "test.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// command prepares one of our programs with the home's environment alone.
func (h *home) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = h.env
	return cmd
}

// A daemon is a running `bridged serve`.
type daemon struct {
	home *home
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{}
}

// A lockedBuffer collects a program's output.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts a daemon and waits until it listens. It is stopped when the
// test ends. The home's later shims start no other one when it is gone; they wait
// for the test to.
func (h *home) serve(t testing.TB, args ...string) *daemon {
	t.Helper()
	h.env = append(slices.DeleteFunc(slices.Clone(h.env), func(v string) bool { return strings.HasPrefix(v, "BRIDGED_BIN=") }), "BRIDGED_BIN=/nonexistent/bridged")
	d := &daemon{home: h, log: &lockedBuffer{}, done: make(chan struct{})}
	d.cmd = h.command(bridged, append([]string{"serve"}, args...)...)
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait() // the tests look at what it did
	}()
	t.Cleanup(func() {
		d.stop(t, syscall.SIGINT)
		if t.Failed() {
			t.Logf("the daemon said:\n%s", d.log)
		}
	})
	d.until(t, "it listens", func() bool { return listens(h.socket) && listens(h.ops()) })
	return d
}

// ops is the daemon's socket for operations.
func (h *home) ops() string { return filepath.Join(filepath.Dir(h.socket), "ops.sock") }

func listens(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// until waits for something that must come.
func (d *daemon) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTime); !ok(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-d.done:
			t.Fatalf("waiting until %s: the daemon ended:\n%s", what, d.log)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("waiting until %s: it does not come:\n%s", what, d.log)
		}
	}
}

func (d *daemon) status(t testing.TB) ops.Status {
	t.Helper()
	s, err := ops.Get(context.Background(), d.home.ops())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ready waits until sessions can start.
func (d *daemon) ready(t testing.TB) {
	t.Helper()
	d.until(t, "it is ready", func() bool { return d.status(t).Ready })
}

// full waits until there are as many warm sandboxes as there may be. A daemon is
// ready when it has one.
func (d *daemon) full(t testing.TB) {
	t.Helper()
	d.until(t, "its pool is full", func() bool {
		p := d.status(t).Pool
		return p.Warm >= min(p.Target, p.Max-p.Leased) && p.Creating == 0
	})
}

func (d *daemon) stop(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-d.done:
	case <-time.After(waitTime):
		t.Errorf("the daemon does not end after %s:\n%s", sig, d.log)
		_ = d.cmd.Process.Kill()
		<-d.done
	}
}

// An agent is an MCP client that drives a shim.
type agent struct {
	t testing.TB
	*client.Client
	stderr *lockedBuffer

	mu       sync.Mutex // guards the fields below
	progress []string
	beats    map[string][]float64 // the values of the progress, by token
}

// agent starts a shim in the folder cwd and initializes.
func (h *home) agent(t testing.TB, cwd string, options ...client.ClientOption) *agent {
	t.Helper()
	a := &agent{t: t, stderr: &lockedBuffer{}, beats: map[string][]float64{}}
	path, err := filepath.Abs(shim)
	if err != nil {
		t.Fatal(err)
	}
	tr := transport.NewStdioWithOptions(path, nil, nil,
		transport.WithCommandStderrWriter(a.stderr),
		transport.WithCommandFunc(func(ctx context.Context, command string, _, args []string) (*exec.Cmd, error) {
			cmd := exec.CommandContext(ctx, command, args...)
			cmd.Env, cmd.Dir = h.env, cwd
			return cmd, nil
		}))
	a.Client = client.NewClient(tr, options...)
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() }) // a test may have ended the shim
	a.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method != "notifications/progress" {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.progress = append(a.progress, fmt.Sprint(n.Params.AdditionalFields["message"]))
		value, _ := n.Params.AdditionalFields["progress"].(float64)
		token := fmt.Sprint(n.Params.AdditionalFields["progressToken"])
		a.beats[token] = append(a.beats[token], value)
	})
	if _, err := a.Initialize(context.Background(), mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: mcp.LATEST_PROTOCOL_VERSION, ClientInfo: mcp.Implementation{Name: "test", Version: "1"},
	}}); err != nil {
		t.Fatalf("%v; the shim said: %s", err, a.stderr)
	}
	return a
}

// call runs code and returns the answer, which may be a failure of the code.
func (a *agent) call(args map[string]any) *mcp.CallToolResult {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*waitTime)
	defer cancel()
	req := mcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = "run_python", args
	res, err := a.CallTool(ctx, req)
	if err != nil {
		a.t.Fatalf("run_python %v: %v", args, err)
	}
	return res
}

// run runs code that must work and returns the text of the answer.
func (a *agent) run(code string, servers ...string) string {
	a.t.Helper()
	args := map[string]any{"code": code}
	if len(servers) > 0 {
		args["servers"] = servers
	}
	res := a.call(args)
	if res.IsError {
		a.t.Fatalf("%s\nfailed: %s", code, text(res))
	}
	return text(res)
}

// text joins the text blocks of an answer.
func text(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if block, ok := c.(mcp.TextContent); ok {
			b.WriteString(block.Text + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
