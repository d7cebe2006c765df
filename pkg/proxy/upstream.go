package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/tracing"
)

// A wire is the connection with one run of a server: mcp-go's transport, and
// the signs of its life. Pings that the server sends are answered by it.
type wire interface {
	transport.BidirectionalInterface
	// read and write carry messages until Close, or until the server can't be
	// talked to any more. Each is run once.
	read()
	write()
	// lost is closed when the server can't be talked to; why says then what
	// happened, as the rest of a sentence about the server.
	lost() <-chan struct{}
	why() string
	// fail ends all that is pending with cause, and all that comes later.
	fail(cause error)
	// tellAnswers has told called with the method of each request that the
	// server answers, before whoever waits gets the answer. It must not block,
	// and is set before the first request.
	tellAnswers(told func(method string))
}

// A link is what startUpstream makes an upstream of.
type link struct {
	name   string // of the server, for messages
	mask   *strings.Replacer
	body   body // nil for a server that is not ours to run
	wire   wire
	strays *strayLog // what is read and is no protocol; may be nil
}

// An upstream is one run of a server that has been greeted. It is safe for
// concurrent use, and stays as it is until the server ends or is stopped.
type upstream struct {
	link
	conn  transport.BidirectionalInterface // the wire, as far as mcp-go knows it
	opts  *Options
	since time.Time

	version string // of the protocol
	era     string // the version that each request says; "" after a handshake
	card    card   // what it says of itself
	lastID  atomic.Int64
	served  atomic.Bool // it has answered a request after the handshake

	pending  atomic.Int64 // requests that it has not answered
	answered atomic.Int64 // when it last did, from since on

	stopOnce sync.Once
	verdict  string        // why it is to stop, if that is its fault; set before stopping is closed
	stopping chan struct{} // closed when it is to stop
	dead     chan struct{} // closed when it can't be used any more
	gone     chan struct{} // closed when nothing is left of it
	cleared  chan struct{} // closed when its place is another's
	cause    error         // why; set before dead is closed
}

// errStopped is the cause of what ends because we stopped the server.
var errStopped = &deathError{reason: "it was stopped by bridged"}

// stdioLink connects with a server that has just been started. It is the
// caller's until startUpstream has it.
func stdioLink(name string, mask *strings.Replacer, b body, o *Options) link {
	stdin, stdout := b.streams()
	strays := &strayLog{}
	return link{name: name, mask: mask, body: b, wire: newPipe(stdin, stdout, o.MaxMessage, strays), strays: strays}
}

// Handlers take in what a server sends by itself. Either may be nil.
type handlers struct {
	notified func(mcp.JSONRPCNotification) // on the read loop: it must not block
	asked    transport.RequestHandler      // on goroutines of its own
}

// startUpstream greets a server over its link, which it owns from then on. When
// ctx ends before the greeting is over, the server is stopped and the error is
// ctx's cause.
func startUpstream(ctx context.Context, l link, o *Options, h handlers) (*upstream, error) {
	u := &upstream{
		link: l, conn: l.wire, opts: o, since: time.Now(),
		stopping: make(chan struct{}), dead: make(chan struct{}), gone: make(chan struct{}), cleared: make(chan struct{}),
	}
	u.lastID.Store(firstID - 1)
	if h.notified != nil {
		u.conn.SetNotificationHandler(h.notified)
	}
	if h.asked != nil {
		u.conn.SetRequestHandler(h.asked)
	}
	u.wire.tellAnswers(u.serves)
	go u.supervise() // ends with the process; stop waits for it
	if err := u.greet(ctx); err != nil {
		u.stop()
		return nil, u.startError(ctx, err)
	}
	return u, nil
}

// startError adds to a handshake's error what the server said meanwhile.
func (u *upstream) startError(ctx context.Context, err error) error {
	if _, told := errors.AsType[*deathError](err); told && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if u.body == nil {
		return err // it has said nothing besides
	}
	return u.death(err.Error())
}

// death describes the end of the server with what it said last.
func (u *upstream) death(reason string) *deathError {
	e := &deathError{reason: reason, stderr: u.said(quoteBytes)}
	if u.strays != nil {
		e.stdout = u.mask.Replace(u.strays.quote())
	}
	return e
}

// said returns the end of the server's stderr without the secrets that its
// definition holds. A server that is not ours to run has none.
func (u *upstream) said(limit int) string {
	if u.body == nil {
		return ""
	}
	return u.mask.Replace(u.body.said().last(limit))
}

// identity says what the server runs as.
func (u *upstream) identity() identity {
	if u.body == nil {
		return identity{}
	}
	return u.body.identity()
}

// exited is closed when the server's body has ended; a server without one is
// known by its wire alone.
func (u *upstream) exited() <-chan struct{} {
	if u.body == nil {
		return nil
	}
	return u.body.exited()
}

// supervise runs the wire, and cleans up when the server ends, breaks the
// protocol or is to stop.
func (u *upstream) supervise() {
	defer close(u.gone)
	var streams sync.WaitGroup
	readEnd := make(chan struct{})
	streams.Go(func() { // ends with the server's stdout, or when stop closes it
		defer close(readEnd)
		u.wire.read()
	})
	streams.Go(u.wire.write) // ends in Close
	select {
	case <-u.stopping:
		u.cause = errStopped
		if u.verdict != "" {
			u.cause = u.death(u.verdict)
		}
	case <-u.wire.lost():
		waitFor(u.exited(), u.opts.drainGrace)
		u.cause = u.autopsy()
	case <-u.exited():
		waitFor(readEnd, u.opts.drainGrace)
		u.cause = u.autopsy()
	}
	close(u.dead) // first, so that whoever is told asks for another process
	u.wire.fail(u.cause)
	_ = u.conn.Close() // the end of its stdin tells the server to end
	if u.body != nil {
		u.body.stop(u.opts.eofGrace, u.opts.termGrace)
	}
	streams.Wait()
}

// autopsy says why the server is dead.
func (u *upstream) autopsy() error {
	select {
	case <-u.exited():
		ending := u.body.reap() // and with it what may still hold its stderr
		waitFor(u.body.drained(), u.opts.drainGrace)
		return u.death("it ended (" + ending + ")")
	default:
	}
	if u.body == nil {
		return u.death(u.wire.why())
	}
	return u.death(u.wire.why() + " but kept running")
}

// waitFor waits for ch, at most d; for nil not at all.
func waitFor(ch <-chan struct{}, d time.Duration) {
	if ch == nil {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	}
}

// alive reports whether requests can be made.
func (u *upstream) alive() bool {
	select {
	case <-u.dead:
		return false
	default:
		return true
	}
}

// strayed returns the end of what the server wrote to its stdout that is no
// protocol, masked as in said.
func (u *upstream) strayed() string {
	if u.strays == nil {
		return ""
	}
	return u.mask.Replace(u.strays.end.last(tailBytes))
}

// halt begins to end the process by the ladder. It may be called repeatedly.
func (u *upstream) halt() {
	u.stopOnce.Do(func() { close(u.stopping) })
}

// stop ends the process and returns when nothing is left of it.
func (u *upstream) stop() {
	u.halt()
	<-u.gone
}

// request makes one request. When ctx ends first, the server is told, under
// the id that it was given, and its answer is thrown away. The error is
// *mcp.JSONRPCErrorDetails-based for an error answer (see rpcError), ctx's
// cause, or wraps errNotSent, errTooLarge, errMismatch or a *deathError.
func (u *upstream) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	r := transport.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(u.lastID.Add(1)), Method: method, Params: params,
	}
	if method != string(mcp.MethodToolsCall) { // whose parameters have it, see callParams
		params = tracing.AddMeta(ctx, params)
		r.Params = params
	}
	if u.era != "" {
		whole, err := u.withMeta(params)
		if err != nil {
			return nil, err
		}
		r.Params = whole
	} else if params == nil {
		r.Params = nil
	}
	u.pending.Add(1)
	defer u.pending.Add(-1)
	answer, err := u.conn.SendRequest(ctx, r)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, errNotSent) && method != string(mcp.MethodInitialize) {
			u.cancel(r.ID, ctx)
		}
		return nil, err
	}
	u.answered.Store(int64(time.Since(u.since)))
	if answer.Error != nil {
		return nil, &rpcError{answer.Error}
	}
	return answer.Result, nil
}

// serves takes in that the server has answered a request. Whoever made it may
// hear of that later than others of the server's end, if it ends at once.
func (u *upstream) serves(method string) {
	if method != string(mcp.MethodInitialize) && method != string(mcp.MethodSetLogLevel) {
		u.served.Store(true)
	}
}

// cancel tells the server that an answer is no longer wanted.
func (u *upstream) cancel(id mcp.RequestId, ctx context.Context) { //nolint:revive // ctx has ended, it is only asked why
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = string(mcp.MethodNotificationCancelled)
	n.Params.AdditionalFields = map[string]any{"requestId": id, "reason": context.Cause(ctx).Error()}
	if err := u.conn.SendNotification(context.WithoutCancel(ctx), n); err != nil {
		u.opts.Logger.Debug().Str("server", u.name).Err(err).Msg("cancel call")
	}
}

// An rpcError is a server's own JSON-RPC error.
type rpcError struct{ details *mcp.JSONRPCErrorDetails }

func (e *rpcError) Error() string {
	return fmt.Sprintf("%s (code %d)", clip(plainText(e.details.Message), quoteBytes), e.details.Code)
}

// data returns the error as the sandbox gets it, as the server wrote it.
func (e *rpcError) data() json.RawMessage {
	raw, err := json.Marshal(e.details)
	if err != nil {
		return nil // its data was read from valid JSON
	}
	return raw
}
