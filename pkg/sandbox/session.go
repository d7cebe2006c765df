package sandbox

import (
	"context"
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
	Timeout    time.Duration // 0 means [DefaultTimeout]
	MaxTimeout time.Duration // 0 means [DefaultMaxTimeout]
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
	s := &Session{pool: pool, opts: o, turn: make(chan struct{}, 1), used: time.Now()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.turn <- struct{}{}
	pool.enroll(s)
	return s
}

// Run waits for its turn, runs code and says what came of it. Time in the
// queue is not counted as the code's. An error means that nothing was run:
// ErrBusy, ErrSessionClosed, ErrCode, a failed launch, or ctx's own. onOutput
// must not block; it is not called after Run has returned.
func (s *Session) Run(ctx context.Context, req Request, onOutput func(Output)) (Result, error) {
	if err := checkCode(req.Code); err != nil {
		return Result{}, err
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
	sb, notice, err := s.ready(ctx)
	if err != nil {
		return Result{}, err
	}
	limit := s.limit(req.Timeout)
	req.Timeout = limit.span
	res := sb.Run(ctx, req, onOutput)
	res.Notices = append(append(notice, limit.notices...), res.Notices...)
	if res.Status == StatusTimeout {
		res.Limit = limit.words
	}
	switch {
	case res.StateLost != "":
		s.drop(sb)
		res.loseFiles()
	case res.Status == StatusTimeout, res.Status == StatusInterrupted:
		res.Notices = append(res.Notices, s.kept())
	}
	return res, nil
}

// kept says how long variables last.
func (s *Session) kept() string {
	if d := s.pool.opts.SessionIdle; d > 0 {
		return fmt.Sprintf("Variables are kept until the session has been idle for %s.", brief(d))
	}
	return "Variables are kept."
}

// brief writes a span of time as people do: 30m and not 30m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// hold keeps the sandbox from being paused or ended for being idle, until
// release.
func (s *Session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

func (s *Session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.used = time.Now()
}

// Use returns the session's sandbox, awake and kept so until the caller calls
// release, for something other than a run: it does not wait for its turn. It is
// nil, and release too, if the session has no live sandbox. The error is the
// engine's, which could not resume it, or ctx's own.
func (s *Session) Use(ctx context.Context) (sb *Sandbox, release func(), err error) {
	s.hold()
	sb = s.Sandbox()
	if sb != nil && sb.Cause() == "" {
		err = sb.resume(ctx)
	}
	if sb == nil || sb.Cause() != "" || err != nil {
		s.release()
		return nil, nil, err
	}
	return sb, sync.OnceFunc(s.release), nil
}

// lastUse returns when the sandbox was used last, or now if it is in use.
func (s *Session) lastUse() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 {
		return time.Now()
	}
	return s.used
}

// yield takes the sandbox of a session that does not use it, which the caller
// must Release. The next run tells why. Nil if there is none or it is in use.
func (s *Session) yield(why string) *Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 {
		return nil
	}
	return s.yieldLocked(why)
}

func (s *Session) yieldLocked(why string) *Sandbox {
	sb := s.sandbox
	if sb != nil {
		s.sandbox, s.lost = nil, why
	}
	return sb
}

// tend does what is due for an idle session, in the background, and returns
// when to look again; 0 if there is nothing to look after. Only the pool's
// tender calls it.
func (s *Session) tend(now time.Time) time.Duration {
	p := s.pool
	s.mu.Lock()
	defer s.mu.Unlock()
	sb, idle := s.sandbox, now.Sub(s.used)
	switch {
	case sb == nil:
		return 0
	case s.users > 0:
		return p.patience()
	case sb.Cause() != "":
		s.yieldLocked(sb.Cause())
		p.done.Go(func() { p.Release(sb) })
		return 0
	case p.opts.SessionIdle > 0 && idle >= p.opts.SessionIdle:
		s.yieldLocked(fmt.Sprintf("the session was idle for %s, the limit (run.session_idle)", brief(p.opts.SessionIdle)))
		p.done.Go(func() { p.Release(sb) })
		return 0
	}
	next := p.patience()
	if p.opts.SessionIdle > 0 {
		next = p.opts.SessionIdle - idle
	}
	if sb.isFrozen() || !p.pausable(now) {
		return next
	}
	if idle < p.opts.PauseAfter {
		return min(next, p.opts.PauseAfter-idle)
	}
	p.done.Go(func() { p.notePause(sb.pause(s.busy)) })
	return next
}

// busy reports whether the sandbox is in use.
func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users > 0
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
		if err := sb.resume(ctx); err != nil {
			return nil, nil, fmt.Errorf("resuming the paused sandbox: %w", err)
		}
		cause := sb.Cause()
		if cause == "" {
			return sb, nil, nil
		}
		s.lose(cause)
		s.drop(sb)
	}
	sb, err := s.pool.Lease(ctx)
	if s.ctx.Err() != nil && err != nil {
		return nil, nil, ErrSessionClosed
	}
	if err != nil {
		return nil, nil, err
	}
	sb.calls.bind(s.opts.RPC)
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
	poke(s.pool.look)
	if lost == "" {
		return sb, nil, nil
	}
	return sb, []string{replaced(lost)}, nil
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

// A limit is a run's time limit and what to say of it.
type limit struct {
	span    time.Duration
	words   string // for a run that reached it: the value, whose it is, what to do
	notices []string
}

// limit applies the session's default and cap to a caller's time limit.
func (s *Session) limit(d time.Duration) limit {
	most := s.opts.MaxTimeout
	more := fmt.Sprintf("pass a larger timeout if it needs longer, at most %s (run.max_timeout)", brief(most))
	full := fmt.Sprintf("%s, the most that run.max_timeout allows; do less in one call", brief(most))
	switch {
	case d <= 0 && s.opts.Timeout >= most:
		return limit{span: s.opts.Timeout, words: full}
	case d <= 0:
		return limit{span: s.opts.Timeout, words: fmt.Sprintf("%s, the default (run.timeout); %s", brief(s.opts.Timeout), more)}
	case d > most:
		return limit{span: most, words: full, notices: []string{
			fmt.Sprintf("The time limit was lowered to %s, the most that the configuration allows (run.max_timeout).", brief(most))}}
	case d == most:
		return limit{span: d, words: full}
	}
	return limit{span: d, words: fmt.Sprintf("%s, as the call asked; %s", brief(d), more)}
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

// SessionState says how a session's sandbox is.
type SessionState string

// The states of a session's sandbox.
const (
	StateNone    SessionState = "none"    // there is none: before the first run, or it has ended
	StateRunning SessionState = "running" // something uses it
	StateIdle    SessionState = "idle"
	StatePaused  SessionState = "paused" // idle, and its processes stand still
)

// SessionStatus is a snapshot of a [Session].
type SessionStatus struct {
	State   SessionState
	Sandbox string    // its ID, "" if there is none
	Since   time.Time // when that was made
	Used    time.Time // when it was used last
	Lost    string    // what the next run will tell of a loss, "" if there is nothing to tell
}

// Status returns a snapshot.
func (s *Session) Status() SessionStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := SessionStatus{State: StateNone, Used: s.used}
	lost, sb := s.lost, s.sandbox
	if sb != nil && sb.Cause() != "" {
		sb, lost = nil, sb.Cause()
	}
	if lost != "" {
		st.Lost = replaced(lost)
	}
	switch {
	case s.users > 0:
		st.State = StateRunning
	case sb == nil:
		return st
	case sb.isFrozen():
		st.State = StatePaused
	default:
		st.State = StateIdle
	}
	if sb != nil {
		st.Sandbox, st.Since = sb.ID, sb.Created
	}
	return st
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
