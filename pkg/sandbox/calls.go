package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
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
	open map[int64]*call
	// running counts the calls that have not returned. One that the sandbox
	// gave up is not open any more, yet may take its time to return.
	running int
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
	defer c.mu.Unlock()
	c.rpc = rpc
}

// start answers one request on a goroutine of its own, which ends when the
// request is answered or canceled.
func (c *calls) start(f inFrame) {
	c.mu.Lock()
	rpc := c.rpc
	_, twice := c.open[f.ID]
	full := c.running >= maxCalls
	if rpc == nil || twice || full {
		c.mu.Unlock()
		c.refuse(f.ID, rpc == nil, twice)
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	k := &call{cancel}
	c.open[f.ID] = k
	c.running++
	c.mu.Unlock()
	c.sandbox.done.Go(func() {
		result, err := rpc.Call(ctx, f.Method, f.Params)
		if c.finish(f.ID, k) {
			c.reply(f.ID, result, err)
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

// finish forgets a call that has returned and reports whether its answer is
// still wanted.
func (c *calls) finish(id int64, k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	k.cancel()
	wanted := c.open[id] == k
	if wanted {
		delete(c.open, id)
	}
	return wanted
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
