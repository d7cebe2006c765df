package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// mustRun runs code that is its own value and returns the notices.
func mustRun(t *testing.T, s *Session, code string) []string {
	t.Helper()
	res, err := s.Run(t.Context(), request(code), nil)
	if err != nil || res.Status != StatusOK {
		t.Fatalf("%s: got %+v and %v", code, res, err)
	}
	return res.Notices
}

func expectState(t *testing.T, s *Session, want SessionState) {
	t.Helper()
	synctest.Wait()
	if got := s.Status().State; got != want {
		t.Errorf("the session is %s, want %s", got, want)
	}
}

// containerState is what the engine says of the only container.
func containerState(t *testing.T, e *enginetest.Memory) string {
	t.Helper()
	list, err := e.List(t.Context(), nil)
	if err != nil || len(list) != 1 {
		t.Fatalf("got %d containers and %v, want one", len(list), err)
	}
	return list[0].State
}

func TestAnIdleSessionIsPausedAndThenEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{SessionIdle: 30 * time.Minute, PauseAfter: time.Minute})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		expectState(t, s, StateNone)
		mustRun(t, s, "1")
		expectState(t, s, StateIdle)
		time.Sleep(59 * time.Second)
		expectState(t, s, StateIdle)
		time.Sleep(2 * time.Second)
		expectState(t, s, StatePaused)
		if got := containerState(t, e); got != "paused" {
			t.Errorf("the container is %s, want paused", got)
		}
		if notices := mustRun(t, s, "number"); len(notices) > 0 {
			t.Errorf("got notices %q after a pause, want none", notices)
		}
		if got := containerState(t, e); got != "running" {
			t.Errorf("the container is %s after a run, want running", got)
		}
		time.Sleep(29 * time.Minute)
		expectState(t, s, StatePaused)
		time.Sleep(time.Minute + time.Second)
		expectState(t, s, StateNone)
		if got := e.Counts().Present; got != 0 {
			t.Errorf("%d containers are there, want none", got)
		}
		want := "The interpreter was replaced before this call (the session was idle for 30m, the limit (run.session_idle)): variables, imports and files of earlier calls are gone."
		if got := s.Status().Lost; got != want {
			t.Errorf("status tells %q, want %q", got, want)
		}
		if got := strings.Join(mustRun(t, s, "1"), ";"); got != want {
			t.Errorf("got notices %q, want %q", got, want)
		}
		if got := mustRun(t, s, "1"); len(got) > 0 {
			t.Errorf("got notices %q the second time", got)
		}
	})
}

func TestASessionInUseIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{SessionIdle: 5 * time.Minute, PauseAfter: time.Minute})
		s := NewSession(p, SessionOptions{MaxTimeout: time.Hour})
		defer s.Close()
		res, err := s.Run(t.Context(), Request{Code: "sleep", Timeout: time.Hour}, nil)
		if err != nil || res.Duration != time.Hour || res.StateLost != "" {
			t.Errorf("got %+v and %v, want an hour's run that keeps its state", res, err)
		}
		sb, release, err := s.Use(t.Context())
		if err != nil || sb == nil {
			t.Fatalf("got sandbox %v and %v", sb, err)
		}
		time.Sleep(time.Hour)
		expectState(t, s, StateRunning)
		if got := containerState(t, e); got != "running" {
			t.Errorf("the container is %s, want running", got)
		}
		release()
		release() // again does no harm
		time.Sleep(2 * time.Minute)
		expectState(t, s, StatePaused)
		_, release, err = s.Use(t.Context())
		if got := containerState(t, e); got != "running" || err != nil {
			t.Errorf("the container is %s in use, want running: %v", got, err)
		}
		release()
		time.Sleep(6 * time.Minute)
		if sb, _, err := s.Use(t.Context()); sb != nil || err != nil {
			t.Errorf("got sandbox %v and error %v of a session that has ended, want none", sb, err)
		}
	})
}

func TestNothingIsPausedOrEndedUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		mustRun(t, s, "1")
		time.Sleep(1000 * time.Hour)
		expectState(t, s, StateIdle)
		res, err := s.Run(t.Context(), Request{Code: "sleep", Timeout: time.Second}, nil)
		if got := strings.Join(res.Notices, ";"); err != nil || got != "Variables are kept." {
			t.Errorf("got notices %q and error %v", got, err)
		}
	})
}

func TestAnEngineThatCannotPauseIsNotAskedAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{PauseAfter: time.Minute})
		e.Fail("pause", pauseRefusals, &runtime.EngineError{Op: "pause", Status: 500, Msg: "cannot pause rootless containers with cgroup V1"})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		mustRun(t, s, "1")
		time.Sleep(90 * time.Second)
		if got := p.Status().Degraded; len(got) != 0 {
			t.Errorf("degraded after one refusal: got %q", got)
		}
		time.Sleep(time.Minute)
		expectState(t, s, StateIdle)
		want := "idle sandboxes are not paused: cannot pause rootless containers with cgroup V1"
		if got := p.Status().Degraded; len(got) != 1 || got[0] != want {
			t.Errorf("degraded: got %q, want %q", got, want)
		}
		mustRun(t, s, "1")
		time.Sleep(5 * time.Minute)
		expectState(t, s, StateIdle) // though it would not fail now
		time.Sleep(pauseRetry)
		expectState(t, s, StatePaused)
		if got := p.Status().Degraded; len(got) != 0 {
			t.Errorf("degraded: got %q, want nothing", got)
		}
	})
}

func TestASandboxThatCannotBeResumedKeepsItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{PauseAfter: time.Minute})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		mustRun(t, s, "number")
		time.Sleep(2 * time.Minute)
		e.SetUnreachable(true)
		if _, err := s.Run(t.Context(), request("1"), nil); !errors.Is(err, runtime.ErrUnreachable) {
			t.Errorf("got error %v, want ErrUnreachable", err)
		}
		e.SetUnreachable(false)
		if res, err := s.Run(t.Context(), request("number"), nil); err != nil || res.Value != "2" {
			t.Errorf("got %+v and %v, want the second run of the sandbox", res, err)
		}
	})
}

func TestAPausedSandboxThatDiesIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{PauseAfter: time.Minute})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		mustRun(t, s, "1")
		time.Sleep(2 * time.Minute)
		expectState(t, s, StatePaused)
		if err := e.Remove(t.Context(), s.Sandbox().container); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expectState(t, s, StateNone)
		if st := p.Status(); st.Leased != 0 {
			t.Errorf("%d sandboxes are leased, want none", st.Leased)
		}
		expectContains(t, "notices", strings.Join(mustRun(t, s, "1"), ";"), "The interpreter was replaced before this call (its container is gone")
	})
}

func TestAContainerPausedFromOutside(t *testing.T) {
	const told = "The sandbox's container was paused from outside "
	t.Run("while idle is resumed by the next run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, e := newFakePool(t, PoolOptions{})
			s := NewSession(p, SessionOptions{})
			defer s.Close()
			mustRun(t, s, "1")
			if err := e.Pause(t.Context(), s.Sandbox().container); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(mustRun(t, s, "1"), ";"); got != told+"before it could run this code, and has been resumed." {
				t.Errorf("got notices %q", got)
			}
		})
	})
	t.Run("while idle is taken over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, e := newFakePool(t, PoolOptions{PauseAfter: time.Minute})
			s := NewSession(p, SessionOptions{})
			defer s.Close()
			mustRun(t, s, "1")
			if err := e.Pause(t.Context(), s.Sandbox().container); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			expectState(t, s, StatePaused)
			if got := p.Status().Degraded; len(got) != 0 {
				t.Errorf("degraded: got %q, though the engine can pause", got)
			}
			if got := mustRun(t, s, "1"); len(got) != 0 {
				t.Errorf("got notices %q", got)
			}
		})
	})
	t.Run("in a run is resumed at the time limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, e := newFakePool(t, PoolOptions{})
			s := NewSession(p, SessionOptions{})
			defer s.Close()
			mustRun(t, s, "1")
			time.AfterFunc(2*time.Second, func() { _ = e.Pause(t.Context(), s.Sandbox().container) })
			res, err := s.Run(t.Context(), Request{Code: "sleep", Timeout: 5 * time.Second}, nil)
			if err != nil || res.Status != StatusTimeout || res.StateLost != "" || res.Duration != 5*time.Second+interruptAgain {
				t.Errorf("got %+v and %v, want a timeout that keeps the state", res, err)
			}
			expectContains(t, "notices", strings.Join(res.Notices, ";"), told+"while the code ran, and has been resumed.")
			mustRun(t, s, "1")
		})
	})
	t.Run("and closed is removed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, e := newFakePool(t, PoolOptions{})
			s := NewSession(p, SessionOptions{})
			mustRun(t, s, "1")
			if err := e.Pause(t.Context(), s.Sandbox().container); err != nil {
				t.Fatal(err)
			}
			s.Close()
			expectNothing(t, e)
		})
	})
}

func TestRepliesWaitForAPausedSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		got := make(chan int64, 1)
		e := fakeEngine(t, func(h *fakeHarness) int {
			h.start()
			f, _ := h.until("run")
			const calls = 200 // of background code: more than fit in any queue
			for i := range calls {
				h.line(`{"t":"rpc","id":%d,"method":"m","params":{"x":%q}}`, i+1, strings.Repeat("x", 5000))
			}
			h.done(f.Run)
			n := int64(0)
			for range calls {
				if _, ok := h.until("reply"); ok {
					n++
				}
			}
			got <- n
			return interpreter(h)
		})
		p := NewPool(func(ctx context.Context) (*Sandbox, error) { return Launch(ctx, e, fakeOptions()) }, PoolOptions{PauseAfter: time.Minute})
		defer p.Close()
		s := NewSession(p, SessionOptions{RPC: rpcFunc(func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			<-hold
			return params, nil
		})})
		defer s.Close()
		if _, err := s.Run(t.Context(), request("go"), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		expectState(t, s, StatePaused)
		close(hold)
		time.Sleep(10 * sendTimeout)
		if _, err := s.Run(t.Context(), request("1"), nil); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != 200 {
			t.Errorf("%d replies came, want 200", n)
		}
	})
}

func TestAFullPoolEndsTheIdleSessionThatWasUnusedForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{Warm: 1, Max: 3})
		var sessions []*Session
		for range 5 {
			s := NewSession(p, SessionOptions{})
			defer s.Close()
			sessions = append(sessions, s)
		}
		for _, s := range sessions[:3] {
			mustRun(t, s, "1")
			time.Sleep(time.Second)
		}
		expectStatus(t, p, 0, 3)
		mustRun(t, sessions[0], "1") // 1 is the oldest now
		time.Sleep(time.Second)
		mustRun(t, sessions[3], "1")
		var got []SessionState
		for _, s := range sessions {
			got = append(got, s.Status().State)
		}
		want := []SessionState{StateIdle, StateNone, StateIdle, StateIdle, StateNone}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("the sessions are %v, want %v", got, want)
			}
		}
		if n := e.Counts().Present; n != 3 {
			t.Errorf("%d containers are there, want 3", n)
		}
		expectContains(t, "notices", strings.Join(mustRun(t, sessions[1], "1"), ";"),
			"(its sandbox was ended to make room for another session's; 3 are allowed (pool.max)): variables")
	})
}

func TestAFullPoolRefusesWhenAllSessionsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{Max: 32, Each: 512 << 20, Memory: func() int64 { return 1200 << 20 }})
		if st := p.Status(); st.Max != 2 || st.Limit != "2 of 512 MiB each are allowed (pool.memory is 1200 MiB)" {
			t.Errorf("at most %d sandboxes (%s), want 2", st.Max, st.Limit)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var sessions []*Session
		for range 3 {
			sessions = append(sessions, NewSession(p, SessionOptions{}))
		}
		for _, s := range sessions[:2] {
			wg.Go(func() {
				if _, err := s.Run(ctx, request("sleep"), nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		_, err := sessions[2].Run(t.Context(), request("1"), nil)
		want := "busy, nothing ran: too many sandboxes are in use: 2 of 512 MiB each are allowed (pool.memory is 1200 MiB), and code runs in all of them. " +
			"Wait for some of it to end, end a session that is not needed, or raise the limit"
		if !errors.Is(err, ErrPoolFull) || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
		cancel()
		wg.Wait()
		mustRun(t, sessions[2], "1")
		for _, s := range sessions {
			s.Close()
		}
	})
}

func TestALeaseWaitsForTheWarmOneThatIsBeingMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{Warm: 1, Max: 2})
		synctest.Wait()
		e.Delay("create", time.Second)
		idle := NewSession(p, SessionOptions{})
		defer idle.Close()
		mustRun(t, idle, "1")
		synctest.Wait() // the pool fills up again
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		mustRun(t, s, "1")
		expectState(t, idle, StateIdle)
	})
}

func TestOneSandboxFitsInAnyMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{Warm: 1, Each: 512 << 20, Memory: func() int64 { return 1 << 20 }})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		mustRun(t, s, "1")
		expectStatus(t, p, 0, 1)
	})
}
