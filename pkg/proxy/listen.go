package proxy

import (
	"context"
	"mime"
	"net/http"
	"time"
)

const (
	// listenPauseMin is the pause before the optional stream is opened again;
	// it doubles up to listenPauseMax while the stream does not last.
	listenPauseMin = time.Second
	listenPauseMax = time.Minute

	// listenLasting is how long a stream must have been open to count as one
	// that works.
	listenLasting = 30 * time.Second

	// maxListens is how often in a row a stream that does not last is opened.
	maxListens = 12
)

// listenOnce opens the stream on which a server may speak unasked. It is
// optional: whatever happens to it, calls go on.
func (g *gate) listenOnce(req *http.Request) (*http.Response, error) {
	if err := g.listen.wait(req.Context()); err != nil {
		return nil, err
	}
	if g.listen.spent() {
		return unlistened(req), nil
	}
	resp, err := g.send(req, nil)
	if err != nil {
		return nil, err
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && mediaType == "text/event-stream" {
		return g.screen(resp, req, nil)
	}
	discard(resp)
	if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
		return unlistened(req), nil
	}
	return &http.Response{Request: req, StatusCode: resp.StatusCode, Header: http.Header{}, Body: http.NoBody}, nil
}

// unlistened is the answer at which mcp-go gives the stream up for good. At 404
// it would take the session for lost, and at all others it tries for ever.
func unlistened(req *http.Request) *http.Response {
	return &http.Response{Request: req, StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody}
}

// A listener spaces out the attempts to open the optional stream. mcp-go makes
// them one after the other.
type listener struct {
	ready chan struct{} // closed when the handshake is over
	pause time.Duration // the shortest
	tries int           // in a row
	last  time.Time
}

func newListener(pause time.Duration) *listener {
	return &listener{ready: make(chan struct{}), pause: pause}
}

// wait waits for the next attempt's time.
func (l *listener) wait(ctx context.Context) error {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if time.Since(l.last) > listenLasting+listenPauseMax {
		l.tries = 0
	}
	if l.tries > 0 && !l.spent() {
		timer := time.NewTimer(min(l.pause<<(l.tries-1), listenPauseMax))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.tries++
	l.last = time.Now()
	return nil
}

// spent reports whether it has been tried often enough.
func (l *listener) spent() bool { return l.tries > maxListens }
