package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// hang bounds waits for what should happen at once.
const hang = time.Minute

// A bench is a workspace of which a test says what running means.
type bench struct {
	run     func(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error)
	load    func(names []string) error
	servers []string
	left    []sandbox.Unfinished // by an earlier daemon
	resume  func(ctx context.Context, key string) (sandbox.Result, error)
	acked   chan string
	status  sandbox.SessionStatus
	resets  atomic.Int32
	closed  atomic.Int32
	agent   atomic.Pointer[Agent] // of the session that was opened last

	mu       sync.Mutex // guards the fields below
	files    []sandbox.File
	contents map[string]string // by name
	changed  func()
}

func (b *bench) Run(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
	if b.run == nil {
		return sandbox.Result{Status: sandbox.StatusOK, Value: req.Code}, nil
	}
	return b.run(ctx, req, output)
}

func (b *bench) Unfinished() []sandbox.Unfinished { return b.left }

func (b *bench) Resume(ctx context.Context, key string, _ func(sandbox.Output)) (sandbox.Result, error) {
	return b.resume(ctx, key)
}

func (b *bench) Ack(key string) {
	if b.acked != nil {
		b.acked <- key
	}
}

func (b *bench) Load(_ context.Context, names []string) error {
	if b.load == nil {
		return nil
	}
	return b.load(names)
}

func (b *bench) Reset(context.Context) error {
	b.resets.Add(1)
	return nil
}

func (b *bench) Status() sandbox.SessionStatus { return b.status }

func (b *bench) Files() []sandbox.File {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.files)
}

func (b *bench) CopyFile(_ context.Context, w io.Writer, uri string, most int64) (sandbox.File, error) {
	for _, f := range b.Files() {
		if f.URI != uri {
			continue
		}
		if f.Size > most {
			return f, sandbox.ErrFileSize
		}
		_, err := io.WriteString(w, b.contents[f.Name])
		return f, err
	}
	return sandbox.File{}, sandbox.ErrNoFile
}

func (b *bench) Watch(changed func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed = changed
}

// publish is what code in the bench does.
func (b *bench) publish(f sandbox.File, content string) {
	b.mu.Lock()
	b.files = append(b.files, f)
	b.contents[f.Name] = content
	changed := b.changed
	b.mu.Unlock()
	changed()
}

func (b *bench) Servers() []string { return b.servers }
func (b *bench) Waiting() []string { return nil }

func (b *bench) Close() { b.closed.Add(1) }

func (b *bench) open(_ context.Context, _ Hello, agent *Agent) (Workspace, error) {
	b.agent.Store(agent)
	return b, nil
}

// untilCancelled runs until the caller gives up.
func untilCancelled(started chan<- struct{}) func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
	return func(ctx context.Context, _ sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		started <- struct{}{}
		<-ctx.Done()
		return sandbox.Result{Status: sandbox.StatusInterrupted}, nil
	}
}

// start serves on a socket of its own until the test ends, and checks that
// nothing is left behind then.
func start(t testing.TB, open Opener, opts Options) (*Server, string) {
	t.Helper()
	before := runtime.NumGoroutine()
	path := filepath.Join(t.TempDir(), "d", "mcp.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	opts.Version = "test"
	srv := NewServer(open, opts)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("Serve: got %v, want nil", err)
			}
		case <-time.After(hang):
			t.Error("Serve did not return after its context ended")
		}
		checkGoroutines(t, before)
	})
	return srv, path
}

func checkGoroutines(t testing.TB, before int) {
	t.Helper()
	for deadline := time.Now().Add(hang); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// An agent is a shim's end of a connection, spoken to in lines.
type agent struct {
	t       testing.TB
	conn    *net.UnixConn
	r       *bufio.Reader
	welcome welcome
}

func dial(t testing.TB, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func connect(t testing.TB, path string, h Hello) *agent {
	t.Helper()
	conn := dial(t, path)
	a := &agent{t: t, conn: conn, r: bufio.NewReader(conn)}
	t.Cleanup(func() { _ = conn.Close() })
	h.Wire, h.CWD, h.PID = WireVersion, "/work", 42
	line, err := encodeLine(h)
	if err != nil {
		t.Fatal(err)
	}
	a.send(strings.TrimSuffix(string(line), "\n"))
	if err := json.Unmarshal([]byte(a.recv()), &a.welcome); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *agent) send(line string) {
	a.t.Helper()
	if _, err := a.conn.Write([]byte(line + "\n")); err != nil {
		a.t.Fatalf("sending %.100s: %v", line, err)
	}
}

func (a *agent) recv() string {
	a.t.Helper()
	_ = a.conn.SetReadDeadline(time.Now().Add(hang))
	line, err := a.r.ReadString('\n')
	if err != nil {
		a.t.Fatalf("reading: %v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

// reply is an answer, its id as it came.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *wireError      `json:"error"`
}

func (a *agent) reply() reply {
	a.t.Helper()
	var r reply
	if line := a.recv(); json.Unmarshal([]byte(line), &r) != nil {
		a.t.Fatalf("no JSON: %s", line)
	}
	return r
}

// callResult is a tool's result.
type callResult struct {
	Content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		MIMEType string `json:"mimeType"`
	} `json:"content"`
	Structured *structured `json:"structuredContent"`
	IsError    bool        `json:"isError"`
}

func (r reply) call(t *testing.T) callResult {
	t.Helper()
	var c callResult
	if r.Error != nil || json.Unmarshal(r.Result, &c) != nil {
		t.Fatalf("no tool result: %s %+v", r.Result, r.Error)
	}
	return c
}

func callLine(id, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"run_python","arguments":%s}}`, id, arguments)
}

func TestIDsAreEchoedByteForByte(t *testing.T) {
	hold := make(chan struct{})
	b := &bench{run: func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
		<-hold
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	}}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":"init-abc","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if r := a.reply(); string(r.ID) != `"init-abc"` || r.Error != nil {
		t.Errorf("initialize: got id %s and error %v", r.ID, r.Error)
	}
	ids := []string{`0`, `-1`, `9007199254740993`, `""`, `"7"`, `7`, `"日本"`, `1.5`, `1e3`, `"\u0041\/"`}
	for _, id := range ids {
		a.send(callLine(id, `{"code":"x"}`))
	}
	// An unknown method's error comes while the calls are open.
	a.send(`{"jsonrpc":"2.0","id":18446744073709551615,"method":"no/such"}`)
	if r := a.reply(); string(r.ID) != `18446744073709551615` || r.Error == nil {
		t.Errorf("unknown method: got id %s and error %v", r.ID, r.Error)
	}
	close(hold)
	want := map[string]bool{}
	got := map[string]bool{}
	for _, id := range ids {
		want[id] = true
		got[string(a.reply().ID)] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func TestSloppyLinesAreAnsweredPrecisely(t *testing.T) {
	_, path := start(t, (&bench{}).open, Options{MaxMessage: 4096})
	a := connect(t, path, Hello{})
	for _, tt := range []struct {
		name, line string
		id         string
		code       int
		says       string
	}{
		{"no JSON", `hello`, `null`, codeParse, "not valid JSON"},
		{"half a message", `{"jsonrpc":"2.0","id":5,"method":"pi`, `5`, codeParse, "not valid JSON"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"u\",\"method\":\"tools/call\",\"params\":{\"x\":\"\xff\"}}", `"u"`, codeParse, "UTF-8 at byte 63"},
		{"a number", `17`, `null`, codeInvalidRequest, "JSON object"},
		{"null", `null`, `null`, codeInvalidRequest, "JSON object"},
		{"no version", `{"id":1,"method":"ping"}`, `1`, codeInvalidRequest, `"jsonrpc"`},
		{"an old version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, `1`, codeInvalidRequest, `"jsonrpc"`},
		{"no method", `{"jsonrpc":"2.0","id":2}`, `2`, codeInvalidRequest, `"method" is missing`},
		{"a method that is a number", `{"jsonrpc":"2.0","id":2,"method":3}`, `2`, codeInvalidRequest, `"method" must be`},
		{"a null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `null`, codeInvalidRequest, `"id" must be`},
		{"an id that is a list", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, `null`, codeInvalidRequest, `"id" must be`},
		{"params that are a list", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[1]}`, `3`, codeInvalidRequest, `"params" must be an object`},
		{"an empty batch", `[]`, `null`, codeInvalidRequest, "a batch"},
		{"too long, id first", `{"jsonrpc":"2.0","id":"big","method":"x","params":{"id":9,"p":"` + strings.Repeat("x", 9000) + `"}}`, `"big"`, codeInvalidRequest, "the limit is 4096"},
		{"too long, id last", `{"method":"x","params":{"id":9,"p":"\"},` + strings.Repeat("x", 99000) + `"},"jsonrpc":"2.0","id":77}`, `77`, codeInvalidRequest, "the limit is 4096"},
		{"too long, no id", strings.Repeat("x", 99000), `null`, codeInvalidRequest, "has 99001 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a.t = t
			a.send(tt.line)
			r := a.reply()
			if r.Error == nil {
				t.Fatalf("got the result %s, want an error", r.Result)
			}
			if string(r.ID) != tt.id || r.Error.Code != tt.code || !strings.Contains(r.Error.Message, tt.says) {
				t.Errorf("got id %s, %+v; want id %s, %d, %q", r.ID, *r.Error, tt.id, tt.code, tt.says)
			}
		})
	}
	a.t = t
	// The connection lives: blank lines, \r\n, a byte of white space and a batch.
	a.send("\r\n\n  \n\t\r")
	a.send(`  {"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r")
	a.send(`[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":3,"method":"ping"}]`)
	for _, id := range []string{"1", "2", "3"} {
		if r := a.reply(); string(r.ID) != id || r.Error != nil {
			t.Errorf("ping: got id %s and %v, want %s", r.ID, r.Error, id)
		}
	}
	// Half a line, then the end.
	if _, err := a.conn.Write([]byte(`{"jsonrpc":"2.0","id":6,"meth`)); err != nil {
		t.Fatal(err)
	}
	if err := a.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if r := a.reply(); string(r.ID) != "6" || r.Error == nil {
		t.Errorf("half a line: got %+v", r)
	}
}

func TestVersionsAreNegotiated(t *testing.T) {
	_, path := start(t, (&bench{}).open, Options{})
	for _, tt := range []struct{ name, params, want string }{
		{"2024-11-05", `{"protocolVersion":"2024-11-05"}`, "2024-11-05"},
		{"2025-03-26", `{"protocolVersion":"2025-03-26"}`, "2025-03-26"},
		{"2025-06-18", `{"protocolVersion":"2025-06-18"}`, "2025-06-18"},
		{"2025-11-25", `{"protocolVersion":"2025-11-25"}`, "2025-11-25"},
		{"one from the future", `{"protocolVersion":"2099-01-01"}`, "2025-11-25"},
		{"an empty one", `{"protocolVersion":""}`, "2025-11-25"},
		{"one that is a number", `{"protocolVersion":5}`, "2025-11-25"},
		{"none", `{}`, "2025-11-25"},
		{"no params", `null`, "2025-11-25"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := connect(t, path, Hello{})
			a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + tt.params + `}`)
			r := a.reply()
			var got struct {
				ProtocolVersion string `json:"protocolVersion"`
			}
			if r.Error != nil || json.Unmarshal(r.Result, &got) != nil || got.ProtocolVersion != tt.want {
				t.Errorf("got %s, error %v; want %s", r.Result, r.Error, tt.want)
			}
		})
	}
}

func TestCancelledRequestsAreInterruptedAndNotAnswered(t *testing.T) {
	started := make(chan struct{}, 1)
	_, path := start(t, (&bench{run: untilCancelled(started)}).open, Options{})
	a := connect(t, path, Hello{})
	a.send(callLine(`9007199254740993`, `{"code":"while True: pass"}`))
	<-started
	for _, id := range []string{`9007199254740992`, `"9007199254740993"`, `[1]`} { // others
		a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	a.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if r := a.reply(); string(r.ID) != "1" {
		t.Fatalf("got %s before the ping's answer", r.ID)
	}
	a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`)
	// The id is free again once the request has ended, and its answer never came.
	for {
		a.send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"resources/list"}`)
		r := a.reply()
		if r.Error == nil {
			break
		}
		if !strings.Contains(r.Error.Message, "not answered yet") {
			t.Fatalf("got %+v", *r.Error)
		}
	}
}

func TestAnIDInUseIsRefused(t *testing.T) {
	started := make(chan struct{}, 1)
	_, path := start(t, (&bench{run: untilCancelled(started)}).open, Options{})
	a := connect(t, path, Hello{})
	a.send(callLine(`"a"`, `{"code":"x"}`))
	<-started
	a.send(`{"jsonrpc":"2.0","id":"\u0061","method":"tools/list"}`)
	if r := a.reply(); r.Error == nil || r.Error.Code != codeInvalidRequest {
		t.Errorf("got %+v, want an invalid request", r)
	}
}

func TestTooManyRequestsAtOnceAreBusy(t *testing.T) {
	started := make(chan struct{}, 1)
	_, path := start(t, (&bench{run: untilCancelled(started)}).open, Options{MaxRequests: 2})
	a := connect(t, path, Hello{})
	a.send(callLine(`1`, `{"code":"x"}`))
	a.send(callLine(`2`, `{"code":"x"}`)) // waits for its turn
	<-started
	a.send(callLine(`3`, `{"code":"x"}`))
	if r := a.reply(); string(r.ID) != "3" || r.Error == nil || r.Error.Code != codeBusy || !strings.HasPrefix(r.Error.Message, "busy: 2 requests") {
		t.Errorf("got %s %+v, want busy", r.ID, r.Error)
	}
	a.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	if r := a.reply(); string(r.ID) != "4" || r.Error != nil {
		t.Errorf("ping while busy: got %+v", r)
	}
}

func TestAHangUpCancelsAndReleasesTheSession(t *testing.T) {
	started := make(chan struct{}, 1)
	causes := make(chan error, 1)
	b := &bench{run: func(ctx context.Context, _ sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		started <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return sandbox.Result{}, ctx.Err()
	}}
	srv, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.send(callLine(`1`, `{"code":"x"}`))
	<-started
	if n := srv.Sessions()[0].Running; n != 1 {
		t.Errorf("running: got %d, want 1", n)
	}
	_ = a.conn.Close()
	if err := <-causes; !errors.Is(err, errClientGone) {
		t.Errorf("cause: got %v, want %v", err, errClientGone)
	}
	for deadline := time.Now().Add(hang); len(srv.Sessions()) > 0 || b.closed.Load() == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions left, workspace closed %d times", len(srv.Sessions()), b.closed.Load())
		}
		time.Sleep(time.Millisecond)
	}
	if n := b.closed.Load(); n != 1 {
		t.Errorf("the workspace was closed %d times", n)
	}
}

// A halfConn is the daemon's end of a connection that the agent can close one way.
type halfConn struct {
	net.Conn          // is written to
	in       net.Conn // is read from
}

func (c halfConn) Read(p []byte) (int, error)        { return c.in.Read(p) }
func (c halfConn) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }
func (c halfConn) Close() error                      { return errors.Join(c.in.Close(), c.Conn.Close()) }

// In a bubble, since a daemon gives requests under way only a moment then.
func TestRequestsAreAnsweredAfterAHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{run: func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
			time.Sleep(drainGrace / 2)
			return ok(req.Code)
		}}
		client, server := net.Pipe()
		asks, asked := net.Pipe()
		served := make(chan struct{})
		srv := NewServer(b.open, Options{})
		go func() { defer close(served); srv.serveConn(context.Background(), halfConn{server, asked}) }()
		answers := bufio.NewReader(client)
		for _, line := range []string{`{"bridged":1,"cwd":"/"}`, callLine(`1`, `{"code":"1+1"}`)} {
			if _, err := io.WriteString(asks, line+"\n"); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, "bridged") {
				if _, err := answers.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = asks.Close()
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var r reply
		if err := json.Unmarshal([]byte(answer), &r); err != nil {
			t.Fatal(err)
		}
		if c := r.call(t); c.Structured.Result != "1+1" {
			t.Errorf("got %+v", c)
		}
		<-served
	})
}

func TestAShutdownTellsTheAgent(t *testing.T) {
	started := make(chan struct{}, 1)
	b := &bench{run: func(ctx context.Context, _ sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		started <- struct{}{}
		<-ctx.Done()
		return sandbox.Result{}, ctx.Err()
	}}
	client, server := net.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	srv := NewServer(b.open, Options{})
	go func() { defer close(done); srv.serveConn(ctx, server) }()
	r := bufio.NewReader(client)
	write := func(s string) { _, _ = client.Write([]byte(s + "\n")) }
	write(`{"bridged":1,"cwd":"/","link":1}`)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	write(callLine(`1`, `{"code":"x"}`))
	<-started
	cancel(errShutdown)
	line, err := r.ReadString('\n')
	if err != nil || !strings.Contains(line, "nothing ran: the daemon is shutting down") {
		t.Errorf("got %q, %v", line, err)
	}
	if line, err := r.ReadString('\n'); err != nil || line != string(endNotice) {
		t.Errorf("got %q, %v, want the end notice", line, err)
	}
	<-done
}

// A slowContext ends what hangs on it one after the other, in the order in which
// that was hung on, each after all that comes of the one before.
type slowContext struct {
	context.Context
	done chan struct{}

	mu    sync.Mutex // guards the fields below
	err   error
	after []func()
}

func (c *slowContext) Done() <-chan struct{} { return c.done }

func (c *slowContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// AfterFunc is what package context looks for.
func (c *slowContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.after)
	c.after = append(c.after, f)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		waits := c.after[i] != nil
		c.after[i] = nil
		return waits
	}
}

func (c *slowContext) end(cause error) {
	c.mu.Lock()
	c.err = cause
	after := slices.Clone(c.after)
	clear(c.after)
	c.mu.Unlock()
	close(c.done)
	for _, f := range after {
		if f != nil {
			f()
		}
		synctest.Wait()
	}
}

// A session's context ends with the daemon's, but not at the same moment.
func TestASessionKnowsThatTheDaemonEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		ctx := &slowContext{Context: context.Background(), done: make(chan struct{})}
		served := make(chan struct{})
		srv := NewServer((&bench{}).open, Options{})
		go func() { defer close(served); srv.serveConn(ctx, server) }()
		r := bufio.NewReader(client)
		if _, err := io.WriteString(client, `{"bridged":1,"cwd":"/","link":1}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		go ctx.end(errShutdown)
		if got := toEnd(t, r); !cmp.Equal(got, []string{string(endNotice)}) {
			t.Errorf("the shim was told %q, want the end notice", got)
		}
		<-served
	})
}

func TestAClientThatReadsNothingBlocksNoCode(t *testing.T) {
	finished := make(chan struct{})
	b := &bench{run: func(_ context.Context, _ sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
		for range 20000 {
			output(sandbox.Output{Stream: 1, Text: strings.Repeat("x", 1000) + "\n"})
		}
		close(finished)
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	}}
	_, path := start(t, b.open, Options{})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","_meta":{"progressToken":1},"arguments":{"code":"x"}}}`)
	select {
	case <-finished:
	case <-time.After(hang):
		t.Fatal("the code waited for its client")
	}
}

func TestAStuckClientIsHungUpOn(t *testing.T) {
	client, server := net.Pipe() // nothing is buffered, and nothing is read
	defer client.Close()         //nolint:errcheck // the test is over
	w := newWriter(server, 20*time.Millisecond, 1000)
	defer w.close(0)
	var wg sync.WaitGroup
	for range 8 { // more than the queue holds: some wait for room
		wg.Go(func() { _ = w.send([]byte(strings.Repeat("x", 400) + "\n")) })
	}
	wg.Wait()
	<-w.done
	if err := w.send([]byte("y\n")); !errors.Is(err, errWriterClosed) {
		t.Errorf("send after the hang-up: got %v, want %v", err, errWriterClosed)
	}
}

func TestABadHelloIsRefusedWithAReason(t *testing.T) {
	_, path := start(t, (&bench{}).open, Options{})
	big := strings.Repeat("x", MaxEnv)
	for _, tt := range []struct{ name, line, says string }{
		{"MCP without a shim", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, "version 0 of the wire"},
		{"no JSON", `GET / HTTP/1.1`, "must be a hello"},
		{"another wire", `{"bridged":2,"cwd":"/"}`, "version 2 of the wire and this daemon 1"},
		{"a relative folder", `{"bridged":1,"cwd":"x"}`, "not absolute"},
		{"too big an environment", `{"bridged":1,"cwd":"/","env":{"A":"` + big + `"}}`, "more than 1048576"},
		{"too long a line", `{"bridged":1,"cwd":"/","x":"` + big + big + `"}`, "more than 2097152"},
		{"not UTF-8", "{\"bridged\":1,\"cwd\":\"/\xff\"}", "not UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, path)
			defer conn.Close() //nolint:errcheck // the test is over
			a := &agent{t: t, conn: conn, r: bufio.NewReader(conn)}
			a.send(tt.line)
			var w welcome
			if err := json.Unmarshal([]byte(a.recv()), &w); err != nil || !strings.Contains(w.Error, tt.says) {
				t.Errorf("got %+v, %v; want an error with %q", w, err, tt.says)
			}
		})
	}
}

func TestSessionsAreListedAndLimited(t *testing.T) {
	srv, path := start(t, (&bench{}).open, Options{MaxSessions: 1})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"cli","version":"3"}}}`)
	a.recv()
	a.send(callLine(`2`, `{"code":"x"}`))
	a.recv()
	got := srv.Sessions()
	if len(got) != 1 || got[0].Since.IsZero() {
		t.Fatalf("got %+v", got)
	}
	got[0].Since = time.Time{}
	got[0].Running = 0   // the call may be ending
	got[0].Pythons = nil // TestNamedSessionsRunSideBySide looks at them
	want := SessionInfo{ID: a.welcome.Session, ClientName: "cli", ClientVersion: "3", PID: 42, CWD: "/work", Calls: 1}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	if b := connect(t, path, Hello{}); !strings.Contains(b.welcome.Error, "1 sessions are open") {
		t.Errorf("second session: got %+v", b.welcome)
	}
}

func TestAWorkspaceThatCannotOpenIsAskedAgain(t *testing.T) {
	var tries atomic.Int32
	b := &bench{}
	open := func(context.Context, Hello, *Agent) (Workspace, error) {
		if tries.Add(1) <= 2 {
			return nil, errors.New("no engine is reachable; start podman.socket")
		}
		return b, nil
	}
	_, path := start(t, open, Options{})
	a := connect(t, path, Hello{})
	for {
		a.send(callLine(`1`, `{"code":"x"}`))
		c := a.reply().call(t)
		if !c.IsError {
			break
		}
		if c.Structured.Status != statusNotRun || !strings.Contains(c.Content[0].Text, "start podman.socket") {
			t.Fatalf("got %+v", c)
		}
	}
	if n := tries.Load(); n != 3 {
		t.Errorf("opened %d times, want 3", n)
	}
}

func TestALostSessionIsToldOnce(t *testing.T) {
	_, path := start(t, (&bench{}).open, Options{})
	a := connect(t, path, Hello{Session: "gone"})
	for i, want := range []int{1, 0} {
		a.send(callLine(`1`, `{"code":"x"}`))
		c := a.reply().call(t)
		if len(c.Structured.Notices) != want {
			t.Errorf("call %d: got %q, want %d notices", i, c.Structured.Notices, want)
		}
	}
}

func TestSubscriptionsKeepTheirID(t *testing.T) {
	_, path := start(t, (&bench{}).open, Options{})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	for _, part := range []string{"params", "result"} {
		line := a.recv()
		if !strings.Contains(line, part) || !strings.Contains(line, `"io.modelcontextprotocol/subscriptionId":9007199254740993`) {
			t.Errorf("%s: got %s", part, line)
		}
	}
}
