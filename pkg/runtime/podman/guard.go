package podman

import (
	"errors"
	"net"
	"net/http"
	"sync"
)

// A guard keeps a call from being sent twice. The bindings send a request up
// to three times when it fails, even a create or a start that may have been
// carried out. A guard lets a request through again only when the last try
// did not even connect, or when the request changes nothing.
type guard struct{ http.RoundTripper }

type sentKey struct{}

// sent is what a call remembers of its last try.
type sent struct {
	mu  sync.Mutex // guards err
	err error
}

// RoundTrip implements [http.RoundTripper].
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	s, ok := r.Context().Value(sentKey{}).(*sent)
	if !ok || r.Method == http.MethodGet {
		return g.RoundTripper.RoundTrip(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	resp, err := g.RoundTripper.RoundTrip(r)
	if err != nil && !notConnected(err) {
		s.err = err
	}
	return resp, err
}

func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (g guard) CloseIdleConnections() {
	if t, ok := g.RoundTripper.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}
