package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/bridged/bridged/pkg/tracing"
)

const (
	// maxCalls bounds the calls of one sandbox that are under way. Code that
	// wants more waits inside Python; one over the bound is answered "busy".
	maxCalls = 1024
)

// An RPC answers a sandbox's requests. Call may be called many times at once;
// its ctx ends when the answer is no longer wanted. An error that has the
// methods RPCCode and RPCData passes its code and data on to the sandbox.
type RPC interface {
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// A Repeatable is an [RPC] that knows which requests only read: those are made
// again when the daemon that had them has ended. Of all others the code is told
// that their outcome is unknown.
type Repeatable interface {
	Repeatable(method string, params json.RawMessage) bool
}

// unknownOutcome is what code hears of a call that another daemon had.
const unknownOutcome = "The connection to the MCP servers was lost during the call, since bridged was restarted. It may have had its effect: look before you call again."

func repeatable(rpc RPC, f inFrame) bool {
	r, ok := rpc.(Repeatable)
	return ok && len(f.Params) > 0 && r.Repeatable(f.Method, f.Params)
}

// coded is an error with a stable code, see [RPC].
type coded interface {
	error
	RPCCode() string
	RPCData() json.RawMessage
}

// calls are the requests of one sandbox that are under way.
type calls struct {
	sandbox *Sandbox
	ctx     context.Context // ends with the sandbox
	cancel  context.CancelFunc

	mu   sync.Mutex // guards the fields below
	rpc  RPC
	span trace.Span // of the run at hand, or of the last; nil before the first
	open map[int64]*call
	// waiting are those of a sandbox that was adopted, until there is an rpc.
	waiting []inFrame
	adopted bool
	idle    chan struct{} // closed when no call is busy; nil while nobody waits for that
	// running counts the calls that have not returned. One that the sandbox
	// gave up is not open any more, yet may take its time to return.
	running int
	// busy counts those whose reply was not queued yet.
	busy int
}

// A call is one request whose answer is wanted.
type call struct{ cancel context.CancelFunc }

func newCalls(s *Sandbox) *calls {
	c := &calls{sandbox: s, open: map[int64]*call{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// bind says who answers from now on.
func (c *calls) bind(rpc RPC) {
	c.mu.Lock()
	c.rpc = rpc
	waiting := c.waiting
	c.waiting, c.adopted = nil, false
	c.mu.Unlock()
	for _, f := range waiting {
		c.start(f)
	}
}

// later keeps a request of a sandbox that was adopted until it is known who
// answers.
func (c *calls) later(f inFrame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.adopted || c.rpc != nil || len(c.waiting) >= maxCalls {
		return false
	}
	c.waiting = append(c.waiting, f)
	return true
}

// drain waits until every call's reply is queued, or ctx has ended.
func (c *calls) drain(ctx context.Context) {
	c.mu.Lock()
	if c.busy == 0 {
		c.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	c.idle = idle
	c.mu.Unlock()
	select {
	case <-idle:
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
}

// follow makes what the code calls from now on part of ctx's trace.
func (c *calls) follow(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.span = trace.SpanFromContext(ctx)
}

// start answers one request on a goroutine of its own, which ends when the
// request is answered or canceled.
func (c *calls) start(f inFrame) {
	if c.later(f) {
		return
	}
	c.mu.Lock()
	rpc := c.rpc
	_, twice := c.open[f.ID]
	full := c.running >= maxCalls
	if rpc == nil || twice || full {
		c.mu.Unlock()
		c.refuse(f.ID, rpc == nil, twice)
		return
	}
	if f.Again && !repeatable(rpc, f) {
		c.mu.Unlock()
		c.sandbox.sendLogged(replyFrame{T: "reply", ID: f.ID, Error: &replyError{Code: "outcome_unknown", Message: unknownOutcome}})
		return
	}
	ctx, cancel := context.WithCancel(tracing.With(c.ctx, c.span))
	k := &call{cancel}
	c.open[f.ID] = k
	c.running++
	c.busy++
	c.mu.Unlock()
	c.sandbox.done.Go(func() {
		defer c.rest()
		result, err := rpc.Call(ctx, f.Method, f.Params)
		switch wanted, free := c.finish(f.ID, k); {
		case wanted:
			c.reply(f.ID, result, err)
		case free:
			c.sandbox.sendLogged(replyFrame{T: "reply", ID: f.ID, Error: wireError(context.Canceled)})
		}
	})
}

func (c *calls) refuse(id int64, unbound, twice bool) {
	e := &replyError{Code: "busy", Message: fmt.Sprintf("More than %d calls are under way. Await some before making more.", maxCalls)}
	if unbound {
		e = &replyError{Code: "not_available", Message: "No MCP server can be reached from here."}
	}
	if twice {
		e = &replyError{Code: "bad_request", Message: fmt.Sprintf("Call %d is under way already.", id)}
	}
	c.sandbox.sendLogged(replyFrame{T: "reply", ID: id, Error: e})
}

// abandon cancels a call whose answer is no longer wanted.
func (c *calls) abandon(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.open[id]; ok {
		k.cancel()
		delete(c.open, id)
	}
}

// rest takes note that a call has come to its end.
func (c *calls) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	if c.busy == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// finish forgets a call that has returned and reports whether its answer is
// still wanted, or else whether its id is free: then the sandbox is told that
// the call has ended, and that there is room for another.
func (c *calls) finish(id int64, k *call) (wanted, free bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	k.cancel()
	wanted, free = c.open[id] == k, c.open[id] == nil
	if wanted {
		delete(c.open, id)
	}
	return wanted, free
}

func (c *calls) reply(id int64, result json.RawMessage, err error) {
	f := replyFrame{T: "reply", ID: id, Result: result}
	if err != nil {
		f.Result, f.Error = nil, wireError(err)
	}
	serr := c.sandbox.send(f)
	if errors.Is(serr, errLongFrame) {
		f.Result = nil
		f.Error = &replyError{Code: "too_large", Message: fmt.Sprintf("The result is too large: %v. Ask for less, or in pieces.", serr)}
		c.sandbox.sendLogged(f)
	}
}

// wireError is the only place where a Go error becomes an error that code in
// the sandbox sees.
func wireError(err error) *replyError {
	if c, ok := errors.AsType[coded](err); ok {
		return &replyError{Code: c.RPCCode(), Message: c.Error(), Data: c.RPCData()}
	}
	if errors.Is(err, context.Canceled) {
		return &replyError{Code: "canceled", Message: "The call was canceled."}
	}
	return &replyError{Code: "internal", Message: err.Error()}
}

// stop cancels everything for good.
func (c *calls) stop() { c.cancel() }
