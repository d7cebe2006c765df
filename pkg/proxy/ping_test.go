package proxy

import (
	"strings"
	"testing"
	"time"
)

func TestServerThatIsNotUsedIsPinged(t *testing.T) {
	for _, row := range []struct {
		name, ping string
		limit      time.Duration // of a ping
		dies       bool
	}{
		{"one that answers stays", "", time.Minute, false},
		{"one that refuses pings is alive", "refuse", time.Minute, false},
		{"one that does not answer is stopped", "ignore", 3 * time.Second, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := quick()
			o.pingTimeout = row.limit
			o.Settings = []Setting{{KeepAlive: 50 * time.Millisecond}}
			b, s := one(t, o, fakeConfig{Ping: row.ping, Log: "log", Starts: "starts"})
			must(t, s, "echo", args{})
			pings := func() int { return strings.Count(strings.Join(b.lines("log"), "\n"), `"method":"ping"`) }
			if !row.dies {
				eventually(t, "several pings", func() bool { return pings() >= 3 })
			} else {
				eventually(t, "it is stopped", func() bool { return stateOf(s.proxy, "fake") == StateStopped && len(b.processes()) == 0 })
				eventually(t, "its status says why", func() bool {
					return strings.Contains(s.proxy.Status()[0].LastError, "did not answer a ping within 3s")
				})
			}
			must(t, s, "echo", args{}) // again, if need be
			want := 1
			if row.dies {
				want = 2
			}
			if n := len(b.lines("starts")); n != want {
				t.Errorf("it was started %d times, want %d", n, want)
			}
		})
	}
}

func TestServerWithACallUnderWayIsNotPinged(t *testing.T) {
	o := quick()
	o.pingTimeout = 10 * time.Millisecond
	o.Settings = []Setting{{KeepAlive: 2 * time.Second}} // in which its list and the call follow its start
	b, s := one(t, o, fakeConfig{Ping: "ignore", Log: "log"})
	if got := must(t, s, "sleep_echo", args{"ms": 5000, "v": 1}); got != "1" {
		t.Errorf("got %s", got)
	}
	if before, _, _ := strings.Cut(strings.Join(b.lines("log"), "\n"), "sleep_echo"); strings.Contains(before, `"ping"`) {
		t.Error("it was pinged before the call")
	}
}

func TestServerThatIsNeverToBePingedIsNot(t *testing.T) {
	o := quick()
	o.pingTimeout = time.Millisecond
	o.Settings = []Setting{{KeepAlive: Never}}
	b, s := one(t, o, fakeConfig{Ping: "ignore", Log: "log"})
	must(t, s, "echo", args{})
	for _, back := range s.proxy.list() {
		back.keepAlive(back.up) // returns at once
	}
	if containsText(b.lines("log"), `"ping"`) {
		t.Error("it was pinged")
	}
}

func TestRemoteServerThatAnswersPingsWithAnErrorStays(t *testing.T) {
	f := (&httpFake{Status: map[string]int{"ping": 503}}).start(t)
	o := quick()
	o.Settings = []Setting{{KeepAlive: 50 * time.Millisecond}}
	s := remoteSession(t, f, o, nil)
	must(t, s, "echo", args{})
	eventually(t, "several pings", func() bool { return f.count("ping") >= 3 })
	must(t, s, "echo", args{})
	if n := f.count("initialize"); n != 1 {
		t.Errorf("it was greeted %d times", n)
	}
}

func TestRemoteServerThatDoesNotAnswerPingsIsGreetedAgain(t *testing.T) {
	f := &httpFake{}
	hangs := make(chan struct{})
	f.Hang = hangs
	f.start(t)
	defer close(hangs)
	o := quick()
	o.pingTimeout = 2 * time.Second
	o.Settings = []Setting{{KeepAlive: 50 * time.Millisecond}}
	s := remoteSession(t, f, o, nil)
	must(t, s, "echo", args{})
	eventually(t, "it is given up", func() bool { return stateOf(s.proxy, "fake") == StateStopped })
	eventually(t, "its status says why", func() bool {
		return strings.Contains(s.proxy.Status()[0].LastError, "did not answer a ping")
	})
}
