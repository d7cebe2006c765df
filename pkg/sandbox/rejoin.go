package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// rejoinPause is the time between two tries to reach a sandbox again.
	rejoinPause = time.Second
	// rejoinRefusals is how often its container may refuse us, while the engine
	// answers: somebody has restarted it, and the harness is gone.
	rejoinRefusals = 3
	// rejoinWait bounds how long a call that has not begun waits for it. The
	// agent is told more than that the engine is slow then.
	rejoinWait = 10 * time.Second
)

// A cut is what became of a sandbox whose connection the engine has ended, while
// its container may live.
type cut struct {
	over chan struct{} // closed when next is decided

	// Guarded by the sandbox's mu.
	next    *Sandbox // that goes on in its place; nil if it is lost
	givenUp bool     // nobody waits for the run that was under way
}

// cutOff returns how it is with the sandbox's connection; nil unless the engine
// has ended it.
func (s *Sandbox) cutOff() *cut {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

// reaching reports whether it is not decided yet what becomes of a sandbox that
// was cut off.
func (s *Sandbox) reaching() bool {
	c := s.cutOff()
	if c == nil {
		return false
	}
	select {
	case <-c.over:
		return false
	default:
		return true
	}
}

// attend rejoins the session's sandbox when the engine ends its connection. It
// waits in the background, until the sandbox has ended.
func (s *Session) attend(sb *Sandbox) {
	if s.pool.opts.Rejoin == nil || sb.ticket.Door == "" {
		return
	}
	sb.mu.Lock()
	sb.attended = true
	sb.mu.Unlock()
	s.pool.done.Go(func() {
		<-sb.Done()
		if c := sb.cutOff(); c != nil {
			s.rejoin(sb, c)
		}
	})
}

// rejoin reaches a sandbox again, as long as its harness waits for somebody.
func (s *Session) rejoin(old *Sandbox, c *cut) {
	s.hold()
	defer s.release()
	defer close(c.over)
	old.log.Warn().Msg("the engine ended the connection to a sandbox: reach it again")
	ctx, cancel := context.WithTimeout(s.ctx, time.Duration(old.ticket.Grace)*time.Second*4/5)
	defer cancel()
	defer context.AfterFunc(s.pool.ctx, cancel)()
	for refusals := 0; ; {
		sb, err := s.pool.opts.Rejoin(ctx, old.Ticket())
		if err == nil {
			s.succeed(old, sb, c)
			return
		}
		if _, refused := errors.AsType[*runtime.EngineError](err); refused || !engineTrouble(err) {
			refusals++
		}
		if errors.Is(err, ErrGone) || refusals >= rejoinRefusals || !pauseFor(ctx, rejoinPause) {
			old.log.Warn().Err(err).Msg("sandbox is lost")
			old.mu.Lock()
			defer old.mu.Unlock()
			old.cause = lostWhy(old.cause, err)
			return
		}
	}
}

// engineTrouble reports whether an error is for the engine, which may recover.
func engineTrouble(err error) bool {
	return errors.Is(err, runtime.ErrUnreachable) || errors.Is(err, runtime.ErrNoEngine) || errors.Is(err, context.DeadlineExceeded)
}

// lostWhy says why a sandbox that was cut off is lost.
func lostWhy(cause string, err error) string {
	if errors.Is(err, ErrGone) {
		return "the container engine went away, and its container ended with it"
	}
	return fmt.Sprintf("%s, and it could not be reached again: %v", cause, err)
}

// pauseFor waits, and reports whether ctx lasts.
func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// succeed puts sb in the place of old, which it is the same as.
func (s *Session) succeed(old, sb *Sandbox, c *cut) {
	if s.pool.Adopt(sb) != nil { // it is closed: another daemon may want it
		sb.Leave(context.Background())
		return
	}
	old.mu.Lock()
	old.left = true // what is removed is sb
	givenUp := c.givenUp || old.chased != 0
	old.mu.Unlock()
	s.mu.Lock()
	mine := s.sandbox == old
	if mine {
		s.sandbox = sb
		sb.files.watch(s.changed)
	}
	s.mu.Unlock()
	s.pool.discard(old)
	if !mine { // the session was closed or reset meanwhile
		s.pool.Release(sb)
		return
	}
	sb.calls.bind(s.opts.RPC)
	old.mu.Lock()
	c.next = sb
	old.mu.Unlock()
	s.mind(sb)
	s.attend(sb)
	if r := sb.underway(); r != nil && givenUp {
		s.pool.done.Go(func() { sb.interrupt(r, StatusTimeout, "its time limit") })
	}
	sb.log.Info().Msg("reached the sandbox again")
}

// reached waits until it is decided what becomes of a sandbox that was cut off,
// and returns the one in its place, nil if it is lost.
func (s *Session) reached(ctx context.Context, old *Sandbox, c *cut) (*Sandbox, error) {
	select {
	case <-c.over:
	case <-s.ctx.Done():
		return nil, ErrSessionClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	return c.next, nil
}

// errAway is told to a call that comes while the sandbox can't be reached.
var errAway = errors.New("the container engine does not answer, so the session's interpreter can't be reached. It is kept: try again in a moment, or tell the user to start the engine")

// rejoined returns the sandbox in the place of one that was cut off; nil if it
// is lost.
func (s *Session) rejoined(ctx context.Context, old *Sandbox, c *cut) (*Sandbox, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, rejoinWait, errAway)
	defer cancel()
	return s.reached(ctx, old, c)
}

// follow goes on with a run whose sandbox was cut off, in the sandbox in its
// place. It returns that, and nil if there is none.
func (s *Session) follow(ctx context.Context, old *Sandbox, c *cut, req Request, onOutput func(Output), began time.Time) (*Sandbox, Result, error) {
	limited, cancel := context.WithDeadline(ctx, began.Add(req.Timeout))
	defer cancel()
	next, err := s.reached(limited, old, c)
	switch {
	case errors.Is(err, ErrSessionClosed):
		return nil, Result{}, err
	case err != nil:
		old.mu.Lock()
		c.givenUp = true
		old.mu.Unlock()
		res := Result{Status: StatusTimeout, unstopped: true, Duration: time.Since(began), Notices: []string{unstoppedNotice}}
		if ctx.Err() != nil {
			res.Status = StatusInterrupted
		}
		return old, res, nil
	case next == nil:
		return nil, Result{}, nil
	}
	r, err := next.claim(req.Key)
	switch {
	case err != nil:
		return next, Result{}, err
	case r == nil: // its code never arrived
		return next, next.traced(ctx, req, onOutput), nil
	}
	r.mu.Lock()
	r.onOutput = onOutput // what was printed before has been told
	r.mu.Unlock()
	res := next.conclude(r, next.await(ctx, r, req))
	res.Duration = time.Since(began)
	return next, res, nil
}

// runIn runs code in the session's sandbox, however often the engine ends the
// connection to it.
func (s *Session) runIn(ctx context.Context, sb *Sandbox, req Request, onOutput func(Output), limit limit) (Result, error) {
	if req.Key == "" && sb.ticket.Door != "" { // by which it is found again
		req.Key = "run " + randomHex(8)
		defer func() { s.Ack(req.Key) }()
	}
	began := time.Now()
	res := sb.traced(ctx, req, onOutput)
	for res.StateLost != "" {
		c := sb.cutOff()
		if c == nil {
			break
		}
		next, again, err := s.follow(ctx, sb, c, req, onOutput, began)
		if err != nil {
			return Result{}, err
		}
		if next == nil {
			res.StateLost = sb.Cause()
			break
		}
		sb, res = next, again
	}
	return s.settle(sb, res, limit)
}
