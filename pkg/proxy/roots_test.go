package proxy

import (
	"strings"
	"testing"
)

func TestAServerKnowsItsRootBeforeItIsCalled(t *testing.T) {
	b := newBench(t)
	s := in(t, newProxy(t, quick()), accepts(), "/a", b.server("fake", fakeConfig{
		Asks: "roots/list", Report: b.path("roots"), Log: b.path("log"), ExitAt: "answered",
	}))
	for range 3 {
		must(t, s, "echo", args{}) // of a new process each time
		eventually(t, "it has ended", func() bool { return s.proxy.Status()[0].State == StateStopped })
	}
	starts := strings.Split(strings.Join(b.lines("log"), "\n"), `"method":"initialize"`)[1:]
	if len(starts) != 3 {
		t.Fatalf("there were %d starts, want 3", len(starts))
	}
	for i, log := range starts {
		told, called := strings.Index(log, `"id":"mine"`), strings.Index(log, `"method":"tools/call"`)
		if told < 0 || called < told {
			t.Errorf("start %d: the server was called before it knew its root: %s", i+1, log)
		}
	}
}
