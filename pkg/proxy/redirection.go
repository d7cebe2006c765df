package proxy

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A redirection waits on 127.0.0.1 for a person's browser to come back from a
// login page.
type redirection struct {
	listener net.Listener
	server   *http.Server
	calls    chan callback
	done     chan struct{} // closed when the server has ended
}

// A callback is what a browser brings back.
type callback struct {
	code, state, issuer, failure string
	answer                       chan string // what the browser is to show
}

// newRedirection listens on a port, 0 for any. The caller must close it.
func newRedirection(port int) (*redirection, error) {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("listening for the way back: %w", err)
	}
	r := &redirection{listener: ln, calls: make(chan callback), done: make(chan struct{})}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10}
	go func() { // ends with close
		defer close(r.done)
		_ = r.server.Serve(ln)
	}()
	return r, nil
}

// address is where the browser is sent back to.
func (r *redirection) address() string { return "http://" + r.listener.Addr().String() + "/callback" }

// close ends it, with a moment for the last page to be read.
func (r *redirection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.server.Shutdown(ctx) != nil {
		_ = r.server.Close()
	}
	<-r.done
}

// ServeHTTP takes a browser in.
func (r *redirection) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close")
	values := q.URL.Query()
	c := callback{
		code: values.Get("code"), state: values.Get("state"), issuer: values.Get("iss"),
		failure: values.Get("error"), answer: make(chan string, 1),
	}
	if q.URL.Path != "/callback" || q.Method != http.MethodGet || c.state == "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if text := values.Get("error_description"); text != "" && c.failure != "" {
		c.failure += ": " + text
	}
	select {
	case r.calls <- c:
	case <-q.Context().Done():
		return
	}
	select {
	case text := <-c.answer:
		fmt.Fprintln(w, text) //nolint:errcheck // a browser that has gone
	case <-q.Context().Done():
	}
}

// wait returns the code that a browser brings back. What comes with another
// state is somebody else's, and is sent away.
func (r *redirection) wait(ctx context.Context, state, issuer string) (string, error) {
	for {
		select {
		case c := <-r.calls:
			code, err := c.check(state, issuer)
			if errors.Is(err, errForeignState) {
				c.answer <- "This is not the login that bridged waits for. Use the address that it shows now."
				continue
			}
			if err != nil {
				c.answer <- "The login failed. What went wrong is in the terminal."
				return "", err
			}
			c.answer <- "You are logged in to the server. This page can be closed."
			return code, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

var errForeignState = errors.New("it is the answer to another login")

// check returns the code, if the callback is an answer to our request.
func (c *callback) check(state, issuer string) (string, error) {
	switch {
	case subtle.ConstantTimeCompare([]byte(c.state), []byte(state)) != 1:
		return "", errForeignState
	case c.issuer != "" && issuer != "" && c.issuer != issuer:
		return "", errors.New("the answer comes from another authorization server than was asked")
	case c.failure != "":
		return "", fmt.Errorf("the authorization server says: %s", clip(plainText(c.failure), 300))
	case c.code == "":
		return "", errors.New("the authorization server sent no code back")
	}
	return c.code, nil
}
