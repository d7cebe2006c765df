package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// An exchange is one request of ours on its way over HTTP. Its context carries
// it through mcp-go to the gate, which sees what mcp-go does not tell: whether
// the request went out, and what came back as it was written.
type exchange struct {
	id     int64              // 0 for the opening of an event stream
	method string             // of the request
	cancel context.CancelFunc // ends mcp-go's part in it
	sent   atomic.Bool        // the server may have seen it

	mu       sync.Mutex // guards the fields below
	over     bool
	response *transport.JSONRPCResponse
	err      error
	held     error // what counts if nothing comes after it
}

type exchangeKey struct{}

// exchangeOf returns the exchange that a context carries, or nil.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// settle ends the exchange. Only the first outcome counts.
func (x *exchange) settle(r *transport.JSONRPCResponse, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	x.over, x.response, x.err = true, r, err
}

// hold notes an outcome that counts only if no other comes.
func (x *exchange) hold(err error) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = err
}

// outcome returns what the exchange came to, if it has.
func (x *exchange) outcome() (r *transport.JSONRPCResponse, err error, over bool) { //nolint:revive,staticcheck // the error is the exchange's, not this method's
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over && x.held != nil {
		return nil, x.held, true
	}
	return x.response, x.err, x.over
}

// stub is what mcp-go gets to see of an answer: all of it but what it says,
// which goes another way, unread and uncopied.
func (x *exchange) stub() []byte {
	outcome := `"result":{}`
	if r, err, _ := x.outcome(); err != nil || r != nil && r.Error != nil {
		outcome = refusal(mcp.INTERNAL_ERROR, "")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,%s}`, x.id, outcome)
}

// A ledger holds the exchanges under way with one server.
type ledger struct {
	told func(method string) // of answers; see wire

	mu     sync.Mutex // guards the fields below
	open   map[int64]*exchange
	issued int64 // the highest id used
	cause  error // set by fail
}

// expect registers a request, unless the server is gone. The caller must
// forget it.
func (l *ledger) expect(x *exchange) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return l.cause
	}
	if l.open == nil {
		l.open = map[int64]*exchange{}
	}
	l.open[x.id] = x
	l.issued = max(l.issued, x.id)
	return nil
}

func (l *ledger) forget(x *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, x.id)
}

// fail ends all that is under way with cause, and all that comes later.
func (l *ledger) fail(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.cause = cause
	}
	l.failLocked(cause)
}

func (l *ledger) failLocked(err error) {
	for id, x := range l.open {
		x.settle(nil, err)
		x.cancel()
		delete(l.open, id)
	}
}

// claim gives an answer to the exchange that has its id, and returns that.
// own is the exchange whose stream the answer came on, nil for a stream that is
// everybody's. An answer under an id that was never used, or without one, is
// meant for own; when there is none nobody can tell, and all that are under way
// fail. An answer to a request that has ended is late, and is ignored.
func (l *ledger) claim(own *exchange, m message) *exchange {
	id, ok := m.number()
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.open[id]
	switch {
	case ok && x != nil:
		l.told(x.method)
		x.settle(responseOf(id, m), nil)
	case ok && id >= firstID && id <= l.issued: // late
	case own != nil && own.id != 0 && !m.hasID() && m.failed != nil:
		l.told(own.method)
		own.settle(responseOf(own.id, m), nil)
		return own
	case own != nil && own.id != 0:
		own.settle(nil, mismatch(m.header))
		return own
	default:
		l.failLocked(mismatch(m.header))
	}
	return x
}

// get returns the exchange under way with an id, or nil.
func (l *ledger) get(id int64) *exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[id]
}

// errBroken is the outcome of a call when the connection fails, or the server
// answers that it has failed, after the request was sent.
var errBroken = errors.New("the connection broke before the answer")
