package proxy

import (
	"strings"
	"testing"
	"time"
)

func TestSessionTellsWhatItsCallsWaitFor(t *testing.T) {
	b := newBench(t)
	o := quick()
	o.backoffMin = time.Hour // it is started once
	p := newProxy(t, o)
	server := b.server("slow", fakeConfig{NoInit: true, Complaint: "fetching with canary-secret-2\nadded 12 of 90 packages"})
	server.Env["TOKEN"] = "canary-secret-2"
	s, other := open(t, p, server), open(t, p, server)
	if got := s.Waiting(); len(got) != 0 {
		t.Errorf("before any call: %q", got)
	}
	done := make(chan error, 1)
	go func() {
		_, err := call(t, s, "slow", "echo", args{})
		done <- err
	}()
	eventually(t, "it tells", func() bool {
		text := strings.Join(s.Waiting(), "")
		return strings.HasPrefix(text, "server slow is starting, ") && strings.HasSuffix(text, " s of at most 60, last line of its stderr: added 12 of 90 packages")
	})
	if st := p.Status()[0]; st.State != StateStarting || !strings.Contains(st.Stderr, "[TOKEN]") || st.Since.IsZero() {
		t.Errorf("status: %+v", st)
	}
	if got := other.Waiting(); len(got) != 0 {
		t.Errorf("another session: %q", got)
	}
	b.kill()
	if err := next(t, done); err == nil {
		t.Error("a server that never answers was called")
	}
	eventually(t, "nothing is waited for", func() bool { return len(s.Waiting()) == 0 })
}

func TestCallThatEndsBeforeTheStartIsToldHowFarThatIs(t *testing.T) {
	o := quick()
	o.Settings = []Setting{{CallTimeout: 300 * time.Millisecond}}
	_, s := one(t, o, fakeConfig{NoInit: true, Complaint: "downloading"})
	_, _ = call(t, s, "fake", "echo", args{}) // begins the start
	eventually(t, "it says what it does", func() bool { return strings.Contains(s.proxy.Status()[0].Stderr, "downloading") })
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeTimeout, "The start goes on: server fake is starting, ", "of at most 60", "downloading", "Try again")
}

func TestStatusCountsCallsAndTheirTimes(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	must(t, s, "sleep_echo", args{"ms": 50, "v": 1})
	go call(t, s, "fake", "hang", args{}) //nolint:errcheck // it ends with the test
	eventually(t, "a call is under way", func() bool { return s.proxy.Status()[0].InFlight == 1 })
	st := s.proxy.Status()[0]
	if st.Calls != 1 || st.P50 < 50*time.Millisecond || st.P95 < st.P50 || st.Transport != "stdio" || st.Private || st.Waiting != 0 {
		t.Errorf("status: %+v", st)
	}
	if count, most := s.proxy.Room(); count != 1 || most != DefaultMaxServers {
		t.Errorf("room: %d of %d", count, most)
	}
}
