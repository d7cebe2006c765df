package proxy

import (
	"bytes"
	"errors"
	"io"
)

// An eventBody is an event stream as mcp-go gets to see it. It is read by one
// goroutine.
type eventBody struct {
	gate   *gate
	own    *exchange // whose stream it is; nil or with id 0 for everybody's
	events *eventReader
	body   io.Closer
	out    []byte // for mcp-go, not read yet
}

// Close ends the stream.
func (b *eventBody) Close() error { return b.body.Close() }

// Read reads the next event, if need be, and what mcp-go is to see of it.
func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		ev, head, err := b.events.next()
		switch {
		case errors.Is(err, errTooLarge):
			b.tooLarge(head)
		case err != nil:
			return 0, err
		default:
			err = b.take(ev)
		}
		if err != nil && !errors.Is(err, errTooLarge) {
			return 0, err
		}
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// take handles one event.
func (b *eventBody) take(ev event) error {
	if ev.id != nil {
		b.out = append(append(append(b.out, "id: "...), ev.id...), '\n')
	}
	if ev.retry != nil {
		b.out = append(append(append(b.out, "retry: "...), ev.retry...), '\n')
	}
	if ev.name == "endpoint" && b.gate.legacy {
		return b.moveTo(ev.data)
	}
	b.gate.inbox.take(ev.data, func(m message) { b.show(b.gate.settle(b.own, m)) })
	if len(b.out) > 0 {
		b.out = append(b.out, '\n')
	}
	return nil
}

// show lets mcp-go see that an exchange is over.
func (b *eventBody) show(x *exchange) {
	if x != nil && (x == b.own || b.gate.legacy) {
		b.out = append(append(append(b.out, "data: "...), x.stub()...), '\n')
	}
}

// moveTo takes the address that the server wants requests at.
func (b *eventBody) moveTo(address []byte) error {
	at, err := b.gate.at.url.Parse(string(bytes.TrimSpace(address)))
	if err == nil && at.Host == b.gate.at.url.Host && at.Scheme == b.gate.at.url.Scheme {
		b.out = append(append(append(b.out, "event: endpoint\ndata: "...), at.String()...), "\n\n"...)
		return nil
	}
	err = errors.New("it wants requests sent to another host, which is refused")
	if b.own != nil {
		b.own.settle(nil, err)
		b.own.cancel()
	}
	return err
}

// tooLarge fails the one call whose answer passed the cap.
func (b *eventBody) tooLarge(h *header) {
	if h.method != nil {
		return
	}
	x := b.own
	if id, ok := h.number(); ok {
		x = b.gate.ledger.get(id)
	}
	if x == nil || x.id == 0 {
		return
	}
	x.settle(nil, errTooLarge)
	b.show(x)
	b.out = append(b.out, '\n')
	if x != b.own && !b.gate.legacy {
		x.cancel()
	}
}
