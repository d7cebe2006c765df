package ops

import (
	"context"
	"net/http"
)

// HandleStop adds to a handler
//
//	POST /stop   has the daemon end with all its sessions; answered before it does
//
// stop must return at once.
func HandleStop(mux *http.ServeMux, stop func()) {
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		// A client that hung up is the only way for this to go wrong.
		_ = http.NewResponseController(w).Flush()
		stop()
	})
}

// Stop has the daemon behind a socket end with all its sessions. It returns when
// the daemon has heard it, and not when it has ended.
func Stop(ctx context.Context, socket string) error {
	return call(ctx, socket, http.MethodPost, "/stop", nil, nil)
}
