package proxy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"
)

func TestMessageIsSplitWithoutTouchingItsParts(t *testing.T) {
	rows := []struct {
		name, line string
		want       message
		ok         bool
	}{
		{"an answer", `{"jsonrpc":"2.0","id":7,"result":{"a":[1,{"id":8}],"b":"}"}}`,
			message{header: header{id: []byte("7")}, result: json.RawMessage(`{"a":[1,{"id":8}],"b":"}"}`)}, true},
		{"the id last and spaces", "{ \"result\" : {\"x\": \"\\\"id\\\":1\"} ,\t\"jsonrpc\":\"2.0\" , \"id\" : \"a\" }",
			message{header: header{id: []byte(`"a"`)}, result: json.RawMessage(`{"x": "\"id\":1"}`)}, true},
		{"an error", `{"jsonrpc":"2.0","id":null,"error":{"code":1}}`,
			message{header: header{id: []byte("null")}, failed: json.RawMessage(`{"code":1}`)}, true},
		{"a notification", `{"jsonrpc":"2.0","method":"x","params":[1,2]}`,
			message{header: header{method: []byte(`"x"`)}, params: json.RawMessage(`[1,2]`)}, true},
		{"an escaped key", `{"jsonrpc":"2.0","\u0069d":3,"result":1}`,
			message{header: header{id: []byte("3")}, result: json.RawMessage(`1`)}, true},
		{"no version", `{"id":7,"result":{}}`, message{header: header{id: []byte("7")}, result: json.RawMessage(`{}`)}, false},
		{"neither method nor outcome", `{"jsonrpc":"2.0","id":7}`, message{header: header{id: []byte("7")}}, false},
		{"empty", `{}`, message{}, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m, ok := parseMessage([]byte(row.line))
			if ok != row.ok || string(m.id) != string(row.want.id) || string(m.method) != string(row.want.method) ||
				string(m.result) != string(row.want.result) || string(m.failed) != string(row.want.failed) || string(m.params) != string(row.want.params) {
				t.Errorf("got %+v, %v, want %+v, %v", m, ok, row.want, row.ok)
			}
		})
	}
}

func TestIDsThatMeanTheSameNumber(t *testing.T) {
	rows := map[string]int64{"7": 7, `"7"`: 7, "7.0": 7, "-1": -1}
	for text, want := range rows {
		if n, ok := (header{id: []byte(text)}).number(); !ok || n != want {
			t.Errorf("%s: got %d, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "null", "7.5", `"x"`, "{}", "1e3", "99999999999999999999"} {
		if n, ok := (header{id: []byte(text)}).number(); ok {
			t.Errorf("%s: got %d, want none", text, n)
		}
	}
}

func TestLinesOfAnyLengthAreReadAndLongOnesSkipped(t *testing.T) {
	long := `{"jsonrpc":"2.0","result":"` + strings.Repeat(`x\"`, 100_000) + `","id":42}`
	input := "a\n" + long + "\n\n" + strings.Repeat("b", 1000) + "\n" + strings.Repeat("c", 1001) + "\nlast"
	l := newLineReader(iotest.HalfReader(strings.NewReader(input)), 1000)
	var got []string
	for {
		line, head, err := l.next()
		if err == errTooLarge {
			got = append(got, "long "+string(head.id))
			continue
		}
		if err != nil {
			break
		}
		got = append(got, string(line))
	}
	want := []string{"a", "long 42", "", strings.Repeat("b", 1000), "long ", "last"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q", got)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var whole []byte
	tl := &tail{}
	for i := range 2000 {
		part := bytes.Repeat([]byte{byte('a' + i%26)}, i%97)
		whole = append(whole, part...)
		if n, err := tl.Write(part); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if got, want := tl.last(tailBytes), string(whole[len(whole)-tailBytes:]); got != want {
		t.Errorf("got %d bytes, or others", len(got))
	}
	huge := bytes.Repeat([]byte("z"), 5*tailBytes)
	if n, err := tl.Write(huge); n != len(huge) || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	if got := tl.last(10 * tailBytes); got != string(huge[:tailBytes]) {
		t.Errorf("after a huge write: %d bytes", len(got))
	}
	if got := tl.last(3); got != "zzz" {
		t.Errorf("got %q", got)
	}
	if _, err := tl.Write([]byte("\x1b[31m\xff ok\r\n")); err != nil {
		t.Error(err)
	}
	if got := tl.last(11); got != "[31m\uFFFD ok" {
		t.Errorf("text for people: got %q", got)
	}
}

func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"a":[1]}}`, `{"jsonrpc":"2.0","method":"x","params":{}}`,
		`{"a":{"id":1},"id":"\"","jsonrpc":"2.0","error":null}`, `{"id":1,"id":2}`, `[{}]`, `{"\u0069d": "\ud83d" }`, `{"`, `}}{{`, `:,:`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s := &scanner{} // in pieces, whatever it is
		for i := 0; i < len(line); i += 3 {
			s.scan(line[i:min(i+3, len(line))])
		}
		line = bytes.TrimSpace(line)
		if !json.Valid(line) || !isObject(line) {
			return
		}
		repaired := repairText(bytes.Clone(line))
		if !json.Valid(repaired) {
			t.Fatalf("repaired: %s", repaired)
		}
		m, _ := parseMessage(line)
		checkMember(t, line, "id", m.id)
		checkMember(t, line, "method", m.method)
		checkMember(t, line, "result", m.result)
		checkMember(t, line, "error", m.failed)
		scalar := len(m.id) > 0 && m.id[0] != '{' && m.id[0] != '[' // others are nobody's id
		if scalar && len(m.id) < keptValue && !sameJSON(m.id, s.header.id) {
			t.Fatalf("id in pieces: %s, whole: %s", s.header.id, m.id)
		}
	})
}

// checkMember compares a part with what encoding/json makes of the object. Of
// keys that come twice the last one counts.
func checkMember(t *testing.T, line []byte, name string, got []byte) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatal(err)
	}
	want := fields[name]
	if len(got) >= keptValue && (name == "id" || name == "method") {
		return
	}
	if string(got) != string(want) {
		t.Fatalf("%s of %s: got %s, want %s", name, line, got, want)
	}
}

// sameJSON ignores spaces outside of texts.
func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && x.String() == y.String()
}
