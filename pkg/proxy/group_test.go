package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

func TestNothingOfAServerOutlivesItsStop(t *testing.T) {
	rows := []struct {
		name   string
		config fakeConfig
	}{
		{"one that ends with its stdin", fakeConfig{}},
		{"one that ignores the end of its stdin", fakeConfig{DeafTo: "eof"}},
		{"one that ignores SIGTERM too", fakeConfig{DeafTo: "term"}},
		{"children that ignore SIGTERM and hold stdout open", fakeConfig{Sleepers: 2}},
		{"children in sessions of their own", fakeConfig{Sleepers: 2, SleeperSid: true}},
		{"fifty children", fakeConfig{Sleepers: 50}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t)
			p := newProxy(t, quick())
			s := open(t, p, b.server("fake", row.config))
			must(t, s, "echo", args{})
			// One that is just becoming another program shows no environment.
			eventually(t, fmt.Sprintf("more than %d processes run", row.config.Sleepers), func() bool {
				return len(b.processes()) >= 1+row.config.Sleepers
			})
			closeProxy(t, p)
			if left := b.processes(); len(left) > 0 {
				t.Errorf("after Close: %v", left)
			}
			checkNoZombies(t)
		})
	}
}

func TestServerBehindAShellIsStoppedAsAWhole(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	server := b.server("fake", fakeConfig{DeafTo: "term"})
	server.Args = []string{"-c", `exec 3<&0; "$0" <&3 & wait`, server.Command}
	server.Command = "/bin/sh"
	s := open(t, p, server)
	must(t, s, "echo", args{})
	if n := len(b.processes()); n != 2 {
		t.Errorf("%d processes, want the shell and the server", n)
	}
	closeProxy(t, p)
	if left := b.processes(); len(left) > 0 {
		t.Errorf("after Close: %v", left)
	}
}

func TestChildrenOfAServerThatDiesAreKilled(t *testing.T) {
	for _, sid := range []bool{false, true} {
		t.Run(fmt.Sprintf("in sessions of their own: %v", sid), func(t *testing.T) {
			b := newBench(t)
			p := newProxy(t, briefDrain())
			s := open(t, p, b.server("fake", fakeConfig{Sleepers: 3, SleeperSid: sid}))
			must(t, s, "echo", args{})
			if err := syscall.Kill(p.Status()[0].PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if !b.settles(0) {
				t.Errorf("they live on: %v", b.processes())
			}
			// The last words of a dead server are waited for before its end is told.
			st := p.Status()[0]
			for end := time.Now().Add(hang); !strings.Contains(st.LastError, "killed"); st = p.Status()[0] {
				if time.Now().After(end) {
					t.Fatalf("status: %+v", st)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

func TestServerWhoseLauncherEndsIsStopped(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, briefDrain())
	server := b.server("fake", fakeConfig{})
	server.Args = []string{"-c", `exec 3<&0; setsid "$0" <&3 & exit 0`, server.Command}
	server.Command = "/bin/sh"
	s := open(t, p, server)
	_, err := call(t, s, "fake", "hang", args{})
	if err == nil {
		t.Error("a call that is not answered succeeded")
	}
	if !b.settles(0) {
		t.Errorf("it lives on: %v", b.processes())
	}
	if st := p.Status()[0]; !strings.Contains(st.LastError, "exit status 0") {
		t.Errorf("status: %+v", st)
	}
}

func TestCloseEndsAStartThatIsUnderWay(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	s := open(t, p, b.server("fake", fakeConfig{NoInit: true}))
	done := make(chan error, 1)
	go func() {
		_, err := call(t, s, "fake", "echo", args{})
		done <- err
	}()
	eventually(t, "the server is starting", func() bool { return stateOf(p, "fake") == StateStarting && len(b.processes()) == 1 })
	closeProxy(t, p)
	if err := next(t, done); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want %v", err, ErrClosed)
	}
	if left := b.processes(); len(left) > 0 {
		t.Errorf("after Close: %v", left)
	}
}

func TestCloseThatMayNotWaitSaysSoAndGoesOn(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	s := open(t, p, b.server("fake", fakeConfig{DeafTo: "term"}))
	must(t, s, "echo", args{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if !b.settles(0) {
		t.Errorf("it lives on: %v", b.processes())
	}
}

func TestCloseStopsAllServersAtOnceAndEndsTheirCalls(t *testing.T) {
	o := quick()
	o.eofGrace = hang // none of them ends before all have been told to
	b := newBench(t)
	p := newProxy(t, o)
	var servers []discovery.Server
	for i := range 6 {
		name := fmt.Sprint("s", i)
		servers = append(servers, b.server(name, fakeConfig{Version: fmt.Sprint(i), DeafTo: "eof", Log: b.path(name)}))
	}
	s := open(t, p, servers...)
	errs := make(chan error, len(servers))
	for _, server := range servers {
		go func() {
			_, err := call(t, s, server.Name, "hang", args{})
			errs <- err
		}()
	}
	eventually(t, "all are called", func() bool { return pendingOf(s) == len(servers) })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		closeProxy(t, p)
	}()
	eventually(t, "all are told to end, and not one after the other", func() bool {
		for _, server := range servers {
			if !slices.Contains(b.lines(server.Name), "EOF") {
				return false
			}
		}
		return true
	})
	if n := len(b.processes()); n != len(servers) {
		t.Errorf("%d processes, want all %d", n, len(servers))
	}
	b.kill()
	next(t, closed)
	for range servers {
		if err := next(t, errs); err == nil {
			t.Error("a call succeeded")
		}
	}
	if _, err := call(t, s, "s0", "echo", args{}); err != ErrClosed {
		t.Errorf("after Close: got %v, want %v", err, ErrClosed)
	}
}

func TestCommandThatCannotBeStartedSaysWhy(t *testing.T) {
	plain := t.TempDir() + "/plain"
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name   string
		server discovery.Server
		want   []string
	}{
		{"not on the PATH", discovery.Server{Command: "no-such-program"}, []string{`"no-such-program" is not found in PATH`, "install it"}},
		{"no such file", discovery.Server{Command: "/no/such/program"}, []string{"/no/such/program is not found"}},
		{"a whole command line", discovery.Server{Command: "fake --port 1"}, []string{"looks like a whole command line"}},
		{"a whole command line beside args", discovery.Server{Command: "fake --port 1", Args: []string{"x"}}, []string{"looks like a whole command line", `"fake"`}},
		{"Windows only", discovery.Server{Command: "cmd", Args: []string{"/k", "npx x"}}, []string{"Windows-only"}},
		{"a folder that is missing", discovery.Server{Command: "sh", Cwd: "/no/such/folder"}, []string{"cwd", "/no/such/folder", "does not exist"}},
		{"a folder that is a file", discovery.Server{Command: "sh", Cwd: plain}, []string{"is not a folder"}},
		{"not executable", discovery.Server{Command: plain}, []string{"is not executable"}},
		{"a folder as command", discovery.Server{Command: "/usr"}, []string{"is a folder"}},
		{"NUL", discovery.Server{Command: "sh", Args: []string{"a\x00b"}}, []string{"NUL"}},
		{"a program that the kernel refuses", discovery.Server{Command: "./plain-x", Cwd: plain[:len(plain)-len("/plain")]}, []string{"starting"}},
	}
	if err := os.WriteFile(plain+"-x", []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			row.server.Name, row.server.Transport = "fake", discovery.Stdio
			p := newProxy(t, quick())
			s := p.NewSession(SessionOptions{Servers: func() []discovery.Server { return []discovery.Server{row.server} }, Home: "/", Cwd: "/"})
			defer s.Close()
			_, err := s.Load([]string{"fake"})
			if err == nil {
				_, err = call(t, s, "fake", "echo", args{})
			}
			if err == nil {
				t.Fatal("it was started")
			}
			for _, want := range row.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestArgumentsReachTheServerUntouchedByAShell(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	server := b.server("fake", fakeConfig{})
	weird := []string{"a b", `"q'`, ";", "$(id)", "*", "", "-x"}
	server.Args = append([]string{"-c", `exe=$1; shift; printf '%s\n' "$@" > "$BENCH/argv"; exec "$exe"`, "sh", server.Command}, weird...)
	server.Command = "sh"
	s := open(t, p, server)
	must(t, s, "echo", args{})
	if got, want := strings.Join(b.lines("argv"), "\n"), strings.Join(weird, "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
