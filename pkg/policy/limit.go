package policy

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// maxRateWait is how long a call waits for its turn under a rate. Short waits
// spare code a loop of its own; a long one would hold a run for nothing to see.
const maxRateWait = 5 * time.Second

// A limiter counts the calls of one rule, of all sessions together.
type limiter struct {
	rate  *rate.Limiter // nil without a rate
	turns chan struct{} // one for each call under way; nil without a bound
}

func newLimiter(r Rate, concurrency int) *limiter {
	l := &limiter{}
	if r.Calls > 0 {
		l.rate = rate.NewLimiter(rate.Every(r.Per/time.Duration(r.Calls)), r.Calls)
	}
	if concurrency > 0 {
		l.turns = make(chan struct{}, concurrency)
	}
	return l
}

// A BusyError says that a call has to be made later.
type BusyError struct {
	Rule  string
	What  string        // of the rule: "10/m" or "2 at once"
	After time.Duration // when to try again; 0 where that is not known
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s allows %s", e.Rule, e.What)
}

// Enter waits for the call's turn under the limits of all rules that matched
// it, for as long as ctx lasts under a concurrency and for some seconds under a
// rate. leave gives the turn back and has to be called, unless there is an
// error: a *BusyError, which counts against no rate.
func (d Decision) Enter(ctx context.Context) (leave func(), err error) {
	var held []*limiter
	leave = func() {
		for _, l := range held {
			<-l.turns
		}
	}
	for _, r := range d.limiters {
		if r.limiter.turns == nil {
			continue
		}
		select {
		case r.limiter.turns <- struct{}{}:
			held = append(held, r.limiter)
		case <-ctx.Done():
			leave()
			return nil, &BusyError{Rule: r.name, What: fmt.Sprintf("%d at once", r.Concurrency)}
		}
	}
	if err := d.pace(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// pace waits until the rates of all rules have room for one more call.
func (d Decision) pace(ctx context.Context) error {
	var taken []*rate.Reservation
	longest := time.Duration(0)
	for _, r := range d.limiters {
		if r.limiter.rate == nil {
			continue
		}
		now := time.Now()
		t := r.limiter.rate.ReserveN(now, 1)
		taken = append(taken, t)
		if wait := t.DelayFrom(now); wait > maxRateWait {
			giveBack(taken)
			return &BusyError{Rule: r.name, What: r.Rate.String(), After: wait}
		} else if wait > longest {
			longest = wait
		}
	}
	if longest == 0 {
		return nil
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		giveBack(taken)
		return &BusyError{Rule: "the rate of a rule", What: "no more calls now", After: longest}
	}
}

func giveBack(taken []*rate.Reservation) {
	for _, t := range taken {
		t.Cancel()
	}
}
