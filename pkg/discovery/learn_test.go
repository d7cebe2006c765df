package discovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// school is a catalogue with one tool, and a Ref of its server.
func school(t *testing.T, output string) (*Catalog, Ref) {
	t.Helper()
	tools, skipped := parse(t, `{"name": "list", "inputSchema": {"type": "object"}`+output+`}`)
	if len(skipped) > 0 {
		t.Fatal(skipped)
	}
	c := NewCatalog()
	c.Put("d", tools)
	return c, Ref{Digest: "d", Server: "s"}
}

func text(of string) string {
	quoted, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"content": [{"type": "text", "text": %s}]}`, quoted)
}

func TestResultsTeachWhatAToolReturns(t *testing.T) {
	const declared = `, "outputSchema": {"type": "object"}`
	tests := []struct {
		name, output string
		results      []string
		want         string
	}{
		{"nothing yet", "", nil, "Any"},
		{"structured content", "", []string{`{"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": 1}}`}, "{n: int}"},
		{"structured content behind a flag", "", []string{`{"isError": false, "structuredContent": {"n": 1}, "_meta": {"structuredContent": 2}}`}, "{n: int}"},
		{"a text", "", []string{text("hello")}, "str"},
		{"a text that is JSON", "", []string{text(` [{"number": 1, "title": "a"}]`), text(`[]`)}, "str (JSON: list[{number: int, title: str}])"},
		{"a text that is JSON now and then", "", []string{text(`{"a": 1}`), text(`{not JSON`)}, "str (sometimes JSON: {a: int})"},
		{"a text that is JSON where data is promised", declared, []string{text(`{"a": 1}`)}, "{a: int}"},
		{"a text that says that it is JSON", "", []string{`{"content": [{"type": "text", "mimeType": "application/json", "text": "[1]"}]}`}, "list[int]"},
		{"a picture", "", []string{`{"content": [{"type": "image", "data": "", "mimeType": "image/png"}]}`}, "list"},
		{"several texts", "", []string{`{"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}`}, "list"},
		{"no content", "", []string{`{"content": []}`, `{}`, `{"content": null}`}, "list"},
		{"several kinds", "", []string{text("a"), `{"content": []}`, `{"structuredContent": {"n": 1}}`}, "{n: int} | list | str"},
		{"an error", "", []string{`{"isError": true, "content": [{"type": "text", "text": "no"}], "structuredContent": {"n": 1}}`}, "Any"},
		{"structured content that is null", "", []string{`{"structuredContent": null, "content": [{"type": "text", "text": "a"}]}`}, "str"},
		{"no JSON", "", []string{`nothing`}, "list"},
		{"what the schema says", `, "outputSchema": {"type": "object", "properties": {"n": {"type": "number"}}}`, []string{`{"structuredContent": {"m": 1}}`}, "{n?: float}"},
		{"what a library wraps", `, "outputSchema": {"type": "object", "properties": {"result": {}}, "x-fastmcp-wrap-result": true}`, []string{`{"structuredContent": {"result": [1]}}`}, "list[int]"},
		{"a long text", "", []string{text("[" + strings.Repeat(`{"a": "\"\\ü\u0001"},`, maxResultRead/10) + "{}]")}, "str (JSON: list[{a: str}])"},
		{"a long result", "", []string{`{"structuredContent": {"rows": [` + strings.Repeat(`[1, 2.5],`, maxResultRead/5) + `[]]}}`}, "{rows: list[list[float]], ...}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, ref := school(t, tt.output)
			for _, result := range tt.results {
				c.Learn(ref, "list", json.RawMessage(result))
			}
			tools, _ := c.Tools(ref)
			if got := tools[0].Returns(); got != tt.want {
				t.Errorf("returns: got %s, want %s", got, tt.want)
			}
			if tool, _ := c.Tool(ref, "list"); Signature(tool) != "list() -> "+tt.want {
				t.Errorf("signature: got %s", Signature(tool))
			}
			if m := c.Search("list", []Ref{ref}, 1); m[0].Tool.Returns() != tt.want {
				t.Errorf("found: got %s", m[0].Tool.Returns())
			}
		})
	}
}

func TestTheBetterResultsAreKnownTheFewerAreLookedAt(t *testing.T) {
	c, ref := school(t, "")
	looked := 0
	for range 10_000 {
		if c.Wants(ref, "list") {
			looked++
			c.Learn(ref, "list", json.RawMessage(text("hello")))
		}
	}
	if looked < 20 || looked > 200 {
		t.Errorf("looked at %d results of 10 000", looked)
	}
	for !c.Wants(ref, "list") {
	}
	c.Learn(ref, "list", json.RawMessage(`{"content": []}`))
	if !c.Wants(ref, "list") {
		t.Error("what is new is not followed")
	}
}

func TestWhatWasLearntCanBeKept(t *testing.T) {
	c, ref := school(t, "")
	for _, result := range []string{`{"structuredContent": {"a": [{"b": 1}], "17": null}}`, `{"structuredContent": ` + manyKeys(90) + `}`, text(`{"x": 1}`), text("a"), `{"content": []}`, `{"structuredContent": {"first": 1, "second": {"third": null}}}`} {
		c.Learn(ref, "list", json.RawMessage(result))
	}
	c.Learn(Ref{Digest: "other"}, "tool", json.RawMessage(`{"structuredContent": {"first": 1, "second": {"third": null}}}`))
	kept, err := c.ExportLearnt()
	if err != nil {
		t.Fatal(err)
	}
	other, _ := school(t, "")
	for range 2 {
		if err := other.ImportLearnt(kept); err != nil {
			t.Fatal(err)
		}
		for _, key := range []toolKey{{"d", "list"}, {"other", "tool"}} {
			want, _ := c.lessons.of(key)
			got, ok := other.lessons.of(key)
			if !ok || !got.equal(want) || got.returns(docWidth) != want.returns(docWidth) {
				t.Errorf("%v: got %s, want %s", key, got.returns(docWidth), want.returns(docWidth))
			}
		}
	}
	for _, text := range []string{`{"version": 2}`, `[]`, ``, strings.Repeat(" ", maxKeptLessons+1)} {
		if err := other.ImportLearnt([]byte(text)); err == nil || !strings.Contains(err.Error(), "reading what was learnt") {
			t.Errorf("importing %.20q: got %v", text, err)
		}
	}
}

func TestWhatIsKeptIsNotTrusted(t *testing.T) {
	deep := strings.Repeat(`{"k": 32, "i": `, 5000) + `{"k": 1}` + strings.Repeat(`}`, 5000)
	var wide strings.Builder
	for i := range 500 {
		fmt.Fprintf(&wide, `"k%c%c": {"s": {"k": 255}},`, 'a'+i%26, 'a'+i/26)
	}
	c, ref := school(t, "")
	kept := fmt.Sprintf(`{"version": 1, "tools": [{"digest": "d", "tool": "list", "data": %s, "json": {"k": 64, "f": {%s "ghp_0123456789abcdef": {"s": null}, "x": {}}}}]}`, deep, wide.String())
	if err := c.ImportLearnt([]byte(kept)); err != nil {
		t.Fatal(err)
	}
	tool, _ := c.Tool(ref, "list")
	want := "list[list[list[list[list[list[list]]]]]] | str (JSON: dict)"
	if got := tool.Returns(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWhatIsLearntIsBounded(t *testing.T) {
	var l lessons
	shape := Infer(json.RawMessage(manyKeys(80)))
	for i := range maxLearnt + 10 {
		l.add(toolKey{"d", fmt.Sprint(i)}, learnt{text: true})
	}
	if len(l.byTool) > maxLearnt {
		t.Errorf("%d tools", len(l.byTool))
	}
	for i := range 2 * maxLearntCost / shape.cost {
		l.of(toolKey{"d", "keep"}) // it is in use
		l.add(toolKey{"d", "keep"}, learnt{text: true})
		l.add(toolKey{"e", fmt.Sprint(i)}, learnt{data: shape})
	}
	sum := 0
	for _, one := range l.byTool {
		sum += one.cost()
	}
	if l.cost > maxLearntCost || sum != l.cost {
		t.Errorf("cost %d, of which %d can be found", l.cost, sum)
	}
	if _, ok := l.of(toolKey{"d", "keep"}); !ok {
		t.Error("what is in use was forgotten")
	}
}

func TestStructuredIsTheResultsData(t *testing.T) {
	tests := map[string]string{
		`{"structuredContent": {"a": [1, {"b": "}"}]}, "content": []}`: `{"a": [1, {"b": "}"}]}`,
		`{"structuredContent": {"a": 1}, "isError": true}`:             "",
		`{"content": [{"structuredContent": 1}]}`:                      "",
		`{"structuredContent": null}`:                                  "",
		`[]`:                                                           "",
	}
	for result, want := range tests {
		if diff := cmp.Diff(want, string(Structured(json.RawMessage(result)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", result, diff)
		}
	}
}

func FuzzLearn(f *testing.F) {
	f.Add(`{"content": [{"type": "text", "text": "{\"a\": [1]}"}], "isError": false}`)
	f.Add(`{"structuredContent": {"a": null}, "content": 3}`)
	f.Add(`{"content": [{"type": "text", "text": "\u005b1]", "mimeType": "application/json"}`)
	f.Fuzz(func(t *testing.T, result string) {
		seen, ok := readResult(json.RawMessage(result)).learnt(false)
		if text := seen.returns(docWidth); ok && text == "" || strings.Contains(text, "\n") {
			t.Errorf("got %q", text)
		}
	})
}

func BenchmarkLearn(b *testing.B) {
	c := NewCatalog()
	result := json.RawMessage(text(`[` + strings.Repeat(`{"number": 12, "title": "A title", "user": {"login": "octo", "id": 3}, "labels": ["bug"]},`, 20) + `{}]`))
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			c.Learn(Ref{Digest: "d"}, "tool", result)
		}
	})
	b.Run("pass", func(b *testing.B) {
		for b.Loop() {
			c.Wants(Ref{Digest: "d"}, "tool")
		}
	})
}

// Tools are put, dropped, checked, learnt of and searched side by side.
func TestACatalogueIsUsedByMany(t *testing.T) {
	c, ref := school(t, `, "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}`)
	tools, _ := c.Tools(ref)
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			for range 50 {
				switch i {
				case 0:
					c.Put("d", tools)
				case 1:
					c.Drop("e")
					if kept, err := c.ExportLearnt(); err != nil || c.ImportLearnt(kept) != nil {
						t.Error("what was learnt can't be kept")
					}
				case 2, 3:
					c.Learn(ref, "list", json.RawMessage(fmt.Sprintf(`{"structuredContent": {"n": %d, "k%c": 1}}`, i, 'a'+i)))
				default:
					c.Check(ref, "list", json.RawMessage(`{}`))
					if got := c.CheckResult(ref, "list", json.RawMessage(`{"n": "x"}`)); len(got) != 1 {
						t.Errorf("got %v", got)
					}
					c.Search("list", []Ref{ref}, 1)
				}
			}
		})
	}
	done.Wait()
}

func TestCompiledSchemasAreBounded(t *testing.T) {
	var c checkers
	one := make([]checker, 40)
	for i := range one {
		one[i].of = json.RawMessage(`{"type": "object"}`)
		one[i].check(json.RawMessage(`{}`))
		for _, old := range c.add(&one[i], maxCompiled/10) {
			old.forget()
		}
	}
	ready := 0
	for i := range one {
		if one[i].schema != nil {
			ready++
		}
	}
	if ready != 10 || c.total > maxCompiled || len(c.list) != 10 {
		t.Errorf("%d schemas are compiled, %d objects", ready, c.total)
	}
	if got, compiled := one[0].check(json.RawMessage(`3`)); len(got) != 1 || compiled == 0 {
		t.Errorf("what had to make room does not check: %v, %d", got, compiled)
	}
}
