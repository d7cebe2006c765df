package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"method":"x","params":{"id":9,"p":"\"},"},"jsonrpc":"2.0","id":"\u0061"}`,
	`{"id":9007199254740993 , "jsonrpc":"2.0","result":{}}`,
	`[{"id":1},[2],{"jsonrpc":"2.0","method":"n"}]`,
	"{\"id\":\"\xff\",\"id\":2}", `{"id":{"id":3}}`, `{"id":[}`, "\r\n", "null", "", "{", `"id":5`, `{"a":{"b":[{"id":1}]},"id":-0.5e9}`,
}

// FuzzScanID checks the scanner, which sees messages too long to be decoded,
// against the decoder, however the message is cut into pieces.
func FuzzScanID(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, line []byte, piece int) {
		var s idScanner
		for rest := line; len(rest) > 0; {
			n := min(len(rest), 1+(piece&0xff))
			s.write(rest[:n])
			rest = rest[n:]
		}
		id := s.ID()
		if id != nil && !json.Valid(id) {
			t.Errorf("the id %q is no JSON", id)
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(line, &members) != nil || bytes.Contains(line, []byte(`\u`)) {
			return // a name may be written with escapes, which the scanner takes for another
		}
		want := members["id"]
		if !legalID(want) {
			want = nil
		}
		if !bytes.Equal(id, want) {
			t.Errorf("got %q, want %q", id, want)
		}
	})
}

// FuzzParseLine checks that every line yields messages that mcp-go understands
// or faults that can be sent.
func FuzzParseLine(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = trimSpace(line)
		if len(line) == 0 {
			return
		}
		ms, faults := parseLine(line)
		if len(ms)+len(faults) == 0 {
			t.Fatal("neither a message nor a fault")
		}
		for _, m := range ms {
			if m.method != "" && !json.Valid(m.renumbered(7)) {
				t.Errorf("renumbered: %s", m.renumbered(7))
			}
			if m.method != "" && m.id != nil && !strings.Contains(string(m.renumbered(7)), `"id":7`) {
				t.Errorf("the id is gone: %s", m.renumbered(7))
			}
		}
		for _, fault := range faults {
			out, err := encodeLine(newFaultAnswer(fault))
			if err != nil || bytes.Count(out, []byte("\n")) != 1 {
				t.Errorf("fault %+v: %q, %v", fault, out, err)
			}
		}
	})
}

// FuzzReadLines checks that lines come out as they went in, whatever the reads
// return, and that long ones are skipped and nothing else.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\r\nbb\n\nccccccccccc\nd"), 5)
	f.Add([]byte(strings.Repeat("x", 70000)+"\ny\n"), 69999)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = 1 + limit&0x1ffff
		lines := newLineReader(iotest.HalfReader(bytes.NewReader(data)), limit)
		want := bytes.Split(data, []byte("\n"))
		for i, w := range want {
			w = bytes.TrimSuffix(w, []byte("\r"))
			got, err := lines.next()
			var long *longLine
			switch {
			case errors.As(err, &long):
				if len(w) <= limit {
					t.Fatalf("line %d of %d bytes was skipped at a limit of %d", i, len(w), limit)
				}
			case len(w) > limit:
				t.Fatalf("line %d of %d bytes passed a limit of %d: %v", i, len(w), limit, err)
			case !bytes.Equal(got, w):
				t.Fatalf("line %d: got %q, want %q", i, got, w)
			case err != nil && (!errors.Is(err, io.EOF) || i != len(want)-1):
				t.Fatalf("line %d: %v", i, err)
			}
		}
		if got, err := lines.next(); len(got) > 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("after the end: %q, %v", got, err)
		}
	})
}

// FuzzArguments checks that arguments are taken or refused with words.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"code":"\ud83d","timeout":"5","servers":["a"]}`))
	f.Add([]byte(`{"code":"x\r\n","timeout":1e999,"servers":"a,b","z":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // mcp-go hands over valid JSON
		}
		a, err := parseArgs(raw, 100)
		if err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		if a.timeout < 0 || a.timeout > maxTimeout || len(a.code) > 100 || strings.ContainsRune(a.code, 0) {
			t.Errorf("got %+v", a)
		}
	})
}
