package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/discovery"
)

const (
	// defaultBackoffMin is the pause after a start that failed; it doubles up
	// to defaultBackoffMax. Within it callers get the error of before.
	defaultBackoffMin = time.Second
	defaultBackoffMax = time.Minute
)

// errFull says that no further process may be started now.
var errFull = errors.New("no room for another server")

// A State is what is known of a server.
type State string

// The states of a server.
const (
	StateStopped  State = "stopped" // it does not run, and would be started on use
	StateStarting State = "starting"
	StateStarted  State = "started"
	StateFailed   State = "failed" // it can't be started, or ended at once
)

// A ServerStatus is a snapshot of one server.
type ServerStatus struct {
	Name      string // of the session that used it first
	State     State
	PID       int           // 0 when it does not run
	Since     time.Time     // when the process was started
	Uptime    time.Duration // of the process
	Restarts  int           // starts after the first
	Calls     int64         // of tools
	Errors    int64         // of those, without the tools' own
	LastError string
	Warning   string // what is odd about its list of tools
	Stderr    string // the end of what it wrote there
	Stdout    string // the end of what it wrote there that is no protocol
}

// A backend is one definition with everything about it resolved, and the
// process that runs it, if any.
type backend struct {
	proxy   *Proxy
	key     string
	name    string
	server  discovery.Server
	mask    *strings.Replacer
	timeout time.Duration // of a start
	log     zerolog.Logger

	// Guarded by the proxy's mu.
	users   int
	lastUse time.Time

	mu       sync.Mutex // guards the fields below
	up       *upstream
	starting chan struct{} // closed when the start under way is over
	retired  bool          // the proxy is closed
	failures int           // in a row
	retryAt  time.Time
	lastErr  error
	stderr   string // of the process before
	stdout   string // of the process before
	starts   int
	calls    int64
	errs     int64
	shelf    shelf
}

func newBackend(p *Proxy, t *target) *backend {
	return &backend{
		proxy: p, key: t.ref.Digest, name: t.server.Name, server: t.whole, mask: t.mask,
		timeout: p.startTimeout(t.whole),
		log:     p.opts.Logger.With().Str("server", t.server.Name).Logger(), lastUse: time.Now(),
	}
}

// slowStarters are commands that may have to download what they start.
var slowStarters = strings.Fields("npx npm pnpm yarn bunx bun deno uvx uv pipx docker podman nerdctl")

// startTimeout is how long a definition may take to start.
func (p *Proxy) startTimeout(s discovery.Server) time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	if slices.Contains(slowStarters, strings.TrimSuffix(filepath.Base(s.Command), ".cmd")) {
		return p.opts.FirstStartTimeout
	}
	return p.opts.StartTimeout
}

// acquire returns a running process, started if need be. Many callers wait for
// one start; each may give up and spoil it for nobody.
func (b *backend) acquire(ctx context.Context) (*upstream, error) {
	for {
		u, starting, err := b.current()
		if u != nil || err != nil {
			return u, err
		}
		select {
		case <-starting:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: waiting for server %s to start: %w", errNotSent, b.name, context.Cause(ctx))
		}
	}
}

// current returns the live process, or what to wait for, or why there is none.
func (b *backend) current() (*upstream, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.retired:
		return nil, nil, ErrClosed
	case b.up != nil && b.up.alive():
		return b.up, nil, nil
	case b.starting != nil:
		return nil, b.starting, nil
	}
	b.buryLocked(b.up)
	if wait := time.Until(b.retryAt); wait > 0 {
		return nil, nil, b.failedLocked(wait)
	}
	starting := make(chan struct{})
	if !b.proxy.run(func() { b.start(starting) }) { // ends with the start's time limit
		return nil, nil, ErrClosed
	}
	b.starting = starting
	return nil, starting, nil
}

func (b *backend) failedLocked(wait time.Duration) *Error {
	code := CodeServerFailed
	if errors.Is(b.lastErr, errFull) {
		code = CodeBusy
	}
	return errorf(code, "Server %s cannot be used: %v. It can be tried again in %s.",
		b.name, b.lastErr, (wait + 100*time.Millisecond).Round(100*time.Millisecond))
}

// start makes one attempt and keeps its outcome.
func (b *backend) start(starting chan struct{}) {
	began := time.Now()
	u, err := b.launch()
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(starting)
	b.starting = nil
	if err != nil {
		b.failLocked(err)
		return
	}
	b.starts++
	b.up = u
	b.shelf.wanted++ // another start may bring other tools
	b.log.Info().Int("pid", u.process.pid()).Dur("took", time.Since(began)).Str("protocol", u.version).Msg("start server")
}

// launch starts and greets a process, and has its end watched.
func (b *backend) launch() (*upstream, error) {
	if err := b.proxy.occupy(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(b.proxy.ctx, b.timeout,
		fmt.Errorf("it did not answer initialize within %s", b.timeout))
	defer cancel()
	c, err := resolveCommand(b.server)
	c.mask = b.mask
	var u *upstream
	if err == nil {
		u, err = startUpstream(ctx, b.proxy.spawner, c, &b.proxy.opts, b.changed)
	}
	if err != nil {
		<-b.proxy.slots
		return nil, err
	}
	watch := func() { b.watch(u) } // ends with the process, which ends with the proxy
	if !b.proxy.run(watch) {
		u.stop()
		<-b.proxy.slots
		return nil, ErrClosed
	}
	return u, nil
}

// watch notes the end of a process, and frees its slot when nothing is left.
func (b *backend) watch(u *upstream) {
	defer context.AfterFunc(b.proxy.ctx, u.halt)()
	<-u.dead
	b.mu.Lock()
	b.buryLocked(u)
	b.mu.Unlock()
	<-u.gone
	<-b.proxy.slots
}

// buryLocked takes in the end of a process that we did not stop. One that never
// answered a request counts as a start that failed; others are started again at
// once when they are needed.
func (b *backend) buryLocked(u *upstream) {
	if u == nil || b.up != u {
		return
	}
	b.up = nil
	b.stderr, b.stdout = u.said(tailBytes), u.strayed()
	if errors.Is(u.cause, errStopped) {
		return // in Close
	}
	b.log.Warn().Err(u.cause).Msg("server ended")
	if !u.served.Load() {
		b.failLocked(u.cause)
		return
	}
	b.failures = 0
	b.lastErr = u.cause
}

func (b *backend) failLocked(err error) {
	b.lastErr = err
	if errors.Is(err, errFull) { // no fault of the server's
		b.retryAt = time.Now().Add(b.proxy.opts.backoffMin)
		return
	}
	b.failures++
	pause := b.proxy.opts.backoffMin << min(b.failures-1, 16)
	b.retryAt = time.Now().Add(min(pause, b.proxy.opts.backoffMax))
	b.log.Warn().Err(err).Int("failures", b.failures).Msg("start server")
}

// detach takes the process away, to be stopped.
func (b *backend) detach() *upstream {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.up
	b.up = nil
	if u != nil {
		b.stderr, b.stdout = u.said(tailBytes), u.strayed()
	}
	return u
}

// retire keeps the backend from starting anything more.
func (b *backend) retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
}

// asleep reports whether there is no process and nothing that would start one.
func (b *backend) asleep() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.up == nil && b.starting == nil && b.shelf.listing == nil
}

func (b *backend) state() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stateLocked()
}

func (b *backend) stateLocked() State {
	switch {
	case b.starting != nil:
		return StateStarting
	case b.up != nil && b.up.alive():
		return StateStarted
	case b.failures > 0:
		return StateFailed
	}
	return StateStopped
}

func (b *backend) status() ServerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := ServerStatus{
		Name: b.name, State: b.stateLocked(), Restarts: max(0, b.starts-1), Calls: b.calls, Errors: b.errs,
		Warning: b.shelf.warning, Stderr: b.stderr, Stdout: b.stdout,
	}
	if b.lastErr != nil {
		s.LastError = b.lastErr.Error()
	}
	if b.up != nil {
		s.PID, s.Since, s.Uptime = b.up.process.pid(), b.up.since, time.Since(b.up.since)
		s.Stderr, s.Stdout = b.up.said(tailBytes), b.up.strayed()
	}
	return s
}

// call calls a tool. A call that the server may have seen is never sent again.
func (b *backend) call(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, error) {
	params, err := callParams(tool, arguments)
	if err != nil {
		return nil, err
	}
	result, err := b.request(ctx, params)
	if errors.Is(err, errNotSent) && ctx.Err() == nil {
		result, err = b.request(ctx, params) // of another process
	}
	if err == nil && !isObject(result) {
		err = errorf(CodeUpstream, "Server %s answered the call of %s with a result that is no object: %s",
			b.name, clip(tool, 100), clip(string(result), 200))
	}
	err = b.explain(ctx, tool, err)
	_, told := errors.AsType[*Error](err)
	b.count(err, err != nil && !told)
	return result, err
}

func (b *backend) request(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	u, err := b.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return u.request(ctx, "tools/call", params)
}

func callParams(tool string, arguments json.RawMessage) (json.RawMessage, error) {
	name, err := json.Marshal(tool)
	if err != nil {
		return nil, fmt.Errorf("encoding the tool's name: %w", err)
	}
	params := make([]byte, 0, len(name)+len(arguments)+30)
	params = append(append(params, `{"name":`...), name...)
	params = append(append(params, `,"arguments":`...), arguments...)
	return append(params, '}'), nil
}

// count takes in the outcome of a call. One that its caller gave up says
// nothing about the server.
func (b *backend) count(err error, givenUp bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if givenUp {
		return
	}
	if err != nil {
		b.errs++
		b.lastErr = err
		return
	}
	b.failures = 0
}

// A callTimeout is the cause of a call's own time limit: its value and where it
// is set.
type callTimeout struct{ words string }

func (c *callTimeout) Error() string { return "the call's time limit of " + c.words }

// explain turns the ways a call can fail into what the sandbox is told. It is
// the only place that does.
func (b *backend) explain(ctx context.Context, tool string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok || errors.Is(err, ErrClosed) {
		return err
	}
	tool = clip(tool, 100)
	if failed, ok := errors.AsType[*rpcError](err); ok {
		e := errorf(CodeUpstream, "Server %s refused the call of %s: %v", b.name, tool, failed)
		e.Data = failed.data()
		return e
	}
	_, died := errors.AsType[*deathError](err)
	late, timedOut := errors.AsType[*callTimeout](context.Cause(ctx))
	switch {
	case timedOut && errors.Is(err, errNotSent):
		return errorf(CodeTimeout, "Server %s was not ready for the call of %s within %v, so the call was not made. If the server is still starting, try again in a while.", b.name, tool, late)
	case timedOut:
		return errorf(CodeTimeout, "Server %s did not answer %s within %v and was told to cancel it. "+
			"Whether the call had its effect is not known.", b.name, tool, late)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errTooLarge):
		return errorf(CodeTooLarge, "The answer of %s on server %s is larger than %d MiB, the limit for one answer. Ask for less, or in parts.",
			tool, b.name, b.proxy.opts.MaxMessage>>20)
	case errors.Is(err, errNotSent):
		return errorf(CodeServerFailed, "Server %s cannot be used: %v. The call of %s was not made.", b.name, err, tool)
	case died || errors.Is(err, errMismatch):
		return errorf(CodeOutcomeUnknown, "Server %s failed during the call of %s: %v. The call may or may not have had its effect; "+
			"check before you make it again.", b.name, tool, err)
	}
	return errorf(CodeServerFailed, "Server %s: %v", b.name, err)
}
