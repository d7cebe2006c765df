package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Conditions that callers test.
var (
	// ErrBusy is returned by Run when too many calls wait in the session.
	ErrBusy = errors.New("session is busy")
	// ErrSessionClosed is returned by Run after Close.
	ErrSessionClosed = errors.New("session is closed")
	// ErrCode is returned by Run for code that can't be run at all.
	ErrCode = errors.New("code can't be run")
)

const (
	// DefaultTimeout is a run's time limit if its caller sets none.
	DefaultTimeout = 30 * time.Second
	// DefaultMaxTimeout caps the time limit that a caller may set.
	DefaultMaxTimeout = 120 * time.Second

	// maxQueue bounds the calls that wait for their turn in one session.
	maxQueue = 32

	// MaxCode bounds the code of one call, in bytes.
	MaxCode = 4 << 20
)

// SessionOptions configure a [Session].
type SessionOptions struct {
	RPC        RPC           // answers the code's calls; nil refuses them
	Owner      string        // whose session it is: owners take turns when sandboxes are scarce
	Timeout    time.Duration // 0 means [DefaultTimeout]
	MaxTimeout time.Duration // 0 means [DefaultMaxTimeout]

	// Tell returns what the harness is told at the start of each run, by what it
	// is of; nil is nothing, and no more than some 8 MiB fit beside the code. anew
	// is that the sandbox has been told nothing before. It is called by one run at
	// a time, and the run waits for it.
	Tell func(anew bool) map[string]json.RawMessage

	// Holds is told the ticket of each sandbox that the session gets, before any
	// code runs in it; nil is not. The run waits for it.
	Holds func(Ticket)

	// Adopted is a sandbox that [Adopt] returned, which the session takes over, and
	// Lost says why there is none, for the next run to tell.
	Adopted *Sandbox
	Lost    string
}

// A Session runs code in order, with variables that last. It leases a sandbox
// for its first run and a new one when that was lost. It is safe for
// concurrent use; calls queue up.
type Session struct {
	pool *Pool
	opts SessionOptions
	turn chan struct{} // holds a token while no call runs
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex // guards the fields below
	waiting int
	sandbox *Sandbox
	users   int       // of the sandbox: it is not paused or ended for being idle
	used    time.Time // when there was one last
	lost    string    // why the sandbox of earlier calls is gone, if the caller does not know
	changed func()    // told when Files returns something else; may be nil
	closed  bool
}

// NewSession returns a session that takes its sandboxes from pool. The caller
// must Close it.
func NewSession(pool *Pool, o SessionOptions) *Session {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxTimeout == 0 {
		o.MaxTimeout = DefaultMaxTimeout
	}
	s := &Session{pool: pool, opts: o, turn: make(chan struct{}, 1), used: time.Now(), lost: o.Lost}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.turn <- struct{}{}
	if sb := o.Adopted; sb != nil {
		s.adopt(sb)
	}
	pool.enroll(s)
	return s
}

// Run waits for its turn, runs code and says what came of it. Time in the
// queue is not counted as the code's. An error means that nothing was run:
// ErrBusy, ErrSessionClosed, ErrCode, ErrRanBefore, a failed launch, or ctx's
// own; or, with ErrLeft, that another daemon will have the result. onOutput
// must not block; it is not called after Run has returned.
func (s *Session) Run(ctx context.Context, req Request, onOutput func(Output)) (Result, error) {
	if err := checkCode(req.Code); err != nil {
		return Result{}, err
	}
	if len(req.Key) > maxKey {
		return Result{}, fmt.Errorf("%w: its key has %d bytes, at most %d are taken", ErrCode, len(req.Key), maxKey)
	}
	if err := s.enter(ctx); err != nil {
		return Result{}, err
	}
	defer s.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.hold()
	defer s.release()
	sb, notice, err := s.lease(ctx)
	if err != nil {
		return Result{}, err
	}
	r, err := sb.claim(req.Key)
	if err != nil {
		return Result{}, err
	}
	if r != nil {
		return s.takeUp(ctx, sb, r, req, onOutput)
	}
	if err := s.await(ctx, sb); err != nil {
		return Result{}, err
	}
	limit := s.limit(req.Timeout)
	limit.notices = append(notice, limit.notices...)
	req.Timeout, req.tell = limit.span, s.opts.Tell
	return s.runIn(ctx, sb, req, onOutput, limit)
}

// checkCode refuses what Python would not even parse.
func checkCode(code string) error {
	if len(code) > MaxCode {
		return fmt.Errorf("%w: it has %d bytes, at most %d are taken. Put data into files or fetch it in the code", ErrCode, len(code), MaxCode)
	}
	if !utf8.ValidString(code) {
		return fmt.Errorf("%w: it is not valid UTF-8 (at byte %d)", ErrCode, firstInvalid(code))
	}
	if i := strings.IndexByte(code, 0); i >= 0 {
		return fmt.Errorf("%w: it contains a NUL byte (at byte %d); write it as \\x00", ErrCode, i)
	}
	return nil
}

func firstInvalid(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return i
			}
		}
	}
	return len(s)
}

// enter waits for the session's turn.
func (s *Session) enter(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrSessionClosed
	}
	if s.waiting >= maxQueue {
		s.mu.Unlock()
		return fmt.Errorf("%w: %d calls wait already; wait for their results before making more", ErrBusy, maxQueue)
	}
	s.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}()
	select {
	case <-s.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return ErrSessionClosed
	}
	if s.ctx.Err() != nil {
		s.leave()
		return ErrSessionClosed
	}
	return nil
}

func (s *Session) leave() { s.turn <- struct{}{} }

// ready returns a live sandbox that is awake, and a notice if an earlier one
// was lost while nothing ran. The caller holds the session.
func (s *Session) ready(ctx context.Context) (*Sandbox, []string, error) {
	if sb := s.Sandbox(); sb != nil {
		for c := sb.cutOff(); c != nil; c = sb.cutOff() {
			next, err := s.rejoined(ctx, sb, c)
			if err != nil {
				return nil, nil, err
			}
			if next == nil {
				break
			}
			sb = next
		}
		if err := sb.resume(ctx); err != nil {
			return nil, nil, fmt.Errorf("resuming the paused sandbox: %w", err)
		}
		cause := sb.Cause()
		if cause == "" {
			return sb, nil, nil
		}
		if sb.isLeft() {
			return nil, nil, ErrLeft
		}
		s.lose(cause)
		s.drop(sb)
	}
	sb, err := s.pool.leaseFor(ctx, s.opts.Owner)
	if s.ctx.Err() != nil && err != nil {
		return nil, nil, ErrSessionClosed
	}
	if err != nil {
		return nil, nil, err
	}
	sb.calls.bind(s.opts.RPC)
	if s.opts.Holds != nil {
		s.opts.Holds(sb.Ticket())
	}
	s.mu.Lock()
	sb.files.watch(s.changed)
	closed, lost := s.closed, s.lost
	if !closed {
		s.sandbox, s.lost = sb, ""
	}
	s.mu.Unlock()
	if closed {
		s.pool.Release(sb)
		return nil, nil, ErrSessionClosed
	}
	s.attend(sb)
	poke(s.pool.look)
	if lost == "" {
		return sb, nil, nil
	}
	return sb, []string{replaced(lost)}, nil
}

// adopt takes over a sandbox that lived before the session. It ends it if the
// pool is closed.
func (s *Session) adopt(sb *Sandbox) {
	if err := s.pool.Adopt(sb); err != nil {
		sb.Leave(context.Background())
		return
	}
	sb.files.watch(func() {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if changed != nil {
			changed()
		}
	})
	s.sandbox = sb
	s.mind(sb)
	sb.calls.bind(s.opts.RPC)
	s.attend(sb)
	poke(s.pool.look)
}

// lose remembers why the sandbox is gone for the next run to tell.
func (s *Session) lose(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = why
}

// replaced tells of a loss between two runs.
func replaced(why string) string {
	return fmt.Sprintf("The interpreter was replaced before this call (%s): variables, imports and files of earlier calls are gone.", why)
}

// Reset waits for its turn, then ends the sandbox with all that it holds. The
// next run has a fresh one. The error is ErrBusy, ErrSessionClosed or ctx's own.
func (s *Session) Reset(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if sb := s.Sandbox(); sb != nil && s.forget(sb) {
		s.pool.Release(sb)
	}
	s.lose("")
	return nil
}

// drop lets go of a sandbox that was lost.
func (s *Session) drop(sb *Sandbox) {
	if s.forget(sb) {
		s.pool.discard(sb)
	}
}

// forget reports whether sb was the session's sandbox, which it then is no
// more.
func (s *Session) forget(sb *Sandbox) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.sandbox == sb
	if mine {
		s.sandbox = nil
	}
	return mine
}

// Sandbox returns the session's sandbox, nil before the first run and after a
// loss.
func (s *Session) Sandbox() *Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sandbox
}

// Close interrupts what runs, ends the sandbox and removes its container. It
// returns when all of that is done, and must not be called by what it waits
// for: onOutput, and the session's RPC.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	sb := s.sandbox
	s.mu.Unlock()
	s.pool.dismiss(s)
	s.stop()
	if sb != nil && s.forget(sb) {
		s.pool.Release(sb)
	}
	<-s.turn // a run that was under way has returned
	s.turn <- struct{}{}
}
