package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/pkg/discovery"
)

// rawTool is the fake's tool that answers what it is told to.
const rawTool = `{"name":"raw","inputSchema":{"type":"object"}%s}`

// rawAnswer has the fake answer a call with a result.
func rawAnswer(t *testing.T, s *Session, result string) json.RawMessage {
	t.Helper()
	raw, err := call(t, s, "fake", "raw", args{"Raw": `{"jsonrpc":"2.0","id":ID,"result":` + result + `}`})
	if err != nil {
		t.Fatalf("calling raw: %v", err)
	}
	return raw
}

func TestResultsTeachWhatToolsReturn(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{Tools: []json.RawMessage{json.RawMessage(fmt.Sprintf(rawTool, ""))}})
	rawAnswer(t, s, `{"content":[],"isError":true,"structuredContent":{"secret":1}}`)
	rawAnswer(t, s, `{"content":[],"structuredContent":[{"number":1,"title":"hunter2"},{"number":2,"title":"x","17":null}]}`)
	rawAnswer(t, s, `{"content":[],"structuredContent":[]}`)
	eventually(t, "the signature tells what was learnt", func() bool {
		d := docsOf(t, s, args{"server": "fake", "tool": "raw"})[0]
		return d.Returns == "list[dict[str, str | int | None]]" && d.Signature == "raw() -> "+d.Returns
	})
	kept, err := s.proxy.opts.Catalog.ExportLearnt()
	if err != nil || strings.Contains(string(kept), "hunter2") || strings.Contains(string(kept), "secret") {
		t.Errorf("kept: %s, %v", kept, err)
	}
}

// A log collects what is logged.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func TestAResultThatBreaksItsOwnSchemaIsDeliveredAndTold(t *testing.T) {
	var logged log
	o := quick()
	o.Logger = zerolog.New(&logged)
	const output = `,"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	_, s := one(t, o, fakeConfig{Tools: []json.RawMessage{json.RawMessage(fmt.Sprintf(rawTool, output))}})
	rawAnswer(t, s, `{"content":[],"isError":true,"structuredContent":{"n":"not a result"}}`)
	rawAnswer(t, s, `{"content":[],"structuredContent":{"n":1}}`)
	for range 3 {
		if raw := rawAnswer(t, s, `{"content":[],"structuredContent":{"n":"x"}}`); !strings.Contains(string(raw), `{"n":"x"}`) {
			t.Errorf("got %s", raw)
		}
	}
	eventually(t, "status tells of it", func() bool {
		return s.proxy.Status()[0].Warning == `3 results broke their tool's outputSchema, so of raw: result["n"] must be int, not str`
	})
	d := docsOf(t, s, args{"server": "fake", "tool": "raw"})[0]
	if d.Problem != `its results break its outputSchema: result["n"] must be int, not str` || d.Returns != "{n: int}" {
		t.Errorf("docs: %+v", d)
	}
	if n := logged.count("result breaks its schema"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestALearnerNeverWaits(t *testing.T) {
	l := newLearner()
	for range 2 * maxLessons {
		l.offer(lesson{result: make(json.RawMessage, 10)})
	}
	if n := len(l.queue); n != maxLessons || l.waiting.Load() != 10*maxLessons {
		t.Errorf("%d results wait, %d bytes", n, l.waiting.Load())
	}
	l = newLearner()
	large := make(json.RawMessage, maxLessonBytes/2)
	for range 3 {
		l.offer(lesson{result: large})
	}
	if n := len(l.queue); n != 2 {
		t.Errorf("%d large results wait", n)
	}
	for i := range maxMisfits + 1 {
		l.note(toolOf{"d", fmt.Sprint(i)}, "x")
	}
	if len(l.misfits) != maxMisfits || l.problem(discovery.Ref{Digest: "d"}, fmt.Sprint(maxMisfits)) != "" {
		t.Errorf("%d misfits", len(l.misfits))
	}
}
