package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

// eventBuffer is what is read of a stream at once. Most streams are one small
// answer, so a larger buffer costs more than it saves.
const eventBuffer = 8 << 10

// maxField bounds the fields of an event that are no data: its name and its id.
const maxField = 4 << 10

// An event is one event of an event stream (server-sent events). The stream's
// retry field comes with the event that it stands before.
type event struct {
	name  string
	data  []byte
	id    []byte
	retry []byte
}

// empty reports whether the event says nothing: it is a blank line too many.
func (e *event) empty() bool { return e.data == nil && e.id == nil && e.retry == nil && e.name == "" }

// add takes in one line, which it owns. Fields that nobody knows, and comments,
// are passed over.
func (e *event) add(line []byte) {
	field, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(field) {
	case "data":
		if e.data == nil {
			e.data = value
			return
		}
		e.data = append(append(e.data, '\n'), value...)
	case "event":
		e.name = string(value[:min(len(value), maxField)])
	case "id":
		if len(value) <= maxField && bytes.IndexByte(value, 0) < 0 {
			e.id = value
		}
	case "retry":
		if len(value) <= 9 && len(bytes.Trim(value, "0123456789")) == 0 {
			e.retry = value
		}
	}
}

// An eventReader reads an event stream whose lines end as they like: with LF,
// CRLF or a lone CR, in one read or in several. A byte order mark at the
// beginning is passed over. Of one event it keeps at most max bytes.
type eventReader struct {
	r     *bufio.Reader
	max   int
	begun bool
	cr    bool     // the last line ended with CR, so that LF is no other end
	over  *scanner // of an event that is too large
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, eventBuffer), max: limit}
}

// next returns the next event; the caller owns it. Of an event longer than max
// it returns nothing but the head, which tells whose answer it would have been,
// with the error errTooLarge; the next call goes on behind it. The last event of
// a stream needs no blank line behind it.
func (e *eventReader) next() (event, *header, error) {
	var ev event
	e.over = nil
	for {
		line, err := e.line(ev.data)
		ev.add(line)
		switch {
		case err == nil && len(line) > 0:
			continue
		case e.over != nil && (err == nil || errors.Is(err, io.EOF)):
			return event{}, &e.over.header, errTooLarge
		case err == nil && !ev.empty(), errors.Is(err, io.EOF) && ev.data != nil:
			return ev, nil, nil
		case err != nil:
			return event{}, nil, err
		}
	}
}

// line returns the next line without its end, and at the end of the stream what
// there is of one, with the error. data is what the event has already; a line
// that makes it too large is scanned and not kept, and returned as an empty
// comment.
func (e *eventReader) line(data []byte) ([]byte, error) {
	var line []byte
	room := max(e.max-len(data), 0) + maxField
	long := false
	for {
		part, ended, err := e.part()
		switch {
		case long:
			e.over.scan(part)
		case len(line)+len(part) > room:
			long = true
			e.spill(data, append(line, part...))
			line = []byte{':'}
		default:
			if len(line)+len(part) > cap(line) && len(line) > 0 {
				line = slices.Grow(line, max(len(line), len(part))) // append alone grows large slices by a quarter
			}
			line = append(line, part...)
		}
		if _, drop := e.r.Discard(len(part)); drop != nil {
			return nil, drop // cannot happen: it is buffered
		}
		if ended || err != nil {
			return e.finish(line), err
		}
	}
}

// spill begins to scan an event that is too large, or goes on with it.
func (e *eventReader) spill(data, line []byte) {
	if e.over == nil {
		e.over = &scanner{}
		e.over.scan(data)
	}
	e.over.scan(bytes.TrimPrefix(line, []byte("data:")))
}

// finish takes the end of a line, and the mark before the first one.
func (e *eventReader) finish(line []byte) []byte {
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	return line
}

// part returns what is at hand of the current line, which stays in the buffer
// until it is discarded, and whether the line ends behind it. The line's end
// itself is consumed by the next part.
func (e *eventReader) part() (part []byte, ended bool, err error) {
	for {
		if _, err := e.r.Peek(1); err != nil {
			return nil, false, err
		}
		at, _ := e.r.Peek(e.r.Buffered())
		switch {
		case at[0] == '\n' && e.cr: // the second half of the last line's end
			e.cr = false
			_, _ = e.r.Discard(1) // it is buffered
			continue
		case at[0] == '\n' || at[0] == '\r':
			e.cr = at[0] == '\r'
			_, _ = e.r.Discard(1) // it is buffered
			return nil, true, nil
		}
		e.cr = false
		return at[:lineEnd(at)], false, nil
	}
}

// lineEnd returns where the line that text begins with ends, at the latest at
// the end of text.
func lineEnd(text []byte) int {
	if n := bytes.IndexByte(text, '\n'); n >= 0 {
		text = text[:n]
	}
	if n := bytes.IndexByte(text, '\r'); n >= 0 {
		return n
	}
	return len(text)
}
