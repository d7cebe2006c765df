package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// maxAsked is how many requests of one server are worked on at once; past it
// they are refused.
const maxAsked = 32

// errWithdrawn is the cause of the end of a request that its server cancelled.
var errWithdrawn = errors.New("the server has cancelled its request")

// An askDesk works on the requests that a server makes of us, each on a
// goroutine of its own so that the read loop never waits. It is safe for
// concurrent use.
type askDesk struct {
	handler transport.RequestHandler // nil refuses all
	ctx     context.Context          // ends with close
	cancel  context.CancelCauseFunc
	working sync.WaitGroup

	mu   sync.Mutex // guards open and closed
	open map[string]context.CancelCauseFunc
	shut bool
}

func newAskDesk() *askDesk {
	d := &askDesk{open: map[string]context.CancelCauseFunc{}}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	return d
}

// take works on one request and has reply send the outcome, a member of the
// answer: "result" or "error". A ping is answered at once. So is roots/list,
// which asks nobody: whatever is sent to the server after it comes after it.
func (d *askDesk) take(h header, params json.RawMessage, reply func(outcome string)) {
	name := h.methodName()
	switch {
	case name == string(mcp.MethodPing):
		reply(`"result":{}`)
		return
	case d.handler == nil:
		reply(refusal(mcp.METHOD_NOT_FOUND, "this client does not serve "+clip(name, 100)))
		return
	}
	ctx, done, err := d.begin(string(h.id))
	if err != nil {
		reply(refusal(mcp.INTERNAL_ERROR, err.Error()))
		return
	}
	request := transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(string(h.id)), Method: name, Params: params}
	if name == string(mcp.MethodListRoots) {
		reply(answerOf(d.handler(ctx, request)))
		done()
		return
	}
	go func() { // ends with ctx at the latest; close waits for it
		defer done()
		if outcome := answerOf(d.handler(ctx, request)); ctx.Err() == nil {
			reply(outcome)
		}
	}()
}

// begin registers a request. done must be called when it is over.
func (d *askDesk) begin(id string) (ctx context.Context, done func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, twice := d.open[id]
	switch {
	case d.shut:
		return nil, nil, errors.New("the connection is being closed")
	case twice:
		return nil, nil, errors.New("a request with this id is not answered yet")
	case len(d.open) >= maxAsked:
		return nil, nil, fmt.Errorf("%d requests of this server are not answered yet, which is the limit", maxAsked)
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.open[id] = cancel
	d.working.Add(1)
	return ctx, func() {
		d.mu.Lock()
		delete(d.open, id)
		d.mu.Unlock()
		cancel(nil)
		d.working.Done()
	}, nil
}

// withdraw ends a request that its server cancels, given by its id as written.
func (d *askDesk) withdraw(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel, ok := d.open[id]; ok {
		cancel(errWithdrawn)
	}
}

// close ends all requests and returns when none is worked on.
func (d *askDesk) close() {
	d.mu.Lock()
	d.shut = true
	d.mu.Unlock()
	d.cancel(ErrClosed)
	d.working.Wait()
}

// answerOf writes a handler's outcome as a member of an answer.
func answerOf(r *transport.JSONRPCResponse, err error) string {
	switch {
	case err != nil:
		return refusal(mcp.INTERNAL_ERROR, err.Error())
	case r == nil:
		return refusal(mcp.INTERNAL_ERROR, "there is no answer")
	case r.Error != nil:
		return refusal(r.Error.Code, r.Error.Message)
	case len(r.Result) == 0:
		return `"result":{}`
	}
	result, err := oneLine(r.Result)
	if err != nil {
		return refusal(mcp.INTERNAL_ERROR, "the answer is no JSON")
	}
	return `"result":` + string(result)
}

// refusal writes the member "error" of an answer.
func refusal(code int, message string) string {
	text, err := json.Marshal(clip(message, quoteBytes))
	if err != nil {
		text = []byte(`""`) // cannot happen: it is a string
	}
	return fmt.Sprintf(`"error":{"code":%d,"message":%s}`, code, text)
}
