package toon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		o          DecodeOptions
		want       string
	}{
		{"nothing", "\n \n", DecodeOptions{}, `{}`},
		{"a value alone", `"a:b"`, DecodeOptions{}, `"a:b"`},
		{"an object", "b: 1\r\na: x: y\n", DecodeOptions{}, `{"b":1,"a":"x: y"}`},
		{"empty cells", "[1]{a,b,c}:\n  ,x,", DecodeOptions{}, `[{"a":"","b":"x","c":""}]`},
		{"an empty value at the end of a list", "a[2\t]: x\t", DecodeOptions{}, `{"a":["x",""]}`},
		{"digits that a float has not", "a[2]: 12345678901234567890123,0.1000000000000000000001", DecodeOptions{}, `{"a":[12345678901234567890123,0.1000000000000000000001]}`},
		{"a number out of range is a string", "a: 1e9999999999999999999", DecodeOptions{}, `{"a":"1e9999999999999999999"}`},
		{"a bare hyphen with an object below", "[2]:\n  -\n    a: 1\n  -", DecodeOptions{}, `[{"a":1},{}]`},
		{"a table's end before a key", "[1]:\n  - t[1]{a,b}:\n      1,x:y\n    u: 1,2", DecodeOptions{}, `[{"t":[{"a":1,"b":"x:y"}],"u":"1,2"}]`},
		{"counts that are wrong", "a[5]: 1,2\nb[1]{x}:\n  1,2\n  3", DecodeOptions{Lenient: true}, `{"a":[1,2],"b":[{"x":1},{"x":3}]}`},
		{"tabs in the indent, which count nothing", "a:\n  \tb: 1", DecodeOptions{Lenient: true}, `{"a":{"b":1}}`},
		{"a key twice keeps its place", "a: 1\nb: 2\na: 3", DecodeOptions{Lenient: true}, `{"a":3,"b":2}`},
		{"paths that meet", "a.b: 1\na:\n  c: 2\na.d.e[1]: x", DecodeOptions{Expand: true}, `{"a":{"b":1,"c":2,"d":{"e":["x"]}}}`},
		{"paths in lists and tables", "[2]:\n  - a.b: 1\n  - t[1]{x.y,\"x.z\"}:\n      1,2", DecodeOptions{Expand: true}, `[{"a":{"b":1}},{"t":[{"x":{"y":1},"x.z":2}]}]`},
		{"what is no path", "a..b: 1\n1.c: 2\n\"d.e\": 3", DecodeOptions{Expand: true}, `{"a..b":1,"1.c":2,"d.e":3}`},
		{"the last of two things", "a: 1\na.b: 2", DecodeOptions{Expand: true, Lenient: true}, `{"a":{"b":2}}`},
		{"many members", many(40, "k%d: %d\n"), DecodeOptions{}, "{" + strings.TrimSuffix(many(40, `"k%d":%d,`), ",") + "}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode(tt.text, tt.o)
			if diff := cmp.Diff(tt.want, string(got)); err != nil || diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func many(n int, form string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, form, i, i)
	}
	return b.String()
}

func TestDecodeErrorsNameTheLine(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		o          DecodeOptions
		want       string
	}{
		{"more after an array", "[1]: 1\na: 2", DecodeOptions{}, "line 2: it follows"},
		{"an indent that nothing explains", "a: 1\n  b: 2", DecodeOptions{}, "line 2: it is indented"},
		{"a first line with an indent", "  a: 1", DecodeOptions{}, "line 1: the first line"},
		{"a row that is short", "[1]{a,b}:\n  1", DecodeOptions{}, "line 2: the row has 1 values"},
		{"a table in one line", "[1]{a}: 1", DecodeOptions{}, "line 1: a table's rows"},
		{"a column twice", "[1]{a,a}:\n  1,2", DecodeOptions{}, `line 2: the key "a" comes twice`},
		{"columns without an end", "[1]{a: 1", DecodeOptions{}, "line 1: the names"},
		{"a broken column", "[1]{\"\\q\"}:\n  1", DecodeOptions{}, `line 1: there is no escape \q`},
		{"a key without quotes at its end", "a: 1\n\"b: 2", DecodeOptions{}, "line 2: a key has no closing quote"},
		{"more after a string", `a: "x" y`, DecodeOptions{}, `line 1: " y" follows`},
		{"half a character", `a: "\ud83d\ude00"`, DecodeOptions{}, `\ud83d is half a character`},
		{"no digits", `a: "\u00zz"`, DecodeOptions{Lenient: true}, `four hexadecimal digits`},
		{"an array without measure", "[99999999999999999999]: 1", DecodeOptions{}, "no length"},
		{"a count that memory could not hold", "[9000000000000000000]: 1", DecodeOptions{}, "has 1 items"},
		{"a later key of many", many(40, "k%d: %d\n") + "k33: 1", DecodeOptions{}, `line 41: the key "k33" comes twice`},
		{"two things at a path", "a.b: 1\na.b.c: 2", DecodeOptions{Expand: true}, `"b" stands for two things`},
		{"no UTF-8", "a: \xff", DecodeOptions{}, "not UTF-8"},
		{"a long text", "a: 123456789", DecodeOptions{MaxBytes: 9}, "12 bytes and the limit is 9"},
		{"a short text that is long JSON", "[500]{" + strings.Repeat("n", 500) + "}:\n" + strings.Repeat("  1\n", 500), DecodeOptions{MaxBytes: 3000}, "larger than allowed"},
		{"too many levels", nested(MaxDepth + 1), DecodeOptions{}, "line 257: it has more than 256 levels"},
		{"too many levels in one key", strings.TrimSuffix(strings.Repeat("a.", MaxDepth+1), ".") + ": 1", DecodeOptions{Expand: true}, "256 levels"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode(tt.text, tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %s, %v, want an error that says %q", got, err, tt.want)
			}
		})
	}
	if _, err := Decode(nested(MaxDepth), DecodeOptions{}); err != nil {
		t.Errorf("at the limit of depth: %v", err)
	}
}

// nested returns n objects inside each other.
func nested(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%s:\n", strings.Repeat(" ", 2*i), "a")
	}
	return strings.TrimSuffix(b.String(), "a:\n") + "a: 1"
}

// A source makes random values with everything in them that TOON must quote.
type source struct{ r *rand.Rand }

var words = []string{
	"", " ", "a", "a b", "true", "null", "-", "- a", "05", "1e5", "-3.5", "a:b", "a,b", "a|b", "a\tb", "x\ny\r", `q"u"o`, `b\s`, "[2]: x", "{a}", "[]",
	"#", "\u00a0x", "x\ufeff", "\u2028", "\u0085x", "\x00\x1f", "é漢🚀", "a.b", "a.b.c", "__proto__", "k-1", "_x", "\u007f", "long words of plain text",
}

func (s source) word() string {
	if s.r.IntN(4) == 0 {
		return words[s.r.IntN(len(words))] + words[s.r.IntN(len(words))]
	}
	return words[s.r.IntN(len(words))]
}

func (s source) number() string {
	switch s.r.IntN(4) {
	case 0:
		return fmt.Sprint(s.r.Int64() >> s.r.IntN(64))
	case 1:
		return fmt.Sprintf("%d%018d.%09d", s.r.Int64(), s.r.Int64N(1e18), s.r.IntN(1e9))
	case 2:
		return fmt.Sprintf("%de%d", s.r.IntN(1e6), s.r.IntN(700)-350)
	}
	return fmt.Sprint(s.r.NormFloat64())
}

func (s source) value(b *bytes.Buffer, depth int) {
	switch n := s.r.IntN(8); {
	case n == 0 && depth > 0:
		s.list(b, s.r.IntN(4), func() { s.value(b, depth-1) })
	case n == 1 && depth > 0:
		keys := s.keys()
		s.list(b, s.r.IntN(4), func() { s.object(b, keys, 0) })
	case n < 4 && depth > 0:
		s.object(b, s.keys(), depth-1)
	case n == 4:
		b.WriteString(s.number())
	case n == 5:
		b.WriteString([]string{"true", "false", "null"}[s.r.IntN(3)])
	default:
		_ = json.NewEncoder(b).Encode(s.word())
	}
}

func (s source) list(b *bytes.Buffer, n int, item func()) {
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		item()
	}
	b.WriteByte(']')
}

func (s source) keys() []string {
	seen, keys := map[string]bool{}, []string(nil)
	for range s.r.IntN(5) {
		if w := s.word(); !seen[w] {
			seen[w], keys = true, append(keys, w)
		}
	}
	return keys
}

func (s source) object(b *bytes.Buffer, keys []string, depth int) {
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		_ = json.NewEncoder(b).Encode(key)
		b.WriteByte(':')
		s.value(b, depth)
	}
	b.WriteByte('}')
}

// What is written and read again is the same JSON, byte for byte, but for the
// forms of numbers and strings, of which there is one.
func TestRoundTrips(t *testing.T) {
	s := source{rand.New(rand.NewPCG(1, 2))}
	for range 5000 {
		var b bytes.Buffer
		s.value(&b, 5)
		v, err := parseJSON(b.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", b.Bytes(), err)
		}
		want, err := marshal(v, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		o := EncodeOptions{Indent: 1 + s.r.IntN(4), Delimiter: ",\t|"[s.r.IntN(3)]}
		text, err := Encode(b.Bytes(), o)
		if err != nil {
			t.Fatalf("%s: %v", b.Bytes(), err)
		}
		got, err := Decode(text, DecodeOptions{Indent: o.Indent})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%+v of %s:\n%s\ngot %s, error %v", o, want, text, got, err)
		}
		checkLines(t, text)
	}
}

// checkLines reports what no line may have.
func checkLines(t *testing.T, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasSuffix(line, " ") || strings.ContainsAny(line, "\r\x00") {
			t.Fatalf("the line %q of\n%s", line, text)
		}
	}
}

// Folded keys come back as the objects that they were, where no key had a dot
// before.
func TestFoldedKeysExpand(t *testing.T) {
	s := source{rand.New(rand.NewPCG(3, 4))}
	for range 3000 {
		var b bytes.Buffer
		s.value(&b, 6)
		if bytes.Contains(b.Bytes(), []byte("a.b")) {
			continue
		}
		v, err := parseJSON(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		want, _ := marshal(v, 1<<20)
		text, err := Encode(b.Bytes(), EncodeOptions{Fold: 2 + s.r.IntN(4)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(text, DecodeOptions{Expand: true})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("of %s:\n%s\ngot %s, error %v", want, text, got, err)
		}
	}
}

// No text makes Decode fail otherwise than by an error, and what it returns is
// JSON that can be written and read again.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"a: 1\nb[2]: x,y", "[2]{a,b}:\n  1,2\n  3,4", "[2]:\n  - a: 1\n    b.c:\n  - [1|]: x", "\"a\\u0041\"[1\t]{\"x\"}:\n  1", "a[1][b]: 1", "-\n  -", "a: \"", "[0]:", "[]",
	} {
		f.Add(s, false, false)
		f.Add(s, true, true)
	}
	f.Fuzz(func(t *testing.T, text string, lenient, expand bool) {
		data, err := Decode(text, DecodeOptions{Lenient: lenient, Expand: expand, MaxBytes: 1 << 20})
		if err != nil {
			return
		}
		again, err := Encode(data, EncodeOptions{})
		if err != nil {
			t.Fatalf("encoding %s: %v", data, err)
		}
		if back, err := Decode(again, DecodeOptions{MaxBytes: 8 << 20}); err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%s\nas\n%s\nis %s, %v", data, again, back, err)
		}
	})
}
