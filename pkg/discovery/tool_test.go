package discovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, raws ...string) ([]Tool, []string) {
	t.Helper()
	var list []json.RawMessage
	for _, raw := range raws {
		list = append(list, json.RawMessage(raw))
	}
	return ParseTools(list)
}

func TestOneBadSchemaDoesNotHideTheOthers(t *testing.T) {
	tests := []struct{ name, raw, signature, problem string }{
		{"a good one", `{"name": "read_file", "inputSchema": {"type": "object", "properties": {"head": {"type": "integer"}, "path": {"type": "string"}}, "required": ["path"]}}`,
			"read_file(path: str, head: int = None) -> Any", ""},
		{"a choice", `{"name": "choice", "inputSchema": {"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}}]}}`,
			"choice(a: str = None, b: int = None, **kwargs) -> Any", "a choice of several"},
		{"a choice of what is required", `{"name": "c2", "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}}`,
			"c2(a: Any = None, b: Any = None) -> Any", ""},
		{"only a version", `{"name": "v", "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#"}}`,
			"v(**kwargs) -> Any", "does not describe the arguments"},
		{"an object alone", `{"name": "none", "inputSchema": {"type": "object"}}`, "none() -> Any", ""},
		{"no schema", `{"name": "missing"}`, "missing(**kwargs) -> Any", "it has no inputSchema"},
		{"a schema that is true", `{"name": "yes", "inputSchema": true}`, "yes(**kwargs) -> Any", "not an object"},
		{"a schema of a list", `{"name": "l", "inputSchema": {"type": "array"}}`, "l(**kwargs) -> Any", `of type "array"`},
		{"a misspelt type", `{"name": "typo", "inputSchema": {"type": "object", "properties": {"p": {"type": "strng"}}}}`,
			"typo(p: Any = None) -> Any", `parameter p has the unknown type "strng"`},
		{"a required absent property", `{"name": "req", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b", 3]}}`,
			"req(b: Any, a: str = None) -> Any", "parameter b is required but not described"},
		{"an output without type", `{"name": "out", "inputSchema": {"type": "object"}, "outputSchema": {"properties": {}}}`, "out() -> Any", ""},
		{"a recursive reference", `{"name": "tree", "inputSchema": {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}, "all": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}`,
			"tree(root: list[list] = None, all: list[list[list]] = None) -> Any", ""},
		{"a reference in a circle", `{"name": "circle", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}}`,
			"circle(a: Any = None) -> Any", ""},
		{"a reference to the web", `{"name": "web", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.test/s.json"}}}}`,
			"web(a: Any = None) -> Any", "another document, which is not fetched"},
		{"a reference to nothing", `{"name": "gone", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}}`,
			"gone(a: Any = None) -> Any", "which is not there"},
		{"a reference at the root", `{"name": "ref", "inputSchema": {"$ref": "#/definitions/Args~1x", "definitions": {"Args/x": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}}}}`,
			"ref(q: str) -> Any", ""},
		{"parts put together", `{"name": "all", "inputSchema": {"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "boolean"}}}]}}`,
			"all(a: str, b: bool = None) -> Any", ""},
		{"open arguments", `{"name": "open", "inputSchema": {"type": "object", "additionalProperties": {"type": "string"}}}`, "open(**kwargs) -> Any", ""},
		{"properties that are a list", `{"name": "props", "inputSchema": {"type": "object", "properties": []}}`, "props() -> Any", ""},
		{"types of every kind", `{"name": "kinds", "inputSchema": {"type": "object", "properties": {
			"u": {"type": ["string", "null"]}, "o": {"anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "number"}]},
			"e": {"enum": ["a", 1, true, null]}, "long": {"enum": ["` + strings.Repeat("x", 80) + `"]}, "c": {"const": 2},
			"d": {"type": "object"}, "l": {"type": "array", "items": {"type": "string"}}, "ll": {"items": {}},
			"n": {"type": "number", "default": 1.50}, "b": {"type": "boolean", "default": true}, "s": {"type": "string", "default": "a\"b"}, "x": true}}}`,
			`kinds(u: str | None = None, o: int | float | None = None, e: Literal["a", 1, True, None] = None, long: str = None, c: Literal[2] = None, ` +
				`d: dict = None, l: list[str] = None, ll: list = None, n: float = 1.50, b: bool = True, s: str = "a\"b", x: Any = None) -> Any`, ""},
		{"long enumerations of every kind", `{"name": "enums", "inputSchema": {"type": "object", "properties": {
			"i": {"enum": [1, "` + strings.Repeat("x", 80) + `"]}, "f": {"enum": [1.5, {}]}, "b": {"enum": [true, []]}, "n": {"enum": [null, {}]}, "o": {"enum": [{}]},
			"w": {"type": ["string", "integer", "boolean", "object", "array"]}}}}`,
			"enums(i: int | str = None, f: float | dict = None, b: bool | list = None, n: dict | None = None, o: dict = None, w: Any = None) -> Any", ""},
		{"a long odd name", `{"name": "long", "inputSchema": {"type": "` + strings.Repeat("é", 150) + `"}}`,
			"long(**kwargs) -> Any", strings.Repeat("é", 100) + `..."`},
		{"names that are no identifiers", `{"name": "a/b", "inputSchema": {"type": "object", "properties": {"from": {"type": "string"}, "self": {"type": "string"}, "x-y": {"type": "string"}, "x_y": {"type": "string"}, "ctx": {"type": "string"}}, "required": ["from"]}}`,
			"a_b(from_: str, self: str = None, x_y_2: str = None, x_y: str = None, ctx: str = None) -> Any", ""},
	}
	var raws []string
	for _, tt := range tests {
		raws = append(raws, tt.raw)
	}
	tools, skipped := parse(t, append(raws, `"not a tool"`, `{"description": "no name"}`, `null`)...)
	if len(tools) != len(tests) || len(skipped) != 3 {
		t.Fatalf("got %d tools and skipped %q", len(tools), skipped)
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Signature(tools[i]); got != tt.signature {
				t.Errorf("signature:\n got %s\nwant %s", got, tt.signature)
			}
			if got := tools[i].Problem; tt.problem == "" && got != "" || !strings.Contains(got, tt.problem) {
				t.Errorf("problem: got %q, want %q", got, tt.problem)
			}
			if string(tools[i].Raw) != tt.raw {
				t.Errorf("raw: got %s", tools[i].Raw)
			}
		})
	}
}

func TestSameNameTwiceIsToldNotGuessed(t *testing.T) {
	tools, skipped := parse(t, `{"name": "a", "description": "first", "inputSchema": {"type": "object"}}`,
		`{"name": "a", "description": "second"}`, `{"name": "b", "inputSchema": {"type": "object"}}`)
	if len(tools) != 2 || tools[0].Description != "first" || !strings.Contains(tools[0].Problem, "more than once") {
		t.Errorf("got %+v", tools)
	}
	if diff := cmp.Diff([]string{`tool 1: the name "a" is taken by tool 0`}, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestOversizedToolKeepsItsName(t *testing.T) {
	raw := fmt.Sprintf(`{"name": "big", "description": "useful", "inputSchema": {"type": "object", "description": %q}}`, strings.Repeat("x", maxToolBytes))
	tools, _ := parse(t, raw)
	if len(tools) != 1 || !tools[0].Loose || tools[0].Description != "useful" || len(tools[0].Raw) > 1000 || !json.Valid(tools[0].Raw) {
		t.Errorf("got %+v", tools)
	}
}

func TestHostileSchemasAreBounded(t *testing.T) {
	// Each level refers to the next one many times: spelled out it would have
	// more nodes than there is memory.
	var defs strings.Builder
	for i := range 50 {
		fmt.Fprintf(&defs, `"d%d": {"anyOf": [%s{"type": "null"}]},`, i, strings.Repeat(fmt.Sprintf(`{"type": "array", "items": {"$ref": "#/$defs/d%d"}},`, i+1), 400))
	}
	raw := `{"name": "bomb", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {` + defs.String() + `"d50": {}}}}`
	var many strings.Builder
	for i := range maxParams + 10 {
		fmt.Fprintf(&many, `"p%d": {},`, i)
	}
	wide := `{"name": "wide", "inputSchema": {"type": "object", "properties": {` + many.String() + `"z": {}}}}`
	fields, err := objectOf(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	r := &schemaReader{tool: &Tool{}, budget: maxSchemaWork}
	if r.readInput(fields["inputSchema"]); r.budget >= 0 {
		t.Errorf("%d bytes of the budget are left, so this test tests nothing", r.budget)
	}
	tools, _ := parse(t, raw, wide)
	if len(tools) != 2 || len(tools[0].Params) != 1 || len(tools[1].Params) != maxParams {
		t.Fatalf("got %d tools", len(tools))
	}
	if got := Signature(tools[1]); !strings.HasSuffix(got, "p39: Any = None, ...) -> Any") {
		t.Errorf("signature ends in %s", got[max(0, len(got)-60):])
	}
}

// FuzzParseTools feeds any bytes as a tool: nothing may panic, and what is
// kept has a name, its own bytes and one line of signature.
func FuzzParseTools(f *testing.F) {
	for _, seed := range []string{
		`{"name": "a", "inputSchema": {"type": "object", "properties": {"p": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"anyOf": [{"type": ["string", "null"]}, true]}}, "required": ["q"]}}`,
		`{"name": "b", "inputSchema": {"allOf": [{"$ref": "#"}], "oneOf": 1, "properties": {"from": {"enum": ["\n", {}]}}}}`,
		`{"name": 1}`, `[]`, `{"name": "x", "inputSchema": []}`, `{"name": "x", "inputSchema": {"properties": {"a": {"type": "array", "items": {"const": null, "default": {}}}}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		tools, skipped := ParseTools([]json.RawMessage{json.RawMessage(raw)})
		if len(tools)+len(skipped) == 0 {
			t.Error("a tool vanished")
		}
		for _, tool := range tools {
			if tool.Name == "" || string(tool.Raw) != raw || strings.Contains(Signature(tool), "\n") {
				t.Errorf("got %q, raw %q, %q", tool.Name, tool.Raw, Signature(tool))
			}
		}
	})
}

func TestManyHostileSchemasAreBounded(t *testing.T) {
	var defs strings.Builder
	for i := range 12 {
		fmt.Fprintf(&defs, `"d%d": {"anyOf": [%s{}]},`, i, strings.Repeat(fmt.Sprintf(`{"items": {"$ref": "#/$defs/d%d"}},`, (i+1)%12), 16))
	}
	schema := fmt.Sprintf(`{"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}, "b": {"type": "string"}}, "$defs": {%s "z": {}}}`, defs.String())
	work := 1 << 20
	var last Tool
	for i := range 100 {
		var err error
		if last, err = parseTool(json.RawMessage(fmt.Sprintf(`{"name": "t%d", "inputSchema": %s}`, i, schema)), &work); err != nil {
			t.Fatal(err)
		}
	}
	if work > 0 || work < -1<<20 {
		t.Errorf("%d bytes of work are left", work)
	}
	if got := Signature(last); got != "t99(a: Any = None, b: Any = None) -> Any" || !strings.Contains(last.Problem, "too much work") {
		t.Errorf("got %s, %s", got, last.Problem)
	}
}
