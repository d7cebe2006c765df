package proxy

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

func TestQueueServesInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{limit: 2}
		var mu sync.Mutex
		var order []string
		for i := range 6 {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // they come one after the other
				if room, err := q.enter(t.Context()); !room || err != nil {
					t.Errorf("entering: %v, %v", room, err)
				}
				mu.Lock()
				order = append(order, fmt.Sprint(i))
				mu.Unlock()
				time.Sleep(time.Second)
				q.leave()
			}()
		}
		time.Sleep(500 * time.Millisecond)
		if inside, waiting := q.load(); inside != 2 || waiting != 4 {
			t.Errorf("%d are under way and %d wait, want 2 and 4", inside, waiting)
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(order, " "); got != "0 1 2 3 4 5" {
			t.Errorf("order: %s", got)
		}
		if inside, waiting := q.load(); inside != 0 || waiting != 0 {
			t.Errorf("in the end %d are under way and %d wait", inside, waiting)
		}
	})
}

func TestQueuedCallMayGiveUpAndKeepsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{limit: 1}
		if _, err := q.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gaveUp)
		defer cancel()
		if _, err := q.enter(ctx); !errors.Is(err, gaveUp) {
			t.Errorf("got %v, want %v", err, gaveUp)
		}
		q.leave()
		if _, err := q.enter(t.Context()); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestTurnThatComesAsItsCallGivesUpIsPassedOn(t *testing.T) {
	q := &queue{limit: 1}
	if turn, room := q.join(); turn != nil || !room {
		t.Fatal("no turn though nobody is there")
	}
	late, _ := q.join()
	next, _ := q.join()
	q.leave() // to late, which does not see it
	q.quit(late)
	select {
	case <-next:
	default:
		t.Error("the turn was lost")
	}
}

func TestQueueIsBounded(t *testing.T) {
	q := &queue{limit: 1}
	for range 1 + maxQueued {
		if _, room := q.join(); !room {
			t.Fatal("it is full too early")
		}
	}
	if room, err := q.enter(t.Context()); room || err != nil {
		t.Errorf("one more: got %v, %v", room, err)
	}
}
