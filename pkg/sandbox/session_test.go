package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

func TestSessionRunsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{Warm: 1})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		first := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(first)
			if _, err := s.Run(ctx, request("sleep"), nil); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		var wg sync.WaitGroup
		for i := range int64(20) {
			wg.Go(func() {
				res, err := s.Run(t.Context(), request("number"), nil)
				if err != nil || res.Value != itoa(2+i) {
					t.Errorf("got %+v and %v, want it to be run %d", res, err, 2+i)
				}
			})
			synctest.Wait() // it is in the queue
		}
		cancel()
		<-first
		wg.Wait()
	})
}

func TestTimeSpentWaitingIsNotTheCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{})
		e.Delay("create", 20*time.Second) // longer than the code may take
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		first := make(chan struct{})
		go func() {
			defer close(first)
			res, err := s.Run(t.Context(), Request{Code: "sleep", Timeout: 10 * time.Second}, nil)
			if err != nil || res.Status != StatusTimeout || res.Duration != 10*time.Second {
				t.Errorf("got %+v and %v, want its 10s", res, err)
			}
		}()
		synctest.Wait()
		res, err := s.Run(t.Context(), Request{Code: "1", Timeout: time.Second}, nil) // behind the other
		if err != nil || res.Status != StatusOK || res.Duration > time.Second {
			t.Errorf("got %+v and %v, want it to run after the other", res, err)
		}
		<-first
	})
}

func TestTimeSpentWaitingForPeopleIsNotTheCodes(t *testing.T) {
	tests := []struct {
		name  string
		waits func(ran time.Duration) time.Duration
		taken time.Duration
	}{
		{"nobody is waited for", func(time.Duration) time.Duration { return 0 }, 10 * time.Second},
		{"for a while", func(ran time.Duration) time.Duration { return min(ran, 45*time.Second) }, 55 * time.Second},
		{"late, and for a while", func(ran time.Duration) time.Duration { return min(max(0, ran-5*time.Second), time.Minute) }, 70 * time.Second},
		{"for ever", func(ran time.Duration) time.Duration { return ran }, maxWaited + 10*time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := newFakePool(t, PoolOptions{Warm: 1})
				s := NewSession(p, SessionOptions{})
				defer s.Close()
				synctest.Wait()
				began := time.Now()
				req := Request{Code: "sleep", Timeout: 10 * time.Second, Waited: func() time.Duration { return tt.waits(time.Since(began)) }}
				res, err := s.Run(t.Context(), req, nil)
				if err != nil || res.Status != StatusTimeout || res.Duration < tt.taken || res.Duration > tt.taken+2*waitedStep {
					t.Errorf("got %s after %s and %v, want it after %s", res.Status, res.Duration, err, tt.taken)
				}
			})
		})
	}
}

func TestSessionIsBusyWhenItsQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{})
		s := NewSession(p, SessionOptions{})
		var wg sync.WaitGroup
		for i := range 1 + maxQueue {
			wg.Go(func() {
				_, err := s.Run(t.Context(), request("sleep"), nil)
				if i > 0 && !errors.Is(err, ErrSessionClosed) {
					t.Errorf("got error %v in the queue of a session that closes", err)
				}
			})
			synctest.Wait()
		}
		if _, err := s.Run(t.Context(), request("1"), nil); !errors.Is(err, ErrBusy) {
			t.Errorf("got error %v, want ErrBusy", err)
		}
		s.Close()
		wg.Wait()
	})
}

func TestSessionLeavesTheQueueWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		go func() { _, _ = s.Run(t.Context(), request("sleep"), nil) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Run(ctx, request("1"), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the context's", err)
		}
	})
}

func TestSessionClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{})
		s := NewSession(p, SessionOptions{})
		running := make(chan Result, 1)
		go func() {
			res, err := s.Run(t.Context(), request("ignore"), nil)
			if err != nil {
				t.Error(err)
			}
			running <- res
		}()
		synctest.Wait()
		s.Close()
		if res := <-running; res.StateLost == "" {
			t.Errorf("got %+v, want lost state", res)
		}
		expectNothing(t, e)
		if _, err := s.Run(t.Context(), request("1"), nil); !errors.Is(err, ErrSessionClosed) {
			t.Errorf("got error %v, want ErrSessionClosed", err)
		}
		s.Close()
	})
}

func TestSessionResetGivesAFreshSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{})
		s := NewSession(p, SessionOptions{})
		number := func() string {
			res, err := s.Run(t.Context(), request("number"), nil)
			if err != nil {
				t.Error(err)
			}
			return res.Value
		}
		if err := s.Reset(t.Context()); err != nil { // of nothing
			t.Error(err)
		}
		number()
		if got := number(); got != "2" {
			t.Errorf("got run %s, want the second", got)
		}
		if err := s.Reset(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		expectNothing(t, e)
		if got := number(); got != "1" {
			t.Errorf("got run %s after the reset, want the first of a sandbox", got)
		}
		s.Close()
		if err := s.Reset(t.Context()); !errors.Is(err, ErrSessionClosed) {
			t.Errorf("got error %v, want ErrSessionClosed", err)
		}
	})
}

func TestSessionTellsTheHarnessBeforeEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newFakePool(t, PoolOptions{})
		n := 0
		s := NewSession(p, SessionOptions{Tell: func(anew bool) map[string]json.RawMessage {
			n++
			return map[string]json.RawMessage{"x": json.RawMessage(fmt.Sprintf(`"%d %v"`, n, anew))}
		}})
		defer s.Close()
		expect := func(want string) {
			t.Helper()
			if res, err := s.Run(t.Context(), request("told"), nil); err != nil || res.Value != want {
				t.Errorf("the harness was told %q, %v; want %q", res.Value, err, want)
			}
		}
		expect("1 true")
		expect("2 false")
		if err := s.Reset(t.Context()); err != nil {
			t.Error(err)
		}
		expect("3 true")
	})
}

func TestSessionClosedWhileItsSandboxIsLaunched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{})
		e.Delay("attach", 30*time.Second)
		s := NewSession(p, SessionOptions{})
		failed := make(chan error, 1)
		go func() {
			_, err := s.Run(context.Background(), request("1"), nil)
			failed <- err
		}()
		time.Sleep(time.Second)
		began := time.Now()
		s.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the close took %s, want it to end the launch", took)
		}
		if err := <-failed; !errors.Is(err, ErrSessionClosed) {
			t.Errorf("got error %v, want ErrSessionClosed", err)
		}
		expectNothing(t, e)
	})
}

func TestSessionRefusesCodeThatPythonWouldNotParse(t *testing.T) {
	tests := []struct{ name, code, want string }{
		{"a NUL byte", "x = '\x00'", "NUL byte (at byte 5); write it as \\x00"},
		{"bytes that are not UTF-8", "x = '\xff'", "not valid UTF-8 (at byte 5)"},
		{"a replacement character and then bytes that are none", "\ufffd\xff", "not valid UTF-8 (at byte 3)"},
		{"too much of it", strings.Repeat("#", MaxCode+1), "at most 4194304 are taken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, e := newFakePool(t, PoolOptions{})
			s := NewSession(p, SessionOptions{})
			defer s.Close()
			_, err := s.Run(t.Context(), request(tt.code), nil)
			if !errors.Is(err, ErrCode) {
				t.Fatalf("got error %v, want ErrCode", err)
			}
			expectContains(t, "error", err.Error(), tt.want)
			if e.Counts().Created != 0 {
				t.Error("a sandbox was made for it")
			}
		})
	}
}

func TestSessionTellsOfALossAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{Max: 1})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		run := func(code string) Result {
			t.Helper()
			res, err := s.Run(t.Context(), request(code), nil)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := run("die"); res.Status != StatusLost || res.StateLost != "Python ended with exit code 7" {
			t.Errorf("got %+v, want it lost with exit code 7", res)
		}
		if res := run("5"); res.Value != "5" || len(res.Notices) != 0 {
			t.Errorf("got %+v, want value 5 without a notice, since the loss was told", res)
		}
		if err := e.End(s.Sandbox().container, runtime.Exit{Code: 137, OOM: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		res := run("6")
		if res.Value != "6" || len(res.Notices) != 1 {
			t.Fatalf("got %+v, want value 6 and a notice", res)
		}
		expectContains(t, "notice", res.Notices[0], "The interpreter was replaced before this call (it used more than its 512 MiB")
	})
}

func TestSessionSurvivesAContainerRemovedFromOutside(t *testing.T) {
	for _, when := range []string{"while idle", "in a run"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, e := newFakePool(t, PoolOptions{})
				s := NewSession(p, SessionOptions{})
				defer s.Close()
				if _, err := s.Run(t.Context(), request("1"), nil); err != nil {
					t.Fatal(err)
				}
				id := s.Sandbox().container
				lost := make(chan Result, 1)
				if when == "in a run" {
					go func() {
						res, err := s.Run(t.Context(), request("ignore"), nil)
						if err != nil {
							t.Error(err)
						}
						lost <- res
					}()
					synctest.Wait()
				}
				if err := e.Remove(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if when == "in a run" {
					if res := <-lost; res.Status != StatusLost {
						t.Errorf("got %+v, want it lost", res)
					}
				}
				synctest.Wait()
				if res, err := s.Run(t.Context(), request("2"), nil); err != nil || res.Value != "2" {
					t.Errorf("got %+v and %v, want value 2", res, err)
				}
			})
		})
	}
}

func TestSessionTimeouts(t *testing.T) {
	tests := []struct {
		name          string
		code          string
		asked, taken  time.Duration
		status        Status
		lost, noticed string
	}{
		{"code that ends", "1", time.Second, 0, StatusOK, "", ""},
		{"the default", "sleep", 0, 10 * time.Second, StatusTimeout, "", "Variables are kept until the session has been idle for 30m."},
		{"a limit of the caller's", "sleep", time.Second, time.Second, StatusTimeout, "", "Variables are kept until the session has been idle for 30m."},
		{"a limit that is too high", "sleep", time.Hour, 20 * time.Second, StatusTimeout, "", "lowered to 20s"},
		{"code that swallows interrupts", "ignore", time.Second, time.Second + interruptGrace, StatusTimeout, "did not stop within 3s of being interrupted", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := newFakePool(t, PoolOptions{Warm: 1, SessionIdle: 30 * time.Minute})
				s := NewSession(p, SessionOptions{Timeout: 10 * time.Second, MaxTimeout: 20 * time.Second})
				defer s.Close()
				synctest.Wait()
				res, err := s.Run(t.Context(), Request{Code: tt.code, Timeout: tt.asked}, nil)
				if err != nil || res.Status != tt.status || res.Duration != tt.taken {
					t.Errorf("got %s after %s and error %v, want %s after %s", res.Status, res.Duration, err, tt.status, tt.taken)
				}
				expectContains(t, "state lost", res.StateLost, tt.lost)
				if (res.StateLost != "") != (tt.lost != "") {
					t.Errorf("got state lost %q, want %q", res.StateLost, tt.lost)
				}
				expectContains(t, "notices", strings.Join(res.Notices, "\n"), tt.noticed)
				if res, err := s.Run(t.Context(), request("next"), nil); err != nil || res.Value != "next" {
					t.Errorf("got %+v and %v from the next run", res, err)
				}
			})
		})
	}
}

// TestSessionsLeaveNothing plays random sequences of what can happen to
// sessions, and looks whether anything outlives them.
func TestSessionsLeaveNothing(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playSessions(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func playSessions(t *testing.T, r *rand.Rand) {
	p, e := newFakePool(t, PoolOptions{
		Warm: r.IntN(3), Max: 2 + r.IntN(3),
		PauseAfter: time.Duration(r.IntN(2)*300) * time.Millisecond, SessionIdle: time.Duration(r.IntN(2)*2000) * time.Millisecond,
	})
	e.Delay("create", time.Duration(r.IntN(300))*time.Millisecond)
	e.Delay("pause", time.Duration(r.IntN(100))*time.Millisecond)
	e.Delay("unpause", time.Duration(r.IntN(100))*time.Millisecond)
	var sessions []*Session
	for range 4 {
		sessions = append(sessions, NewSession(p, SessionOptions{RPC: rpcFunc(echo)}))
	}
	var wg sync.WaitGroup
	words := []string{"1", "sleep", "ignore", "die", "call"}
	for range 40 {
		s := sessions[r.IntN(len(sessions))]
		code, limit, patience := words[r.IntN(len(words))], time.Duration(1+r.IntN(3000))*time.Millisecond, time.Duration(r.IntN(5000))*time.Millisecond
		switch r.IntN(16) {
		case 0:
			wg.Go(s.Close)
		case 1:
			if sb := s.Sandbox(); sb != nil {
				wg.Go(func() { _ = e.End(sb.container, runtime.Exit{Code: 137}) }) // it may be gone already
			}
		case 2:
			if sb := s.Sandbox(); sb != nil {
				_ = e.DropStreams(sb.container) // the same
			}
		case 3:
			e.Fail([]string{"create", "attach", "start", "kill", "pause", "unpause"}[r.IntN(6)], 1, nil)
		case 4:
			wg.Go(func() { _ = s.Reset(t.Context()) }) // it may be closed
		case 5:
			if sb := s.Sandbox(); sb != nil {
				wg.Go(func() { _ = e.Pause(t.Context(), sb.container) }) // it may be paused already
			}
		case 6:
			wg.Go(func() {
				if sb, release, err := s.Use(t.Context()); err == nil && sb != nil {
					time.Sleep(limit)
					release()
				}
			})
		case 7:
			time.Sleep(patience) // long enough to be idle
		default:
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				res, err := s.Run(ctx, Request{Code: code, Timeout: limit}, nil)
				if err == nil && res.Status == StatusOK && code == "1" && res.Value != "1" {
					t.Errorf("got %+v from code 1", res)
				}
			})
		}
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
	}
	if r.IntN(2) == 0 {
		p.Close()
	}
	for _, s := range sessions {
		s.Close()
	}
	wg.Wait()
	p.Close()
	expectNothing(t, e)
}

func echo(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
	return params, nil
}
