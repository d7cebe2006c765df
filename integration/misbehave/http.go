//go:build integration

package misbehave

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Handler is the server over HTTP: streamable HTTP at every path but /sse, where
// the older kind is, whose messages go to /message.
//
// Of the faults, those of frames and of a process do nothing here. Where a tool
// would exit, the connection is closed instead; the tool pay can answer with the
// status 503 (how: "503").
func (c Config) Handler() http.Handler {
	h := &handler{server: newServer(c), streams: map[string]chan string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", h.stream)
	mux.HandleFunc("POST /message", h.message)
	mux.HandleFunc("POST /", h.post)
	return mux
}

type handler struct {
	server *server

	mu      sync.Mutex // guards streams
	streams map[string]chan string
}

// maxBody bounds a message of a client, in bytes.
const maxBody = 64 << 20

// post answers one message in the response to it.
func (h *handler) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply := make(chan string, 1)
	s := h.server.forHTTP()
	s.refuse = func(code int) { reply <- strconv.Itoa(code) }
	s.receive(body, func(message string) { reply <- message })
	s.work.Wait()
	select {
	case text := <-reply:
		h.answer(w, text)
	default: // a notification, or no answer at all
		if strings.Contains(string(body), `"id"`) {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// answer writes a message, or the status that stands in its place: 0 closes the
// connection.
func (h *handler) answer(w http.ResponseWriter, text string) {
	switch status, err := strconv.Atoi(text); {
	case err == nil && status == 0:
		panic(http.ErrAbortHandler)
	case err == nil:
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text) // a client that is gone needs none
}

// stream is the way to a client of the older kind.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	messages := make(chan string, 1000)
	h.mu.Lock()
	id := strconv.Itoa(len(h.streams) + 1)
	h.streams[id] = messages
	h.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: endpoint\ndata: /message?session=%s\n\n", id)
	flush := w.(http.Flusher).Flush //nolint:errcheck // net/http's writers can
	for {
		flush()
		select {
		case m := <-messages:
			if m == "0" {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", m)
		case <-r.Context().Done():
			return
		}
	}
}

func (h *handler) message(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	messages := h.streams[r.URL.Query().Get("session")]
	h.mu.Unlock()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if messages == nil || err != nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	s := h.server.forHTTP()
	s.refuse = func(int) { messages <- "0" }
	s.receive(body, func(message string) { messages <- message })
	s.work.Wait()
}
