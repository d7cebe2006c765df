package ops

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// maxReaders bounds those who read events at once.
	maxReaders = 16

	// keepAlive is how often a stream without events carries a comment, so that
	// both ends see whether the other is there.
	keepAlive = 15 * time.Second

	// readerPatience is how long one write may wait for a reader; then it is
	// cut off.
	readerPatience = 10 * time.Second

	// readerRetry is how long readers are asked to wait before they come back,
	// in milliseconds.
	readerRetry = 2000

	// eventBatch is how many events are written at once.
	eventBatch = 64
)

// HandleEvents adds to a handler
//
//	GET /events    what happens, as server-sent events, until either side hangs up
//
// Each has the ID and the type of an [Event], and the event itself as JSON. With
// the parameter recent=N it begins with the N latest of the past, and with the
// header Last-Event-ID, as browsers send it, after that event. Readers that lose
// events get an [EventsLost]. The sixteen readers that there may be at once
// should read within ten seconds what they are sent.
func HandleEvents(mux *http.ServeMux, events *Events) {
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		var recent uint64
		if text := r.FormValue("recent"); text != "" {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				http.Error(w, "recent is how many events of the past are wanted: a number, at most 1024", http.StatusBadRequest)
				return
			}
			recent = n
		}
		if events.readers.Add(1) > maxReaders {
			events.readers.Add(-1)
			w.Header().Set("Retry-After", "10")
			http.Error(w, fmt.Sprintf("%d readers have the events already, which is the limit: close one", maxReaders), http.StatusServiceUnavailable)
			return
		}
		defer events.readers.Add(-1)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		s := &eventWriter{w: w, out: http.NewResponseController(w), pulse: keepAlive, patience: readerPatience}
		from, lost := events.latest(recent), ""
		if last := r.Header.Get("Last-Event-ID"); last != "" {
			n, ok := events.after(last)
			if from = n; !ok { // another daemon's: who knows what there was
				from, lost = events.latest(keptEvents), "the daemon was started again"
			}
		}
		// A reader that hung up, or does not read, is the only way for it to end.
		_ = s.serve(r.Context(), events, from, lost)
	})
}

// An eventWriter writes events to one reader.
type eventWriter struct {
	w     io.Writer
	out   *http.ResponseController
	pulse time.Duration

	patience time.Duration // with one write
}

// serve writes events from the number next on, until ctx ends or the reader
// takes no more. lost says why others before them are missing, if they are.
func (s *eventWriter) serve(ctx context.Context, events *Events, next uint64, lost string) error {
	text := fmt.Appendf(nil, "retry: %d\n\n", readerRetry)
	if lost != "" {
		text = appendEvent(text, Event{Time: time.Now(), Type: EventsLost, Detail: lost})
	}
	if err := s.write(text); err != nil {
		return err
	}
	buf := make([]Event, 0, eventBatch)
	pulse := time.NewTimer(s.pulse)
	defer pulse.Stop()
	for {
		list, first, more := events.since(next, buf)
		text = text[:0]
		if first > next {
			text = appendEvent(text, Event{Time: time.Now(), Type: EventsLost, Count: int64(first - next)}) //nolint:gosec // a number of events
		}
		next = first + uint64(len(list))
		for _, e := range list {
			text = appendEvent(text, e)
		}
		if len(list) == 0 {
			pulse.Reset(s.pulse)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-more:
				continue
			case <-pulse.C:
				text = append(text, ": keep-alive\n\n"...)
			}
		}
		if err := s.write(text); err != nil {
			return err
		}
	}
}

func (s *eventWriter) write(text []byte) error {
	if err := s.out.SetWriteDeadline(time.Now().Add(s.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.out.Flush()
}

func appendEvent(text []byte, e Event) []byte {
	data, err := json.Marshal(e) // one line: it has no raw newlines
	if err != nil {
		return text // never: it is plain data
	}
	if e.ID != "" {
		text = append(append(append(text, "id: "...), e.ID...), '\n')
	}
	return fmt.Appendf(text, "event: %s\ndata: %s\n\n", e.Type, data)
}

// FollowOptions say where to begin.
type FollowOptions struct {
	Recent int    // begin with so many of the past
	After  string // or after the event with this ID
}

// Follow reports what happens in the daemon behind a socket until ctx ends or
// report returns an error, which it returns. A stream that ends is io.EOF, as
// when the daemon does: one may come back with the last event's ID.
func Follow(ctx context.Context, socket string, o FollowOptions, report func(Event) error) error {
	path := "/events?recent=" + strconv.Itoa(max(0, o.Recent))
	resp, err := request(ctx, socket, http.MethodGet, path, nil, "Last-Event-ID", o.After)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	var e Event
	for id := ""; lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			e = Event{}
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				return fmt.Errorf("reading the daemon's events: %w", err)
			}
			e.ID, id = id, ""
			if err := report(e); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the daemon's events: %w", cmp.Or(context.Cause(ctx), err))
	}
	return io.EOF
}
