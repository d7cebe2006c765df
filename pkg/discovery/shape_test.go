package discovery

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func shapeText(values ...string) string {
	var s *Shape
	for _, v := range values {
		s = s.Merge(Infer(json.RawMessage(v)))
	}
	return s.pyType().text(docWidth)
}

func TestShapesTellWhatValuesAreLike(t *testing.T) {
	rows := func(n int, format string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return strings.Join(list, ", ")
	}
	tests := []struct {
		name   string
		values []string
		want   string
	}{
		{"scalars", []string{`1`, `"x"`, `null`, `true`}, "str | int | bool | None"},
		{"numbers", []string{`1`, `1.5`}, "float"},
		{"a list of records", []string{`[{"number": 1, "title": "a"}, {"number": 2, "title": "b", "body": null}]`}, "list[{number: int, title: str, body?: None}]"},
		{"records that differ", []string{`{"a": 1, "b": 2}`, `{"a": "x", "c": []}`}, "{a: str | int, b?: int, c?: list}"},
		{"an empty record", []string{`{"a": 1}`, `{}`}, "{a?: int}"},
		{"an empty list", []string{`[]`}, "list"},
		{"an empty list and another", []string{`[]`, `[1]`}, "list[int]"},
		{"empty dicts", []string{`{}`}, "dict"},
		{"keys that are no names", []string{`{"content-type": "x", "@id": 1}`}, `{"content-type": str, "@id": int}`},
		{"numbers as keys", []string{`{"1": "x", "2": null}`}, "dict[str, str | None]"},
		{"uuids as keys", []string{`{"0b52a1c6-8c1f-4c53-9d31-5d2f3a1f0c11": {"n": 1}}`}, "dict[str, {n: int}]"},
		{"dates as keys", []string{`{"2024-01-15": 1.5}`}, "dict[str, float]"},
		{"addresses as keys", []string{`{"ann@example.test": 1}`, `{"https://example.test/": 2}`, `{"/etc/passwd": 3}`, `{"10.0.0.1": 4}`}, "dict[str, int]"},
		{"secrets as keys", []string{`{"ghp_16C7e42F292c6912E7710c838347Ae178B4a": true, "xQzRtYpLmNbVcXsAdFgH": true, "sk-ant-api03-R2D2": true, "AKIAIOSFODNN7EXAMPLE1": true}`}, "dict[str, bool]"},
		{"words of a sentence as keys", []string{`{"the answer is": 1}`}, "dict[str, int]"},
		{"names as keys", []string{`{"ann": {"age": 1}, "bob": {"age": 2}, "eve": {"age": 3}}`}, "dict[str, {age: int}]"},
		{"names and data as keys", []string{`{"total": 1, "17": 2}`}, "dict[str, int]"},
		{"names with a number", []string{`{"address1": "x", "sha256": "y", "ipv4_address": "z"}`}, "{address1: str, sha256: str, ipv4_address: str}"},
		{"camel case", []string{`{"htmlUrl": "x", "nodeId": "y", "createdAtUTC": "z"}`}, "{htmlUrl: str, nodeId: str, createdAtUTC: str}"},
		{"very many keys", []string{manyKeys(maxShapeFields + 1)}, "dict[str, list[int]]"},
		{"keys of another kind each time", []string{`{"ann": 1}`, `{"bob": 1}`, `{"cid": 1}`, `{"dan": 1}`, `{"eve": 1}`, `{"fay": 1}`, `{"guy": 1}`, `{"hal": 1}`}, "dict[str, int]"},
		{"deep", []string{`[[[[[[[[[1]]]]]]]]]`}, "list[list[list[list[list[list[list]]]]]]"},
		{"the last of a list", []string{`[` + rows(denseItems+5*sparseItem, `{"a": %d}`) + `, {"a": null}]`}, "list[{a: int}]"},
		{"a key twice", []string{`{"a": 1, "a": "x"}`}, "{a: str | int}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := shapeText(tt.values...); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// manyKeys returns a record with n keys that read like names.
func manyKeys(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"%c%c": [%d]`, 'a'+i/26, 'a'+i%26, i))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func TestWhatIsNoJSONHasNoShape(t *testing.T) {
	for _, text := range []string{``, `{`, `[1`, `{"a"`, `{"a": }`, `nul`, `{"a": 1,, "b": 2}`, `'x'`, `{"a": 01}`} {
		if s := Infer(json.RawMessage(text)); s != nil {
			t.Errorf("%s: got %s", text, s.pyType().text(docWidth))
		}
	}
}

// Nothing is concluded from what a cut has taken away.
func TestALargeValueIsCut(t *testing.T) {
	item := `{"id": 1, "text": "` + strings.Repeat("x", 10_000) + `", "last": null},`
	large := `{"items": [` + strings.Repeat(item, 300) + `null], "after": 1}`
	if got, want := shapeText(large), "{items: list[{id: int, text: str, last: None}], ...}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := shapeText(large, `{"items": [], "after": 1}`), "{items: list[{id: int, text: str, last: None}], after: int}"; got != want {
		t.Errorf("merged: got %s, want %s", got, want)
	}
}

// randomValue writes JSON that reaches all the bounds now and then.
func randomValue(r *rand.Rand, depth int) string {
	if depth == 0 {
		return []string{`1`, `2.5`, `"x"`, `null`, `true`, `[]`, `{}`}[r.IntN(7)]
	}
	n := []int{0, 1, 2, 3, 5, 30}[r.IntN(6)]
	if r.IntN(40) == 0 {
		n = 90
	}
	var parts []string
	for i := range n {
		value := randomValue(r, r.IntN(depth))
		parts = append(parts, fmt.Sprintf(`%q: %s`, randomKey(r, i), value))
	}
	if r.IntN(3) == 0 {
		for i, p := range parts {
			_, parts[i], _ = strings.Cut(p, ": ")
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func randomKey(r *rand.Rand, i int) string {
	if r.IntN(20) == 0 {
		return fmt.Sprint(i)
	}
	return fmt.Sprintf("%c%c", 'a'+r.IntN(9), 'a'+i%26)
}

func checkMerges(t *testing.T, a, b, c *Shape) {
	t.Helper()
	if !a.Merge(a).equal(a) {
		t.Errorf("merging is not idempotent: %s", a.pyType().text(docWidth))
	}
	ab := a.Merge(b)
	if !ab.equal(b.Merge(a)) {
		t.Errorf("merging is not commutative:\n%s\n%s", a.pyType().text(docWidth), b.pyType().text(docWidth))
	}
	if !ab.Merge(b).equal(ab) {
		t.Errorf("merging what is in it changes: %s", ab.pyType().text(docWidth))
	}
	if left, right := ab.Merge(c), a.Merge(b.Merge(c)); !left.equal(right) {
		t.Errorf("merging is not associative:\n%s\n%s\n%s\nleft  %s\nright %s", a.pyType().text(docWidth), b.pyType().text(docWidth),
			c.pyType().text(docWidth), left.pyType().text(docWidth), right.pyType().text(docWidth))
	}
	for _, s := range []*Shape{a, b, c, ab} {
		if s != nil && s.cost > maxShapeCost[0]+1 {
			t.Errorf("cost %d", s.cost)
		}
	}
}

func TestMergingShapesDoesNotDependOnTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 400 {
		var s [3]*Shape
		for i := range s {
			s[i] = Infer(json.RawMessage(randomValue(r, 1+r.IntN(5))))
			if s[i] == nil {
				t.Fatal("random JSON that is none")
			}
			count(s[i], seen)
		}
		checkMerges(t, s[0], s[1], s[2])
		checkMerges(t, s[0], nil, s[2])
	}
	for _, bound := range []string{"wide", "vague", "values"} {
		if seen[bound] == 0 {
			t.Errorf("no shape was %s: the test is too tame", bound)
		}
	}
}

func count(s *Shape, seen map[string]int) {
	if s == nil {
		return
	}
	if s.wide {
		seen["wide"]++
	}
	if s.vague {
		seen["vague"]++
	}
	if s.values != nil {
		seen["values"]++
	}
	count(s.item, seen)
	count(s.values, seen)
	for _, f := range s.fields {
		count(f.of, seen)
	}
}

// FuzzShape feeds three texts: nothing may panic, what is JSON has a shape, and
// merging keeps its laws.
func FuzzShape(f *testing.F) {
	f.Add(`{"a": [1, null, {"b": "x"}]}`, `{"a": {}, "17": []}`, `[[1.5], "x"]`)
	f.Add(manyKeys(90), `{"aa": 1}`, `{"x": `+manyKeys(30)+`}`)
	f.Add(`{"a": 1`, `"\ud800"`, `[[[[[[[[{}]]]]]]]]`)
	f.Fuzz(func(t *testing.T, x, y, z string) {
		var s [3]*Shape
		for i, text := range []string{x, y, z} {
			s[i] = Infer(json.RawMessage(text))
			if s[i] == nil && json.Valid([]byte(text)) {
				t.Errorf("%q has no shape", text)
			}
		}
		checkMerges(t, s[0], s[1], s[2])
		for _, one := range s {
			if text := one.pyType().text(returnWidth); strings.Contains(text, "\n") {
				t.Errorf("got %q", text)
			}
		}
	})
}

func BenchmarkInfer(b *testing.B) {
	issue := `{"number": 12, "title": "A title", "user": {"login": "octo", "id": 3, "site_admin": false}, "labels": [{"name": "bug", "color": "f00"}], "body": "` + strings.Repeat("some text ", 30) + `", "closed_at": null}`
	for name, value := range map[string]string{
		"one":    issue,
		"100":    "[" + strings.Repeat(issue+",", 99) + issue + "]",
		"30MiB":  "[" + strings.Repeat(issue+",", 30<<20/len(issue)) + issue + "]",
		"scalar": `"` + strings.Repeat("x", 10_000) + `"`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Infer(json.RawMessage(value))
			}
		})
	}
}
