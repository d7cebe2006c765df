package ops

import (
	"embed"
	"fmt"
	"net/http"
	"path"
)

// pageFiles are the page as it is served: no step builds it.
//
//go:embed web
var pageFiles embed.FS

// pageTypes are the kinds of files that the page is made of. They are named here
// since a machine's own list may say anything.
var pageTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// pageFolder is where all of the page's files are but the page itself.
const pageFolder = "/web/"

// HandlePage adds to a handler
//
//	GET /           a page for a person, which shows the status and the events
//	GET /web/FILE   what it is made of
//
// The page asks its own origin alone: for /status, /events and /approvals. It
// counts on [Headers].
func HandlePage(mux *http.ServeMux) {
	entries, err := pageFiles.ReadDir("web")
	if err != nil {
		panic(fmt.Sprintf("ops: the page is not embedded: %v", err)) // the build is broken
	}
	for _, e := range entries {
		data, err := pageFiles.ReadFile("web/" + e.Name())
		kind := pageTypes[path.Ext(e.Name())]
		if err != nil || kind == "" {
			panic(fmt.Sprintf("ops: the page's file %s: no type, or %v", e.Name(), err))
		}
		pattern := "GET " + pageFolder + e.Name()
		if e.Name() == "index.html" {
			pattern = "GET /{$}"
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			// A reader that hung up is the only way for this to go wrong.
			_, _ = w.Write(data)
		})
	}
}
