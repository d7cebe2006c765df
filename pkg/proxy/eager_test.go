package proxy

import (
	"os"
	"testing"

	"github.com/bridged/bridged/pkg/discovery"
)

func TestEagerServersStartWithTheSession(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Name: "e*", Eager: ptr(true)}}
	b := newBench(t)
	p := newProxy(t, o)
	never := b.server("ever", fakeConfig{NoInit: true})
	s := open(t, p, never, b.server("eager", fakeConfig{Log: "log"}), b.server("lazy", fakeConfig{Version: "2"}))
	eventually(t, "the eager one has listed its tools", func() bool { return containsText(b.lines("log"), "tools/list") })
	if got := stateOf(p, "lazy"); got != "" {
		t.Errorf("the lazy one: %s", got)
	}
	if _, err := call(t, s, "lazy", "echo", args{}); err != nil {
		t.Errorf("while another starts: %v", err)
	}
}

func TestEagerServersEndWithTheSessionThatIsGone(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Eager: ptr(true), Stateful: ptr(true)}}
	b := newBench(t)
	s := open(t, newProxy(t, o), b.server("fake", fakeConfig{NoInit: true}))
	eventually(t, "it is starting", func() bool { return len(b.processes()) == 1 })
	s.Close()
	if !b.settles(0) {
		t.Errorf("it lives on: %v", b.processes())
	}
}

func TestWakeStartsWhatSessionsWillShare(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Name: "fake", Eager: ptr(true)}, {Name: "mine", Eager: ptr(true), Stateful: ptr(true)}}
	b := newBench(t)
	p := newProxy(t, o)
	servers := []discovery.Server{b.server("fake", fakeConfig{Starts: "starts"}), b.server("mine", fakeConfig{Starts: "mine"})}
	p.Wake(SessionOptions{Servers: func() []discovery.Server { return servers }, Getenv: os.LookupEnv, Home: "/", Cwd: "/"})
	eventually(t, "it is started", func() bool { return stateOf(p, "fake") == StateStarted })
	must(t, open(t, p, servers[0]), "echo", args{})
	if n := len(b.lines("starts")); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	if n := len(b.lines("mine")); n != 0 {
		t.Errorf("a session's own was started %d times for nobody", n)
	}
}

func TestWakeAfterCloseStartsNothing(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{Eager: ptr(true)}}
	b := newBench(t)
	p := newProxy(t, o)
	closeProxy(t, p)
	p.Wake(SessionOptions{Servers: func() []discovery.Server { return []discovery.Server{b.server("fake", fakeConfig{})} }})
	if n := len(b.processes()); n != 0 {
		t.Errorf("%d processes", n)
	}
}
