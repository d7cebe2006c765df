package discovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTypesReadLikePython(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"a record", `{"type": "object", "properties": {"path": {"type": "string"}, "head": {"type": "integer"}}, "required": ["path"]}`, "{path: str, head?: int}"},
		{"a record with more keys", `{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": true}`, "{a: str, ...}"},
		{"a record without a type", `{"properties": {"a": {"type": "null"}}, "required": ["a"]}`, "{a: None}"},
		{"keys that are no names", `{"type": "object", "properties": {"content-type": {"type": "string"}, "": {}, "über": {}}, "required": ["content-type", "über"]}`, `{"content-type": str, ""?: Any, über: Any}`},
		{"records in lists", `{"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}}`, "list[{id: int}]"},
		{"a dict of one type", `{"type": "object", "additionalProperties": {"type": "number"}}`, "dict[str, float]"},
		{"a dict of anything", `{"type": "object", "additionalProperties": {}}`, "dict"},
		{"a dict by pattern", `{"type": "object", "patternProperties": {"^x-": {"type": "string"}, "^n": {"type": "integer"}}, "additionalProperties": false}`, "dict[str, str | int]"},
		{"an object that says nothing", `{"type": "object"}`, "dict"},
		{"a list of nothing known", `{"type": "array"}`, "list"},
		{"a tuple of 2020", `{"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}`, "tuple[str, float]"},
		{"a tuple of before", `{"type": "array", "items": [{"type": "string"}, {"type": "number"}]}`, "tuple[str, float]"},
		{"nullable as OpenAPI has it", `{"type": "string", "nullable": true}`, "str | None"},
		{"a list of types", `{"type": ["array", "null"], "items": {"type": "string"}}`, "list[str] | None"},
		{"pydantic's optional", `{"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null}`, "int | None"},
		{"a choice of records", `{"oneOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}]}`, "{a: Literal[1]} | {b: str}"},
		{"a choice of many records", `{"anyOf": [` + strings.TrimSuffix(strings.Repeat(`{"type": "object", "properties": {"p": {"type": "string"}}},`, 3)+
			`{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}, {"type": "object", "properties": {"c": {}}}, {"type": "object", "properties": {"d": {}}}, {"type": "string"}`, ",") + `]}`, "dict | str"},
		{"a choice of what is required", `{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}`, "{a?: str, b?: str}"},
		{"all of several", `{"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "integer"}, "a": {}}}]}`, "{a?: str, b?: int}"},
		{"all of one, with words", `{"allOf": [{"$ref": "#/$defs/level"}], "description": "how loud"}`, `Literal["low", "high"]`},
		{"a reference", `{"$ref": "#/$defs/level"}`, `Literal["low", "high"]`},
		{"a reference into a list", `{"type": "array", "items": {"$ref": "#/$defs/either/anyOf/1"}}`, "list[int]"},
		{"a reference with escapes", `{"$ref": "#/$defs/a%5Bb~1c%5D"}`, "bool"},
		{"a reference to anything", `{"$ref": "#/$defs/open"}`, "Any"},
		{"a recursive one", `{"$ref": "#/$defs/node"}`, "{name: str, children?: list[dict]}"},
		{"an enumeration with null", `{"enum": ["a", null]}`, `Literal["a", None]`},
		{"a long enumeration", `{"enum": ["` + strings.Repeat("x", 100) + `", null, 3]}`, "str | int | None"},
		{"a constant", `{"const": true}`, "Literal[True]"},
		{"true", `true`, "Any"},
		{"false", `false`, "Any"},
		{"nothing", `{}`, "Any"},
		{"a number", `7`, "Any"},
	}
	const defs = `"either": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "a[b/c]": {"type": "boolean"}, "open": true, "level": {"enum": ["low", "high"]}, "node": {"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["name"]}`
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tools, skipped := parse(t, fmt.Sprintf(`{"name": "t", "inputSchema": {"type": "object", "properties": {"p": %s}, "$defs": {%s}}}`, tt.schema, defs))
			if len(tools) != 1 || len(tools[0].Params) != 1 {
				t.Fatalf("got %+v, skipped %q", tools, skipped)
			}
			if got := tools[0].Params[0].Type; got != tt.want {
				t.Errorf("type:\n got %s\nwant %s", got, tt.want)
			}
			if tools[0].Problem != "" {
				t.Errorf("problem: %s", tools[0].Problem)
			}
		})
	}
}

func TestWhatAnOutputSchemaSaysIsTheSignaturesReturn(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"a record", `{"type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/i"}}}, "required": ["items"], "$defs": {"i": {"type": "object", "properties": {"n": {"type": "integer"}}}}}`, "{items: list[{n?: int}]}"},
		{"an object that says nothing", `{"type": "object"}`, "Any"},
		{"a dict", `{"type": "object", "additionalProperties": {"type": "string"}}`, "dict[str, str]"},
		{"what a library wraps", `{"type": "object", "properties": {"result": {"type": "array", "items": {"type": "integer"}}}, "required": ["result"], "x-fastmcp-wrap-result": true}`, "list[int]"},
		{"no schema", `null`, "Any"},
		{"no object", `3`, "Any"},
		{"no type", `{"properties": {"a": {"type": "string"}}}`, "{a?: str}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tools, _ := parse(t, `{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": `+tt.schema+`}`)
			if got := tools[0].Returns(); got != tt.want {
				t.Errorf("returns: got %s, want %s", got, tt.want)
			}
			if got := Signature(tools[0]); got != "t() -> "+tt.want {
				t.Errorf("signature: got %s", got)
			}
		})
	}
}

func TestLongTypesAreCutFromTheInside(t *testing.T) {
	var fields strings.Builder
	for i := range 60 {
		fmt.Fprintf(&fields, `"field_%d": {"type": "object", "properties": {"inner_%d": {"type": "string"}}},`, i, i)
	}
	tools, _ := parse(t, `{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "properties": {`+strings.TrimSuffix(fields.String(), ",")+`}}}`)
	signature, whole := Signature(tools[0]), tools[0].Returns()
	if len(signature) > returnWidth+10 || !strings.HasSuffix(signature, ", ...}") || !strings.HasPrefix(signature, "t() -> {field_0?: ") {
		t.Errorf("signature: got %s", signature)
	}
	if len(whole) > docWidth || len(whole) < returnWidth {
		t.Errorf("returns: got %d bytes: %s", len(whole), whole)
	}
}

func TestParamsSayWhatMayBePassed(t *testing.T) {
	tools, _ := parse(t, `{"name": "t", "inputSchema": {"type": "object", "required": ["mode", "x-y"], "properties": {
		"x-y": {"type": "string", "format": "date-time"},
		"n": {"type": "integer", "minimum": 1, "maximum": 9007199254740991, "default": 12345678901234567890, "description": "How many"},
		"level": {"$ref": "#/$defs/level"}, "mode": {"enum": ["a", 2]}, "d": {"type": "object", "default": {"k": [1]}}, "odd": {"minimum": "x", "format": 3, "pattern": "a\nb"}},
		"$defs": {"level": {"type": "number", "description": "How loud", "default": 1.50, "exclusiveMaximum": 11}}}}`)
	want := []Param{
		{Name: "x-y", Alias: "x_y", Type: "str", Required: true, Description: "(format date-time)"},
		{Name: "mode", Alias: "mode", Type: `Literal["a", 2]`, Required: true, Enum: []json.RawMessage{[]byte(`"a"`), []byte("2")}},
		{Name: "n", Alias: "n", Type: "int", Description: "How many (at least 1)", Default: "12345678901234567890", Value: []byte("12345678901234567890")},
		{Name: "level", Alias: "level", Type: "float", Description: "How loud (less than 11)", Default: "1.50", Value: []byte("1.50")},
		{Name: "d", Alias: "d", Type: "dict", Value: []byte(`{"k": [1]}`)},
		{Name: "odd", Alias: "odd", Type: "Any"},
	}
	if diff := cmp.Diff(want, tools[0].Params); diff != "" {
		t.Errorf("params (-want +got):\n%s", diff)
	}
}
