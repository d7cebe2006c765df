package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/discovery"
)

func ptr[T any](v T) *T { return &v }

func TestLaterSettingsAreStronger(t *testing.T) {
	p := newProxy(t, Options{Settings: []Setting{
		{Max: 1, Concurrency: 2, Idle: time.Hour, RetryReads: []string{"*"}},
		{Name: "git*", Eager: ptr(true), Stateful: ptr(true), Idle: Never, CallTimeout: time.Second},
		{Name: "github", Stateful: ptr(false), Max: 4, RetryReads: []string{}},
		{Name: "[", Max: 99},
	}})
	for _, row := range []struct {
		name string
		want Setting
	}{
		{"other", Setting{Max: 1, Concurrency: 2, Idle: time.Hour, RetryReads: []string{"*"}}},
		{"git", Setting{
			Eager: ptr(true), Stateful: ptr(true), Max: 1, Concurrency: 2, CallTimeout: time.Second, Idle: Never, RetryReads: []string{"*"},
		}},
		{"github", Setting{
			Eager: ptr(true), Stateful: ptr(false), Max: 4, Concurrency: 2, CallTimeout: time.Second, Idle: Never, RetryReads: []string{},
		}},
	} {
		row.want.Name = row.name
		if diff := cmp.Diff(row.want, p.setting(discovery.Server{Name: row.name})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestWhichServersAreASessionsOwn(t *testing.T) {
	for _, row := range []struct {
		name    string
		root    string
		setting Setting
		want    int // processes for two sessions
	}{
		{"a person's server is shared", "", Setting{}, 1},
		{"a project's is not", "/", Setting{}, 2},
		{"a project's that keeps nothing is", "/", Setting{Stateful: ptr(false)}, 1},
		{"one that keeps state is not", "", Setting{Stateful: ptr(true)}, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := quick()
			o.Settings = []Setting{row.setting}
			b := newBench(t)
			p := newProxy(t, o)
			server := b.server("fake", fakeConfig{})
			server.Root = row.root
			first, second := open(t, p, server), open(t, p, server)
			must(t, first, "echo", args{})
			must(t, second, "echo", args{})
			must(t, first, "echo", args{})
			if n := len(b.processes()); n != row.want {
				t.Errorf("%d processes, want %d", n, row.want)
			}
			first.Close()
			if want := max(1, row.want-1); !b.settles(want) {
				t.Errorf("after the first session: %v, want %d", b.processes(), want)
			}
			must(t, second, "echo", args{})
			second.Close()
			if want := 2 - row.want; !b.settles(want) {
				t.Errorf("after both sessions: %v, want %d", b.processes(), want)
			}
		})
	}
}

func TestPrivateServerEndsAfterItsCallsHave(t *testing.T) {
	o := quick()
	o.eofGrace = time.Minute // it reads what it is told first
	o.Settings = []Setting{{Stateful: ptr(true)}}
	b, s := one(t, o, fakeConfig{Log: "log"})
	must(t, s, "echo", args{})
	done := make(chan error, 1)
	go func() {
		_, err := call(t, s, "fake", "hang", args{})
		done <- err
	}()
	eventually(t, "the server has the call", func() bool { return containsText(b.lines("log"), `"name":"hang"`) })
	s.Close()
	if err := next(t, done); !errors.Is(err, ErrClosed) {
		t.Errorf("the call: got %v, want %v", err, ErrClosed)
	}
	if !b.settles(0) {
		t.Errorf("processes: %v", b.processes())
	}
	if log := b.lines("log"); len(log) == 0 || !containsText(log, "notifications/cancelled") {
		t.Errorf("it was not told of the end of the call: %q", log)
	}
	if st := s.proxy.Status(); len(st) != 0 {
		t.Errorf("status: %+v", st)
	}
}

func TestPrivateServerThatIsStartingEndsWithItsSession(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Stateful: ptr(true)}}
	b, s := one(t, o, fakeConfig{NoInit: true})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "echo"})
		done <- err
	}()
	eventually(t, "it is starting", func() bool { return len(b.processes()) == 1 })
	cancel()
	if err := next(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	s.Close()
	if !b.settles(0) {
		t.Errorf("it lives on: %v", b.processes())
	}
}

func TestNoMoreThanMaxOfOneDefinitionRun(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Max: 2}, {Name: "fake"}}
	b := newBench(t)
	p := newProxy(t, o)
	server, other := b.server("fake", fakeConfig{}), b.server("other", fakeConfig{Version: "2"})
	server.Root = "/"
	var sessions []*Session
	for range 4 {
		s := open(t, p, server, other)
		sessions = append(sessions, s)
		must(t, s, "echo", args{})
		if n := len(b.processes()); n > 2 {
			t.Errorf("%d processes, and 2 are the limit", n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, s := range sessions[:2] {
		wg.Go(func() {
			if _, err := askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "hang"}); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		eventually(t, "the call is under way", func() bool { return pendingOf(s) > 0 })
	}
	eventually(t, "both are in use", func() bool { return pendingOf(sessions[0]) == 2 })
	_, err := call(t, sessions[2], "fake", "echo", args{})
	wantCode(t, err, CodeBusy, "2 of it are running and in use", "max in [[server]]")
	if _, err := call(t, sessions[2], "other", "echo", args{}); err != nil {
		t.Errorf("another server: %v", err)
	}
	cancel()
	wg.Wait()
	eventually(t, "there is room again", func() bool {
		_, err := call(t, sessions[2], "fake", "echo", args{})
		return err == nil
	})
}

func TestServerThatKeepsStateIsStoppedByNothingButTheEndOfItsSession(t *testing.T) {
	o := quick()
	o.IdleTimeout, o.MaxServers = 50*time.Millisecond, 1
	o.Settings = []Setting{{Name: "fake", Stateful: ptr(true)}}
	b := newBench(t)
	p := newProxy(t, o)
	s := open(t, p, b.server("fake", fakeConfig{Starts: b.path("starts")}), b.server("other", fakeConfig{Version: "2"}))
	must(t, s, "echo", args{})
	_, err := call(t, s, "other", "echo", args{})
	wantCode(t, err, CodeBusy)
	time.Sleep(8 * o.IdleTimeout)
	must(t, s, "echo", args{})
	if n := len(b.lines("starts")); n != 1 {
		t.Errorf("it was started %d times", n)
	}
}

func TestIdleTimeOfOneServer(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Name: "brief", Idle: 50 * time.Millisecond}, {Name: "lasting", Idle: Never}}
	b := newBench(t)
	p := newProxy(t, o)
	s := open(t, p, b.server("brief", fakeConfig{}), b.server("lasting", fakeConfig{Version: "2"}))
	for _, name := range []string{"brief", "lasting"} {
		if _, err := call(t, s, name, "echo", args{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the one is stopped", func() bool { return stateOf(p, "brief") == StateStopped })
	if got := stateOf(p, "lasting"); got != StateStarted {
		t.Errorf("the other: %s", got)
	}
}

func TestCallsBeyondTheConcurrencyWaitTheirTurn(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Concurrency: 2}}
	b, s := one(t, o, fakeConfig{Log: "log"})
	must(t, s, "echo", args{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			sleepEcho(t, s, 100, i)
		})
	}
	most := 0
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(5 * time.Millisecond):
			most = max(most, pendingOf(s))
		}
	}
	if most != 2 {
		t.Errorf("%d calls were under way at once, want 2", most)
	}
	if n := len(b.lines("log")); n < 6 {
		t.Errorf("the server saw %d lines", n)
	}
}

func TestCallThatWaitsForItsTurnHasItsOwnTimeLimit(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Concurrency: 1, CallTimeout: 3 * time.Second}}
	b, s := one(t, o, fakeConfig{Log: "log"})
	if _, err := ask(t, s, "tools.list", args{"server": "fake"}); err != nil { // starts it, and is no call
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() {
		_, err := call(t, s, "fake", "hang", args{})
		first <- err
	}()
	eventually(t, "the first is under way", func() bool { return pendingOf(s) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := askCtx(ctx, t, s, "tools.call", args{"server": "fake", "tool": "pay"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second: got %v", err)
	}
	wantCode(t, next(t, first), CodeTimeout, "3s (call_timeout of [[server]])")
	if containsText(b.lines("log"), `"pay"`) {
		t.Error("the call that gave up was made")
	}
}

func containsText(lines []string, text string) bool {
	return strings.Contains(strings.Join(lines, "\n"), text)
}

func TestToolsOfAProjectsServerAreKnownToTheNextSession(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	server := b.server("fake", fakeConfig{Starts: "starts"})
	server.Root = "/"
	first := open(t, p, server)
	must(t, first, "echo", args{})
	first.Close()
	if !b.settles(0) {
		t.Errorf("processes: %v", b.processes())
	}
	raw, err := ask(t, open(t, p, server), "docs.search", args{"query": "echo"})
	if err != nil || !strings.Contains(string(raw), `"tool":"echo"`) {
		t.Errorf("search: %s, %v", raw, err)
	}
	if n := len(b.lines("starts")); n != 1 {
		t.Errorf("it was started %d times, to be searched", n)
	}
}

func TestToolsOfSessionsThatHaveEndedAreNotKeptForEver(t *testing.T) {
	p := newProxy(t, quick())
	ended := func(i int) discovery.Ref { return discovery.Ref{Digest: fmt.Sprint("d", i)} }
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range maxBackends + 2 {
		digest := ended(i).Digest
		p.opts.Catalog.Put(digest, nil)
		p.endLocked(&backend{key: digest, digest: digest, end: func(error) {}})
	}
	for i, want := range map[int]bool{0: false, 1: false, 2: true, maxBackends + 1: true} {
		if _, ok := p.opts.Catalog.Tools(ended(i)); ok != want {
			t.Errorf("tools of %d: known %v, want %v", i, ok, want)
		}
	}
}

func TestFiveHundredCallsAtOnceArePipelined(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	must(t, s, "echo", args{})
	var calls sync.WaitGroup
	for i := range 500 {
		calls.Go(func() {
			sleepEcho(t, s, 2000, i)
		})
	}
	eventually(t, "many are under way", func() bool { return pendingOf(s) >= 100 })
	calls.Wait()
	if st := s.proxy.Status()[0]; st.Calls != 501 || st.Errors != 0 || st.Restarts != 0 || st.InFlight != 0 || st.Waiting != 0 {
		t.Errorf("status: %+v", st)
	}
}

// sleepEcho makes a call that takes so many milliseconds, on any goroutine.
func sleepEcho(t *testing.T, s *Session, ms, value int) {
	t.Helper()
	raw, err := call(t, s, "fake", "sleep_echo", args{"ms": ms, "v": value})
	if err != nil {
		t.Error(err)
		return
	}
	if got := textOf(t, raw); got != fmt.Sprint(value) {
		t.Errorf("got %s, want %d", got, value)
	}
}
