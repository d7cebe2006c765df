package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// An upstream is one running server process that has been greeted. It is safe
// for concurrent use, and stays as it is until the process ends or is stopped.
type upstream struct {
	command command
	conn    transport.Interface // over pipe, which is the same thing
	pipe    *pipe
	process *process
	strays  strayLog
	opts    *Options
	since   time.Time

	version string // of the protocol
	lastID  atomic.Int64
	served  atomic.Bool // it has answered a request after the handshake

	stopOnce sync.Once
	stopping chan struct{} // closed when it is to stop
	dead     chan struct{} // closed when it can't be used any more
	gone     chan struct{} // closed when nothing is left of it
	cause    error         // why; set before dead is closed
}

// errStopped is the cause of what ends because we stopped the server.
var errStopped = &deathError{reason: "it was stopped by bridged"}

// startUpstream starts a process and greets it. When ctx ends before the
// greeting is over, the process is stopped and the error is ctx's cause.
// onChange is called when the server says that its tools have changed; it must
// not block.
func startUpstream(ctx context.Context, sp *spawner, c command, o *Options, onChange func()) (*upstream, error) {
	proc, err := start(sp, c)
	if err != nil {
		return nil, err
	}
	u := &upstream{
		command: c, process: proc, opts: o, since: time.Now(),
		stopping: make(chan struct{}), dead: make(chan struct{}), gone: make(chan struct{}),
	}
	u.lastID.Store(firstID - 1)
	u.pipe = newPipe(proc.stdin, proc.stdout, o.MaxMessage, &u.strays)
	u.conn = u.pipe
	u.conn.SetNotificationHandler(func(n mcp.JSONRPCNotification) {
		if n.Method == mcp.MethodNotificationToolsListChanged {
			onChange()
		}
	})
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
	return u.death(err.Error())
}

// death describes the end of the server with what it said last.
func (u *upstream) death(reason string) *deathError {
	return &deathError{reason: reason, stderr: u.said(quoteBytes), stdout: u.command.mask.Replace(u.strays.quote())}
}

// said returns the end of the server's stderr without the secrets that its
// definition holds.
func (u *upstream) said(limit int) string {
	return u.command.mask.Replace(u.process.stderr.last(limit))
}

// supervise runs the streams, and cleans up when the process ends, breaks the
// protocol or is to stop.
func (u *upstream) supervise() {
	defer close(u.gone)
	var streams sync.WaitGroup
	readEnd := make(chan struct{})
	streams.Go(func() { // ends with the server's stdout, or when stop closes it
		defer close(readEnd)
		u.pipe.read()
	})
	streams.Go(u.pipe.write) // ends in Close
	select {
	case <-u.stopping:
		u.cause = errStopped
	case <-u.pipe.broken:
		waitFor(u.process.exited, drainGrace)
		u.cause = u.autopsy()
	case <-u.process.exited:
		waitFor(readEnd, drainGrace)
		u.cause = u.autopsy()
	}
	close(u.dead) // first, so that whoever is told asks for another process
	u.pipe.fail(u.cause)
	_ = u.conn.Close() // the end of its stdin tells the server to end
	u.process.stop(u.opts.eofGrace, u.opts.termGrace)
	streams.Wait()
}

// autopsy says why the server is dead.
func (u *upstream) autopsy() error {
	select {
	case <-u.process.exited:
		ending := u.process.reap() // and with it what may still hold its stderr
		waitFor(u.process.drained, drainGrace)
		return u.death("it ended (" + ending + ")")
	default:
		return u.death(u.pipe.why + " but kept running")
	}
}

func waitFor(ch <-chan struct{}, d time.Duration) {
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
	return u.command.mask.Replace(u.strays.end.last(tailBytes))
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
	if params == nil {
		r.Params = nil
	}
	answer, err := u.conn.SendRequest(ctx, r)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, errNotSent) && method != string(mcp.MethodInitialize) {
			u.cancel(r.ID, ctx)
		}
		return nil, err
	}
	u.served.Store(u.served.Load() || method != string(mcp.MethodInitialize))
	if answer.Error != nil {
		return nil, &rpcError{answer.Error}
	}
	return answer.Result, nil
}

// cancel tells the server that an answer is no longer wanted.
func (u *upstream) cancel(id mcp.RequestId, ctx context.Context) { //nolint:revive // ctx has ended, it is only asked why
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = string(mcp.MethodNotificationCancelled)
	n.Params.AdditionalFields = map[string]any{"requestId": id, "reason": context.Cause(ctx).Error()}
	if err := u.conn.SendNotification(context.WithoutCancel(ctx), n); err != nil {
		u.opts.Logger.Debug().Str("server", u.command.name).Err(err).Msg("cancel call")
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
