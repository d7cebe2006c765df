package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/sandbox"
)

// books are a registry of which a test says what an earlier daemon has left.
type books struct {
	mu     sync.Mutex // guards the fields below
	known  map[string][]Remains
	late   []string // keys
	open   []string
	closed []string
}

func (s *books) Resume(id string) ([]Remains, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, ok := s.known[id]
	return names, ok
}

func (s *books) Open(id string, _ Hello) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, id)
}

func (s *books) Close(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = append(s.closed, id)
}

func (s *books) Outlive(_, python, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, "late"+python+" "+key)
}

func (s *books) Heard(_, python, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, "heard"+python+" "+key)
}

const earlier = "session-of-an-earlier-daemon"

// again is the hello of a shim whose earlier daemon owes answers to the requests
// with these ids, of the lines 5 and on of its first connection.
func again(ids ...string) Hello {
	h := Hello{Session: earlier, Link: 2}
	for i, id := range ids {
		h.Resent = append(h.Resent, Resent{ID: json.RawMessage(id), Link: 1, Line: int64(5 + i)})
	}
	return h
}

func ok(value string) (sandbox.Result, error) {
	return sandbox.Result{Status: sandbox.StatusOK, Value: value}, nil
}

func TestRequestsHaveNamesThatLast(t *testing.T) {
	keys := make(chan string, 10)
	b := &bench{run: func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		keys <- req.Key
		return ok("")
	}}
	_, path := start(t, b.open, Options{Registry: &books{known: map[string][]Remains{earlier: {{}}}}})
	a := connect(t, path, again(`7`, `"x"`))
	if a.welcome.Session != earlier || !a.welcome.Resumes {
		t.Fatalf("welcome: got %+v", a.welcome)
	}
	for _, id := range []string{`7`, `"x"`, `7`, `8`} { // 7 is used a second time
		a.send(callLine(id, `{"code":"1"}`))
		if c := a.reply().call(t); c.IsError || strings.Contains(c.Content[0].Text, "restarted") {
			t.Errorf("call %s: got %+v", id, c)
		}
	}
	var got []string
	for range 4 {
		got = append(got, <-keys)
	}
	if want := []string{"1.5", "1.6", "2.3", "2.4"}; !cmp.Equal(got, want) {
		t.Errorf("keys: got %q, want %q", got, want)
	}
	old := connect(t, path, Hello{}) // a shim that goes to no other daemon
	old.send(callLine(`1`, `{"code":"1"}`))
	old.reply()
	if got := <-keys; got != "" {
		t.Errorf("a call that nothing names: got key %q", got)
	}
}

func TestAResultIsKeptUntilTheAgentHasIt(t *testing.T) {
	b := &bench{acked: make(chan string, 10), run: func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		return ok(req.Code)
	}}
	_, path := start(t, b.open, Options{Registry: &books{}})
	a := connect(t, path, Hello{Link: 1})
	a.send(callLine(`1`, `{"code":"1"}`))
	if c := a.reply().call(t); c.Structured.Result != "1" {
		t.Errorf("got %+v", c)
	}
	if got := <-b.acked; got != "1.1" {
		t.Errorf("acknowledged: %q", got)
	}
}

func TestARunThatNobodyAsksForAgainIsCollected(t *testing.T) {
	over := make(chan struct{})
	b := &bench{acked: make(chan string, 10), left: []sandbox.Unfinished{{Key: "1.0", Done: true}, {Key: "1.1", Done: true}, {Key: "1.2"}}}
	b.resume = func(_ context.Context, key string) (sandbox.Result, error) {
		<-over
		return ok("of " + key)
	}
	kept := &books{known: map[string][]Remains{earlier: {{Late: []string{"1.1", "1.2"}}}}}
	_, path := start(t, b.open, Options{Registry: kept})
	a := connect(t, path, again())
	for _, want := range []string{"1.0", "1.1"} { // one was delivered, and nothing can tell of the other any more
		if got := <-b.acked; got != want {
			t.Errorf("acknowledged: %q, want %q", got, want)
		}
	}
	a.send(callLine(`1`, `{"code":"x"}`))
	if c := a.reply().call(t); !c.IsError || !strings.Contains(c.Content[0].Text, "run 1 still goes on") {
		t.Errorf("a call beside the run: got %+v", c)
	}
	a.send(callLine(`2`, `{"code":""}`))
	close(over)
	c := a.reply().call(t)
	if c.Structured.Result != "of 1.2" || !strings.Contains(fmt.Sprint(c.Content), lostEarlier) {
		t.Errorf("got %+v", c)
	}
	if got := <-b.acked; got != "1.2" {
		t.Errorf("acknowledged: %q", got)
	}
	a.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	a.reply()
	for end := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		kept.mu.Lock()
		got := slices.Clone(kept.late)
		kept.mu.Unlock()
		if cmp.Equal(got, []string{"late 1.2", "heard 1.2"}) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("noted: %q", got)
		}
	}
}

func TestACallIsNotMadeAgainWhereItMayHaveRun(t *testing.T) {
	for _, tt := range []struct {
		name  string
		known map[string][]Remains
		state sandbox.SessionStatus
		run   error
		says  string
		runs  bool
	}{
		{"the session is unknown", nil, sandbox.SessionStatus{State: sandbox.StateNone}, nil, "is gone. The call's outcome is unknown", false},
		{"its sandbox is gone", map[string][]Remains{earlier: {{}}}, sandbox.SessionStatus{State: sandbox.StateNone, Lost: "Its container is gone."}, nil,
			"so it was not run again. Its container is gone. Check", false},
		{"it had none", map[string][]Remains{earlier: {}}, sandbox.SessionStatus{State: sandbox.StateNone}, nil, "", true},
		{"its result is lost", map[string][]Remains{earlier: {{}}}, sandbox.SessionStatus{State: sandbox.StateIdle}, sandbox.ErrRanBefore, "its result was lost", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ran := make(chan string, 10)
			b := &bench{status: tt.state, run: func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
				ran <- req.Key
				return sandbox.Result{Status: sandbox.StatusOK, Value: "ran"}, tt.run
			}}
			_, path := start(t, b.open, Options{Registry: &books{known: tt.known}})
			a := connect(t, path, again(`1`, `2`))
			a.send(callLine(`1`, `{"code":"x"}`))
			c := a.reply().call(t)
			if tt.says == "" && (c.IsError || c.Structured.Result != "ran") || tt.says != "" && (!c.IsError || !strings.Contains(c.Content[0].Text, tt.says)) {
				t.Errorf("got %+v, want %q", c, tt.says)
			}
			a.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
			if r := a.reply(); r.Error != nil {
				t.Errorf("tools/list: %+v", r.Error)
			}
			if got := len(ran) > 0; got != tt.runs {
				t.Errorf("it was run: %v, want %v", got, tt.runs)
			}
			if tt.runs {
				return
			}
			a.send(callLine(`3`, `{"code":"x"}`)) // one that no other daemon had
			if c := a.reply().call(t); c.IsError {
				t.Errorf("a new call: got %+v", c)
			}
		})
	}
}

func TestASandboxIsResetOnceForACall(t *testing.T) {
	for _, tt := range []struct {
		left string
		want int32
	}{{"1.4", 1}, {"1.5", 0}, {"1.6", 0}} {
		b := &bench{left: []sandbox.Unfinished{{Key: tt.left}}, resume: func(context.Context, string) (sandbox.Result, error) { return ok("") }}
		_, path := start(t, b.open, Options{Registry: &books{known: map[string][]Remains{earlier: {{}}}}})
		a := connect(t, path, again(`1`, `2`))
		a.send(callLine(`1`, `{"code":"x","reset":true}`))
		a.reply()
		if got := b.resets.Load(); got != tt.want {
			t.Errorf("with run %s of the earlier daemon: %d resets, want %d", tt.left, got, tt.want)
		}
	}
}

// leaveServer serves one connection until its context's cause ends it.
func leaveServer(t *testing.T, b *bench, r Registry) (srv *Server, a *agent, end context.CancelCauseFunc, done chan struct{}) {
	t.Helper()
	path := t.TempDir() + "/s"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(context.Background())
	srv, done = NewServer(b.open, Options{Registry: r}), make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ctx, ln); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() { end(nil); <-done })
	return srv, connect(t, path, Hello{Link: 1}), end, done
}

// toEnd returns all that comes until the daemon hangs up.
func toEnd(t *testing.T, r *bufio.Reader) []string {
	t.Helper()
	var lines []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return lines
		}
		lines = append(lines, line)
	}
}

func TestWhatIsLeftToAnotherDaemonIsNotAnswered(t *testing.T) {
	started, leave := make(chan struct{}, 2), make(chan struct{})
	b := &bench{run: func(_ context.Context, req sandbox.Request, _ func(sandbox.Output)) (sandbox.Result, error) {
		started <- struct{}{}
		<-leave
		if req.Code == "ends" {
			return ok("")
		}
		return sandbox.Result{}, sandbox.ErrLeft
	}}
	kept := &books{}
	_, a, end, done := leaveServer(t, b, kept)
	a.send(callLine(`1`, `{"code":"x"}`))
	a.send(callLine(`2`, `{"code":"y"}`))
	<-started
	close(leave)
	<-started // the second has its turn, and is left too
	end(ErrLeave)
	if got := toEnd(t, a.r); got != nil {
		t.Errorf("the shim was told %q", got)
	}
	<-done
	if id := a.welcome.Session; !slices.Equal(kept.open, []string{id}) || kept.closed != nil {
		t.Errorf("open %q, closed %q; want %s to be kept", kept.open, kept.closed, id)
	}
}

func TestTheEndIsToldToShims(t *testing.T) {
	kept := &books{}
	_, a, end, done := leaveServer(t, &bench{}, kept)
	end(nil)
	if got := toEnd(t, a.r); !cmp.Equal(got, []string{string(endNotice)}) {
		t.Errorf("the shim was told %q", got)
	}
	<-done
	if id := a.welcome.Session; !slices.Equal(kept.closed, []string{id}) {
		t.Errorf("closed %q, want %s", kept.closed, id)
	}
}
