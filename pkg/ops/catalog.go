package ops

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// maxPlace bounds the body of a request about the catalogue, in bytes: most of
// it is an environment.
const maxPlace = 4 << 20

// A Place says whose servers are meant: those that an agent would have there.
// The environment holds secrets; the daemon keeps nothing of it but what the
// servers that it starts get.
type Place struct {
	Cwd string            `json:"cwd"` // absolute
	Env map[string]string `json:"env"`
}

// Listing is a server as the catalogue knows it.
type Listing struct {
	Server  string    `json:"server"`
	Here    bool      `json:"here"`  // the place has the server; else its definition is another place's, or not there any more
	State   string    `json:"state"` // "configured", "catalogued", "started" or "used"
	Problem string    `json:"problem,omitempty"`
	Tools   *int      `json:"tools"` // null when they are not known
	Listed  time.Time `json:"listed,omitzero"`
	Name    string    `json:"name,omitempty"` // what the server calls itself
	Version string    `json:"version,omitempty"`
	Warning string    `json:"warning,omitempty"` // why the list may be incomplete
	Stale   string    `json:"stale,omitempty"`   // why the tools may be others by now
	Alike   bool      `json:"alike,omitempty"`   // the list is that of another environment's server of the definition
}

// Refresh says which lists are asked for anew: those of the servers that are
// named, else all that are known, or with All those of all servers of the place.
type Refresh struct {
	Place
	Servers []string `json:"servers,omitempty"`
	All     bool     `json:"all,omitempty"`
}

// Refreshed is what became of one list.
type Refreshed struct {
	Server  string   `json:"server"`
	Error   string   `json:"error,omitempty"` // why it is not new
	Tools   int      `json:"tools"`
	Version string   `json:"version,omitempty"`
	Took    float64  `json:"took_ms"`
	First   bool     `json:"first,omitempty"`       // none was known before, so nothing is told of changes
	Was     string   `json:"was_version,omitempty"` // before
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// Clear says which lists are dropped: all if no server is named.
type Clear struct {
	Place
	Servers []string `json:"servers,omitempty"`
}

// Cleared is what came of it.
type Cleared struct {
	Lists   int      `json:"lists"`             // that were dropped
	Unknown []string `json:"unknown,omitempty"` // names of which none is kept
}

// Catalog is the daemon's side of the requests about the catalogue. Its methods
// must be safe for concurrent use. Refresh reports each list when it is there,
// one at a time.
type Catalog interface {
	List(ctx context.Context, at Place) ([]Listing, error)
	Refresh(ctx context.Context, what Refresh, report func(Refreshed)) error
	Clear(ctx context.Context, what Clear) (Cleared, error)
}

// HandleCatalog adds to a handler
//
//	POST /catalog          a [Place], answered by an array of [Listing]
//	POST /catalog/refresh  a [Refresh], answered by a [Refreshed] a line, as they come
//	POST /catalog/clear    a [Clear], answered by a [Cleared]
func HandleCatalog(mux *http.ServeMux, c Catalog) {
	mux.HandleFunc("POST /catalog", func(w http.ResponseWriter, r *http.Request) {
		var at Place
		if !read(w, r, &at) {
			return
		}
		list, err := c.List(r.Context(), at)
		if err != nil {
			done(w, err)
			return
		}
		respond(w, list)
	})
	mux.HandleFunc("POST /catalog/refresh", func(w http.ResponseWriter, r *http.Request) {
		var what Refresh
		if !read(w, r, &what) {
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines, out := json.NewEncoder(w), http.NewResponseController(w)
		err := c.Refresh(r.Context(), what, func(one Refreshed) {
			// A client that hung up is the only way for this to go wrong.
			_ = lines.Encode(one)
			_ = out.Flush()
		})
		if err != nil {
			done(w, err)
		}
	})
	mux.HandleFunc("POST /catalog/clear", func(w http.ResponseWriter, r *http.Request) {
		var what Clear
		if !read(w, r, &what) {
			return
		}
		n, err := c.Clear(r.Context(), what)
		if err != nil {
			done(w, err)
			return
		}
		respond(w, n)
	})
}

// read reads a request's body, and answers one that can't be read.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPlace)).Decode(into); err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// ListCatalog asks the daemon behind a socket what its catalogue knows.
func ListCatalog(ctx context.Context, socket string, at Place) ([]Listing, error) {
	var list []Listing
	err := call(ctx, socket, http.MethodPost, "/catalog", at, &list)
	return list, err
}

// RefreshCatalog has lists asked for anew, and reports each when it is there.
// It ends early when report returns an error, which it returns.
func RefreshCatalog(ctx context.Context, socket string, what Refresh, report func(Refreshed) error) error {
	return stream(ctx, socket, "/catalog/refresh", what, func(lines *json.Decoder) error {
		for {
			var one Refreshed
			if err := lines.Decode(&one); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := report(one); err != nil {
				return err
			}
		}
	})
}

// ClearCatalog has lists dropped.
func ClearCatalog(ctx context.Context, socket string, what Clear) (Cleared, error) {
	var n Cleared
	err := call(ctx, socket, http.MethodPost, "/catalog/clear", what, &n)
	return n, err
}
