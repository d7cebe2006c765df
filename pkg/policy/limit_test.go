package policy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAConcurrencyLetsCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := compile(t, Config{Rules: []Rule{{Concurrency: 2}}})
		d := p.Decide(Subject{Server: "s", Tool: "t"}, nil)
		began, ended := time.Now(), make(chan time.Duration, 5)
		for range 5 {
			go func() {
				leave, err := d.Enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				leave()
				ended <- time.Since(began)
			}()
		}
		var last time.Duration
		for range 5 {
			last = <-ended
		}
		if last != 3*time.Second {
			t.Errorf("5 calls of 1 s, 2 at once, took %s, want 3s", last)
		}
	})
}

func TestAConcurrencyIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := compile(t, Config{Rules: []Rule{{Servers: []string{"*"}, Concurrency: 9}, {Concurrency: 1}}})
		d := p.Decide(Subject{Server: "s", Tool: "t"}, nil)
		leave, err := d.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Enter(ctx); err == nil {
			t.Fatal("two calls entered")
		} else if busy, ok := errors.AsType[*BusyError](err); !ok || busy.Rule != "policy.rule 2" || busy.What != "1 at once" {
			t.Errorf("got %v", err)
		}
		leave()
		if n := len(p.rules[0].limiter.turns); n != 0 {
			t.Errorf("%d turns of the other rule were not given back", n)
		}
	})
}

func TestARateLetsCallsWaitAWhileAndRefusesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := compile(t, Config{Rules: []Rule{{Rate: Rate{2, 4 * time.Second}}, {Rate: Rate{1000, time.Second}}}})
		began := time.Now()
		for i, want := range []time.Duration{0, 0, 2 * time.Second, 4 * time.Second} {
			leave, err := p.Decide(Subject{Server: "s", Tool: "t"}, nil).Enter(t.Context())
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			leave()
			if got := time.Since(began).Round(time.Millisecond); got != want {
				t.Errorf("call %d came after %s, want %s", i, got, want)
			}
		}
		p = compile(t, Config{Rules: []Rule{{Rate: Rate{1, time.Minute}}}})
		d := p.Decide(Subject{Server: "s", Tool: "t"}, nil)
		if _, err := d.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 { // a refusal uses nothing up
			_, err := d.Enter(t.Context())
			if busy, ok := errors.AsType[*BusyError](err); !ok || busy.After.Round(time.Second) != time.Minute || busy.What != "1/m" {
				t.Fatalf("got %v, want to try again in a minute", err)
			}
		}
		time.Sleep(time.Minute)
		if _, err := d.Enter(t.Context()); err != nil {
			t.Errorf("after a minute: %v", err)
		}
	})
}

func TestACallThatIsGivenUpTakesNothingOfARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := compile(t, Config{Rules: []Rule{{Rate: Rate{1, 2 * time.Second}, Concurrency: 1}}})
		d := p.Decide(Subject{Server: "s", Tool: "t"}, nil)
		leave, err := d.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Enter(ctx); err == nil {
			t.Fatal("it entered")
		}
		began := time.Now()
		if _, err := d.Enter(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("the next came after %s, %v", time.Since(began), err)
		}
	})
}
