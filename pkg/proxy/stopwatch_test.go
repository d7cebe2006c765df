package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAStopwatchCountsQuestionsThatOverlapOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Stopwatch
		first := w.Start()
		time.Sleep(time.Second)
		second := w.Start()
		since := w.FromNow()
		time.Sleep(time.Second)
		first()
		time.Sleep(time.Second)
		if got := w.Total(); got != 3*time.Second {
			t.Errorf("while one is open: got %s, want 3s", got)
		}
		second()
		time.Sleep(time.Minute)
		if got := w.Total(); got != 3*time.Second || since() != 2*time.Second {
			t.Errorf("when none is: got %s and %s, want 3s and 2s", got, since())
		}
	})
}

func TestATimeLimitLeavesOutOpenQuestions(t *testing.T) {
	late := lateBy(10*time.Second, "a test")
	for _, row := range []struct {
		name      string
		ask, open time.Duration // when a question is asked, and how long it stays open
		taken     time.Duration
	}{
		{"no question", time.Hour, 0, 10 * time.Second},
		{"one at once", 0, time.Minute, 70 * time.Second},
		{"one late", 9 * time.Second, time.Minute, 70 * time.Second},
		{"one for ever", 0, 24 * time.Hour, 10*time.Second + maxPatience},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked Stopwatch
				began := time.Now()
				ctx, cancel := limited(t.Context(), 10*time.Second, late, &asked)
				defer cancel()
				stopped := make(chan struct{})
				question := time.AfterFunc(row.ask, func() {
					defer close(stopped)
					stop := asked.Start()
					select {
					case <-time.After(row.open):
					case <-ctx.Done():
					}
					stop()
				})
				<-ctx.Done()
				if !question.Stop() {
					<-stopped
				}
				if took := time.Since(began); took < row.taken || took > row.taken+2*patienceStep || context.Cause(ctx) != error(late) {
					t.Errorf("ended after %s with %v, want %s and %v", took, context.Cause(ctx), row.taken, late)
				}
			})
		})
	}
}

func TestATimeLimitEndsWithItsParentAndWithCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancelCause(t.Context())
		defer end(nil)
		ctx, cancel := limited(parent, time.Second, lateBy(time.Second, "a test"), &Stopwatch{})
		defer cancel()
		other, stop := limited(parent, time.Second, lateBy(time.Second, "a test"), &Stopwatch{})
		stop()
		time.Sleep(2 * time.Second)
		if got := context.Cause(other); !errors.Is(got, context.Canceled) {
			t.Errorf("canceled: got %v", got)
		}
		if got, ok := errors.AsType[*callTimeout](context.Cause(ctx)); !ok {
			t.Errorf("late: got %v", got)
		}
		last, cancel := limited(parent, time.Second, lateBy(time.Second, "a test"), &Stopwatch{})
		defer cancel()
		why := errors.New("why")
		end(why)
		if got := context.Cause(last); got != why {
			t.Errorf("with its parent: got %v, want %v", got, why)
		}
	})
}

func TestACallsTimeLimitWaitsForItsServersQuestion(t *testing.T) {
	b := newBench(t)
	const limit = 2 * time.Second
	agent := &fakeAgent{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		time.Sleep(limit + time.Second) // a person thinks
		return json.RawMessage(`{"action":"decline"}`), nil
	}}
	s := in(t, newProxy(t, quick()), agent, b.dir, b.server("fake", fakeConfig{}))
	must(t, s, "echo", args{}) // starts it
	limitCalls(s, limit)
	must(t, s, "send", args{"raw": elicitation})
	_, err := call(t, s, "fake", "hang", args{})
	wantCode(t, err, CodeTimeout, "did not answer hang within")
}
