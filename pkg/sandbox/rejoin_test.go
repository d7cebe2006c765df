package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// rejoining returns a session with a real harness, whose pool reaches sandboxes
// again.
func rejoining(t *testing.T, stdinOnce bool) (*Session, *enginetest.Memory) {
	t.Helper()
	e := enginetest.NewMemory(t, enginetest.Options{StdinOnce: stdinOnce})
	e.AddImage("python", nil)
	o := localOptions(t)
	o.Grace, o.Relay = 10*time.Minute, images.Relay()
	pool := NewPool(
		func(ctx context.Context) (*Sandbox, error) { return Launch(ctx, e, o) },
		PoolOptions{Rejoin: func(ctx context.Context, ticket Ticket) (*Sandbox, error) { return Adopt(ctx, e, o, ticket) }},
	)
	s := NewSession(pool, SessionOptions{})
	t.Cleanup(func() {
		s.Close()
		pool.Close()
		expectNothing(t, e)
	})
	return s, e
}

func cutStreams(t *testing.T, e *enginetest.Memory, s *Session) {
	t.Helper()
	if err := e.DropStreams(s.Sandbox().container); err != nil {
		t.Fatal(err)
	}
}

func TestASessionOutlivesItsEnginesService(t *testing.T) {
	bothStdins(t, func(t *testing.T, once bool) {
		s, e := rejoining(t, once)
		mustRun(t, s, "x = 41")
		first := s.Sandbox()
		e.SetUnreachable(true)
		cutStreams(t, e, s)
		<-first.Done()
		if st := s.Status(); st.Lost != "" {
			t.Errorf("while the engine is away: status tells of a loss: %q", st.Lost)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := s.Run(ctx, request("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call while the engine is away: got %v", err)
		}
		e.SetUnreachable(false)
		res, err := s.Run(t.Context(), request("x + 1"), nil)
		if err != nil || res.Value != "42" || len(res.Notices) > 0 {
			t.Errorf("got %+v and %v, want 42 and no word", res, err)
		}
		if got := s.Sandbox(); got == first || got.ID != first.ID || s.pool.Status().Leased != 1 {
			t.Errorf("sandbox %v after %v, %d leased", got.ID, first.ID, s.pool.Status().Leased)
		}
		cutStreams(t, e, s) // again, and with an engine that answers
		if res, err := s.Run(t.Context(), request("x + 2"), nil); err != nil || res.Value != "43" {
			t.Errorf("the second time: got %+v and %v", res, err)
		}
	})
}

func TestARunOutlivesItsEnginesService(t *testing.T) {
	bothStdins(t, func(t *testing.T, once bool) {
		s, e := rejoining(t, once)
		flag := t.TempDir() + "/flag"
		going := make(chan struct{}, 1)
		go func() {
			<-going
			e.SetUnreachable(true)
			cutStreams(t, e, s)
			writeFile(t, flag)
			time.Sleep(100 * time.Millisecond)
			e.SetUnreachable(false)
		}()
		code := "import os, time\nprint('go', flush=True)\nwhile not os.path.exists(" + literal(flag) + "): time.sleep(0.01)\nprint('over')\nx = 7\nx"
		var told []string
		res, err := s.Run(t.Context(), request(code), func(o Output) {
			told = append(told, o.Text)
			if strings.Contains(o.Text, "go") {
				poke(going)
			}
		})
		if err != nil || res.Status != StatusOK || res.Value != "7" || output(res) != "go\nover\n" || res.StateLost != "" {
			t.Errorf("got %+v and %v, want the result as if nothing had been", res, err)
		}
		if got := strings.Join(told, ""); strings.Count(got, "go") != 1 {
			t.Errorf("told %q, want nothing twice", got)
		}
		if res, err := s.Run(t.Context(), request("x"), nil); err != nil || res.Value != "7" {
			t.Errorf("afterwards: got %+v and %v", res, err)
		}
	})
}

func TestARunWhoseEngineStaysAwayIsAnswered(t *testing.T) {
	s, e := rejoining(t, true)
	mustRun(t, s, "x = 1")
	going := make(chan struct{}, 1)
	go func() {
		<-going
		e.SetUnreachable(true)
		cutStreams(t, e, s)
	}()
	code := "import time\nprint('go', flush=True)\nwhile True: time.sleep(0.1)"
	res, err := s.Run(t.Context(), Request{Code: code, Timeout: 5 * time.Second}, func(Output) { poke(going) })
	if err != nil || res.Status != StatusTimeout || res.StateLost != "" {
		t.Errorf("got %+v and %v, want a timeout that loses nothing", res, err)
	}
	expectContains(t, "notices", strings.Join(res.Notices, ";"), "engine does not answer")
	e.SetUnreachable(false)
	if res, err := s.Run(t.Context(), request("x"), nil); err != nil || res.Value != "1" {
		t.Errorf("once it is back: got %+v and %v", res, err)
	}
}

func TestASandboxThatEndedWithItsEngineIsLost(t *testing.T) {
	s, e := rejoining(t, false)
	mustRun(t, s, "x = 1")
	id := s.Sandbox().container
	done := s.Sandbox().Done()
	e.SetUnreachable(true)
	cutStreams(t, e, s)
	<-done
	if err := e.End(id, runtime.Exit{Code: 137}); err != nil {
		t.Fatal(err)
	}
	e.SetUnreachable(false)
	res, err := s.Run(t.Context(), request("'x' in globals()"), nil)
	if err != nil || res.Value != "False" {
		t.Errorf("got %+v and %v, want a new sandbox", res, err)
	}
	expectContains(t, "notices", strings.Join(res.Notices, ";"), "the container engine went away, and its container ended with it")
}
