package bridge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

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

func (s *street) open(context.Context, Hello) (Workspace, error) {
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

func TestTheNumberOfSessionsIsBounded(t *testing.T) {
	s := &street{}
	srv, path := start(t, s.open, Options{MaxPythons: 3})
	a := connect(t, path, Hello{})
	call := func(arguments string) callResult {
		a.send(callLine(`1`, arguments))
		return a.reply().call(t)
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
