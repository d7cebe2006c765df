package proxy

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// readEvents returns the events of a stream, one to a line.
func readEvents(r io.Reader, limit int) []string {
	e := newEventReader(r, limit)
	list := []string{}
	for {
		ev, head, err := e.next()
		switch {
		case errors.Is(err, errTooLarge):
			list = append(list, "too large, id "+string(head.id))
		case err != nil:
			return list
		default:
			list = append(list, strings.TrimSpace(strings.Join([]string{ev.name, string(ev.id), string(ev.retry)}, " "))+"|"+string(ev.data))
		}
	}
}

func TestEventStreamsAreReadHoweverTheyAreWritten(t *testing.T) {
	lf := "\xef\xbb\xbf: hello\nevent: message\ndata: {\"a\":\ndata: 1}\n\n: keep-alive\n\n\nretry: 10\nid: 7\ndata:x\nunknown: y\nnocolon\n\nevent: ping\n\ndata: last"
	want := []string{"message|{\"a\":\n1}", "7 10|x", "ping|", "|last"}
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "a lone CR": "\r"} {
		text := strings.ReplaceAll(lf, "\n", end)
		for how, r := range map[string]io.Reader{
			"at once": strings.NewReader(text), "one byte per read": iotest.OneByteReader(strings.NewReader(text)),
		} {
			if diff := cmp.Diff(want, readEvents(r, 1000)); diff != "" {
				t.Errorf("lines that end with %s, %s: %s", name, how, diff)
			}
		}
	}
}

func TestEventThatIsTooLargeIsPassedOver(t *testing.T) {
	big := strings.Repeat("b", 100_000)
	text := "data: {\"x\":\"" + big + "\",\"jsonrpc\":\"2.0\",\"id\":7}\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":8,\"x\":\"" + big + "\"}\n\ndata: next\n\n"
	want := []string{"too large, id 7", "too large, id 8", "|next"}
	if diff := cmp.Diff(want, readEvents(strings.NewReader(text), 20_000)); diff != "" {
		t.Error(diff)
	}
}

func TestFieldsOfEventsAreBounded(t *testing.T) {
	long := strings.Repeat("i", 10*maxField)
	text := "id: " + long + "\nevent: " + long + "\nretry: 99999999999\nretry: x\nid: a\x00b\ndata: 1\n\n"
	for _, one := range readEvents(strings.NewReader(text), 100_000) {
		if len(one) > maxField+10 {
			t.Errorf("an event of %d bytes was kept", len(one))
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: 1\r\n\rid: 2\n\ndata: {\"a\":\r\ndata: 2}", 20)
	f.Add("\xef\xbb\xbfdata:x\n\n", 1)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = min(max(limit, 1), 1000)
		whole := readEvents(strings.NewReader(text), limit)
		if diff := cmp.Diff(whole, readEvents(iotest.OneByteReader(strings.NewReader(text)), limit)); diff != "" {
			t.Errorf("one byte per read gives something else: %s", diff)
		}
	})
}
