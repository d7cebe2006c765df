package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/sandbox"
)

// errReset is the cause of an interrupt that makes way for a fresh sandbox.
var errReset = errors.New("the agent starts over")

// A lane runs the calls of one Python session in the order in which they came.
// A run that outlives its call's patience keeps the lane until it ends, and its
// result until a call collects it. Its methods may be called from several
// goroutines.
type lane struct {
	ctx  context.Context // the connection's: ends what runs
	jobs *sync.WaitGroup // counts the jobs' goroutines, which end after ctx
	log  zerolog.Logger
	turn chan struct{} // holds a token while a job runs

	mu   sync.Mutex    // guards the fields below
	last *job          // the youngest; nil before the first
	late *job          // has outlived its call and is not claimed; nil if none
	left chan struct{} // closed while there is a late job
	owed []string      // notices that no call was there to hear
}

func newLane(ctx context.Context, jobs *sync.WaitGroup, log zerolog.Logger) *lane {
	return &lane{ctx: ctx, jobs: jobs, log: log, turn: make(chan struct{}, 1), left: make(chan struct{})}
}

// An order is what a call wants of a lane.
type order struct {
	code     string
	reset    bool             // end what runs late
	task     task             // what to do
	patience <-chan time.Time // yields when the call must be answered; nil never does
	progress *progress        // may be nil
}

// waits reports whether the call only goes on waiting, if there is for what.
func (o order) waits() bool { return !o.reset && strings.TrimSpace(o.code) == "" }

// do runs the order's task, or waits on for the late job. An error means that
// nothing ran. When ctx ends, what the call waits for is interrupted.
func (l *lane) do(ctx context.Context, o order) (sandbox.Result, error) {
	for {
		j, earlier, err := l.join(ctx, o)
		if err != nil {
			return sandbox.Result{}, err
		}
		if !l.await(ctx, j, o) {
			return j.soFar(), nil
		}
		if l.claim(j) {
			return l.conclude(ctx, j, earlier)
		}
		// Another call has the result: there is nothing to wait for.
	}
}

// join returns the job to wait for, and one that ended unheard before it.
func (l *lane) join(ctx context.Context, o order) (j, earlier *job, err error) {
	for {
		late, left := l.outlived()
		switch {
		case late != nil && o.waits():
			return late, nil, nil
		case late != nil && o.reset:
			if err := l.end(ctx, late); err != nil {
				return nil, nil, err
			}
			continue
		case late != nil && !late.ended():
			return nil, nil, l.busy()
		case late != nil:
			left = nil // it is closed, and tells nothing new
		}
		select {
		case l.turn <- struct{}{}:
			if j, earlier := l.begin(o); j != nil {
				return j, earlier, nil
			}
		case <-left:
		case <-o.patience:
			return nil, nil, l.busy()
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// outlived returns the late job, and what is closed when there is one.
func (l *lane) outlived() (*job, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late, l.left
}

// end interrupts a late job and waits until it is over. Nobody hears of it.
func (l *lane) end(ctx context.Context, j *job) error {
	j.cancel(errReset)
	select {
	case <-j.done:
		l.claim(j)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// busy is the answer of a call that would have to wait too long.
func (l *lane) busy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("busy, nothing ran: run %d still goes on; call run_python with empty code to wait for it, or with reset=true to stop it and start over", l.last.n)
}

// begin starts a job; the caller has taken the turn. It returns none, and gives
// back the turn, if there is a late job to wait for instead.
func (l *lane) begin(o order) (j, earlier *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late != nil && o.waits() {
		<-l.turn
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	j = &job{n: 1, began: time.Now(), cancel: cancel, done: make(chan struct{}), watch: o.progress}
	if l.last != nil {
		j.n += l.last.n
	}
	earlier = l.late
	if earlier != nil {
		l.claimLocked(earlier)
	}
	l.last = j
	l.jobs.Go(func() { // ends with the task, which ends soon after ctx
		defer func() { <-l.turn }()
		j.run(ctx, o.task, l.log)
	})
	return j, earlier
}

// await reports whether the job ended while the call had patience. If not, it
// is late.
func (l *lane) await(ctx context.Context, j *job, o order) bool {
	j.follow(o.progress)
	defer j.follow(nil)
	select {
	case <-j.done:
	case <-ctx.Done():
		j.cancel(context.Cause(ctx))
		<-j.done
	case <-o.patience:
		return !l.leave(j)
	}
	return true
}

// leave makes a job late, unless it has ended.
func (l *lane) leave(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.ended() {
		return false
	}
	if l.late == nil { // not the second time
		l.late = j
		close(l.left)
	}
	return true
}

// claim reports whether the caller is the one to tell a job's result.
func (l *lane) claim(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimLocked(j)
}

func (l *lane) claimLocked(j *job) bool {
	if j.claimed {
		return false
	}
	j.claimed = true
	if l.late == j {
		l.late = nil
		l.left = make(chan struct{})
	}
	return true
}

// conclude makes the answer of a call, and remembers what a cancelled one will
// not tell.
func (l *lane) conclude(ctx context.Context, j, earlier *job) (sandbox.Result, error) {
	res, err := j.result()
	if err != nil || ctx.Err() != nil {
		l.putBack(earlier)
	} else if earlier != nil {
		res = earlier.behind(res)
	}
	if err != nil {
		return res, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		if res.StateLost != "" {
			l.owed = []string{lostBefore(res.StateLost)}
		}
		return res, nil
	}
	res.Notices = append(l.owed, res.Notices...)
	l.owed = nil
	return res, nil
}

// putBack keeps an ended job for the next call, if the call that took it could
// not tell it.
func (l *lane) putBack(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j == nil || l.late != nil {
		return
	}
	j.claimed = false
	l.late = j
	close(l.left)
}

// lingers reports whether a job goes on whose call was answered.
func (l *lane) lingers() bool {
	late, _ := l.outlived()
	return late != nil && !late.ended()
}
