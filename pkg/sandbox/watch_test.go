package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

// A diary keeps what a pool tells.
type diary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) note(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := string(e.Kind)
	if e.Reason != "" {
		line += " " + string(e.Reason)
	}
	if e.Err != nil {
		line += fmt.Sprintf(" %d", e.Failures)
	} else if e.Sandbox == "" {
		line += " of nothing"
	}
	d.lines = append(d.lines, line)
}

// take returns the lines since the last call.
func (d *diary) take() string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.lines = nil }()
	return strings.Join(d.lines, ", ")
}

func TestAPoolTellsWhatBecomesOfItsSandboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		p, e := newFakePool(t, PoolOptions{Max: 1, SessionIdle: 30 * time.Minute, PauseAfter: time.Minute, Watch: d.note})
		s, other := NewSession(p, SessionOptions{}), NewSession(p, SessionOptions{})
		defer s.Close()
		expect := func(what, want string) {
			t.Helper()
			if got := d.take(); got != want {
				t.Errorf("%s: told %q, want %q", what, got, want)
			}
		}
		mustRun(t, s, "1")
		expect("the first run", "made, leased")
		time.Sleep(2 * time.Minute)
		expect("a pause", "paused")
		mustRun(t, s, "1")
		expect("the next run", "resumed")
		time.Sleep(31 * time.Minute)
		expect("an idle session", "paused, ended idle")
		mustRun(t, s, "1")
		mustRun(t, other, "1")
		expect("another session", "made, leased, ended evicted, made, leased")
		other.Close()
		expect("the end of a session", "ended closed")
		if _, err := s.Run(t.Context(), request("die"), nil); err != nil {
			t.Fatal(err)
		}
		expect("the end of Python", "made, leased, ended died")
		for _, row := range []struct {
			exit runtime.Exit
			want string
		}{{runtime.Exit{Code: 137, OOM: true}, "ended memory"}, {runtime.Exit{Code: 137}, "ended outside"}} {
			mustRun(t, s, "1")
			if err := e.End(s.Sandbox().container, row.exit); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			mustRun(t, s, "1")
			expect(row.want, "made, leased, "+row.want+", made, leased")
			if err := s.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			expect("a reset", "ended closed")
		}
		e.SetUnreachable(true)
		for range 2 {
			if _, err := p.Lease(t.Context()); err == nil {
				t.Fatal("a lease of an engine that is gone")
			}
		}
		expect("an engine that is gone", "failed 1, failed 2")
		e.SetUnreachable(false)
	})
}

func TestAKilledSandboxTellsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		e := fakeEngine(t, func(h *fakeHarness) int {
			h.start()
			for { // it never stops, and never ends its run
				if _, ok := h.frame(); !ok {
					return 0
				}
			}
		})
		p := NewPool(func(ctx context.Context) (*Sandbox, error) { return Launch(ctx, e, fakeOptions()) }, PoolOptions{Watch: d.note})
		defer p.Close()
		s := NewSession(p, SessionOptions{Timeout: time.Second})
		defer s.Close()
		if res, err := s.Run(t.Context(), request("while True: pass"), nil); err != nil || res.Status != StatusTimeout {
			t.Errorf("got %+v, %v", res, err)
		}
		if got := d.take(); got != "made, leased, ended stuck" {
			t.Errorf("told %q", got)
		}
	})
}

func TestReasonsAreListedOnce(t *testing.T) {
	list := Reasons()
	slices.Sort(list)
	if got := slices.Compact(slices.Clone(list)); len(got) != len(list) || len(got) != 9 {
		t.Errorf("%d reasons, %d different", len(list), len(got))
	}
}
