package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Change is a tool whose definition is another than the accepted one. Its texts
// hold no control characters.
type Change struct {
	Server string       `json:"server"`
	Tool   string       `json:"tool"`
	Since  time.Time    `json:"since"`
	Parts  []ChangePart `json:"parts"` // empty when the definitions were too large to keep
}

// ChangePart is one part of a definition before and after, cut to what differs.
type ChangePart struct {
	Name string `json:"name"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

// acceptance says which tools are accepted as they are now: all of the server
// that have changed if Tool is empty.
type acceptance struct {
	Server string `json:"server"`
	Tool   string `json:"tool,omitempty"`
}

// accepted says how many that were.
type accepted struct {
	Accepted int `json:"accepted"`
}

// HandlePins adds to a handler
//
//	GET /pins          the tools that have changed: an array of [Change]
//	POST /pins/accept  {server, tool?}, answered by {accepted}: how many; 404 if none
//
// changes and accept must be safe for concurrent use. accept's error is an
// [ErrNone] when there is nothing to accept.
func HandlePins(mux *http.ServeMux, changes func() []Change, accept func(server, tool string) (int, error)) {
	mux.HandleFunc("GET /pins", func(w http.ResponseWriter, _ *http.Request) { respond(w, changes()) })
	mux.HandleFunc("POST /pins/accept", func(w http.ResponseWriter, r *http.Request) {
		var a acceptance
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAnswer)).Decode(&a); err != nil {
			http.Error(w, "what is accepted is a JSON object with server and tool: "+err.Error(), http.StatusBadRequest)
			return
		}
		n, err := accept(a.Server, a.Tool)
		if err != nil {
			done(w, err)
			return
		}
		respond(w, accepted{n})
	})
}

// Pins asks the daemon behind a socket which tools have changed.
func Pins(ctx context.Context, socket string) ([]Change, error) {
	var list []Change
	err := call(ctx, socket, http.MethodGet, "/pins", nil, &list)
	return list, err
}

// AcceptPins accepts a server's tool as it is now, all of them if tool is empty.
func AcceptPins(ctx context.Context, socket, server, tool string) (int, error) {
	var a accepted
	err := call(ctx, socket, http.MethodPost, "/pins/accept", acceptance{server, tool}, &a)
	return a.Accepted, err
}
