package sandbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Conditions that callers of Run and Resume test.
var (
	// ErrNoRun means that the sandbox has no run of that key to take up.
	ErrNoRun = errors.New("no such run")
	// ErrRanBefore is returned by Run for a key whose run has ended before, and
	// whose result is not kept any more. The code was not run again.
	ErrRanBefore = errors.New("this call has run before, and its result is not kept any more")
	// ErrLeft is returned by Run when the sandbox was left to another daemon
	// while the code ran, or before it could.
	ErrLeft = errors.New("the sandbox was left to another daemon")
)

// A begun is a run whose result nobody has acknowledged.
type begun struct {
	run int64
	key string
}

// An Unfinished is a run that has begun under an earlier daemon, and whose
// result nobody has acknowledged.
type Unfinished struct {
	Key  string
	Done bool          // it has ended, and its result is there
	Lost bool          // it has ended, and its result was too much to be kept
	Age  time.Duration // since it began
}

// Unfinished returns the runs that began before the sandbox was adopted, the
// oldest first, until they are taken up: see [Session.Resume].
func (s *Sandbox) Unfinished() []Unfinished {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Unfinished, 0, len(s.kept))
	for _, r := range s.kept {
		list = append(list, Unfinished{Key: r.key, Done: r.over() && !r.lost, Lost: r.lost, Age: time.Since(r.began)})
	}
	return list
}

// over reports whether the run's last frame has come.
func (r *run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Ack says that the result of a run has reached whoever asked for it, so that
// the harness need not keep it. It is told with the next frame that goes anyway.
func (s *Sandbox) Ack(key string) {
	if key == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(b begun) bool { return b.key == key })
	s.kept = slices.DeleteFunc(s.kept, func(r *run) bool { return r.key == key && r.over() })
}

// acknowledge is Ack for a run without a key.
func (s *Sandbox) acknowledge(run int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(b begun) bool { return b.run == run && b.key == "" })
}

// acked returns the number up to which all runs are acknowledged.
func (s *Sandbox) acked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ackedLocked()
}

func (s *Sandbox) ackedLocked() int64 {
	if len(s.open) > 0 {
		return s.open[0].run - 1
	}
	return s.runs
}

// claim returns the run of a key that began before we came, which is the
// caller's to take up then. ErrRanBefore says that there is nothing to take up
// and nothing to run either.
func (s *Sandbox) claim(key string) (*run, error) {
	if key == "" {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.kept, func(r *run) bool { return r.key == key })
	switch {
	case i >= 0 && !s.kept[i].lost:
		r := s.kept[i]
		s.kept = slices.Delete(s.kept, i, i+1)
		return r, nil
	case i >= 0, slices.Contains(s.keys, key):
		return nil, ErrRanBefore
	}
	return nil, nil
}

// takeUp is Run for a run that has begun before. Its time limit counts from
// there. onOutput first gets what was printed by then.
func (s *Sandbox) takeUp(ctx context.Context, r *run, req Request, onOutput func(Output)) Result {
	r.follow(onOutput)
	res := s.conclude(r, s.await(ctx, r, req))
	res.Duration = time.Since(r.began)
	return res
}

// follow has onOutput told of what was printed and of what will be.
func (r *run) follow(onOutput func(Output)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if onOutput == nil {
		return
	}
	for _, o := range r.output.all() {
		onOutput(o)
	}
	r.onOutput = onOutput
}

// underway returns the run of before that has not ended, if there is one.
func (s *Sandbox) underway() *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.kept {
		if !r.over() {
			return r
		}
	}
	return nil
}

// Unfinished is [Sandbox.Unfinished] of the session's sandbox.
func (s *Session) Unfinished() []Unfinished {
	if sb := s.Sandbox(); sb != nil {
		return sb.Unfinished()
	}
	return nil
}

// Ack is [Sandbox.Ack] of the session's sandbox.
func (s *Session) Ack(key string) {
	if sb := s.Sandbox(); sb != nil {
		sb.Ack(key)
	}
}

// Resume takes up a run that began under an earlier daemon, by req.Key: it waits
// for its end and returns what came of it, as Run would have. It does not wait
// for its turn. The time limit, by default the highest that a call may set, counts
// from when the run began. ErrNoRun means
// that there is no such run, ErrRanBefore that its result is not kept any more.
func (s *Session) Resume(ctx context.Context, req Request, onOutput func(Output)) (Result, error) {
	s.hold()
	defer s.release()
	sb := s.Sandbox()
	if sb == nil {
		return Result{}, ErrNoRun
	}
	r, err := sb.claim(req.Key)
	if err != nil {
		return Result{}, err
	}
	if r == nil {
		return Result{}, ErrNoRun
	}
	req.Timeout = cmp.Or(req.Timeout, s.opts.MaxTimeout)
	return s.takeUp(ctx, sb, r, req, onOutput)
}

// takeUp waits for a run that was claimed. The caller holds the session.
func (s *Session) takeUp(ctx context.Context, sb *Sandbox, r *run, req Request, onOutput func(Output)) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	limit := s.limit(req.Timeout)
	req.Timeout = limit.span
	return s.settle(sb, sb.takeUp(ctx, r, req, onOutput), limit)
}

// settle completes what a run came to.
func (s *Session) settle(sb *Sandbox, res Result, limit limit) (Result, error) {
	if sb.isLeft() && res.Status == StatusLost {
		return Result{}, ErrLeft
	}
	res.Notices = append(limit.notices, res.Notices...)
	if res.Status == StatusTimeout {
		res.Limit = limit.words
	}
	switch {
	case res.StateLost != "":
		s.drop(sb)
		res.loseFiles()
	case res.unstopped:
	case res.Status == StatusTimeout, res.Status == StatusInterrupted:
		res.Notices = append(res.Notices, s.kept())
	}
	return res, nil
}

// mind looks after a run of before until it has ended or is taken up: the
// session is in use, and past the longest time limit the run is interrupted.
// It ends with the session, too.
func (s *Session) mind(sb *Sandbox) {
	r := sb.underway()
	if r == nil {
		return
	}
	s.hold()
	s.pool.done.Go(func() {
		defer s.release()
		timer := time.NewTimer(max(0, s.opts.MaxTimeout-time.Since(r.began)))
		defer timer.Stop()
		select {
		case <-r.done:
		case <-sb.Done():
		case <-s.ctx.Done():
		case <-timer.C:
			if sb.underway() == r { // else whoever took it up looks after it
				sb.interrupt(r, StatusTimeout, "its time limit of "+Brief(s.opts.MaxTimeout))
			}
		}
	})
}

// await waits until a run of before that nobody has taken up has ended.
func (s *Session) await(ctx context.Context, sb *Sandbox) error {
	r := sb.underway()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
	case <-sb.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
