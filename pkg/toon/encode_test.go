package toon

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEncode(t *testing.T) {
	for _, tt := range []struct {
		name, json, want string
	}{
		{"an empty object", `{}`, ""},
		{"an empty array", `[]`, "[]"},
		{"a value alone", `"a b"`, "a b"},
		{"members in their order", `{"z":1,"a":"x y","n":null,"t":true}`, "z: 1\na: x y\nn: null\nt: true"},
		{"keys that are no words", `{"":1,"a b":2,"1":3,"a.b":4,".c":5,"é":6,"_x":7}`, "\"\": 1\n\"a b\": 2\n\"1\": 3\na.b: 4\n\".c\": 5\n\"é\": 6\n_x: 7"},
		{"objects in objects", `{"a":{"b":{"c":1}},"d":{}}`, "a:\n  b:\n    c: 1\nd:"},
		{"a list of values", `{"a":[1,"x,y","",true,null]}`, `a[5]: 1,"x,y","",true,null`},
		{"a table", `[{"id":1,"n":"Ann"},{"n":"B,o","id":2}]`, "[2]{id,n}:\n  1,Ann\n  2,\"B,o\""},
		{"objects that are no table", `[{"a":1},{"b":[]},{}]`, "[3]:\n  - a: 1\n  - b: []\n  -"},
		{"a table inside of an item", `[{"t":[{"a":1}],"b":{"c":[[1],[]]}}]`, "[1]:\n  - t[1]{a}:\n      1\n    b:\n      c[2]:\n        - [1]: 1\n        - [0]:"},
		{"no table inside of a list", `[[{"a":1},{"a":2}]]`, "[1]:\n  - [2]:\n    - a: 1\n    - a: 2"},
		{"lines and quotes", `{"a":"x\ny\t\"z\"\\\u0001\r"}`, `a: "x\ny\t\"z\"\\\u0001\r"`},
		{"strings that look like something else", `["true","05","-1e5","- a","a:b","[1]","{}","1.","x-1"," a","b ","#a"]`, `[12]: "true","05","-1e5","- a","a:b","[1]","{}",1.,x-1," a","b ",#a`},
		{"spaces of all kinds at the ends", "[\"\\u00a0a\",\"a\\ufeff\",\"a\\u2028b\"]", "[3]: \"\u00a0a\",\"a\ufeff\",a\u2028b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Encode([]byte(tt.json), EncodeOptions{})
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestEncodeWithOptions(t *testing.T) {
	for _, tt := range []struct {
		name, json string
		o          EncodeOptions
		want       string
	}{
		{"four spaces and pipes", `{"a":{"b":[{"c":"x|y","d":"x,y"}]}}`, EncodeOptions{Indent: 4, Delimiter: '|'}, "a:\n    b[1|]{c|d}:\n        \"x|y\"|x,y"},
		{"tabs", `{"a":["x\ty","z,"]}`, EncodeOptions{Delimiter: '\t'}, "a[2\t]: \"x\\ty\"\tz,"},
		{"a chain of keys", `{"a":{"b":{"c":{"d":1,"e":{"f":2}}}}}`, EncodeOptions{Fold: FoldAll}, "a.b.c:\n  d: 1\n  e.f: 2"},
		{"a part of a chain, and not what is left of it", `{"a":{"b":{"c":{"d":{"x":{"y":1},"z":2}}}}}`, EncodeOptions{Fold: 2}, "a.b:\n  c:\n    d:\n      x.y: 1\n      z: 2"},
		{"a key that would be another's", `{"a":{"b":1},"a.b":2}`, EncodeOptions{Fold: FoldAll}, "a:\n  b: 1\na.b: 2"},
		{"a key that is no word", `{"a":{"b-c":{"d":{"e":1}}}}`, EncodeOptions{Fold: FoldAll}, "a:\n  \"b-c\":\n    d.e: 1"},
		{"in items of a list", `[{"a":{"b":1},"c":{"d":[]}},{}]`, EncodeOptions{Fold: FoldAll}, "[2]:\n  - a.b: 1\n    c.d: []\n  -"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Encode([]byte(tt.json), tt.o)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestNumbersHaveOneForm(t *testing.T) {
	for _, tt := range []struct{ json, want string }{
		{"0", "0"}, {"-0", "0"}, {"-0.00e5", "0"}, {"0e999999999999999999999", "0"},
		{"1.0", "1"}, {"1.5000", "1.5"}, {"100", "100"}, {"-120.50", "-120.5"}, {"0.10", "0.1"},
		{"1e3", "1000"}, {"-1E+03", "-1000"}, {"2.5e2", "250"}, {"1.25e1", "12.5"}, {"3E-02", "0.03"},
		{"1e-6", "0.000001"}, {"1e-7", "1e-7"}, {"0.00000015", "1.5e-7"},
		{"1e20", "100000000000000000000"}, {"1e21", "1e+21"}, {"1000000000000000000000", "1e+21"},
		{"9007199254740993", "9007199254740993"}, {"0.1234567890123456789", "0.1234567890123456789"},
		{"-123456789012345678901234567890", "-123456789012345678901234567890"},
		{"12345678901234567890123.25", "12345678901234567890123.25"},
		{"1.2345678901234568e+23", "1.2345678901234568e+23"}, {"1e400", "1e+400"}, {"-1.5e-400", "-1.5e-400"},
	} {
		got, err := Encode([]byte(tt.json), EncodeOptions{})
		if err != nil || got != tt.want {
			t.Errorf("Encode(%s): got %s, %v, want %s", tt.json, got, err, tt.want)
		}
		back, err := Decode(tt.json, DecodeOptions{})
		if err != nil || string(back) != tt.want {
			t.Errorf("Decode(%s): got %s, %v, want %s", tt.json, back, err, tt.want)
		}
	}
}

func TestEncodeRefusesWhatItCannotHold(t *testing.T) {
	for _, tt := range []struct{ name, json, want string }{
		{"no JSON", `{"a":}`, "not JSON"},
		{"nothing", ``, "not JSON"},
		{"two values", `1 2`, "not JSON"},
		{"no UTF-8", "\"\xff\"", "not UTF-8"},
		{"a key twice", `{"a":{"b":1,"\u0062":2}}`, `key "b" twice`},
		{"half a pair", `"\ud83d"`, "half a surrogate pair"},
		{"half a pair before a whole one", `"\ud83d\ud83d\ude00"`, "half a surrogate pair"},
		{"a second half", `{"\ude00":1}`, "half a surrogate pair"},
		{"a number without measure", `[1e99999999999999999999]`, "out of range"},
		{"too many levels", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), "256 levels"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Encode([]byte(tt.json), EncodeOptions{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v, want an error that says %q", got, err, tt.want)
			}
		})
	}
	if _, err := Encode([]byte(`"\\ud83d \ud83d\ude00"`), EncodeOptions{}); err != nil {
		t.Errorf("a whole pair, and what only looks like half of one: %v", err)
	}
	if _, err := Encode([]byte(`1`), EncodeOptions{Delimiter: ';'}); err == nil {
		t.Error("no error for a delimiter that there is not")
	}
	if _, err := Encode([]byte(`[{"a":1},"x"]`), EncodeOptions{MaxBytes: 19}); err != nil {
		t.Errorf("at the limit of size: %v", err)
	}
	if got, err := Encode([]byte(`[{"a":1},"x"]`), EncodeOptions{MaxBytes: 18}); err == nil || !strings.Contains(err.Error(), "larger than 18 bytes") {
		t.Errorf("past the limit of size: got %q, %v", got, err)
	}
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	if _, err := Encode([]byte(deep), EncodeOptions{}); err != nil {
		t.Errorf("at the limit of depth: %v", err)
	}
}
