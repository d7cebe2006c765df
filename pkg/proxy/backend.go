package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/discovery"
	"github.com/bridged/bridged/pkg/runtime/commandline"
	"github.com/bridged/bridged/pkg/tracing"
)

const (
	// defaultBackoffMin is the pause after a start that failed; it doubles up
	// to defaultBackoffMax. Within it callers get the error of before.
	defaultBackoffMin = time.Second
	defaultBackoffMax = time.Minute
)

var (
	// errFull says that no further process may be started now.
	errFull = errors.New("no room for another server")
	// errForsaken is why a server ends that was one session's alone.
	errForsaken = errors.New("its session has ended")
)

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
	Transport string // as its definition has it
	Private   bool   // it is one session's alone
	PID       int    // 0 when it does not run as a process of ours
	Container string // id of the container that it runs in, if any

	ContainerName string

	Since     time.Time     // when the process was started, or its start began
	Uptime    time.Duration // of the process
	Restarts  int           // starts after the first
	Calls     int64         // of tools
	Errors    int64         // of those, without the tools' own
	InFlight  int           // calls under way
	Waiting   int           // calls that wait for their turn
	P50, P95  time.Duration // what calls took until they were answered; 0 before the first
	LastError string
	Warning   string   // what is odd about its tools or their results
	Changed   []string // its tools whose definition is another than the accepted one
	Stderr    string   // the end of what it wrote there
	Stdout    string   // the end of what it wrote there that is no protocol
	Log       string   // the end of its log messages
}

// A backend is one definition with everything about it resolved, and the
// process that runs it, if any.
type backend struct {
	proxy    *Proxy
	digest   string // of the definition, which is what its tools are kept under
	identity string // of the definition as it is written, which is what its tools are pinned under
	written  string // the digest of that
	name     string
	server   discovery.Server
	remote   *endpoint // nil for a server that is started
	mask     *strings.Replacer
	box      *commandline.Run // the container that it runs in; nil is none
	setting  Setting
	origin   origin
	owner    *Session      // whose it is alone; nil is everybody's
	timeout  time.Duration // of a start
	queue    queue         // of calls
	latency  latency       // of calls that were answered
	log      zerolog.Logger

	ctx context.Context // ends when the backend is not to be used any more
	end context.CancelCauseFunc

	reports progress // of calls under way
	words   tail     // log messages of the server's

	// Guarded by the proxy's mu.
	key      string // of the backend
	crowd    crowd
	users    int
	lastUse  time.Time
	forsaken bool // its session has ended

	mu       sync.Mutex // guards the fields below
	up       *upstream
	starting chan struct{} // closed when the start under way is over

	startBegan time.Time // of the start under way, or of the last
	startEnded time.Time // of the last
	startLink  link      // of the start under way, once there is one

	failures int // in a row
	retryAt  time.Time
	lastErr  error
	stderr   string // of the process before
	stdout   string // of the process before
	starts   int
	calls    int64
	errs     int64
	shelf    shelf
	told     chan struct{} // closed when the server that is being started has asked for roots
	heedful  time.Time     // when a server that was told its root has acted on it
}

func newBackend(p *Proxy, t *target) *backend {
	b := &backend{
		proxy: p, digest: t.ref.Digest, identity: t.identity, written: t.written, setting: t.setting, name: t.server.Name, server: t.whole, remote: t.remote, mask: t.mask,
		origin: originOf(t.server), box: t.box, owner: t.owner, timeout: p.startTimeout(t),
		queue: queue{limit: cmp.Or(t.setting.Concurrency, defaultConcurrency)},
		log:   p.opts.Logger.With().Str("server", t.server.Name).Logger(), lastUse: time.Now(),
	}
	b.ctx, b.end = context.WithCancelCause(p.ctx)
	return b
}

// slowStarters are commands that may have to download what they start.
var slowStarters = strings.Fields("npx npm pnpm yarn bunx bun deno uvx uv pipx docker podman nerdctl")

// startTimeout is how long a definition may take to start.
func (p *Proxy) startTimeout(t *target) time.Duration {
	if t.setting.StartTimeout > 0 {
		return t.setting.StartTimeout
	}
	if t.whole.StartTimeout > 0 {
		return t.whole.StartTimeout
	}
	if t.box != nil || slices.Contains(slowStarters, strings.TrimSuffix(filepath.Base(t.whole.Command), ".cmd")) {
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
		if err := b.awaitStart(ctx, starting); err != nil {
			return nil, err
		}
	}
}

func (b *backend) awaitStart(ctx context.Context, starting <-chan struct{}) error {
	defer wait(ctx, b)()
	select {
	case <-starting:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: waiting for server %s to start: %w", errNotSent, b.name, context.Cause(ctx))
	}
}

// current returns the live process, or what to wait for, or why there is none.
func (b *backend) current() (*upstream, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ctx.Err() != nil:
		return nil, nil, context.Cause(b.ctx)
	case b.up != nil && b.up.alive():
		return b.up, nil, nil
	case b.starting != nil:
		return nil, b.starting, nil
	}
	b.buryLocked(b.up)
	if wait := time.Until(b.retryAt); wait > 0 && !b.newLogin() {
		return nil, nil, b.failedLocked(wait)
	}
	starting := make(chan struct{})
	if !b.proxy.run(func() { b.start(starting) }) { // ends with the start's time limit
		return nil, nil, ErrClosed
	}
	b.starting, b.startBegan, b.startLink = starting, time.Now(), link{}
	return nil, starting, nil
}

func (b *backend) failedLocked(wait time.Duration) *Error {
	if told, ok := errors.AsType[*Error](b.lastErr); ok {
		return told // it says what to do
	}
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
	b.proxy.stock.has(b.digest, b.written) // the outcome says something of a list on disk
	u, err := b.launch()
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(starting)
	b.starting, b.startLink, b.startEnded = nil, link{}, time.Now()
	if err != nil {
		b.failLocked(err)
		b.tell(ServerEvent{Kind: ServerFailed, Took: time.Since(began), Err: err})
		return
	}
	b.starts++
	b.tell(ServerEvent{Kind: ServerStarted, Took: time.Since(began), Restart: b.starts > 1})
	b.up = u
	b.shelf.wanted++ // another start may bring other tools
	b.verifyLocked(u)
	b.log.Info().Int("pid", u.identity().pid).Dur("took", time.Since(began)).Str("protocol", u.version).Msg("start server")
}

// launch starts and greets a process, and has its end watched.
func (b *backend) launch() (*upstream, error) {
	if err := b.proxy.occupy(b); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.timeout,
		fmt.Errorf("it did not answer initialize within %s", b.timeout))
	defer cancel()
	told := b.expectRoots()
	u, err := b.greet(ctx)
	if err != nil {
		b.proxy.room.leave(b.origin)
		return nil, err
	}
	watch := func() { b.watch(u) } // ends with the process, which ends with the proxy
	if !b.proxy.run(watch) {
		u.stop()
		b.proxy.room.leave(b.origin)
		return nil, ErrClosed
	}
	b.proxy.run(func() { b.keepAlive(u) }) // ends with the server
	b.proxy.run(func() { b.wantLog(u) })   // ends with its time limit
	b.proxy.run(func() { b.hear(u) })      // ends with the server
	b.awaitRoots(ctx, told)
	return u, nil
}

// greet connects with the server and greets it.
func (b *backend) greet(ctx context.Context) (*upstream, error) {
	h := handlers{notified: b.notified, asked: b.asked}
	if b.remote != nil {
		return b.greetRemote(ctx, h)
	}
	l, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	b.connected(l)
	return startUpstream(ctx, l, &b.proxy.opts, h)
}

// connect starts what the server runs in, and returns the link with it.
func (b *backend) connect(ctx context.Context) (link, error) {
	if b.box != nil {
		return b.connectContainer(ctx)
	}
	c, err := resolveCommand(b.server)
	if err != nil {
		return link{}, err
	}
	proc, err := start(b.proxy.spawner, c)
	if err != nil {
		return link{}, err
	}
	return stdioLink(b.name, b.mask, proc, &b.proxy.opts), nil
}

// notified takes in a notification. It is called on a read loop and does not
// block.
func (b *backend) notified(n mcp.JSONRPCNotification) {
	if n.Method == mcp.MethodNotificationToolsListChanged {
		b.changed()
		b.renewSoon()
		return
	}
	b.heard(n)
}

// watch notes the end of a process, and frees its slot when nothing is left.
func (b *backend) watch(u *upstream) {
	defer context.AfterFunc(b.ctx, u.halt)()
	<-u.dead
	b.mu.Lock()
	b.buryLocked(u)
	b.mu.Unlock()
	b.tell(endOf(u))
	<-u.gone
	b.proxy.room.leave(b.origin)
	close(u.cleared)
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
	b.proxy.stock.failed(b.digest, err.Error())
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
		Warning: b.warningLocked(), Stderr: b.stderr, Stdout: b.stdout, Log: b.words.last(tailBytes),
		Transport: string(b.server.Transport), Private: b.owner != nil,
		P50: b.latency.quantile(0.5), P95: b.latency.quantile(0.95),
	}
	if pins := b.proxy.opts.Pins; pins != nil {
		s.Changed = pins.Changed(b.identity)
	}
	s.InFlight, s.Waiting = b.queue.load()
	if b.lastErr != nil {
		s.LastError = b.lastErr.Error()
	}
	if b.starting != nil {
		s.Since, s.Stderr = b.startBegan, b.startSaidLocked(tailBytes)
	}
	if b.up != nil {
		id := b.up.identity()
		s.PID, s.Container, s.ContainerName = id.pid, id.container, id.name
		s.Since, s.Uptime = b.up.since, time.Since(b.up.since)
		s.Stderr, s.Stdout = b.up.said(tailBytes), b.up.strayed()
	}
	return s
}

// call calls a tool. A call that the server may have seen is not sent again,
// unless the operator says that the tool only reads.
func (b *backend) call(ctx context.Context, c *toolCall) (json.RawMessage, error) {
	tool := c.tool
	token := b.reports.begin(b.name+"."+clip(tool, 100), c.session.opts.Agent.Note)
	defer b.reports.end(token)
	params, err := callParams(b.outward(ctx), tool, c.arguments, token)
	if err != nil {
		return nil, err
	}
	result, err := b.request(ctx, c, params)
	if errors.Is(err, errForgotten) {
		b.changed()
		_ = b.known(ctx) // the next session's tools may be others; the call will tell
	}
	if ctx.Err() == nil && (errors.Is(err, errNotSent) || lost(err) && b.setting.retries(tool)) {
		tracing.Current(ctx).Event("retry", tracing.RetryCause, retryCause(err))
		result, err = b.request(ctx, c, params) // of another process
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

func (b *backend) request(ctx context.Context, c *toolCall, params json.RawMessage) (json.RawMessage, error) {
	leave, err := b.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	u, err := b.acquire(ctx)
	if err != nil {
		return nil, err
	}
	b.heed(ctx)
	tracing.Current(ctx).Text(tracing.Protocol, u.version)
	began := time.Now()
	result, err := b.converse(ctx, u, c, params)
	if _, refused := errors.AsType[*rpcError](err); err == nil || refused {
		b.latency.add(time.Since(began))
	}
	return result, err
}

// converse makes a call in the way that its tool and its server want.
func (b *backend) converse(ctx context.Context, u *upstream, c *toolCall, params json.RawMessage) (json.RawMessage, error) {
	ctx = b.outward(ctx)
	if c.needsTask(u) {
		return b.runTask(ctx, u, c, params)
	}
	return b.exchange(ctx, u, c.session, string(mcp.MethodToolsCall), params)
}

func callParams(ctx context.Context, tool string, arguments json.RawMessage, token int64) (json.RawMessage, error) {
	name, err := json.Marshal(tool)
	if err != nil {
		return nil, fmt.Errorf("encoding the tool's name: %w", err)
	}
	params := make([]byte, 0, len(name)+len(arguments)+160)
	params = append(append(params, `{"name":`...), name...)
	params = append(append(params, `,"arguments":`...), arguments...)
	params = append(params, `,"_meta":{"progressToken":`...)
	params = tracing.AppendMeta(ctx, strconv.AppendInt(params, token, 10))
	return append(params, "}}"...), nil
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

func lateBy(limit time.Duration, setting string) *callTimeout {
	return &callTimeout{fmt.Sprintf("%s (%s)", limit, setting)}
}

func (c *callTimeout) Error() string { return "the call's time limit of " + c.words }

// notReady is what a call is told whose time went by before it could be made.
func (b *backend) notReady(tool string, late *callTimeout) *Error {
	text := fmt.Sprintf("Server %s was not ready for the call of %s within %v, so the call was not made.", b.name, tool, late)
	if starting := b.progress(); starting != "" {
		return errorf(CodeTimeout, "%s The start goes on: %s. Try again in a while.", text, starting)
	}
	return errorf(CodeTimeout, "%s Try again in a while.", text)
}

// lost reports whether a call has failed in such a way that it may have had its
// effect.
func lost(err error) bool {
	_, died := errors.AsType[*deathError](err)
	return died || errors.Is(err, errMismatch) || errors.Is(err, errBroken)
}

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
		words, data := b.masked(failed.Error(), failed.data())
		e := errorf(CodeUpstream, "Server %s refused the call of %s: %s", b.name, tool, words)
		e.Data = data
		return e
	}
	late, timedOut := errors.AsType[*callTimeout](context.Cause(ctx))
	switch {
	case timedOut && errors.Is(err, errNotSent):
		return b.notReady(tool, late)
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
	case lost(err):
		return errorf(CodeOutcomeUnknown, "Server %s failed during the call of %s: %v. The call may or may not have had its effect; "+
			"check before you make it again.", b.name, tool, err)
	}
	return errorf(CodeServerFailed, "Server %s: %v", b.name, err)
}
