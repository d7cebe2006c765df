package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/proxy"
	"github.com/bridged/bridged/pkg/sandbox"
	"github.com/bridged/bridged/pkg/tracing"
)

// errReset is the cause of an interrupt that makes way for a fresh sandbox.
var errReset = errors.New("the agent starts over")

// maxWaiting bounds the calls that wait for their turn in one Python session.
const maxWaiting = 32

// A lane runs the calls of one Python session in the order in which they came.
// A run that outlives its call's patience keeps the lane until it ends, and its
// result until a call collects it. Its methods may be called from several
// goroutines.
type lane struct {
	name string          // the session's, "" for the default one
	ctx  context.Context // the connection's: ends what runs
	jobs *sync.WaitGroup // counts the jobs' goroutines, which end after ctx
	log  zerolog.Logger

	onLate, onHeard func(key string) // told of runs that outlive their calls, and of their results' delivery; may be nil

	inquiries *inquiries      // of the code to a client that is asked in answers
	asking    proxy.Stopwatch // how long the code has waited for people

	mu    sync.Mutex    // guards the fields below
	queue []*place      // of calls that wait for their turn, in order
	taken bool          // a place has the turn
	last  *job          // the youngest; nil before the first
	late  *job          // has outlived its call and is not claimed; nil if none
	left  chan struct{} // closed while there is a late job
	owed  []string      // notices that no call was there to hear
	peer  *peer         // the client of the youngest call that waits or waited; nil for initialize's
}

func newLane(ctx context.Context, name string, jobs *sync.WaitGroup, log zerolog.Logger) *lane {
	return &lane{name: name, ctx: ctx, jobs: jobs, log: log, left: make(chan struct{}), inquiries: newInquiries()}
}

// A place is a call's place in a lane, until it is given up.
type place struct {
	turn chan struct{} // closed when the turn is this place's
	held bool          // so it is; guarded by the lane's mu
}

// enter takes the last place in the queue. The caller must leave it, or begin
// with it.
func (l *lane) enter() (*place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= maxWaiting {
		return nil, fmt.Errorf("busy, nothing ran: %d calls wait for their turn in %s already, which is the limit; wait for their answers, or use another session", len(l.queue), l.called())
	}
	p := &place{turn: make(chan struct{})}
	l.queue = append(l.queue, p)
	l.passLocked()
	return p, nil
}

// leave gives a place up, and the turn if it has it.
func (l *lane) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, p); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	if p.held {
		p.held, l.taken = false, false
		l.passLocked()
	}
}

// passLocked gives the turn to the first in the queue, if nobody has it.
func (l *lane) passLocked() {
	if l.taken || len(l.queue) == 0 {
		return
	}
	p := l.queue[0]
	l.queue = l.queue[1:]
	p.held, l.taken = true, true
	close(p.turn)
}

// called is the session's name in a sentence.
func (l *lane) called() string {
	if l.name == "" {
		return "this session"
	}
	return fmt.Sprintf("session %q", l.name)
}

// goOn tells how to wait for a run that goes on.
func (l *lane) goOn() string {
	if l.name == "" {
		return "call run_python with empty code"
	}
	return fmt.Sprintf("call run_python with empty code and session=%q", l.name)
}

// An order is what a call wants of a lane.
type order struct {
	code     string
	reset    bool             // end what runs late
	timed    bool             // the call brings a time limit
	place    *place           // in the lane's queue; do gives it up
	task     task             // what to do
	patience <-chan time.Time // yields when the call must be answered; nil never does
	progress *progress        // may be nil
	peer     *peer            // the call's client; nil for initialize's
	key      string           // of the run; "" if it has none
	ack      func()           // forgets the run's result, when the agent has it; may be nil
}

// waits reports whether the call only goes on waiting, if there is for what.
func (o order) waits() bool { return !o.reset && strings.TrimSpace(o.code) == "" }

// do runs the order's task, or waits on for the late job. An error means that
// nothing ran, but for a [*needsInput], which says that the job goes on when
// the client has answered. When ctx ends, what the call waits for is interrupted.
func (l *lane) do(ctx context.Context, o order) (sandbox.Result, error) {
	for {
		j, earlier, err := l.join(ctx, o)
		if err != nil {
			return sandbox.Result{}, err
		}
		over, asks := l.await(ctx, j, o)
		if asks != nil {
			return sandbox.Result{}, asks
		}
		if !over {
			return l.noteLimit(j, o, j.soFar(l.goOn())), nil
		}
		if l.claim(j) {
			dealingOf(ctx).after(l.delivery(j))
			res, err := l.conclude(ctx, j, earlier)
			return l.noteLimit(j, o, res), err
		}
		// Another call has the result: there is nothing to wait for.
		if o.place, err = l.enter(); err != nil {
			return sandbox.Result{}, err
		}
	}
}

// noteLimit says that the time limit of a call that waited on was not used.
func (l *lane) noteLimit(j *job, o order, res sandbox.Result) sandbox.Result {
	if o.timed && !j.startedBy(o.place) {
		res.Notices = append(res.Notices, fmt.Sprintf("timeout was ignored: run %d keeps the time limit that it was started with", j.n))
	}
	return res
}

// join returns the job to wait for, and one that ended unheard before it. The
// order's place is given up, or used up by a new job.
func (l *lane) join(ctx context.Context, o order) (j, earlier *job, err error) {
	_, span := tracing.Start(ctx, "wait for turn")
	defer func() {
		if err != nil {
			span.Fail("not_run")
		}
		span.End()

		if j == nil || !j.startedBy(o.place) {
			l.leave(o.place)
		}
	}()
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
		case <-o.place.turn:
			if j, earlier := l.begin(ctx, o); j != nil {
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
	if l.last == nil {
		return errors.New("busy, nothing ran: an earlier call of this session is still waiting for its servers; try again in a moment")
	}
	return fmt.Errorf("busy, nothing ran: run %d still goes on; %s to wait for it, or with reset=true to stop it and start over", l.last.n, l.goOn())
}

// begin starts a job, whose trace is that of call, the context of the call that
// gives the order; the order's place has the turn. It returns none if there is a
// late job to wait for instead.
func (l *lane) begin(call context.Context, o order) (j, earlier *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late != nil && o.waits() {
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(tracing.Carry(l.ctx, call))
	j = &job{n: 1, began: time.Now(), cancel: cancel, key: o.key, ack: o.ack, done: make(chan struct{}), place: o.place, watch: o.progress, fresh: sandbox.NewRecord(maxFresh)}
	if l.last != nil {
		j.n += l.last.n
	}
	earlier = l.late
	if earlier != nil {
		l.claimLocked(earlier)
	}
	l.last = j
	l.peer = o.peer // already: the code may ask before the call listens

	l.jobs.Go(func() { // ends with the task, which ends soon after ctx
		defer l.leave(o.place)
		j.run(ctx, o.task, l.log)
	})
	return j, earlier
}

// await reports whether the job ended while the call had patience. If not, it
// is late, and asks has what its code asks a client that can be asked only in
// the call's answer.
func (l *lane) await(ctx context.Context, j *job, o order) (over bool, asks error) {
	j.follow(o.progress)
	defer j.follow(nil)
	news := l.listen(o.peer)
	for {
		select {
		case <-j.done:
			return true, nil
		case <-ctx.Done():
			j.cancel(context.Cause(ctx))
			<-j.done
			return true, nil
		case <-o.patience:
			return !l.outlive(j), nil
		case <-news:
		}
		if n := l.inquiries.take(); n != nil && l.outlive(j) {
			return false, n
		}
	}
}

// listen makes p the client that the code asks, and returns what says that it
// does; nil for a client that hears of questions as they come.
func (l *lane) listen(p *peer) <-chan struct{} {
	l.mu.Lock()
	l.peer = p
	l.mu.Unlock()
	if p == nil {
		return nil
	}
	l.inquiries.again()
	return l.inquiries.news
}

// caller returns the client of the youngest call; nil for initialize's.
func (l *lane) caller() *peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peer
}

// note shows a line of text to the call that waits for the job under way. It
// never blocks.
func (l *lane) note(text string) {
	l.mu.Lock()
	j := l.last
	l.mu.Unlock()
	if j != nil {
		j.note(text)
	}
}

// outlive makes a job late, unless it has ended.
func (l *lane) outlive(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.ended() {
		return false
	}
	if l.late == nil { // not the second time
		l.late = j
		close(l.left)
		if j.key != "" && l.onLate != nil {
			l.onLate(j.key)
			j.noted = true
		}
	}
	return true
}

// delivery returns what is to be done when the agent has a job's result.
func (l *lane) delivery(j *job) func() {
	return func() {
		if j.ack != nil {
			j.ack()
		}
		l.mu.Lock()
		noted := j.noted
		l.mu.Unlock()
		if noted && l.onHeard != nil {
			l.onHeard(j.key)
		}
	}
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
		dealingOf(ctx).after(l.delivery(earlier))
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

// owe keeps a notice for the next answer.
func (l *lane) owe(notice string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed = append(l.owed, notice)
}

// quiet reports whether nothing runs, nothing waits and no result is kept.
func (l *lane) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.taken && len(l.queue) == 0 && l.late == nil && len(l.owed) == 0
}

// lingers reports whether a job goes on whose call was answered.
func (l *lane) lingers() bool {
	late, _ := l.outlived()
	return late != nil && !late.ended()
}
