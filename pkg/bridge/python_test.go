package bridge

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// A street opens a bench for each Python session, of which only the order of
// the opening tells them apart.
type street struct {
	run func(n int) func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error)

	mu     sync.Mutex // guards opened
	opened []*bench
}

func (s *street) open(context.Context, Hello, *Agent) (Workspace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &bench{status: sandbox.SessionStatus{State: sandbox.StateIdle}}
	if s.run != nil {
		b.run = s.run(len(s.opened))
	}
	s.opened = append(s.opened, b)
	return b, nil
}

// benches returns the workspaces opened so far.
func (s *street) benches() []*bench {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*bench(nil), s.opened...)
}

func TestNamedSessionsRunSideBySide(t *testing.T) {
	hold, begun := make(chan struct{}), make(chan string, 10)
	var mu sync.Mutex
	var ran []string
	s := &street{run: func(n int) func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
		return func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
			begun <- req.Code
			if req.Code == "slow" {
				<-hold
			}
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, fmt.Sprint(n, " ", req.Code))
			return sandbox.Result{Status: sandbox.StatusOK, Value: req.Code}, nil
		}
	}}
	srv, path := start(t, s.open, Options{})
	a := connect(t, path, Hello{})
	a.send(`{"jsonrpc":"2.0","id":0,"method":"tools/list"}`) // opens the default session
	a.reply()
	a.send(callLine(`1`, `{"code":"slow","session":"s1"}`))
	<-begun
	a.send(callLine(`2`, `{"code":"next","session":"s1"}`))
	a.send(callLine(`3`, `{"code":"other","session":"s2"}`))
	if r := a.reply(); string(r.ID) != "3" || r.call(t).Structured.Result != "other" {
		t.Errorf("got %s first, want the other session's call", r.ID)
	}
	info := srv.Sessions()[0]
	got := map[string]string{}
	for _, p := range info.Pythons {
		got[p.Name] = fmt.Sprint(p.Calls, " calls, ", p.Running, " running, ", p.Sandbox.State)
	}
	want := map[string]string{"": "0 calls, 0 running, idle", "s1": "2 calls, 2 running, idle", "s2": "1 calls, 0 running, idle"}
	if diff := cmp.Diff(want, got); diff != "" || info.Running != 2 || info.Calls != 3 {
		t.Errorf("%d running, %d calls, sessions (-want +got):\n%s", info.Running, info.Calls, diff)
	}
	close(hold)
	for range 2 {
		a.reply()
	}
	if diff := cmp.Diff([]string{"2 other", "1 slow", "1 next"}, ran); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// Requests are handled on goroutines of their own; a call takes its place by
// when it came, though.
func TestCallsRunInTheOrderInWhichTheyCame(t *testing.T) {
	const n = 200
	var mu sync.Mutex
	ran := map[string][]int{}
	s := &street{run: func(int) func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
		return func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
			name, number, _ := strings.Cut(strings.TrimSpace(req.Code), " ")
			i, err := strconv.Atoi(number)
			if err != nil {
				return sandbox.Result{}, err
			}
			mu.Lock()
			defer mu.Unlock()
			ran[name] = append(ran[name], i)
			return sandbox.Result{Status: sandbox.StatusOK}, nil
		}
	}}
	_, path := start(t, s.open, Options{})
	a := connect(t, path, Hello{})
	r := rand.New(rand.NewPCG(3, 4))
	for sent := 0; sent < n; {
		const burst = 20 // fits in the queue
		for range burst {
			// Big ones take longer to be understood; some calls fail before they run.
			name, size := fmt.Sprint("s", r.IntN(3)), r.IntN(2)*r.IntN(200_000)
			arguments := fmt.Sprintf(`{"code":"%s%s %d","session":%q}`, strings.Repeat(" ", size), name, sent, name)
			if r.IntN(5) == 0 {
				arguments = `{"no":"code"}`
			}
			a.send(callLine(strconv.Itoa(sent), arguments))
			sent++
		}
		for range burst {
			a.reply()
		}
	}
	total := 0
	for name, list := range ran {
		total += len(list)
		for i := 1; i < len(list); i++ {
			if list[i] < list[i-1] {
				t.Errorf("session %s ran call %d after call %d", name, list[i], list[i-1])
			}
		}
	}
	if total < n/2 {
		t.Errorf("%d calls ran, want most of %d", total, n)
	}
}

// awaitQuiet waits until no lane has anything to do: a call is answered a moment
// before it gives up its turn, and only a quiet session makes room for another.
func awaitQuiet(t *testing.T, srv *Server) {
	t.Helper()
	busy := func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		for ses := range srv.sessions {
			for _, p := range ses.pys.all() {
				if p.running.Load() > 0 || !p.lane.quiet() {
					return true
				}
			}
		}
		return false
	}
	for end := time.Now().Add(hang); busy(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("something goes on in a session")
		}
	}
}

func TestTheNumberOfSessionsIsBounded(t *testing.T) {
	s := &street{}
	srv, path := start(t, s.open, Options{MaxPythons: 3})
	a := connect(t, path, Hello{})
	call := func(arguments string) callResult {
		a.send(callLine(`1`, arguments))
		c := a.reply().call(t)
		awaitQuiet(t, srv)
		return c
	}
	call(`{"code":"1"}`)
	call(`{"code":"1","session":"a"}`)
	call(`{"code":"1","session":"b"}`)
	full := `nothing ran: there are 3 sessions, which is the limit (run.max_sessions): the default one, "a", "b". Use one of these, or end one with reset=true and no code`
	for range 5 {
		if c := call(`{"code":"1","session":"c"}`); !c.IsError || c.Content[0].Text != full {
			t.Fatalf("got %+v, want %s", c, full)
		}
	}
	if got := len(s.benches()); got != 3 {
		t.Errorf("%d workspaces were opened, want 3", got)
	}
	s.benches()[2].status = sandbox.SessionStatus{State: sandbox.StateNone, Lost: "b was idle"}
	if c := call(`{"code":"1","session":"c"}`); c.IsError {
		t.Fatalf("got %+v, want b to make room", c)
	}
	if n := s.benches()[2].closed.Load(); n != 1 {
		t.Errorf("b's workspace was closed %d times, want once", n)
	}
	s.benches()[0].status.State = sandbox.StateNone // the default one stays
	if c := call(`{"code":"1","session":"b"}`); !c.IsError {
		t.Errorf("got %+v, want no room", c)
	}
	s.benches()[1].status.State = sandbox.StateNone
	for _, want := range []string{"b was idle", ""} {
		if c := call(`{"code":"1","session":"b"}`); c.IsError || strings.Join(c.Structured.Notices, ";") != want {
			t.Errorf("got %+v, want it to work with notice %q", c.Structured, want)
		}
	}
	if n := len(srv.Sessions()[0].Pythons); n != 3 {
		t.Errorf("there are %d sessions, want 3", n)
	}
}

func TestResetIsForOneSession(t *testing.T) {
	s := &street{}
	_, path := start(t, s.open, Options{})
	a := connect(t, path, Hello{})
	for _, arguments := range []string{`{"code":"1"}`, `{"code":"1","session":"a"}`, `{"reset":true,"session":"a"}`, `{"code":"1","session":"b"}`} {
		a.send(callLine(`1`, arguments))
		if c := a.reply().call(t); c.IsError {
			t.Errorf("%s: got %+v", arguments, c)
		}
	}
	var got []int32
	for _, b := range s.benches() {
		got = append(got, b.resets.Load())
	}
	if diff := cmp.Diff([]int32{0, 1, 0}, got); diff != "" {
		t.Errorf("resets (-want +got):\n%s", diff)
	}
}

// TestConnectionsLeaveNothing plays random sequences of what agents can do, and
// looks whether anything outlives them: a goroutine that did would hang the
// bubble.
func TestConnectionsLeaveNothing(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playConnections(t, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func playConnections(t *testing.T, r *rand.Rand) {
	s := &street{run: func(int) func(context.Context, sandbox.Request, func(sandbox.Output)) (sandbox.Result, error) {
		return func(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
			return sleepFor(ctx, req.Code, output)
		}
	}}
	srv := NewServer(s.open, Options{YieldAfter: 5 * time.Second, MaxPythons: 3, MaxRequests: 8})
	ctx, shutDown := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	var agents []net.Conn
	for range 3 {
		ours, theirs := net.Pipe()
		serving.Go(func() { srv.serveConn(ctx, theirs) })
		serving.Go(func() { _, _ = io.Copy(io.Discard, ours) }) // until it is hung up
		_, _ = io.WriteString(ours, `{"bridged":1,"cwd":"/"}`+"\n")
		agents = append(agents, ours)
	}
	for i := range 60 {
		line := []string{
			callLine(strconv.Itoa(i), fmt.Sprintf(`{"code":"%ds","session":"s%d"}`, r.IntN(20), r.IntN(5))),
			callLine(strconv.Itoa(i), fmt.Sprintf(`{"code":"","session":"s%d","timeout":3}`, r.IntN(5))),
			callLine(strconv.Itoa(i), fmt.Sprintf(`{"reset":true,"session":"s%d"}`, r.IntN(5))),
			callLine(strconv.Itoa(i), `{"code":"boom"}`),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"tools/call","params":{"name":"run_python","arguments":{"code":"12s"},"_meta":{"progressToken":%d}}}`, i, i),
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, max(0, i-1-r.IntN(5))),
			`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":"u%d","method":"tools/call","params":{"name":"no_such_tool"}}`, i),
		}[r.IntN(8)]
		a := agents[r.IntN(len(agents))]
		if r.IntN(40) == 0 {
			_ = a.Close()
		}
		_, _ = io.WriteString(a, line+"\n") // it may be closed
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
	}
	if r.IntN(2) == 0 {
		shutDown()
	}
	for _, a := range agents {
		_ = a.Close()
	}
	serving.Wait()
	shutDown()
	for i, b := range s.benches() {
		if n := b.closed.Load(); n != 1 {
			t.Errorf("workspace %d of %d was closed %d times, want once", i, len(s.benches()), n)
		}
	}
	if n := len(srv.Sessions()); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// sleepFor is code that is a span of time.
func sleepFor(ctx context.Context, code string, output func(sandbox.Output)) (sandbox.Result, error) {
	span, err := time.ParseDuration(code)
	if code == "boom" {
		panic(code)
	}
	if err != nil {
		return sandbox.Result{Status: sandbox.StatusError}, nil
	}
	output(sandbox.Output{Stream: sandbox.Stdout, Text: "begun"})
	select {
	case <-time.After(span):
		return sandbox.Result{Status: sandbox.StatusOK}, nil
	case <-ctx.Done():
		return sandbox.Result{Status: sandbox.StatusInterrupted}, nil
	}
}

// Requests for things that do not exist must not pile up anything.
func TestRequestsForWhatDoesNotExistLeaveNothing(t *testing.T) {
	s := &street{}
	srv, path := start(t, s.open, Options{})
	a := connect(t, path, Hello{})
	ask := func(n int, line func(i int) string) {
		for i := range n {
			a.send(line(i))
			a.reply()
		}
	}
	names := func(i int) string {
		return callLine(strconv.Itoa(i), fmt.Sprintf(`{"code":"1","session":"%d"}`, i))
	}
	long := func(i int) string {
		return callLine(strconv.Itoa(i), fmt.Sprintf(`{"code":"1","session":"%01000d"}`, i))
	}
	tools := func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"tool%d","arguments":{}}}`, i, i)
	}
	cancels := func(i int) string {
		return fmt.Sprintf(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x%d"}},{"jsonrpc":"2.0","id":%d,"method":"ping"}]`, i, i)
	}
	all := func(n int) {
		for _, line := range []func(int) string{names, long, tools, cancels} {
			ask(n, line)
		}
		for range n / 10 {
			_ = dial(t, path).Close()
			c := dial(t, path)
			fmt.Fprintln(c, `{"bridged":1,"cwd":"/","session":"no such session"}`)
			_ = c.Close()
		}
	}
	all(200) // what is kept for good is there by now
	settle := func() (goroutines int, heap uint64) {
		for end := time.Now().Add(hang); len(srv.Sessions()) > 1 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	before, heap := settle()
	all(3000)
	after, grown := settle()
	for end := time.Now().Add(hang); (after > before || grown > heap+1<<20) && time.Now().Before(end); after, grown = settle() {
		time.Sleep(5 * time.Millisecond)
	}
	if after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	if grown > heap+1<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", heap, grown)
	}
	if n := len(srv.Sessions()[0].Pythons); n != 16 {
		t.Errorf("there are %d sessions, want 16", n)
	}
}
