package proxy

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// both runs a test against a server of each transport.
func both(t *testing.T, run func(t *testing.T, legacy bool)) {
	t.Run("streamable HTTP", func(t *testing.T) { run(t, false) })
	t.Run("HTTP and SSE", func(t *testing.T) { run(t, true) })
}

// exact is an object that loses something when numbers are read as floats, or
// objects as maps.
const exact = `{"z":9007199254740993,"n":-9223372036854775808,"big":12345678901234567890123456789,"f":1.0,"e":1e21,"a":[1,{"y":2,"b":null}],"t":"</script>\u2028"}`

func TestRemoteServersAreCalled(t *testing.T) {
	both(t, func(t *testing.T, legacy bool) {
		f := (&httpFake{Legacy: legacy}).start(t)
		s := remoteSession(t, f, quick(), nil)
		raw, err := call(t, s, "fake", "echo", json.RawMessage(exact))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(compact(t, `{"content":[],"structuredContent":`+exact+`}`), compact(t, string(raw))); diff != "" {
			t.Errorf("the result is another: %s", diff)
		}
		if got := len(must(t, s, "big", args{"N": 5 << 20})); got != 5<<20 {
			t.Errorf("a text of 5 MiB has %d bytes", got)
		}
	})
}

// compact brings JSON to one spelling, and keeps numbers and the order of keys.
func compact(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(token)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(out, ' '))
	}
}

func TestEventStreamsOfServersAreReadHoweverTheyAreWritten(t *testing.T) {
	for name, way := range map[string]*httpFake{
		"lines that end with CRLF":         {End: "\r\n"},
		"lines that end with a lone CR":    {End: "\r"},
		"one byte per write":               {Trickle: true},
		"CR and LF far apart":              {End: "\r\n", Pause: 5 * time.Millisecond},
		"a message over two data lines":    {Split: true},
		"comments, retry, unknown fields":  {Noise: ": keep-alive\nretry: 10\nfoo: bar\n\n"},
		"an event of another name between": {Noise: "event: ping\ndata:\n\n"},
		"a byte order mark":                {Noise: "\xef\xbb\xbf"},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, legacy bool) {
				f := &httpFake{Legacy: legacy, End: way.End, Trickle: way.Trickle, Pause: way.Pause, Split: way.Split, Noise: way.Noise}
				if legacy && strings.HasPrefix(f.Noise, "\xef") {
					return // it would be in the middle of the stream
				}
				s := remoteSession(t, f.start(t), quick(), nil)
				for range 3 {
					if _, err := call(t, s, "fake", "echo", args{"a": 1}); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}
