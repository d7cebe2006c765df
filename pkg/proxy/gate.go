package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/bridged/bridged/pkg/tracing"
)

// maxRefusal bounds what is read of the body of an answer that is no success.
const maxRefusal = 64 << 10

// A gate is what mcp-go's HTTP transports send their requests through. It adds
// the definition's headers and the login's token, bounds what comes back, brings
// event streams to the one form that mcp-go reads, and takes the messages out of
// them: mcp-go gets stubs, and minds sessions and streams.
type gate struct {
	at      *endpoint
	base    http.RoundTripper
	max     int  // bytes of one message
	legacy  bool // HTTP and SSE
	ledger  ledger
	inbox   *inbox
	listen  *listener
	version atomic.Value // string: the protocol's, once it is agreed
}

// RoundTrip sends a request of mcp-go's.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	if !g.at.covers(req.URL) {
		return nil, fmt.Errorf("%w: it would go to another host", errNotSent)
	}
	if req.Method == http.MethodGet && !g.legacy && req.Header.Get("Last-Event-ID") == "" {
		return g.listenOnce(req)
	}
	x.hold(nil) // a redirect is being followed
	resp, err := g.send(req, x)
	if err != nil || req.Method == http.MethodDelete {
		return resp, err
	}
	return g.screen(resp, req, x)
}

// send sends a request as whoever is logged in, if anybody. When the server no
// longer takes the token, which it says before it acts, there is one more try
// with a new one.
func (g *gate) send(req *http.Request, x *exchange) (*http.Response, error) {
	token, err := g.at.login.token(req.Context())
	if err != nil {
		return nil, notSent(x, err)
	}
	resp, err := g.sendAs(req, x, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || token == "" {
		return resp, err
	}
	fresh, err := g.at.login.renew(req.Context(), token)
	if err != nil {
		return resp, nil //nolint:nilerr // the refusal says what to do
	}
	discard(resp)
	if req.GetBody != nil {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, notSent(x, err)
		}
	}
	return g.sendAs(req, x, fresh)
}

// notSent settles an exchange whose request stays here.
func notSent(x *exchange, err error) error {
	if !errors.Is(err, errNotSent) {
		err = fmt.Errorf("%w: %w", errNotSent, err)
	}
	if x != nil {
		x.settle(nil, err)
	}
	return err
}

// discard ends a response that nobody reads. A short one is read all the same,
// so that its connection can be used again.
func discard(resp *http.Response) {
	if n := resp.ContentLength; n >= 0 && n <= maxRefusal {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	_ = resp.Body.Close()
}

func (g *gate) sendAs(req *http.Request, x *exchange, token string) (*http.Response, error) {
	ctx := req.Context()
	if x != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { x.sent.Store(true) }})
	}
	req = req.Clone(ctx)
	g.dress(req.Header, token)
	tracing.SetHeaders(ctx, req.Header)
	return g.base.RoundTrip(req)
}

// protocolHeaders belong to the transport, whatever a definition says.
var protocolHeaders = map[string]bool{
	"Accept": true, "Content-Type": true, "Content-Length": true, "Host": true, "Connection": true, "Transfer-Encoding": true,
	"Last-Event-Id": true, "Mcp-Session-Id": true, "Mcp-Protocol-Version": true,
}

// dress adds the headers of ours.
func (g *gate) dress(h http.Header, token string) {
	h.Set("User-Agent", "bridged/"+g.at.version)
	if version, ok := g.version.Load().(string); ok {
		h.Set(transport.HeaderKeyProtocolVersion, version)
	}
	for name, value := range g.at.headers {
		if !protocolHeaders[http.CanonicalHeaderKey(name)] {
			h.Set(name, value)
		}
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
}

// screen puts in place of a response what mcp-go may see of it.
func (g *gate) screen(resp *http.Response, req *http.Request, x *exchange) (*http.Response, error) {
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		g.refused(resp, req, x)
		return resp, nil
	case mediaType == "text/event-stream":
		resp.Body = &eventBody{gate: g, own: x, events: newEventReader(resp.Body, g.max), body: resp.Body}
		return resp, nil
	}
	if err := g.whole(resp, x); err != nil {
		return nil, err
	}
	return resp, nil
}

// refused reads an answer that is no success. One that is a JSON-RPC error is
// an answer like any other, unless its status says more.
func (g *gate) refused(resp *http.Response, req *http.Request, x *exchange) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(nil))
	if x == nil {
		return
	}
	refusal := newStatusError(resp, req, head)
	refusal.text = clip(plainText(g.at.mask.Replace(refusal.text)), 300)
	if err == nil && !refusal.decides() && x.id != 0 {
		g.inbox.take(head, func(m message) { g.settle(x, m) })
	}
	if resp.StatusCode < 400 {
		x.hold(refusal) // a redirect that may be followed
		return
	}
	x.settle(nil, refusal)
}

// whole reads an answer that is one JSON text.
func (g *gate) whole(resp *http.Response, x *exchange) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(g.max)+1))
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(nil))
	switch {
	case len(text) > g.max && x != nil:
		x.settle(nil, errTooLarge)
	case len(text) <= g.max:
		g.inbox.take(text, func(m message) { g.settle(x, m) })
	}
	if x == nil || x.id == 0 || g.legacy {
		return nil // what comes on the event stream is the answer
	}
	what := fmt.Sprintf("HTTP %d with no message in it", resp.StatusCode)
	if len(text) > 0 {
		what = fmt.Sprintf("something else (%s)", clip(plainText(resp.Header.Get("Content-Type")), 60))
	}
	x.settle(nil, fmt.Errorf("%w: the server answered with %s", errMismatch, what))
	resp.Header.Set("Content-Type", "application/json")
	resp.Body = io.NopCloser(bytes.NewReader(x.stub()))
	resp.ContentLength = -1
	return nil
}

// settle gives an answer to whoever waits for it; own is the exchange on whose
// stream it came.
func (g *gate) settle(own *exchange, m message) *exchange {
	x := g.ledger.claim(own, m)
	if x != nil && x != own && !g.legacy {
		x.cancel() // mcp-go waits on another stream
	}
	return x
}
