package oauthtest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
)

// Unstarted returns a server of h that the caller starts, and what ends it.
// Requests that are open then have their contexts canceled: Close of
// httptest.Server waits for them without a limit, and a client whose stream is
// cut can be back with another one before nobody listens any more.
func Unstarted(h http.Handler) (srv *httptest.Server, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	srv = httptest.NewUnstartedServer(h)
	srv.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	return srv, func() {
		cancel()
		srv.CloseClientConnections()
		srv.Close()
	}
}
