package sandbox

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// hangEngine stops the engine from passing anything on or answering, until the result
// is called.
func hangEngine(t *testing.T, e *enginetest.Memory, s *Session) (goOn func()) {
	t.Helper()
	if err := e.Pause(t.Context(), s.Sandbox().container); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"kill", "unpause", "remove", "info"} {
		e.Delay(op, time.Hour)
	}
	return func() {
		for _, op := range []string{"kill", "unpause", "remove", "info"} {
			e.Delay(op, 0)
		}
	}
}

func TestCodeUnderAnEngineThatHangsIsAnsweredAndKeepsItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		mustRun(t, s, "1")
		sb := s.Sandbox()
		goOn := hangEngine(t, e, s)
		for range 2 {
			began := time.Now()
			res, err := s.Run(t.Context(), Request{Code: "sleep", Timeout: 10 * time.Second}, nil)
			notices := strings.Join(res.Notices, ";")
			if err != nil || res.Status != StatusTimeout || res.StateLost != "" || time.Since(began) > 20*time.Second {
				t.Fatalf("got %+v and %v after %s, want a timeout that loses nothing", res, err, time.Since(began))
			}
			expectContains(t, "notices", notices, "The container engine does not answer")
			if strings.Contains(notices, "Variables are kept.") {
				t.Errorf("notices promise too much: %q", notices)
			}
		}
		goOn()
		if res, err := s.Run(t.Context(), request("number"), nil); err != nil || res.Value != "4" || s.Sandbox() != sb {
			t.Errorf("got %+v and %v, want the fourth run of the same sandbox", res, err)
		}
		time.Sleep(time.Minute)
		if sb.Cause() != "" {
			t.Errorf("the sandbox has ended: %s", sb.Cause())
		}
	})
}

func TestCodeThatIgnoresItsEndIsKilledOnceTheEngineAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e := newFakePool(t, PoolOptions{})
		s := NewSession(p, SessionOptions{})
		defer s.Close()
		mustRun(t, s, "1")
		sb := s.Sandbox()
		goOn := hangEngine(t, e, s)
		if res, err := s.Run(t.Context(), Request{Code: "ignore", Timeout: time.Second}, nil); err != nil || res.StateLost != "" {
			t.Fatalf("got %+v and %v", res, err)
		}
		time.Sleep(time.Minute)
		if sb.Cause() != "" {
			t.Fatalf("the sandbox has ended while the engine hung: %s", sb.Cause())
		}
		goOn()
		time.Sleep(time.Minute)
		expectContains(t, "cause", sb.Cause(), "did not stop within 3s")
		expectContains(t, "notices", strings.Join(mustRun(t, s, "1"), ";"), "The interpreter was replaced")
	})
}
