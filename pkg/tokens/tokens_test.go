package tokens

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// hard are texts that tokenizers find hard, by what they are made of.
var hard = map[string]string{
	"one letter": "a", "blanks": " ", "lines": "\n", "blank lines": " \n", "quotes": "'", "digits": "1", "capitals": "Aa", "dashes": "-",
	"han": "漢", "emoji": "😀", "accents": "\u0301", "base64": "aGVsbG8gd29ybGQ+/x9Zq", "no text": "\xff", "tabs": "x \t", "brackets": "[", "pairs": "[],",
	"keys": `{"a":`, "escapes": `\"`, "calls": "f(x=", "prose": "The quick brown fox jumps over the lazy dog. ",
}

func TestCountIsThatOfTheTokenizerOrALittleMore(t *testing.T) {
	for _, text := range []string{
		strings.Repeat(hard["prose"], 200),
		strings.Repeat("2026-11-30T02:33:11Z INFO served request id=81 path=/api/v1/items took 12ms\n", 100),
		strings.Repeat(`{"id": 17, "name": "Grace Hopper", "tags": ["navy", "cobol"]}, `, 100),
		strings.Repeat("def f(x):\n    return {k: v for k, v in x.items()}\n\n\n", 100),
	} {
		exact, err := vocabulary().Count(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Count(text); got < exact || got > exact*110/100 {
			t.Errorf("got %d tokens, want %d or up to a tenth more: %.60q", got, exact, text)
		}
	}
}

func TestFitsAgreesWithCount(t *testing.T) {
	for name, unit := range hard {
		text := strings.Repeat(unit, 700/len(unit))
		n := Count(text)
		if !Fits(text, n) || Fits(text, n-1) {
			t.Errorf("%s: of %d tokens, Fits says %v, and %v for one less", name, n, Fits(text, n), Fits(text, n-1))
		}
	}
}

func TestWhatFitsStaysWhole(t *testing.T) {
	shown, missing := Fit(1000, Text{Text: "one"}, Text{}, Text{Text: strings.Repeat("word ", 500)})
	want := []string{"one", "", strings.Repeat("word ", 500)}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]int64{0, 0, 0}, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

func TestLongTextsShareWhatShortOnesLeave(t *testing.T) {
	long := strings.Repeat("some words on a line\n", 2000)
	shown, missing := Fit(1000, Text{Text: long}, Text{Text: "short\n"}, Text{Text: long})
	if shown[1] != "short\n" || missing[1] != 0 {
		t.Errorf("the short text came to %q", shown[1])
	}
	for _, i := range []int{0, 2} {
		if n := Count(shown[i]); n < 400 || n > 500 {
			t.Errorf("text %d has %d tokens, want nearly 499", i, n)
		}
		if missing[i] == 0 {
			t.Errorf("text %d: nothing is said to be missing", i)
		}
	}
}

func TestALongTextKeepsWholeLinesAtItsEnds(t *testing.T) {
	var b strings.Builder
	b.WriteString("name  size\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "row %d  %d\n", i, i*i)
	}
	got := Cut(b.String(), 300)
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if lines[0] != "name  size" || lines[1] != "row 0  0" || lines[len(lines)-1] != "row 4999  24990001" {
		t.Errorf("the ends are %q, %q and %q", lines[0], lines[1], lines[len(lines)-1])
	}
	cut := 0
	for _, line := range lines[1:] {
		switch {
		case strings.Contains(line, " lines, ") && strings.Contains(line, "cut]…"):
			cut++
		case !strings.HasPrefix(line, "row "):
			t.Errorf("a line was torn: %q", line)
		}
	}
	if cut != 1 {
		t.Errorf("%d marks, want 1: %s", cut, got)
	}
}

func TestALineThatIsLongItselfLeavesRoomForOthers(t *testing.T) {
	text := "before\n" + strings.Repeat("x", 100_000) + "\nafter\n"
	got := Cut(text, 200)
	if !strings.HasPrefix(got, "before\nxxx") || !strings.HasSuffix(got, "xxx\nafter\n") || !strings.Contains(got, " characters cut]…") {
		t.Errorf("got %q", got)
	}
}

func TestWhatWasLeftOutBeforeIsMarkedOnce(t *testing.T) {
	got, missing := Fit(100, Text{Text: "ab", Gone: 7, At: 1})
	if got[0] != "a\n…[7 characters cut]…\nb" || missing[0] != 7 {
		t.Errorf("got %q, %d missing", got[0], missing[0])
	}
	got, missing = Fit(100, Text{Text: strings.Repeat("a line\n", 1000), Gone: 70_000, At: 3500})
	if n := strings.Count(got[0], "cut]…"); n != 1 || missing[0] < 70_000 {
		t.Errorf("%d marks, %d missing: %q", n, missing[0], got[0])
	}
}

func TestALineThatWasTornBeforeHasOneMark(t *testing.T) {
	got, missing := Fit(500, Text{Text: strings.Repeat("x", 90_000) + "END", Gone: 10_000, At: 50_000})
	mark := fmt.Sprintf("\n…[%d characters cut]…\n", missing[0])
	first, last, ok := strings.Cut(got[0], mark)
	if !ok || strings.Trim(first, "x") != "" || strings.Trim(last, "x") != "END" || int64(len(first+last))+missing[0] != 100_003 {
		t.Errorf("%d missing: %q", missing[0], got[0])
	}
}

func TestNestedDataThatWasTornKeepsItsShape(t *testing.T) {
	row := `{"id": 1, "body": "many words"}, `
	for name, first := range map[string]string{
		"between items": `{"rows": [` + strings.Repeat(row, 900), "in a string": `{"rows": [` + strings.Repeat(row, 900) + `{"id": 1, "bo`,
		"before a value": `{"rows": [` + strings.Repeat(row, 900) + `{"id":`,
	} {
		last := strings.Repeat(row, 90) + `{"id": 2}], "total": 9000}`
		got, missing := Fit(300, Text{Text: first + last, Gone: 5000, At: len(first)})
		if !strings.HasPrefix(got[0], `{"rows": [{"id": 1, "body": "many words"}, {`) || !strings.Contains(got[0], "+ more] …}\n…[") ||
			!strings.HasSuffix(got[0], `{"id": 2}], "total": 9000}`) || missing[0] < 30_000 {
			t.Errorf("%s: %d missing: %s", name, missing[0], got[0])
		}
		if n := Count(got[0]); n > 300 {
			t.Errorf("%s: %d tokens, want at most 300", name, n)
		}
	}
}

func TestNestedDataLosesItemsThenTextThenDepth(t *testing.T) {
	rows := make([]map[string]any, 300)
	for i := range rows {
		rows[i] = map[string]any{"id": i, "body": strings.Repeat("words and more. ", 400), "tags": []string{"a", "b"}}
	}
	text, err := json.MarshalIndent(map[string]any{"total": 300, "rows": rows}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	table := []struct {
		limit int
		want  []string
	}{
		{30, []string{`{"rows": [{…3}, `, `…297 more], "total": 300}`}},
		{600, []string{`{"rows": [{"body": "words`, ` more], "total": 300}`, `"tags": ["a", "b"]`}},
		{4000, []string{`"id": 4`, `…[`, ` more], "total": 300}`}},
	}
	for _, r := range table {
		got := Cut(string(text), r.limit)
		for _, want := range r.want {
			if !strings.Contains(got, want) {
				t.Errorf("with %d tokens, %q is not in %s", r.limit, want, got)
			}
		}
		if n := Count(got); n > r.limit {
			t.Errorf("%d tokens, want at most %d", n, r.limit)
		}
	}
}

func TestPrune(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat("1, ", 900), ", ")
	table := []struct {
		name, text, want string // want begins what it comes to; "" is that it is left alone
	}{
		{"a list", "[" + list + "]", "[1, 1, 1, 1"},
		{"layout alone", "{\n" + strings.Repeat(" ", 600) + `"a" : [1 ,2]` + "\n}", `{"a": [1, 2]}`},
		{"Python's repr", "{'a': (1, None), 'b': Point(x=1, y=[" + list + "])}", "{'a': (1, None), 'b': Point(x=1, y=[1, 1"},
		{"a set of tuples", "{(1, 2), (3, 4), 'x': [" + list + "]}", "{(1, 2), (3, 4), 'x': [1, 1"},
		{"an array of numpy", "[" + strings.Repeat("1. 2. ", 500) + "]", "[1. 2. 1. 2."},
		{"bytes and quotes", `[b'a\'],', "it's", ` + list + "]", `[b'a\'],', "it's", 1`},
		{"a log", "[INFO] one\n" + list, ""},
		{"half of a list", "[" + list, ""},
		{"brackets that do not match", "[(" + list + "]", ""},
		{"a torn string", "['" + list + "]", ""},
		{"words", list, ""},
		{"nothing in it", "[]" + strings.Repeat(" ", 900), ""},
		{"too deep", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), ""},
	}
	for _, r := range table {
		t.Run(r.name, func(t *testing.T) {
			got, ok := prune(r.text, 60, false)
			if ok != (r.want != "") || !strings.HasPrefix(got, r.want) {
				t.Errorf("got %q, %v, want %q", got, ok, r.want)
			}
			if ok && Count(got) > 60 {
				t.Errorf("%d tokens: %s", Count(got), got)
			}
		})
	}
}

func TestBoundary(t *testing.T) {
	const text = "漢é🎈a"
	starts := []int{0, 0, 0, 3, 3, 5, 5, 5, 5, 9, 10, 10}
	for at, want := range starts {
		if got := boundary(text, at); got != want {
			t.Errorf("boundary(%q, %d) = %d, want %d", text, at, got, want)
		}
	}
	if got := boundary("\x80\x80\x80\x80\x80", 4); got != 4 {
		t.Errorf("in what is no text: %d, want 4", got)
	}
}

func TestWhateverTheTextItFitsAndIsText(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	units := slices.Sorted(maps.Values(hard)) // the same texts in every run
	for range 400 {
		var b strings.Builder
		for range 1 + rng.IntN(6) {
			b.WriteString(strings.Repeat(units[rng.IntN(len(units))], 1+rng.IntN(3000)))
			if rng.IntN(2) == 0 {
				b.WriteByte('\n')
			}
		}
		text := strings.ToValidUTF8(b.String(), "?")
		limit := rng.IntN(900)
		got := Cut(text, limit)
		if n := Count(got); n > limit+markCost {
			t.Errorf("%d tokens, want at most %d: %q", n, limit, got)
		}
		if !utf8.ValidString(got) {
			t.Errorf("not UTF-8: %q", got)
		}
	}
}

func FuzzCut(f *testing.F) {
	for _, unit := range hard {
		f.Add(strings.Repeat(unit, 50), 20)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = max(limit, 0) % 5000
		got := Cut(text, limit)
		if n := Count(got); n > limit+markCost {
			t.Errorf("%d tokens, want at most %d", n, limit)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("not UTF-8: %q", got)
		}
		torn, missing := Fit(limit, Text{Text: text, Gone: 9, At: boundary(text, len(text)/2)})
		if n := Count(torn[0]); n > limit+2*markCost || missing[0] < 9 {
			t.Errorf("torn: %d tokens, want at most %d; %d missing", n, limit, missing[0])
		}
	})
}

// BenchmarkCut cuts a megabyte, the most that is kept of a run's output, to the
// default budget.
func BenchmarkCut(b *testing.B) {
	hard := hard
	for name, unit := range hard {
		text := strings.Repeat(unit, 1<<20/len(unit))
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			for b.Loop() {
				Cut(text, 4000)
			}
		})
	}
	rows := strings.Repeat(`{"id": 17, "name": "Grace Hopper", "tags": ["navy", "cobol"]}, `, 1<<14)
	b.Run("nested", func(b *testing.B) {
		for b.Loop() {
			Cut("["+rows+"0]", 4000)
		}
	})
}
