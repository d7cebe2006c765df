package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// listenForTest serves a handler on a socket until the test ends.
func listenForTest(t *testing.T, h http.Handler) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "ops.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// errEnough ends a Follow.
var errEnough = errors.New("enough")

// follow returns the next n events of a stream. begun is called before it waits
// for the first that is not of the past.
func follow(t *testing.T, socket string, o FollowOptions, n int) []Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []Event
	err := Follow(ctx, socket, o, func(e Event) error {
		if got = append(got, e); len(got) == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("after %d events of %d: %v", len(got), n, err)
	}
	return got
}

func TestEventsTravelOverTheSocket(t *testing.T) {
	events := NewEvents()
	mux := http.NewServeMux()
	HandleEvents(mux, events)
	socket := listenForTest(t, mux)
	want := []Event{
		{Time: time.Unix(1700000000, 0).UTC(), Type: RunBegun, Session: "abcd", Client: "test 1", Run: 1},
		{Time: time.Unix(1700000001, 0).UTC(), Type: RunEnded, Session: "abcd", Client: "test 1", Run: 1, Status: "ok", Duration: 1.5},
		{Time: time.Unix(1700000002, 0).UTC(), Type: ServerFailed, Server: "a\nb", Detail: "two\nlines"},
	}
	for _, e := range want {
		events.Publish(e)
	}
	got := follow(t, socket, FollowOptions{Recent: 2}, 2)
	if diff := cmp.Diff(want[1:], got, cmpopts.IgnoreFields(Event{}, "ID")); diff != "" {
		t.Errorf("the latest two (-want +got):\n%s", diff)
	}
	got = follow(t, socket, FollowOptions{After: got[0].ID}, 1)
	if diff := cmp.Diff(want[2:], got, cmpopts.IgnoreFields(Event{}, "ID")); diff != "" {
		t.Errorf("after the second (-want +got):\n%s", diff)
	}
	got = follow(t, socket, FollowOptions{After: "another-2"}, 4)
	if got[0].Type != EventsLost || got[0].Count != 0 || got[0].Detail == "" || got[0].ID != "" {
		t.Errorf("after an event of another daemon: %+v", got[0])
	}
	if diff := cmp.Diff(want, got[1:], cmpopts.IgnoreFields(Event{}, "ID")); diff != "" {
		t.Errorf("and then (-want +got):\n%s", diff)
	}
}

func TestEventsComeAsTheyHappen(t *testing.T) {
	events := NewEvents()
	mux := http.NewServeMux()
	HandleEvents(mux, events)
	socket := listenForTest(t, mux)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events.Publish(Event{Type: SandboxMade})
	n := int64(0)
	err := Follow(ctx, socket, FollowOptions{Recent: 1}, func(e Event) error {
		if e.Count != n {
			t.Errorf("event %d is %+v", n, e)
		}
		if n++; n == 5 {
			return errEnough
		}
		events.Publish(Event{Type: SandboxMade, Count: n})
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("after %d events: %v", n, err)
	}
}

// A gate is a writer that lets through what it is let.
type gate struct {
	*httptest.ResponseRecorder
	open <-chan struct{}
}

func (g gate) Write(p []byte) (int, error) {
	<-g.open
	return g.ResponseRecorder.Write(p)
}

func TestASlowReaderIsToldWhatItLost(t *testing.T) {
	events := NewEvents()
	open := make(chan struct{})
	g := gate{httptest.NewRecorder(), open}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := &eventWriter{w: g, out: http.NewResponseController(g), pulse: time.Hour, patience: time.Hour}
	go func() { done <- s.serve(ctx, events, 1, "") }()
	const all = 3 * keptEvents
	for i := range all {
		events.Publish(Event{Type: RunBegun, Run: uint64(i) + 1})
	}
	close(open)
	last := fmt.Sprintf(`"run":%d}`, all)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, next, more := events.since(all+1, make([]Event, 0, 1))
		events.mu.Lock()
		waits := events.awaiting
		events.mu.Unlock()
		_ = more
		if waits && next == all+1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the reader is not done")
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	text := g.Body.String()
	lost := fmt.Sprintf(`"type":"lost","count":%d}`, all-keptEvents)
	if !strings.Contains(text, lost) || !strings.Contains(text, last) || strings.Count(text, "event: run_begun\n") != keptEvents {
		t.Errorf("want %s, then %d events up to %s; got %d bytes that begin %.300q", lost, keptEvents, last, len(text), text)
	}
}

func TestAReaderThatDoesNotReadIsCutOff(t *testing.T) {
	events := NewEvents()
	ended := make(chan error, 1)
	socket := listenForTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &eventWriter{w: w, out: http.NewResponseController(w), pulse: time.Hour, patience: 50 * time.Millisecond}
		ended <- s.serve(r.Context(), events, 1, "")
	}))
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		events.Publish(Event{Type: ServerFailed, Detail: strings.Repeat("x", maxSentence)})
		select {
		case err := <-ended:
			if err == nil {
				t.Error("no error")
			}
			return
		default:
		}
	}
	t.Error("it is not cut off")
}

func TestAStreamWithoutEventsIsKeptAlive(t *testing.T) {
	w := httptest.NewRecorder()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := &stopAt{Writer: w, text: ": keep-alive\n\n", stop: cancel}
	s := &eventWriter{w: stop, out: http.NewResponseController(w), pulse: time.Millisecond, patience: time.Hour}
	if err := s.serve(ctx, NewEvents(), 1, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !strings.HasPrefix(w.Body.String(), "retry: 2000\n\n: keep-alive\n\n") {
		t.Errorf("got %q", w.Body)
	}
}

// A stopAt stops something once a text was written.
type stopAt struct {
	io.Writer
	text string
	stop func()
}

func (s *stopAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.stop()
	}
	return s.Writer.Write(p)
}

func TestReadersAreBounded(t *testing.T) {
	events := NewEvents()
	events.Publish(Event{Type: SandboxMade})
	mux := http.NewServeMux()
	HandleEvents(mux, events)
	socket := listenForTest(t, mux)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, ended := make(chan struct{}, maxReaders), make(chan struct{}, maxReaders)
	for range maxReaders {
		go func() {
			_ = Follow(ctx, socket, FollowOptions{Recent: 1}, func(Event) error { began <- struct{}{}; return nil })
			ended <- struct{}{}
		}()
	}
	for range maxReaders {
		<-began
	}
	err := Follow(t.Context(), socket, FollowOptions{}, func(Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "16 readers have the events already") {
		t.Errorf("one more: got %v", err)
	}
	cancel()
	for range maxReaders {
		<-ended
	}
	for end := time.Now().Add(time.Minute); events.readers.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("readers that hung up still count")
		}
	}
	follow(t, socket, FollowOptions{Recent: 1}, 1)
}

func TestBadRequestsForEvents(t *testing.T) {
	mux := http.NewServeMux()
	HandleEvents(mux, NewEvents())
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events?recent=all", nil))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "a number") {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
}

func TestEventsAreBounded(t *testing.T) {
	events := NewEvents()
	long := strings.Repeat("ä", 1<<20)
	events.Publish(Event{
		Type: CallEnded, Python: long, Client: long, Cwd: long, Server: long, Tool: long, Sandbox: long,
		Status: long, Outcome: long, Reason: long, Detail: long,
	})
	got, _, _ := events.since(1, make([]Event, 0, 1))
	text := appendEvent(nil, got[0])
	if len(text) > 4<<10 || strings.ContainsRune(string(text), '�') {
		t.Errorf("an event has %d bytes: %s", len(text), text)
	}
}

func BenchmarkPublish(b *testing.B) {
	events := NewEvents()
	e := Event{Type: CallEnded, Session: "abcdefgh", Client: "claude-code 2.1", Server: "github", Tool: "create_issue", Outcome: "ok", Duration: 1.5}
	b.ReportAllocs()
	for b.Loop() {
		events.Publish(e)
	}
}
