package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hang bounds waits for what should happen soon.
const hang = 2 * time.Minute

func buildShim(path string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=1.2.3", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the shim: %w\n%s", err, out)
	}
	return nil
}

// A home is a user's home with a runtime folder, and what runs there.
type home struct {
	t      *testing.T
	dir    string
	socket string
	env    []string
}

func newHome(t *testing.T, daemon string) *home {
	t.Helper()
	dir, err := os.MkdirTemp("", "h") // t.TempDir is too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, dir: dir, socket: filepath.Join(dir, "run", "bridged", "mcp.sock")}
	h.env = []string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"),
		"FAKE_DAEMON=" + daemon, "BRIDGED_BIN=" + os.Args[0],
	}
	t.Cleanup(func() {
		h.killDaemons()
		_ = os.RemoveAll(dir)
	})
	return h
}

// daemons returns the pids of all daemons that ever listened.
func (h *home) daemons() []int {
	data, err := os.ReadFile(filepath.Join(h.dir, "pids"))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	var pids []int
	for _, f := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			h.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// killDaemons returns when no daemon holds the lock any more: another that finds
// it held believes that it is not needed.
func (h *home) killDaemons() {
	h.t.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(5 * time.Millisecond) {
		for _, pid := range h.daemons() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if h.unlocked() {
			break
		}
		if time.Now().After(end) {
			h.t.Fatal("a daemon lives on")
		}
	}
	_ = os.Remove(filepath.Join(h.dir, "pids"))
}

// unlocked reports whether no daemon holds the lock.
func (h *home) unlocked() bool {
	f, err := os.Open(h.socket + ".lock")
	if os.IsNotExist(err) {
		return true
	}
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // which unlocks
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// listen serves as the daemon in this process.
func (h *home) listen(serve func(net.Listener)) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.socket), 0o700); err != nil {
		h.t.Fatal(err)
	}
	ln, err := net.Listen("unix", h.socket)
	if err != nil {
		h.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); serve(ln) }()
	h.t.Cleanup(func() { _ = ln.Close(); <-done })
}

// A proc is a shim under an agent's hands.
type proc struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	outEnd io.Closer
	errs   bytes.Buffer
	waited chan struct{} // closed when the process has been waited for
}

func (h *home) start(extra ...string) *proc {
	h.t.Helper()
	return h.startCmd(exec.Command(shimBinary), extra...)
}

func (h *home) startCmd(cmd *exec.Cmd, extra ...string) *proc {
	h.t.Helper()
	p := &proc{t: h.t, cmd: cmd, waited: make(chan struct{})}
	cmd.Env = append(append([]string(nil), h.env...), extra...)
	cmd.Dir = h.dir
	inR, inW, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, &p.errs
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	_ = inR.Close()
	_ = outW.Close()
	p.in, p.out, p.outEnd = inW, bufio.NewReader(outR), outR
	go func() {
		defer close(p.waited)
		_ = cmd.Wait() // its state is read instead
	}()
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = inW.Close()
		_ = outR.Close()
	})
	return p
}

func (p *proc) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
}

// recv returns the next line on stdout, which must be JSON-RPC.
func (p *proc) recv() string {
	p.t.Helper()
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := p.out.ReadString('\n')
		got <- read{line, err}
	}()
	select {
	case r := <-got:
		if r.err != nil || !strings.Contains(r.line, `"jsonrpc":"2.0"`) || !json.Valid([]byte(r.line)) {
			p.t.Fatalf("stdout: got %.200q, %v", r.line, r.err)
		}
		return r.line
	case <-time.After(hang):
		p.t.Fatal("no answer came")
		return ""
	}
}

type reply struct {
	ID     json.RawMessage
	Result struct {
		Echo  string
		Hello hello
	}
	Error *struct {
		Code    int
		Message string
	}
}

func (p *proc) reply() reply {
	p.t.Helper()
	var r reply
	if line := p.recv(); json.Unmarshal([]byte(line), &r) != nil {
		p.t.Fatalf("got %.200s", line)
	}
	return r
}

// wantError reads an error for the request with id.
func (p *proc) wantError(id string, says ...string) {
	p.t.Helper()
	r := p.reply()
	if string(r.ID) != id || r.Error == nil || r.Error.Code != -32000 {
		p.t.Fatalf("got %s %+v, want an error for %s", r.ID, r.Error, id)
	}
	for _, s := range says {
		if !strings.Contains(r.Error.Message, s) {
			p.t.Errorf("the error does not say %q: %s", s, r.Error.Message)
		}
	}
}

// wantExit waits for the shim and checks that it wrote nothing else.
func (p *proc) wantExit(code int) {
	p.t.Helper()
	select {
	case <-p.waited:
	case <-time.After(hang):
		p.t.Fatal("the shim did not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit status: got %d, want %d; stderr %s", got, code, p.errs.String())
	}
}

func request(id, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q}`+"\n", id, method)
}

func TestMessagesAreCopiedUntouched(t *testing.T) {
	h := newHome(t, "")
	h.listen(func(ln net.Listener) { serveFake(ln, "s") })
	p := h.start("SECRET=x=y")
	line := `  {"method":"echo" , "x":[1.0,1e3,"é\u0041"], "id" : 9007199254740993,"jsonrpc":"2.0"}` + "\r\n"
	p.send("\n" + line)
	got := p.recv()
	if !strings.HasPrefix(got, "{ \"jsonrpc\":\"2.0\",  \"id\":9007199254740993,") || !strings.HasSuffix(got, "}\r\n") {
		t.Errorf("the answer was touched: %.200q", got)
	}
	var r reply
	if err := json.Unmarshal([]byte(got), &r); err != nil || r.Result.Echo != line {
		t.Errorf("the request was touched: got %q, %v, want %q", r.Result.Echo, err, line)
	}
	hello := r.Result.Hello
	if hello.Wire != 1 || hello.PID != p.cmd.Process.Pid || hello.Version != "1.2.3" || hello.Env["SECRET"] != "x=y" || hello.Session != "" {
		t.Errorf("hello: got %+v", hello)
	}
	if want, err := filepath.EvalSymlinks(h.dir); err != nil || hello.CWD != want {
		t.Errorf("cwd: got %q, %v, want %q", hello.CWD, err, want)
	}
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	p.wantExit(0)
}

func TestMessagesOfAnySizePass(t *testing.T) {
	h := newHome(t, "")
	h.listen(func(ln net.Listener) { serveFake(ln, "s") })
	p := h.start()
	p.send(request(`1`, "big"))
	if got := len(p.recv()); got < 30<<20 {
		t.Errorf("got %d bytes, want more than 30 MiB", got)
	}
	long := `{"jsonrpc":"2.0","id":2,"method":"echo","params":{"x":"` + strings.Repeat("y", maxLine+100000) + `"}}` + "\n"
	go func() { _, _ = io.WriteString(p.in, long) }() // the echo tells whether it got through
	if r := p.reply(); r.Result.Echo != long {
		t.Errorf("got %d bytes back, want %d", len(r.Result.Echo), len(long))
	}
}

func TestALineWithoutItsEndIsPassedOn(t *testing.T) {
	h := newHome(t, "")
	h.listen(func(ln net.Listener) { serveFake(ln, "s") })
	p := h.start()
	p.send(request(`0`, "echo"))
	p.recv() // it is connected: at the end of stdin it does not wait for that
	p.send(strings.TrimSuffix(request(`1`, "echo"), "\n"))
	_ = p.in.Close()
	if r := p.reply(); string(r.ID) != "1" {
		t.Errorf("got %+v", r)
	}
	p.wantExit(0)
}

func TestADaemonIsStartedWhenNoneListens(t *testing.T) {
	h := newHome(t, "ok")
	p := h.start()
	p.send(request(`"a"`, "initialize"))
	if r := p.reply(); string(r.ID) != `"a"` || r.Error != nil {
		t.Fatalf("got %+v", r)
	}
	pids := h.daemons()
	if len(pids) != 1 {
		t.Fatalf("%d daemons, want 1", len(pids))
	}
	// It has a session of its own and outlives the shim.
	if sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pids[0]), 0, 0); errno != 0 || int(sid) != pids[0] {
		t.Errorf("session: got %d, %v, want %d", sid, errno, pids[0])
	}
	_ = p.in.Close()
	p.wantExit(0)
	if err := syscall.Kill(pids[0], 0); err != nil {
		t.Errorf("the daemon is gone with its shim: %v", err)
	}
	if q := h.start(); true {
		q.send(request(`2`, "initialize"))
		q.recv()
	}
	if n := len(h.daemons()); n != 1 {
		t.Errorf("%d daemons after the second shim, want 1", n)
	}
}

func TestManyShimsAtOnceGetOneDaemon(t *testing.T) {
	h := newHome(t, "ok")
	for round := range 3 {
		var wg sync.WaitGroup
		for range 30 {
			p := h.start()
			wg.Go(func() {
				p.send(request(`1`, "initialize"))
				if r := p.reply(); r.Error != nil {
					t.Errorf("got %+v", *r.Error)
				}
				_ = p.in.Close()
				p.wantExit(0)
			})
		}
		wg.Wait()
		if n := len(h.daemons()); n != 1 {
			t.Fatalf("round %d: %d daemons, want 1", round, n)
		}
		h.killDaemons() // its socket and its lock file stay
	}
}

func TestADaemonThatCannotStartIsExplained(t *testing.T) {
	h := newHome(t, "broken")
	p := h.start()
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	p.send("no JSON\n")
	p.send(request(`9007199254740993`, "initialize"))
	p.wantError(`9007199254740993`, "exit status 3", `did you mean "image"?`, "daemon.log", "bridged doctor")
	p.send(request(`"x"`, "tools/list"))
	p.wantError(`"x"`, "exit status 3")
	_ = p.in.Close()
	p.wantExit(0)
	if rest, err := io.ReadAll(p.out); len(rest) > 0 || err != nil {
		t.Errorf("stdout: %q, %v", rest, err)
	}
}

func TestARequestAfterAFailureFindsADaemonThatCameUp(t *testing.T) {
	h := newHome(t, "broken")
	p := h.start()
	p.send(request(`1`, "initialize"))
	p.wantError(`1`)
	h.listen(func(ln net.Listener) { serveFake(ln, "s") })
	p.send(request(`2`, "initialize"))
	if r := p.reply(); string(r.ID) != "2" || r.Error != nil {
		t.Errorf("got %+v", r)
	}
}

func TestWhatCannotWorkIsSaidAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  func(h *home) []string
		says []string
	}{
		{"no binary", func(*home) []string { return []string{"BRIDGED_BIN=/no/such/bridged"} }, []string{"BRIDGED_BIN", "/no/such/bridged"}},
		{"no binary anywhere", func(*home) []string { return []string{"BRIDGED_BIN=", "PATH=/nowhere"} }, []string{"no bridged binary", "set BRIDGED_BIN"}},
		{"a socket path that is too long", func(h *home) []string {
			return []string{"BRIDGED_SOCKET=" + filepath.Join(h.dir, strings.Repeat("x", 120))}
		}, []string{"more than the", "set BRIDGED_SOCKET to a shorter one"}},
		{"no home", func(*home) []string { return []string{"HOME=", "XDG_RUNTIME_DIR="} }, []string{"none of BRIDGED_SOCKET"}},
		{"a socket folder that can't be made", func(*home) []string { return []string{"BRIDGED_SOCKET=/proc/x/mcp.sock"} }, []string{"mkdir /proc/x: no such file or directory"}},
		{"below bridged itself", func(*home) []string { return []string{"BRIDGED_DEPTH=1"} }, []string{"BRIDGED_DEPTH=1", "would never end"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "ok")
			p := h.start(tt.env(h)...)
			p.send(request(`1`, "initialize"))
			p.wantError(`1`, tt.says...)
			_ = p.in.Close()
			p.wantExit(0)
			if n := len(h.daemons()); n != 0 {
				t.Errorf("%d daemons were started", n)
			}
		})
	}
}

func TestWhatIsNoDaemonIsExplained(t *testing.T) {
	answer := func(line string) func(net.Listener) {
		return func(ln net.Listener) {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, line)
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
		}
	}
	for _, tt := range []struct{ name, line, says string }{
		{"a web server", "HTTP/1.1 400 Bad Request\r\n\r\n", "is not bridged: it answered \"HTTP/1.1 400"},
		{"JSON of another kind", "{}\n", "is not bridged"},
		{"a line without end", strings.Repeat("x", 100000), "its first line is longer"},
		{"a refusal", `{"bridged":1,"error":"256 sessions are open"}` + "\n", "bridged refused: 256 sessions are open"},
		{"another wire", `{"bridged":7,"session":"x"}` + "\n", "version 7 of the wire and this bridge-shim 1"},
		{"silence", "", "did not answer within"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "ok")
			h.listen(answer(tt.line))
			p := h.start()
			p.send(request(`1`, "initialize"))
			p.wantError(`1`, tt.says)
			if n := len(h.daemons()); n != 0 {
				t.Errorf("%d daemons were started beside it", n)
			}
		})
	}
}

// owedError reads the error for a request that no daemon will answer, and
// returns its id.
func (p *proc) owedError(says string) string {
	p.t.Helper()
	r := p.reply()
	if r.Error == nil || !strings.Contains(r.Error.Message, "outcome is unknown") || !strings.Contains(r.Error.Message, says) {
		p.t.Fatalf("got %s %+v, want an error that says %q", r.ID, r.Error, says)
	}
	return string(r.ID)
}

func TestWhatADeadDaemonOwedIsAskedOfItsSuccessor(t *testing.T) {
	h := newHome(t, "ok")
	p := h.start()
	p.send(request(`0`, "echo"))
	p.recv()
	p.send(request(`"c"`, "silent"))
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}` + "\n")
	p.send(request(`7`, "dieonce") + request(`"s"`, "echo"))
	r := p.reply()
	want := []resent{{ID: []byte(`7`), place: place{1, 4}}, {ID: []byte(`"s"`), place: place{1, 5}}}
	if string(r.ID) != "7" || r.Error != nil || r.Result.Echo != request(`7`, "dieonce") {
		t.Errorf("got %s %+v %q", r.ID, r.Error, r.Result.Echo)
	}
	if got := r.Result.Hello; got.Session != fmt.Sprintf("session-of-%d", h.daemons()[0]) || got.Link != 2 || !reflect.DeepEqual(got.Resent[:1], want[:1]) {
		t.Errorf("the next daemon was told %+v, want %+v", got, want)
	}
	// The second request may have been read by the shim before the first
	// daemon ended or after; it is answered once all the same.
	if r := p.reply(); string(r.ID) != `"s"` || r.Error != nil {
		t.Errorf("got %s %+v", r.ID, r.Error)
	}
	p.send(request(`8`, "echo"))
	if r := p.reply(); string(r.ID) != "8" {
		t.Errorf("got %s, want 8 and no answer twice", r.ID)
	}
	if n := len(h.daemons()); n != 2 {
		t.Errorf("%d daemons, want 2", n)
	}
}

func TestARequestThatEndsEachDaemonIsSentToSome(t *testing.T) {
	for _, how := range []string{"die", "half"} {
		t.Run(how, func(t *testing.T) {
			h := newHome(t, "ok")
			p := h.start()
			p.send(request(`7`, how))
			if id := p.owedError("has ended several daemons"); id != "7" {
				t.Errorf("got %s, want 7", id)
			}
			p.send(request(`8`, "echo"))
			if r := p.reply(); string(r.ID) != "8" || r.Error != nil {
				t.Errorf("got %s %+v", r.ID, r.Error)
			}
			if n := len(h.daemons()); n != 2+maxResends {
				t.Errorf("%d daemons, want %d", n, 2+maxResends)
			}
		})
	}
}

func TestWhatNoDaemonCanTakeOverIsAnswered(t *testing.T) {
	for _, tt := range []struct{ daemon, says string }{
		{"old", "too old"},
		{"once", "there is no room"},
	} {
		t.Run(tt.daemon, func(t *testing.T) {
			h := newHome(t, tt.daemon)
			p := h.start()
			p.send(request(`1`, "die"))
			if id := p.owedError(tt.says); id != "1" {
				t.Errorf("got %s, want 1", id)
			}
		})
	}
}

func TestARequestThatIsTooLargeToKeepIsAnswered(t *testing.T) {
	h := newHome(t, "ok")
	p := h.start()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"silent","x":"%s"}`+"\n", strings.Repeat("x", 17<<20)))
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"die","x":"%s"}`+"\n", strings.Repeat("x", 17<<20)))
	if id := p.owedError("too large to keep"); id != "4" {
		t.Errorf("got %s, want 4", id)
	}
	p.send(request(`5`, "echo"))
	if r := p.reply(); string(r.ID) != "5" || len(r.Result.Hello.Resent) != 1 {
		t.Errorf("got %s, resent %d", r.ID, len(r.Result.Hello.Resent))
	}
}

func TestAnIDIsAnsweredOnce(t *testing.T) {
	d := newDebts()
	m := message{ID: []byte("1"), Method: "x"}
	d.add(m, []byte("line\n"), place{1, 1})
	if got := string(d.again()); got != "line\n" {
		t.Fatalf("got %q", got)
	}
	if first, second := d.answered(m.ID), d.answered(m.ID); !first || second {
		t.Errorf("passed on: %v, %v; want the first alone", first, second)
	}
	d.add(m, []byte("line\n"), place{2, 1})
	if !d.answered(m.ID) || d.kept != 0 || len(d.byID) != 0 {
		t.Errorf("the answer to a new request of an old id is not passed on, or something is left: %+v", d)
	}
}

func TestAnIdleShimGoesToTheNextDaemonByItself(t *testing.T) {
	h := newHome(t, "ok")
	p := h.start()
	p.send(request(`1`, "echo"))
	p.recv()
	if err := syscall.Kill(h.daemons()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(hang); len(h.daemons()) < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not")
		}
	}
	p.send(request(`2`, "echo"))
	if r := p.reply(); string(r.ID) != "2" || r.Error != nil || r.Result.Hello.Resent != nil {
		t.Errorf("got %s %+v", r.ID, r.Error)
	}
}

func TestADaemonThatSaysItIsTheEndIsNotStartedAgainForNothing(t *testing.T) {
	h := newHome(t, "ok")
	p := h.start()
	p.send(request(`1`, "silent") + request(`2`, "end"))
	if r := p.reply(); string(r.ID) != "2" || r.Error != nil {
		t.Errorf("got %s %+v", r.ID, r.Error)
	}
	if id := p.owedError("told to end"); id != "1" {
		t.Errorf("got %s, want 1", id)
	}
	if n := len(h.daemons()); n != 1 {
		t.Errorf("%d daemons before the next request, want 1", n)
	}
	p.send(request(`3`, "echo"))
	if r := p.reply(); string(r.ID) != "3" || r.Error != nil {
		t.Errorf("got %s %+v", r.ID, r.Error)
	}
	if n := len(h.daemons()); n != 2 {
		t.Errorf("%d daemons after it, want 2", n)
	}
}

func TestTheNextDaemonIsToldWhatTheLastOneKnewOfTheAgent(t *testing.T) {
	const params = `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"n":9007199254740993}`
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	replay := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"bridge-shim-replay-%d","method":"initialize","params":%s}`, n, params)
	}
	h := newHome(t, "ok")
	p := h.start()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + params + "}\n")
	p.recv()
	for n, told := range []string{replay(1), replay(2) + "\n" + initialized} {
		id := strconv.Itoa(10 + n)
		p.send(request(id, "dieonce"))
		if r := p.reply(); string(r.ID) != id || r.Error != nil {
			t.Fatalf("got %s %+v", r.ID, r.Error)
		}
		p.send(request(`3`, "history"))
		want := told + "\n" + strings.TrimSpace(request(id, "dieonce")+request(`3`, "history"))
		if r := p.reply(); string(r.ID) != "3" || r.Result.Echo != want {
			t.Errorf("daemon %d: got id %s, and it was told %s, want %s", n+2, r.ID, r.Result.Echo, want)
		}
		p.send(initialized + "\n")
	}
}

func TestWhatADeadDaemonAskedIsWithdrawn(t *testing.T) {
	h := newHome(t, "ok")
	p := h.start()
	p.send(request(`1`, "ask"))
	for range 4 {
		p.recv()
	}
	p.send(`{"jsonrpc":"2.0","id":"q-2","result":{"action":"accept"}}` + "\n" + request(`2`, "dieonce"))
	if got := p.recv(); !strings.Contains(got, `"method":"notifications/cancelled","params":{"requestId":"q-1"`) {
		t.Errorf("got %s, want the end of q-1", got)
	}
	for range 3 { // request 1 is made again, and its questions
		p.recv()
	}
}

func TestTheShimEndsWithItsAgent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(p *proc)
	}{
		{"its stdin is closed", func(p *proc) { _ = p.in.Close() }},
		{"its stdout is closed", func(p *proc) { _ = p.outEnd.Close() }},
		{"the agent dies", func(p *proc) { _ = p.in.Close(); _ = p.outEnd.Close() }},
	} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, call running %v", tt.name, busy), func(t *testing.T) {
				t.Parallel()
				h := newHome(t, "")
				h.listen(func(ln net.Listener) { serveFake(ln, "s") })
				p := h.start()
				p.send(request(`1`, "echo"))
				p.recv()
				if busy {
					p.send(request(`2`, "silent"))
				}
				tt.leave(p)
				p.wantExit(0)
			})
		}
	}
}

func TestTheShimEndsWhileADaemonIsStarting(t *testing.T) {
	h := newHome(t, "idle")
	p := h.start()
	p.send(request(`1`, "initialize"))
	_ = p.in.Close()
	select {
	case <-p.waited:
	case <-time.After(startTimeout - 3*time.Second):
		t.Error("the shim waited for a daemon although its agent is gone")
	}
	killChildren(t, h)
}

// killChildren ends the daemon that never listened, which nobody else knows.
func killChildren(t *testing.T, h *home) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range procs {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte("HOME="+h.dir+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestTheShimEndsWithAWrapperThatIsKilled(t *testing.T) {
	h := newHome(t, "")
	h.listen(func(ln net.Listener) { serveFake(ln, "s") })
	p := h.startCmd(exec.Command("sh", "-c", shimBinary+"; true"))
	p.send(request(`1`, "echo"))
	pid := p.reply().Result.Hello.PID
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(hang); running(pid); {
		if time.Now().After(deadline) {
			t.Fatal("the shim lives on without its parent")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// running reports whether a process is there and no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return len(rest) > 0 && rest[0] != 'Z'
}

func TestFlagsPrintToStderrAlone(t *testing.T) {
	for _, tt := range []struct {
		arg  string
		code int
		says string
	}{
		{"--version", 0, "bridge-shim 1.2.3"},
		{"--help", 0, "BRIDGED_SOCKET"},
		{"--nonsense", 2, `unknown argument "--nonsense"`},
	} {
		t.Run(tt.arg, func(t *testing.T) {
			p := newHome(t, "").startCmd(exec.Command(shimBinary, tt.arg))
			p.wantExit(tt.code)
			if rest, err := io.ReadAll(p.out); len(rest) > 0 || err != nil {
				t.Errorf("stdout: %q, %v", rest, err)
			}
			if !strings.Contains(p.errs.String(), tt.says) {
				t.Errorf("stderr: got %q, want %q", p.errs.String(), tt.says)
			}
		})
	}
}

func TestTheBinaryIsSmallAndStatic(t *testing.T) {
	info, err := os.Stat(shimBinary)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 5<<20 {
		t.Errorf("%d bytes, want at most 5 MiB", info.Size())
	}
	if runtime.GOOS != "linux" {
		return
	}
	f, err := elf.Open(shimBinary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	for _, prog := range f.Progs {
		if prog.Type == elf.PT_INTERP {
			t.Error("the binary needs a dynamic linker")
		}
	}
}
