package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// A diary keeps what a proxy tells of its servers.
type diary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) note(e ServerEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := fmt.Sprintf("%s %s", e.Server, e.Kind)
	if e.Restart {
		line += " again"
	}
	if e.Err != nil {
		line += ": " + e.Err.Error()
	}
	if e.Took <= 0 {
		line += " in no time"
	}
	d.lines = append(d.lines, line)
}

func (d *diary) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, ", ")
}

func TestAProxyTellsWhatBecomesOfServers(t *testing.T) {
	for _, row := range []struct {
		name   string
		config fakeConfig
		calls  int
		want   string
	}{
		{"a server that ends after each answer", fakeConfig{ExitAt: "answered", Complaint: "hunter2"}, 2,
			"fake started, fake failed: it ended (exit status 0), fake started again, fake failed: it ended (exit status 0)"},
		{"a server that can't start", fakeConfig{ExitAt: "start", ExitCode: 3, Complaint: "hunter2"}, 1,
			"fake failed: it ended (exit status 3)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := &diary{}
			o := quick()
			o.Watch = d.note
			o.backoffMin = time.Hour // a call starts it once
			_, s := one(t, o, row.config)
			for range row.calls {
				_, _ = call(t, s, "fake", "echo", args{}) // what it tells is looked at
				eventually(t, "its end is noticed", func() bool { return strings.Contains(d.text(), "failed") && stateOf(s.proxy, "fake") != StateStarted })
			}
			eventually(t, "all is told", func() bool { return len(d.text()) >= len(row.want) })
			if got := d.text(); got != row.want {
				t.Errorf("told %q, want %q", got, row.want)
			}
		})
	}
}

func TestAProxyTellsOfServersThatItStops(t *testing.T) {
	d := &diary{}
	o := quick()
	o.Watch = d.note
	b := newBench(t)
	p := newProxy(t, o)
	s := open(t, p, b.server("fake", fakeConfig{}))
	must(t, s, "echo", args{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := d.text(), "fake started, fake stopped"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
