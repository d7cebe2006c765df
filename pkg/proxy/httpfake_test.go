package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// An httpFake is a remote server that misbehaves as a test wants. The zero
// value behaves. Fields are set before it is used, Status later too, under mu.
type httpFake struct {
	Legacy   bool                                                           // HTTP and SSE instead of streamable HTTP
	JSON     bool                                                           // answers as JSON instead of events
	End      string                                                         // of lines of events, LF if empty
	Trickle  bool                                                           // one byte per write
	Pause    time.Duration                                                  // between CR and LF of a line end
	Split    bool                                                           // each message over two data lines
	Noise    string                                                         // raw text before each event
	Version  string                                                         // that initialize answers with; "none" for none
	Versions []string                                                       // that initialize takes; others get HTTP 400
	Stateles bool                                                           // names no session
	Status   map[string]int                                                 // by JSON-RPC method, instead of an answer
	Body     string                                                         // of those
	Type     string                                                         // Content-Type of those
	Gets     []int                                                          // statuses of the GET stream by attempt, the last for ever; 0 opens it
	Get      string                                                         // what an open GET stream does: "", "close" or "ping"
	Endpoint string                                                         // of the event, instead of ours
	Header   http.Header                                                    // of every answer
	Require  string                                                         // Authorization that is wanted
	Tools    []string                                                       // instead of echo, big, pay, ask, sleep
	Hang     chan struct{}                                                  // answers to pings wait for its end
	Act      func(name string, w http.ResponseWriter, r *http.Request) bool // in place of a call; true if it did

	url     string
	mu      sync.Mutex // guards the fields below
	seen    []string   // what was asked, in order
	headers []http.Header
	session int
	valid   map[string]bool
	gets    int
	token   string                 // for progress, of the last call
	streams map[string]chan string // of HTTP and SSE
	replies chan json.RawMessage
	closed  chan struct{}
}

// start runs the fake for the test.
func (f *httpFake) start(t *testing.T) *httpFake {
	t.Helper()
	f.valid, f.streams, f.replies, f.closed = map[string]bool{}, map[string]chan string{}, make(chan json.RawMessage, 100), make(chan struct{})
	f.url = listen(t, f.serve).URL
	t.Cleanup(func() { close(f.closed) })
	return f
}

// server returns a definition of it.
func (f *httpFake) server(kind discovery.Transport) discovery.Server {
	return discovery.Server{
		Name: "fake", Transport: kind, URL: f.url + "/mcp", Description: "a fake",
		Sources: []discovery.Source{{Path: "/config.json", Key: "mcpServers.fake"}},
	}
}

// asked returns what was asked so far.
func (f *httpFake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// count returns how often something was asked.
func (f *httpFake) count(what string) int {
	n := 0
	for _, one := range f.asked() {
		if one == what {
			n++
		}
	}
	return n
}

// last returns the headers of the last time that something was asked.
func (f *httpFake) last(what string) http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, one := range slices.Backward(f.seen) {
		if one == what {
			return f.headers[i]
		}
	}
	return nil
}

// restart forgets all sessions.
func (f *httpFake) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.valid)
}

func (f *httpFake) note(what string, h http.Header) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, what)
	f.headers = append(f.headers, h.Clone())
}

func (f *httpFake) serve(w http.ResponseWriter, r *http.Request) {
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	if f.Require != "" && r.Header.Get("Authorization") != f.Require {
		f.note("refused", r.Header)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch r.Method {
	case http.MethodGet:
		f.get(w, r)
	case http.MethodDelete:
		f.note("DELETE", r.Header)
	default:
		f.post(w, r)
	}
}

func (f *httpFake) get(w http.ResponseWriter, r *http.Request) {
	f.note("GET", r.Header)
	if f.Legacy {
		f.stream(w, r)
		return
	}
	f.mu.Lock()
	status := http.StatusMethodNotAllowed
	if len(f.Gets) > 0 {
		status = f.Gets[min(f.gets, len(f.Gets)-1)]
	}
	f.gets++
	f.mu.Unlock()
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush(w)
	for f.Get != "close" {
		if f.Get == "ping" {
			f.raw(w, "event: ping\ndata:\n\n")
		}
		select {
		case <-r.Context().Done():
			return
		case <-f.closed:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stream is the event stream of HTTP and SSE.
func (f *httpFake) stream(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.session++
	id := fmt.Sprint("s", f.session)
	ch := make(chan string, 100)
	f.streams[id] = ch
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	endpoint := "/message?sessionId=" + id
	if f.Endpoint != "" {
		endpoint = f.Endpoint
	}
	f.raw(w, f.Noise+"event: endpoint\ndata: "+endpoint+"\n\n")
	for {
		select {
		case text, ok := <-ch:
			if !ok {
				return
			}
			f.event(w, text)
		case <-r.Context().Done():
			return
		case <-f.closed:
			return
		}
	}
}

// hangUp ends all event streams.
func (f *httpFake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, ch := range f.streams {
		close(ch)
		delete(f.streams, id)
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() } // a client that has gone is no fault

// raw writes text with the fake's line ends, the way that it writes.
func (f *httpFake) raw(w http.ResponseWriter, text string) {
	if f.End != "" {
		text = strings.ReplaceAll(text, "\n", f.End)
	}
	if !f.Trickle && f.Pause == 0 {
		_, _ = io.WriteString(w, text)
		flush(w)
		return
	}
	for i := range len(text) {
		_, _ = io.WriteString(w, text[i:i+1])
		flush(w)
		if text[i] == '\r' {
			time.Sleep(f.Pause)
		}
	}
}

// event writes one message as an event.
func (f *httpFake) event(w http.ResponseWriter, text string) {
	if at := strings.Index(text, ","); f.Split && at > 0 {
		text = text[:at+1] + "\ndata: " + text[at+1:]
	}
	f.raw(w, f.Noise+"event: message\ndata: "+text+"\n\n")
}

func (f *httpFake) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q fakeRequest
	if err != nil || json.Unmarshal(body, &q) != nil {
		f.note("BROKEN "+string(body), r.Header)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	what := q.Method
	if what == "tools/call" {
		what += " " + q.Params.Name
		f.mu.Lock()
		f.token = string(q.Params.Meta.ProgressToken)
		f.mu.Unlock()
	}
	f.note(what, r.Header)
	if f.Hang != nil && q.Method == "ping" {
		<-f.Hang
	}
	switch {
	case f.refuses(w, r, q):
	case q.Method == "":
		f.replies <- body
		w.WriteHeader(http.StatusAccepted)
	case q.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case q.Method == "tools/call" && f.Act != nil && f.Act(q.Params.Name, w, r):
	default:
		f.reply(w, r, q)
	}
}

// refuses answers with a status, if the fake is to.
func (f *httpFake) refuses(w http.ResponseWriter, r *http.Request, q fakeRequest) bool {
	if q.Method == "initialize" && f.Versions != nil && !slices.Contains(f.Versions, q.Params.ProtocolVersion) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: unsupported protocol version (supported: %s)"}}`, strings.Join(f.Versions, ", "))
		return true
	}
	f.mu.Lock()
	status := f.Status[q.Method]
	id := r.Header.Get("Mcp-Session-Id")
	if q.Method != "initialize" && !f.Stateles && !f.Legacy && !f.valid[id] {
		status = http.StatusNotFound
	}
	f.mu.Unlock()
	if status == 0 {
		return false
	}
	if f.Type != "" {
		w.Header().Set("Content-Type", f.Type)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, f.Body)
	return true
}

func (f *httpFake) reply(w http.ResponseWriter, r *http.Request, q fakeRequest) {
	result := f.result(w, q)
	if result == "" {
		return
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
	switch {
	case f.Legacy:
		w.WriteHeader(http.StatusAccepted)
		f.push(r.URL.Query().Get("sessionId"), text)
	case f.JSON:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, text)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		f.event(w, text)
	}
}

// say sends a message during a call.
func (f *httpFake) say(w http.ResponseWriter, r *http.Request, text string) {
	if f.Legacy {
		f.push(r.URL.Query().Get("sessionId"), text)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	f.event(w, text)
}

// push sends a message on an event stream of HTTP and SSE.
func (f *httpFake) push(session, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ch := f.streams[session]; ch != nil {
		ch <- text
	}
}

func (f *httpFake) result(w http.ResponseWriter, q fakeRequest) string {
	switch q.Method {
	case "initialize":
		return f.hello(w, q)
	case "tools/list":
		names := f.Tools
		if names == nil {
			names = []string{"echo", "big", "pay", "ask", "drop"}
		}
		text, err := json.Marshal(map[string]any{"tools": fakeList(names)})
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	var a struct{ N int }
	_ = json.Unmarshal(q.Params.Arguments, &a)
	if q.Params.Name == "big" {
		return textResult(strings.Repeat("b", a.N))
	}
	return `{"content":[],"structuredContent":` + string(q.Params.Arguments) + `}`
}

func (f *httpFake) hello(w http.ResponseWriter, q fakeRequest) string {
	if !f.Stateles && !f.Legacy {
		f.mu.Lock()
		f.session++
		id := fmt.Sprint("s", f.session)
		f.valid[id] = true
		f.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	}
	version := q.Params.ProtocolVersion
	if f.Version != "" {
		version = f.Version
	}
	if version == "none" {
		return `{"capabilities":{"tools":{}}}`
	}
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`, version)
}

// remoteSession returns a session that has loaded the fake.
func remoteSession(t *testing.T, f *httpFake, o Options, change func(*discovery.Server)) *Session {
	t.Helper()
	kind := discovery.HTTP
	if f.Legacy {
		kind = discovery.SSE
	}
	server := f.server(kind)
	if change != nil {
		change(&server)
	}
	s := open(t, newProxy(t, o), server)
	if _, err := s.Load([]string{"fake"}); err != nil {
		t.Fatalf("Load: %v", err)
	}
	return s
}
