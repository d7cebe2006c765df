package sandbox

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// newFakePool returns a pool of interpreters.
func newFakePool(t *testing.T, o PoolOptions) (*Pool, *enginetest.Memory) {
	t.Helper()
	e := fakeEngine(t, func(h *fakeHarness) int {
		h.start()
		return interpreter(h)
	})
	p := NewPool(func(ctx context.Context) (*Sandbox, error) { return Launch(ctx, e, fakeOptions()) }, o)
	t.Cleanup(func() {
		p.Close()
		expectNothing(t, e)
	})
	return p, e
}

func expectStatus(t *testing.T, p *Pool, warm, leased int) {
	t.Helper()
	synctest.Wait()
	if st := p.Status(); st.Warm != warm || st.Leased != leased || st.Creating != 0 {
		t.Errorf("got %d warm, %d leased, %d in creation, want %d, %d, 0", st.Warm, st.Leased, st.Creating, warm, leased)
	}
}

func lease(t *testing.T, p *Pool) *Sandbox {
	t.Helper()
	s, err := p.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPoolFillsRefillsAndStopsAtItsCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{Warm: 2, Max: 3})
		expectStatus(t, p, 2, 0)
		a := lease(t, p)
		expectStatus(t, p, 2, 1)
		b, c := lease(t, p), lease(t, p)
		expectStatus(t, p, 0, 3)
		if _, err := p.Lease(t.Context()); !errors.Is(err, ErrPoolFull) {
			t.Errorf("got error %v over the cap, want ErrPoolFull", err)
		}
		p.Release(a)
		expectStatus(t, p, 1, 2)
		p.Release(b)
		p.Release(c)
		expectStatus(t, p, 2, 0)
		if got := e.Counts().Present; got != 2 {
			t.Errorf("got %d containers, want the 2 that are warm", got)
		}
	})
}

func TestPoolWithoutWarmSandboxesLaunchesOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{})
		expectStatus(t, p, 0, 0)
		s := lease(t, p)
		expectStatus(t, p, 0, 1)
		p.Release(s)
		expectStatus(t, p, 0, 0)
	})
}

func TestPoolKeepsItsCapUnderManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4
		p, e := newFakePool(t, PoolOptions{Warm: 2, Max: limit})
		e.Delay("create", 100*time.Millisecond)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				s, err := p.Lease(t.Context())
				if errors.Is(err, ErrPoolFull) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := e.Counts().Present; n > limit {
					t.Errorf("got %d containers, want at most %d", n, limit)
				}
				time.Sleep(50 * time.Millisecond)
				p.Release(s)
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		expectStatus(t, p, 2, 0)
	})
}

func TestPoolBacksOffWhileTheEngineFailsAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fakeEngine(t, func(h *fakeHarness) int {
			h.start()
			return interpreter(h)
		})
		e.SetUnreachable(true)
		var mu sync.Mutex
		var tries []time.Time
		p := NewPool(func(ctx context.Context) (*Sandbox, error) {
			mu.Lock()
			tries = append(tries, time.Now())
			mu.Unlock()
			return Launch(ctx, e, fakeOptions())
		}, PoolOptions{Warm: 1})
		time.Sleep(10 * time.Minute)
		mu.Lock()
		n := len(tries)
		for i := 2; i < n; i++ {
			if before, pause := tries[i-1].Sub(tries[i-2]), tries[i].Sub(tries[i-1]); pause < before || pause > backoffMax {
				t.Errorf("pause %d is %s after one of %s, want them to grow up to %s", i, pause, before, backoffMax)
			}
		}
		mu.Unlock()
		if st := p.Status(); n < 20 || st.Failures != n || st.LastError == "" {
			t.Errorf("got %d tries and status %+v, want as many failures and their cause", n, st)
		}
		e.SetUnreachable(false)
		time.Sleep(backoffMax)
		expectStatus(t, p, 1, 0)
		if st := p.Status(); st.Failures != 0 || st.LastError != "" {
			t.Errorf("got status %+v after the recovery, want no failure", st)
		}
		p.Close()
		expectNothing(t, e)
	})
}

func TestPoolTellsALeaseWhyTheEngineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{})
		e.SetUnreachable(true)
		if _, err := p.Lease(t.Context()); !errors.Is(err, runtime.ErrUnreachable) {
			t.Errorf("got error %v, want ErrUnreachable", err)
		}
		e.SetUnreachable(false)
		p.Release(lease(t, p))
	})
}

func TestPoolIgnoresCallersWhoHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{})
		e.Delay("attach", time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.Lease(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the context's", err)
		}
		if st := p.Status(); st.Failures != 0 || st.Creating != 0 {
			t.Errorf("got status %+v, want no failure", st)
		}
	})
}

func TestPoolReplacesASandboxThatDiedWhileWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{Warm: 1})
		synctest.Wait()
		p.mu.Lock()
		dead := p.warm[0]
		p.mu.Unlock()
		if err := e.End(dead.container, runtime.Exit{Code: 137}); err != nil {
			t.Fatal(err)
		}
		expectStatus(t, p, 1, 0)
		s := lease(t, p)
		if s == dead {
			t.Error("the dead sandbox was leased")
		}
		p.Release(s)
	})
}

func TestPoolClosedInTheMiddleOfLaunches(t *testing.T) {
	for _, op := range []string{"create", "attach", "start"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, e := newFakePool(t, PoolOptions{Warm: 3})
				e.Delay(op, time.Second)
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() {
						if s, err := p.Lease(context.Background()); err == nil {
							t.Errorf("got sandbox %s from a pool that closes", s.ID)
						}
					})
				}
				time.Sleep(10 * time.Millisecond)
				p.Close()
				expectNothing(t, e)
				wg.Wait()
			})
		})
	}
}

func TestPoolClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{Warm: 1})
		s := lease(t, p)
		synctest.Wait()
		p.Close()
		p.Close()
		expectNothing(t, e)
		if _, err := p.Lease(t.Context()); !errors.Is(err, ErrPoolClosed) {
			t.Errorf("got error %v, want ErrPoolClosed", err)
		}
		p.Release(s)
	})
}
