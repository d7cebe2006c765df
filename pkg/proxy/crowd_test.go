package proxy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// A footprint is what a process takes of the system.
type footprint struct{ processes, files, goroutines int }

func (b *bench) footprint() footprint {
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		b.t.Fatal(err)
	}
	return footprint{len(b.processes()), len(files), runtime.NumGoroutine()}
}

// sample returns the most processes of the bench that were seen at once until
// stop is called.
func (b *bench) sample() (stop func() int) {
	done, most := make(chan struct{}), make(chan int)
	go func() {
		seen := 0
		for {
			seen = max(seen, len(b.processes()))
			select {
			case <-done:
				most <- seen
				return
			case <-time.After(30 * time.Millisecond):
			}
		}
	}()
	return func() int { close(done); return <-most }
}

func TestAHundredAgentsShareOneProcessOfEachServer(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, quick())
	var servers []discovery.Server
	for i := range 5 {
		servers = append(servers, b.server(fmt.Sprint("s", i), fakeConfig{Version: fmt.Sprint(i)}))
	}
	before := b.footprint()
	stop := b.sample()
	var sessions []*Session
	for range 100 {
		sessions = append(sessions, open(t, p, servers...))
	}
	var calls sync.WaitGroup
	for i, s := range sessions {
		for j := range 20 {
			calls.Go(func() {
				server, value := fmt.Sprint("s", j%5), fmt.Sprint(i*100+j)
				raw, err := call(t, s, server, "sleep_echo", args{"ms": 5, "v": i*100 + j})
				if err != nil {
					t.Error(err)
				} else if got := textOf(t, raw); got != value {
					t.Errorf("got %s, want %s", got, value)
				}
			})
		}
	}
	calls.Wait()
	if most := stop(); most > 5 {
		t.Errorf("%d processes at once for 5 servers", most)
	}
	if count, _ := p.Room(); count != 5 {
		t.Errorf("room: %d", count)
	}
	for _, s := range sessions {
		s.Close()
	}
	checkBaseline(t, b, p, before)
}

func TestAHundredAgentsStayWithinTheCapOfAServerThatTheyCannotShare(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Max: 4}}
	b := newBench(t)
	p := newProxy(t, o)
	server := b.server("fake", fakeConfig{})
	server.Root = "/"
	before := b.footprint()
	stop := b.sample()
	var agents sync.WaitGroup
	var mu sync.Mutex // guards busy
	busy := 0
	for i := range 100 {
		agents.Go(func() {
			s := open(t, p, server)
			defer s.Close()
			for deadline := time.Now().Add(2 * hang); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
				raw, err := call(t, s, "fake", "sleep_echo", args{"ms": 5, "v": i})
				if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeBusy {
					mu.Lock()
					busy++
					mu.Unlock()
					continue
				}
				if err != nil {
					t.Error(err)
				} else if got := textOf(t, raw); got != fmt.Sprint(i) {
					t.Errorf("got %s, want %d", got, i)
				}
				return
			}
			t.Error("an agent was never served")
		})
	}
	agents.Wait()
	most := stop()
	if most > 4 || most == 0 {
		t.Errorf("%d processes at once, and 4 are the cap", most)
	}
	t.Logf("%d processes at most, %d refusals", most, busy)
	checkBaseline(t, b, p, before)
}

// checkBaseline closes the proxy and checks that nothing more is there than
// before it was used.
func checkBaseline(t *testing.T, b *bench, p *Proxy, before footprint) {
	t.Helper()
	closeProxy(t, p)
	checkNoZombies(t)
	var after footprint
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		after = b.footprint()
		if after.processes <= before.processes && after.files <= before.files && after.goroutines <= before.goroutines {
			return
		}
	}
	t.Errorf("after the agents: %+v, before: %+v", after, before)
}

func TestServersOfEverySpeedDelayOnlyTheirOwnCalls(t *testing.T) {
	o := quick()
	o.StartTimeout = hang
	o.Settings = []Setting{{Name: "dead", StartTimeout: 700 * time.Millisecond}}
	b := newBench(t)
	p := newProxy(t, o)
	s := open(t, p, b.server("instant", fakeConfig{}), b.server("slow", fakeConfig{Gate: b.path("slow")}),
		b.server("slowest", fakeConfig{Gate: b.path("slowest")}),
		b.server("silent", fakeConfig{NoInit: true}), b.server("dead", fakeConfig{NoInit: true, Version: "2"}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, failed := make(chan string, 4), make(chan error, 1)
	for _, name := range []string{"dead", "silent", "slowest", "slow", "instant"} {
		go func() {
			_, err := askCtx(ctx, t, s, "tools.call", args{"server": name, "tool": "echo"})
			if name == "dead" { // it fails at its time, whatever the others do
				failed <- err
				return
			}
			if (err != nil) != (name == "silent") {
				t.Errorf("%s: %v", name, err)
			}
			ended <- name
		}()
	}
	for i, want := range []string{"instant", "slow", "slowest", "silent"} {
		if got := next(t, ended); got != want {
			t.Errorf("%s was number %d to answer, want %s", got, i+1, want)
		}
		switch want {
		case "instant":
			writeFile(t, b.path("slow"), "")
		case "slow":
			writeFile(t, b.path("slowest"), "")
		case "slowest":
			if err := next(t, failed); err == nil {
				t.Error("a server that never answers was called")
			}
			cancel()
		}
	}
	if got := []State{stateOf(p, "slow"), stateOf(p, "slowest"), stateOf(p, "dead")}; got[0] != StateStarted || got[1] != StateStarted || got[2] != StateFailed {
		t.Errorf("states: %v", got)
	}
}
