package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// frameQueue is how many requests may wait for a server that is slow to
	// read its stdin. Past it callers wait, each within its own time limit.
	frameQueue = 16

	// flushGrace bounds the wait for a server to read what is queued for it when
	// it is about to be stopped.
	flushGrace = 200 * time.Millisecond

	// controlQueue bounds the replies and notifications that wait. What a
	// server does not read past that is dropped: it owes us the reading.
	controlQueue = 256

	// maxNotification bounds the parameters of a notification that is looked
	// at. None that we know is longer than a few hundred bytes.
	maxNotification = 1 << 20

	// firstID is the id of a server's first request. It is not 0 or 1, so that
	// a server that answers every request with a constant id is found out.
	firstID = 1000
)

// A pipe speaks JSON-RPC with a server over its stdin and stdout. It is an
// mcp-go transport, so that all that is above it works over mcp-go's HTTP
// transports as well. mcp-go's own stdio transport is not used: its lines have
// no limit and are copied five times, a server that does not read blocks its
// callers past their deadlines, answers to nobody are dropped in silence, and
// a request that was never written cannot be told from one that was.
//
// The read loop never waits for anything but the server's stdout. Whoever made
// the pipe runs read and write, watches broken, and says with fail why the
// server is gone.
type pipe struct {
	in      io.WriteCloser
	out     io.Reader
	max     int // bytes of one message
	inbox   *inbox
	told    func(method string) // of answers; see wire
	frames  chan *frame
	control chan []byte
	closing chan struct{} // closed by Close
	written chan struct{} // closed when write has ended

	breakOnce sync.Once
	broken    chan struct{} // closed when the server can't be talked to any more
	reason    string        // set before broken is closed

	closeOnce sync.Once
	closeErr  error

	mu      sync.Mutex // guards the fields below
	pending map[int64]waiter
	issued  int64 // the highest id used
	cause   error // set by fail
}

var _ wire = (*pipe)(nil)

// An answer ends a pending request.
type answer struct {
	response *transport.JSONRPCResponse
	err      error
}

// A waiter is who waits for the answer to a request.
type waiter struct {
	method  string
	answers chan<- answer // has room for the only one
}

// A frame is a request on its way to the writer.
type frame struct {
	data  []byte
	state atomic.Int32 // one of the states below
}

// The states of a frame: whoever moves it on from frameQueued decides whether
// the server gets to see it.
const (
	frameQueued int32 = iota
	frameDropped
	frameWritten // at least in part
)

func newPipe(in io.WriteCloser, out io.Reader, limit int, strays *strayLog) *pipe {
	p := &pipe{
		in: in, out: out, max: limit,
		frames:  make(chan *frame, frameQueue),
		control: make(chan []byte, controlQueue),
		closing: make(chan struct{}), written: make(chan struct{}), broken: make(chan struct{}),
		pending: map[int64]waiter{}, issued: firstID - 1,
	}
	p.told = func(string) {}
	p.inbox = newInbox(strays, func(reply []byte) { p.queue(append(reply, '\n')) })
	return p
}

// Start does nothing: whoever made the pipe runs read and write.
func (p *pipe) Start(context.Context) error { return nil }

// GetSessionId returns nothing: a process is its own session.
func (p *pipe) GetSessionId() string { return "" } //nolint:revive // the interface's name

// SetNotificationHandler must be called before read. The handler is called on
// the read loop: it must not block.
func (p *pipe) SetNotificationHandler(handler func(mcp.JSONRPCNotification)) {
	p.inbox.notify = handler
}

// SetRequestHandler must be called before read. The handler works on what the
// server asks, on goroutines of its own; its context ends when the answer is
// no longer wanted. Without one all but pings is refused.
func (p *pipe) SetRequestHandler(handler transport.RequestHandler) { p.inbox.desk.handler = handler }

func (p *pipe) tellAnswers(told func(method string)) { p.told = told }

func (p *pipe) lost() <-chan struct{} { return p.broken }
func (p *pipe) why() string           { return p.reason }

// Close closes the server's stdin, also while it is being written to. What was
// queued for the server before, such as that a call is canceled, gets flushGrace
// to reach it.
func (p *pipe) Close() error {
	p.closeOnce.Do(func() {
		close(p.closing)
		waitFor(p.written, flushGrace)
		p.closeErr = p.in.Close()
	})
	return p.closeErr
}

// SendRequest sends a request, whose id must be a whole number that was not
// used before, and waits for its answer. An error that wraps errNotSent means
// that the server cannot have acted on it.
func (p *pipe) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	id, ok := r.ID.Value().(int64)
	if !ok {
		return nil, fmt.Errorf("sending request: its id %v is no int64", r.ID.Value())
	}
	data, err := encodeRequest(id, r.Method, r.Params)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	answers, err := p.expect(id, r.Method)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	f := &frame{data: data}
	select {
	case p.frames <- f:
	case a := <-answers: // the server died
		return nil, fmt.Errorf("%w: %w", errNotSent, a.err)
	case <-ctx.Done():
		p.forget(id)
		return nil, fmt.Errorf("%w: %w", errNotSent, context.Cause(ctx))
	}
	return p.await(ctx, id, f, answers)
}

func (p *pipe) await(ctx context.Context, id int64, f *frame, answers <-chan answer) (*transport.JSONRPCResponse, error) {
	var err error
	select {
	case a := <-answers:
		if a.err == nil {
			return a.response, nil
		}
		err = a.err
	case <-ctx.Done():
		p.forget(id)
		err = context.Cause(ctx)
	}
	if f.state.CompareAndSwap(frameQueued, frameDropped) {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return nil, err
}

// expect registers a request, unless the server is gone.
func (p *pipe) expect(id int64, method string) (<-chan answer, error) {
	answers := make(chan answer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return nil, p.cause
	}
	p.pending[id] = waiter{method, answers}
	p.issued = max(p.issued, id)
	return answers, nil
}

// forget gives a request up: its answer, if any, is thrown away.
func (p *pipe) forget(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, id)
}

// encodeRequest writes a request as one line. Parameters that are raw JSON go
// through as they are.
func encodeRequest(id int64, method string, params any) ([]byte, error) {
	raw, ok := params.(json.RawMessage)
	if !ok && params != nil {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			return nil, fmt.Errorf("encoding parameters of %s: %w", method, err)
		}
	}
	raw, err := oneLine(raw)
	if err != nil {
		return nil, fmt.Errorf("encoding parameters of %s: %w", method, err)
	}
	data := make([]byte, 0, len(raw)+len(method)+80)
	data = append(data, `{"jsonrpc":"2.0","id":`...)
	data = strconv.AppendInt(data, id, 10)
	data = append(data, `,"method":`...)
	data = strconv.AppendQuoteToASCII(data, method)
	if len(raw) > 0 {
		data = append(data, `,"params":`...)
		data = append(data, raw...)
	}
	return append(data, "}\n"...), nil
}

// SendNotification queues a notification. It does not wait for the server to
// read it; when too many wait already it is an error.
func (p *pipe) SendNotification(_ context.Context, n mcp.JSONRPCNotification) error {
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", n.Method, err)
	}
	if !p.queue(append(data, '\n')) {
		return fmt.Errorf("sending %s: the server does not read", n.Method)
	}
	return nil
}

func (p *pipe) queue(data []byte) bool {
	select {
	case p.control <- data:
		return true
	default:
		return false
	}
}

// write sends what is queued until Close, or until the server no longer reads.
func (p *pipe) write() {
	defer close(p.written)
	for {
		done, err := p.writeNext()
		if err != nil {
			p.giveUp("it closed its stdin")
		}
		if done || err != nil {
			return
		}
	}
}

// writeNext sends one line. Control lines come first: a request must not
// overtake the notification that the handshake is over.
func (p *pipe) writeNext() (done bool, err error) {
	select {
	case data := <-p.control:
		_, err = p.in.Write(data)
		return false, err
	default:
	}
	select {
	case <-p.closing:
		return len(p.control) == 0, nil
	case data := <-p.control:
		_, err = p.in.Write(data)
	case f := <-p.frames:
		err = p.writeFrame(f)
	}
	return false, err
}

func (p *pipe) writeFrame(f *frame) error {
	if !f.state.CompareAndSwap(frameQueued, frameWritten) {
		return nil // its caller has gone
	}
	_, err := p.in.Write(f.data)
	if err != nil {
		f.state.Store(frameQueued) // without its newline it is no request
	}
	return err
}

// giveUp says that the server can't be talked to.
func (p *pipe) giveUp(why string) {
	p.breakOnce.Do(func() {
		p.reason = why
		close(p.broken)
	})
}

// read takes in what the server sends until its stdout ends.
func (p *pipe) read() {
	defer p.inbox.desk.close()
	defer p.giveUp("it closed its stdout")
	lines := newLineReader(p.out, p.max)
	for {
		line, head, err := lines.next()
		switch {
		case errors.Is(err, errTooLarge):
			p.tooLarge(head)
		case err != nil:
			return
		default:
			p.inbox.take(line, p.settle)
		}
	}
}

// settle gives an answer to the request that has its id.
func (p *pipe) settle(m message) {
	w, ok := p.claim(m.header)
	if !ok {
		return
	}
	id, _ := m.number()
	p.told(w.method)
	w.answers <- answer{response: responseOf(id, m)}
}

// tooLarge fails the one call whose answer passed the cap.
func (p *pipe) tooLarge(h *header) {
	if string(h.jsonrpc) != `"2.0"` || h.method != nil {
		p.inbox.strays.add([]byte("a line longer than the cap"))
		return
	}
	if w, ok := p.claim(*h); ok {
		w.answers <- answer{err: errTooLarge}
	}
}

// claim finds the request that an answer is for. An answer under an id that was
// never used is meant for one of the calls under way, nobody can tell which,
// and that call would wait in vain: all of them fail. An answer to a request
// that has ended, such as a canceled one, is late or double and is ignored.
func (p *pipe) claim(h header) (waiter, bool) {
	id, ok := h.number()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ok || id < firstID || id > p.issued {
		p.failLocked(mismatch(h))
		return waiter{}, false
	}
	w, ok := p.pending[id]
	delete(p.pending, id)
	return w, ok
}

// fail ends all that is pending with cause, and all that comes later.
func (p *pipe) fail(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == nil {
		p.cause = cause
	}
	p.failLocked(cause)
}

func (p *pipe) failLocked(err error) {
	for id, w := range p.pending {
		w.answers <- answer{err: err}
		delete(p.pending, id)
	}
}

// errorDetails reads a JSON-RPC error. Its data stays as it was written.
func errorDetails(raw json.RawMessage) *mcp.JSONRPCErrorDetails {
	var e struct {
		Code    json.Number     `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return &mcp.JSONRPCErrorDetails{Code: mcp.INTERNAL_ERROR, Message: "the server answered with an error that is none: " + clip(string(raw), 500)}
	}
	code, err := e.Code.Int64()
	if err != nil {
		code = mcp.INTERNAL_ERROR
	}
	d := &mcp.JSONRPCErrorDetails{Code: int(code), Message: e.Message}
	if e.Data != nil {
		d.Data = e.Data
	}
	return d
}
