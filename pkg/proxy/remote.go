package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/pkg/discovery"
)

const (
	// controlTimeout bounds the sending of a notification, or of an answer to
	// a request of the server's.
	controlTimeout = 10 * time.Second

	// forever is for mcp-go's own time limits: ours are in the contexts.
	forever = 365 * 24 * time.Hour
)

// errForgotten says that a server no longer knows the session, so that it has
// not looked at the request.
var errForgotten = errors.New("it no longer knows our session")

// A remote is the connection with a server that is reached by HTTP: mcp-go's
// transport, streamable HTTP or HTTP and SSE, behind a gate.
type remote struct {
	at     *endpoint
	kind   discovery.Transport
	gate   *gate
	conn   transport.Interface
	base   *http.Transport
	client *http.Client
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	control chan []byte   // notifications and answers that wait
	closing chan struct{} // closed by Close
	failed  chan struct{} // closed by fail
	broken  chan struct{} // closed when the server can't be talked to any more

	startOnce sync.Once
	startErr  error // of Start

	readyOnce, closeOnce, failOnce, breakOnce sync.Once
	reason                                    string // set before broken is closed
}

var _ wire = (*remote)(nil)

// newRemote returns a connection by a given transport. It is made with the
// first request.
func newRemote(at *endpoint, kind discovery.Transport, o *Options) (*remote, error) {
	r := &remote{
		at: at, kind: kind, base: at.transport(),
		control: make(chan []byte, controlQueue),
		closing: make(chan struct{}), failed: make(chan struct{}), broken: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.gate = &gate{at: at, base: r.base, max: o.MaxMessage, legacy: kind == discovery.SSE, listen: newListener(o.listenPause)}
	r.gate.ledger.told = func(string) {}
	r.gate.inbox = newInbox(&strayLog{}, func(reply []byte) { r.queue(reply) })
	r.client = &http.Client{Transport: r.gate, CheckRedirect: at.redirect}
	var err error
	if r.conn, err = r.transport(); err != nil {
		return nil, err
	}
	return r, nil
}

// transport returns mcp-go's transport.
func (r *remote) transport() (transport.Interface, error) {
	silent := slog.New(slog.DiscardHandler) // errors are told to whoever called
	if r.kind == discovery.SSE {
		conn, err := transport.NewSSE(r.at.url.String(), transport.WithHTTPClient(r.client), transport.WithSSELogger(silent),
			transport.WithEndpointTimeout(forever), transport.WithResponseTimeout(forever))
		if err != nil {
			return nil, err
		}
		conn.SetConnectionLostHandler(func(error) { r.giveUp("its event stream ended") })
		return conn, nil
	}
	return transport.NewStreamableHTTP(r.at.url.String(), transport.WithHTTPBasicClient(r.client),
		transport.WithHTTPLogger(silent), transport.WithContinuousListening()) //nolint:staticcheck // the versions that we ask for have that stream
}

// SetNotificationHandler must be called before the first request. The handler
// must not block.
func (r *remote) SetNotificationHandler(handler func(mcp.JSONRPCNotification)) {
	r.gate.inbox.notify = handler
}

// SetRequestHandler must be called before the first request.
func (r *remote) SetRequestHandler(handler transport.RequestHandler) {
	r.gate.inbox.desk.handler = handler
}

// SetProtocolVersion sets what is sent along from now on. mcp-go itself is not
// told: versions that it does not know would change what it does.
func (r *remote) SetProtocolVersion(version string) {
	if versionText.MatchString(version) {
		r.gate.version.Store(version)
	}
}

var versionText = regexp.MustCompile(`^[0-9A-Za-z.-]{1,40}$`)

// GetSessionId returns the session that the server has named, if any.
func (r *remote) GetSessionId() string { return r.conn.GetSessionId() } //nolint:revive // the interface's name

// Start opens the event stream of HTTP and SSE, and nothing else.
func (r *remote) Start(ctx context.Context) error {
	if r.kind != discovery.SSE {
		return r.conn.Start(r.ctx)
	}
	x := &exchange{}
	life, cancel := context.WithCancel(context.WithValue(r.ctx, exchangeKey{}, x)) // the stream outlives ctx
	x.cancel = cancel
	defer context.AfterFunc(ctx, func() {
		if _, _, over := x.outcome(); !over {
			cancel()
		}
	})()
	err := r.conn.Start(life)
	if err == nil {
		return nil
	}
	cancel()
	_, err = r.result(ctx, x, err)
	return err
}

// SendRequest sends a request, whose id must be a whole number that was not
// used before, and waits for its answer. An error that wraps errNotSent means
// that the server cannot have acted on it, one that wraps errBroken that it may.
func (r *remote) SendRequest(ctx context.Context, q transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	id, ok := q.ID.Value().(int64)
	if !ok {
		return nil, fmt.Errorf("sending request: its id %v is no int64", q.ID.Value())
	}
	if q.Method == string(mcp.MethodInitialize) {
		r.startOnce.Do(func() { r.startErr = r.Start(ctx) })
		if r.startErr != nil {
			return nil, r.startErr
		}
	}
	x := &exchange{id: id, method: q.Method}
	// mcp-go would make a timer of its own from ctx's deadline, and say other
	// things of a call whose time is up.
	inner, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), exchangeKey{}, x))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	x.cancel = cancel
	if err := r.gate.ledger.expect(x); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	defer r.gate.ledger.forget(x)
	_, err := r.conn.SendRequest(inner, q)
	return r.result(ctx, x, err)
}

// result says what an exchange came to. err is what mcp-go says of it, which
// counts only if nothing better is known.
func (r *remote) result(ctx context.Context, x *exchange, err error) (*transport.JSONRPCResponse, error) {
	response, failed, over := x.outcome()
	refusal, refused := errors.AsType[*statusError](failed)
	switch {
	case over && failed == nil:
		return response, nil
	case refused && refusal.forgotten():
		r.giveUp(errForgotten.Error())
		select {
		case <-r.failed: // then whoever asks again asks another connection
		case <-ctx.Done():
		}
		return nil, fmt.Errorf("%w: %w", errNotSent, errForgotten)
	case refused:
		return nil, r.at.explain(refusal)
	case over && (x.sent.Load() || errors.Is(failed, errNotSent)):
		return nil, failed
	case over:
		err = failed
	case ctx.Err() != nil:
		err = context.Cause(ctx)
		if x.sent.Load() {
			return nil, err
		}
	}
	if x.sent.Load() {
		return nil, fmt.Errorf("%w: %w", errBroken, r.plain(err))
	}
	return nil, fmt.Errorf("%w: %w", errNotSent, r.plain(err))
}

// plain strips an error of net/http of the URL that it quotes.
func (r *remote) plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if text := err.Error(); r.at.mask.Replace(text) != text {
		return errors.New(r.at.mask.Replace(text))
	}
	return err
}

// SendNotification queues a notification, and sends the one that ends the
// handshake at once: no request may overtake it.
func (r *remote) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	data, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", n.Method, err)
	}
	if n.Method == string(mcp.MethodNotificationInitialized) {
		err := r.post(ctx, data) // its status says nothing that the next request's does not
		r.readyOnce.Do(func() { close(r.gate.listen.ready) })
		return err
	}
	if !r.queue(data) {
		return fmt.Errorf("sending %s: the server does not take what is sent", n.Method)
	}
	return nil
}

func (r *remote) queue(data []byte) bool {
	select {
	case r.control <- data:
		return true
	default:
		return false
	}
}

// write sends what is queued until Close. What can't be sent is lost, like a
// notification that a process does not read.
func (r *remote) write() {
	for {
		select {
		case <-r.closing:
			return
		case data := <-r.control:
			_ = r.post(r.ctx, data)
		}
	}
}

// post sends one message that has no answer.
func (r *remote) post(ctx context.Context, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address(), bytes.NewReader(data))
	if err != nil {
		return errors.New("its address is not valid") // the error would quote it
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session := r.GetSessionId(); session != "" {
		req.Header.Set(transport.HeaderKeySessionID, session)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return r.plain(err)
	}
	discard(resp)
	return nil
}

// address is where messages are sent.
func (r *remote) address() string {
	if sse, ok := r.conn.(*transport.SSE); ok && sse.GetEndpoint() != nil {
		return sse.GetEndpoint().String()
	}
	return r.at.url.String()
}

// read lasts until Close; mcp-go does the reading.
func (r *remote) read() {
	<-r.closing
	r.gate.inbox.desk.close()
}

func (r *remote) tellAnswers(told func(method string)) { r.gate.ledger.told = told }

func (r *remote) lost() <-chan struct{} { return r.broken }
func (r *remote) why() string           { return r.reason }

// giveUp says that the server can't be talked to.
func (r *remote) giveUp(why string) {
	r.breakOnce.Do(func() {
		r.reason = why
		close(r.broken)
	})
}

// fail ends all that is pending with cause, and all that comes later.
func (r *remote) fail(cause error) {
	r.gate.ledger.fail(cause)
	r.failOnce.Do(func() { close(r.failed) })
}

// Close ends the session, which the server is told, and all connections.
func (r *remote) Close() error {
	var err error
	r.closeOnce.Do(func() {
		close(r.closing)
		err = r.conn.Close()
		r.cancel()
		r.base.CloseIdleConnections()
	})
	return err
}

// greetRemote connects with a remote server and greets it, by the transports
// that it may speak, in turn.
func (b *backend) greetRemote(ctx context.Context, h handlers) (*upstream, error) {
	kinds := b.remote.kinds()
	var first error
	for i, kind := range kinds {
		r, err := newRemote(b.remote, kind, &b.proxy.opts)
		if err != nil {
			return nil, err
		}
		u, err := startUpstream(ctx, link{name: b.name, mask: b.mask, wire: r}, &b.proxy.opts, h)
		if err == nil {
			b.remote.proven.Store(kind)
			return u, nil
		}
		if first != nil {
			return nil, fmt.Errorf("it speaks neither streamable HTTP nor HTTP and SSE at its url: to the first %w, to the second %w", first, err)
		}
		if refusal, ok := errors.AsType[*statusError](err); !ok || !refusal.elsewhere() || i+1 == len(kinds) {
			return nil, err
		}
		first = err
	}
	return nil, first
}

// newLogin reports whether somebody has logged in since the start failed for
// the want of it. b's mu is held.
func (b *backend) newLogin() bool {
	return b.remote != nil && b.remote.login.changed()
}

var versionDate = regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`)

// olderByText returns the version to try after a refusal of the newest that is
// only words, as servers write behind HTTP 400: the newest of those that they
// name and we know, or the first that has streamable HTTP.
func olderByText(err error) (string, bool) {
	_, refused := errors.AsType[*statusError](err)
	_, failed := errors.AsType[*rpcError](err)
	if !refused && !failed || !strings.Contains(strings.ToLower(err.Error()), "version") {
		return "", false
	}
	best := ""
	for _, v := range versionDate.FindAllString(err.Error(), -1) {
		if v < mcp.LATEST_LEGACY_PROTOCOL_VERSION && slices.Contains(mcp.ValidProtocolVersions, v) {
			best = max(best, v)
		}
	}
	return cmp.Or(best, "2025-03-26"), true
}
