package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// runFor runs code that lasts until the time is up.
func runFor(t *testing.T, s *Session, d time.Duration) {
	t.Helper()
	if _, err := s.Run(t.Context(), Request{Code: "sleep", Timeout: d}, nil); err != nil {
		t.Error(err)
	}
}

// One owner's burst waits behind another's single session, and each is served in
// the order in which it came.
func TestOwnersTakeTurnsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{Max: 1, Wait: time.Hour})
		var mu sync.Mutex // guards served
		var served []string
		var wg sync.WaitGroup
		start := func(owner string, i int) {
			s := NewSession(p, SessionOptions{Owner: owner})
			wg.Go(func() {
				defer s.Close()
				runFor(t, s, 10*time.Second)
				mu.Lock()
				defer mu.Unlock()
				served = append(served, fmt.Sprint(owner, i))
			})
			synctest.Wait()
		}
		for i := range 5 {
			start("a", i)
		}
		for i := range 2 {
			start("b", i)
		}
		start("c", 0)
		wg.Wait()
		if got, want := strings.Join(served, " "), "a0 a1 b0 c0 a2 b1 a3 a4"; got != want {
			t.Errorf("got the order %s, want %s", got, want)
		}
	})
}

func TestAWaitForASandboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{Max: 1, Wait: 20 * time.Second})
		holder, late, gone := NewSession(p, SessionOptions{}), NewSession(p, SessionOptions{}), NewSession(p, SessionOptions{})
		var wg sync.WaitGroup
		wg.Go(func() { runFor(t, holder, time.Minute) })
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		wg.Go(func() {
			if _, err := gone.Run(ctx, request("1"), nil); err == nil || err.Error() != "the agent left" {
				t.Errorf("got %v, want why the caller gave up", err)
			}
		})
		wg.Go(func() {
			time.Sleep(time.Second)
			cancel(errors.New("the agent left"))
		})
		_, err := late.Run(t.Context(), request("1"), nil)
		if !errors.Is(err, ErrPoolFull) || !strings.HasPrefix(err.Error(), "busy, nothing ran: ") || !strings.Contains(err.Error(), "waited 20s for one (pool.wait)") {
			t.Errorf("got error %v", err)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it was told after %s", took)
		}
		wg.Wait()
		mustRun(t, late, "1") // the place was given up
		for _, s := range []*Session{holder, late, gone} {
			s.Close()
		}
		if n := p.line.count; n != 0 || len(p.line.places) != 0 || len(p.line.owners) != 0 {
			t.Errorf("%d places are left, of %v", n, p.line.owners)
		}
	})
}

// A session keeps its sandbox between calls that follow each other, though others
// wait, and loses it when it is idle.
func TestASessionThatGoesOnIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{Max: 1, Wait: time.Hour})
		busy, other := NewSession(p, SessionOptions{Owner: "busy"}), NewSession(p, SessionOptions{Owner: "other"})
		defer busy.Close()
		defer other.Close()
		mustRun(t, busy, "number")
		var wg sync.WaitGroup
		var ran time.Time
		wg.Go(func() {
			mustRun(t, other, "1")
			ran = time.Now()
		})
		for i := range 5 {
			time.Sleep(spared / 2)
			if res, err := busy.Run(t.Context(), request("number"), nil); err != nil || res.Value != itoa(int64(2+i)) || len(res.Notices) > 0 {
				t.Errorf("call %d: got %+v, want the same sandbox", i, res)
			}
		}
		last := time.Now()
		wg.Wait()
		if waited := ran.Sub(last); waited < spared || waited > 2*spared {
			t.Errorf("the other has waited for %s after the last call", waited)
		}
	})
}

func TestALineIsBounded(t *testing.T) {
	l := &line{}
	places := make([]*place, 0, maxLine)
	for i := range maxLine {
		p := l.enter(fmt.Sprint(i % 3))
		if p == nil {
			t.Fatalf("no place for number %d", i)
		}
		places = append(places, p)
	}
	if l.enter("0") != nil {
		t.Error("there is one place more")
	}
	for _, p := range places {
		l.leave(p)
		l.leave(p)
	}
	if l.count != 0 || l.first != nil || len(l.owners) != 0 || len(l.places) != 0 {
		t.Errorf("left: %+v", l)
	}
}
