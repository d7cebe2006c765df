package proxy

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestLinesThatAreNoProtocolAreSkipped(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{
		Before: "fake 1.2 ready\n\n\x1b[31mred \U0001F600\x1b[0m\n{\"level\":\"info\",\"msg\":\"x\"}\n123\nnull\n[]\n{\"id\":1000,\"result\":{}}\n",
	})
	if got := must(t, s, "noisy", args{}); got != "ok" {
		t.Errorf("got %q, want ok", got)
	}
	if got := s.proxy.Status()[0].Stdout; !strings.HasPrefix(got, "fake 1.2 ready\n") || !strings.HasSuffix(got, "took 3 ms") {
		t.Errorf("what was skipped: got %q", got)
	}
}

func TestServerThatOnlyPrintsFailsAtItsStartTimeoutAndIsQuoted(t *testing.T) {
	o := quick()
	o.StartTimeout = 10 * time.Second // in which it prints
	o.backoffMin, o.backoffMax = time.Hour, time.Hour
	b, s := one(t, o, fakeConfig{Flood: 5 << 20})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "did not answer initialize within 10s", "flood flood")
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	_, err = call(t, s, "fake", "echo", args{})
	wantCode(t, err, CodeServerFailed, "flood flood", "tried again")
	if !b.settles(0) {
		t.Error("the server was started again")
	}
}

func TestLongAnswersArriveWhole(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	for _, n := range []int{0, 65_535, 65_536, 65_537, 1 << 20, 5 << 20, 20 << 20} {
		got := must(t, s, "big", args{"n": n})
		if len(got) != n || sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(strings.Repeat("b", n))) {
			t.Errorf("big(%d): got %d bytes, or others", n, len(got))
		}
	}
}

func TestAnswerOverTheCapFailsItsCallOnly(t *testing.T) {
	o := quick()
	o.MaxMessage = 1 << 20
	b, s := one(t, o, fakeConfig{})
	must(t, s, "echo", args{})
	slow := make(chan string, 1)
	go func() { slow <- must(t, s, "sleep_echo", args{"ms": 300, "v": 1}) }()
	_, err := call(t, s, "fake", "big", args{"n": 1<<20 + 1})
	wantCode(t, err, CodeTooLarge, "1 MiB", "big")
	// The id may be behind the result, as some libraries write it.
	_, err = call(t, s, "fake", "raw", args{"raw": `{"result":{"x":"` + strings.Repeat("\\\"z", 1<<19) + `","id":7},"jsonrpc":"2.0","id":ID}`})
	wantCode(t, err, CodeTooLarge)
	if got := must(t, s, "sleep_echo", args{"v": "ok"}); got != `"ok"` {
		t.Errorf("after it: got %s", got)
	}
	if got := next(t, slow); got != "1" {
		t.Errorf("beside it: got %s", got)
	}
	if n := len(b.processes()); n != 1 {
		t.Errorf("%d processes, want the same one", n)
	}
}

func TestStderrOfAnyVolumeIsDrainedAndItsEndKept(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{StderrStart: 1 << 20, StderrCall: 256 << 10})
	for range 20 {
		must(t, s, "sleep_echo", args{"v": 1})
	}
	st := s.proxy.Status()
	if len(st) != 1 || len(st[0].Stderr) == 0 || len(st[0].Stderr) > tailBytes {
		t.Fatalf("status: %+v", st)
	}
	if !strings.HasSuffix(st[0].Stderr, "yyyy") {
		t.Errorf("the end of stderr is not kept: %q", st[0].Stderr[:20])
	}
}

func TestRequestsOfAServerAreAnsweredAtOnceUnderItsOwnIDs(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{PingFirst: true})
	got := must(t, s, "ask", args{})
	want := []string{
		`{"jsonrpc":"2.0","id":1000,"result":{}}`,
		`"id":1001,"result":{"roots":[{"name":"/","uri":"file:///"}]}`, `"id":1002,"error":{"code":-32601`,
		`"id":1003,"error":{"code":-32602`, `"id":"a","error":{"code":-32601`,
	}
	for _, text := range want {
		if !strings.Contains(got, text) {
			t.Errorf("got %s, want %s in it", got, text)
		}
	}
}

func TestAnswersUnderWrongIDsNeverReachAnotherCall(t *testing.T) {
	t.Run("an id as a string is taken", func(t *testing.T) {
		_, s := one(t, quick(), fakeConfig{IDs: "string"})
		raw, err := call(t, s, "fake", "echo", args{"v": 1})
		if err != nil || !strings.Contains(string(raw), `{"v":1}`) {
			t.Errorf("got %s, %v", raw, err)
		}
	})
	for ids, named := range map[string]string{"zero": "id 0", "null": "id null"} {
		t.Run("an id of "+ids+" fails what waits at once", func(t *testing.T) {
			b, s := one(t, quick(), fakeConfig{IDs: ids, Log: "log"})
			must(t, s, "sleep_echo", args{"v": 1})
			errs := make(chan error, 2)
			for range 2 {
				go func() {
					_, err := call(t, s, "fake", "hang", args{})
					errs <- err
				}()
			}
			eventually(t, "the server has both calls", func() bool {
				return strings.Count(strings.Join(b.lines("log"), ""), `"hang"`) == 2
			})
			_, err := call(t, s, "fake", "echo", args{})
			wantCode(t, err, CodeOutcomeUnknown, named)
			for range 2 {
				wantCode(t, next(t, errs), CodeOutcomeUnknown, named)
			}
			if got := must(t, s, "sleep_echo", args{"v": 2}); got != "2" {
				t.Errorf("the next call: got %s", got)
			}
		})
	}
	t.Run("a second answer is ignored", func(t *testing.T) {
		_, s := one(t, quick(), fakeConfig{IDs: "double"})
		for range 10 {
			if got := must(t, s, "echo", args{}); got != "first" {
				t.Errorf("got %q, want first", got)
			}
		}
	})
	t.Run("answers in another order find their calls", func(t *testing.T) {
		_, s := one(t, quick(), fakeConfig{})
		must(t, s, "echo", args{})
		slow := make(chan string, 1)
		go func() { slow <- must(t, s, "sleep_echo", args{"ms": 200, "v": "slow"}) }()
		if got := must(t, s, "sleep_echo", args{"v": "fast"}); got != `"fast"` {
			t.Errorf("got %s", got)
		}
		if got := next(t, slow); got != `"slow"` {
			t.Errorf("got %s", got)
		}
	})
}

// pendingOf counts the requests that the session's only server has to answer.
func pendingOf(s *Session) int {
	n := 0
	for _, b := range s.proxy.list() {
		b.mu.Lock()
		u := b.up
		b.mu.Unlock()
		if u == nil {
			continue
		}
		p, ok := u.wire.(*pipe)
		if !ok {
			continue
		}
		p.mu.Lock()
		n += len(p.pending)
		p.mu.Unlock()
	}
	return n
}

func TestResultsPassThroughAsWritten(t *testing.T) {
	rows := map[string]string{
		"numbers of any size":  `{"structuredContent":{"i":9007199254740993,"n":-9223372036854775808,"big":12345678901234567890123456789,"f":1.0,"e":1e21,"l":[{"x":9007199254740993}]},"_meta":{"n":9007199254740993},"content":[]}`,
		"key order and spaces": `{"z": 1,  "a": [1 ,2], "content":[{"type":"json","json":{}},{"type":"what","x":null}]}`,
		"no content":           `{}`,
		"null content":         `{"content":null}`,
		"a tool's own error":   `{"isError":true,"structuredContent":{"err":"NOT_FOUND"},"content":[]}`,
		"every kind of block": `{"content":[{"type":"text","text":"t"},{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},` +
			`{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"},{"type":"resource","resource":{"uri":"a:1","text":"x"}},` +
			`{"type":"resource","resource":{"uri":"a:2","blob":"` + strings.Repeat("QUJD", 1<<20) + `"}},` +
			`{"type":"resource_link","uri":"a:3","name":"n"},{"type":"json","json":{}}],"structuredContent":{"a":1},"_meta":{"b":2}}`,
		"empty content":      `{"content":[]}`,
		"characters of HTML": `{"content":[{"type":"text","text":"<a href='x'>&amp;</a>"}]}`,
	}
	_, s := one(t, quick(), fakeConfig{})
	for name, want := range rows {
		t.Run(name, func(t *testing.T) {
			got, err := call(t, s, "fake", "raw", args{"raw": `{"jsonrpc":"2.0","id":ID,"result":` + want + `}`})
			if err != nil || string(got) != want {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		})
	}
}

func TestArgumentsPassThroughAsWritten(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	want := `{"z":9007199254740993,"a":12345678901234567890123456789,"f":1.0,"t":"<&>"}`
	got, err := ask(t, s, "tools.call", json.RawMessage("{\"server\":\"fake\",\"tool\":\"echo\",\n\"arguments\":"+want+"}"))
	if err != nil || !strings.Contains(string(got), `"structuredContent":`+want) {
		t.Errorf("got %s, %v, want %s in it", got, err, want)
	}
	got, err = ask(t, s, "tools.call", json.RawMessage("{\"server\":\"fake\",\"tool\":\"echo\",\"arguments\":{\n\"a\":\r\n1}}"))
	if err != nil || !strings.Contains(string(got), `{"a":1}`) {
		t.Errorf("lines in the arguments: got %s, %v", got, err)
	}
}

func TestErrorOfAServerIsToldApartAndKeepsItsData(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	_, err := call(t, s, "fake", "refuse", args{})
	wantCode(t, err, CodeUpstream, "not today", "-32001")
	want := `{"code":-32001,"message":"not today","data":{"big":12345678901234567890,"z":1,"a":2}}`
	if e, ok := errors.AsType[*Error](err); !ok || string(e.RPCData()) != want {
		t.Errorf("data: got %v, want %s", err, want)
	}
}

func TestTextThatIsNoUTF8IsReplacedAndTheConnectionStays(t *testing.T) {
	rows := []struct{ name, raw, want string }{
		{"characters of four bytes", "\U0001F600", "\U0001F600"},
		{"half a character", `\ud83d!`, "\uFFFD!"},
		{"two halves that don't fit", `\ude00\ud83d`, "\uFFFD\uFFFD"},
		{"a whole character", `\ud83d\ude00`, "\U0001F600"},
		{"an escaped backslash before u", `\\ud83d`, `\ud83d`},
		{"NUL", `\u0000x`, "\x00x"},
		{"a line separator", "a\u2028b", "a\u2028b"},
	}
	_, s := one(t, quick(), fakeConfig{Before: "\xef\xbb\xbf", CRLF: true})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := must(t, s, "raw", args{"raw": `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"` + row.raw + `"}]}}`})
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestBytesOfAnotherCodePageAreReplaced(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"result":{"t":"a` + "\xa0" + `b"}}`)
	m, ok := parseMessage(repairText(line))
	if !ok || string(m.result) != "{\"t\":\"a\uFFFDb\"}" {
		t.Errorf("got %s, %v", m.result, ok)
	}
}

func TestBatchIsTakenApart(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	got := must(t, s, "raw", args{"raw": `[{"jsonrpc":"2.0","method":"notifications/x"},3,{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"in a batch"}]}}]`})
	if got != "in a batch" {
		t.Errorf("got %q", got)
	}
}

func TestResultThatIsNoObjectFailsItsCall(t *testing.T) {
	_, s := one(t, quick(), fakeConfig{})
	for _, result := range []string{`3`, `[]`, `null`, `"x"`} {
		_, err := call(t, s, "fake", "raw", args{"raw": fmt.Sprintf(`{"jsonrpc":"2.0","id":ID,"result":%s}`, result)})
		wantCode(t, err, CodeUpstream, "no object")
	}
}
