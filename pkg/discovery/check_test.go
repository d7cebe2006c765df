package discovery

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// misfits checks a value against a schema and returns the problems in lines.
func misfitsOf(t *testing.T, schema, value string) (text, problem string) {
	t.Helper()
	c := &checker{of: json.RawMessage(schema)}
	found, _ := c.check(json.RawMessage(value))
	var lines []string
	for _, m := range found {
		lines = append(lines, m.Path+" "+m.Message)
	}
	return strings.Join(lines, "\n"), c.why()
}

func TestWhatIsWrongIsToldWithItsPathAndWhatWouldBeRight(t *testing.T) {
	const issue = `{"type": "object", "required": ["title"], "additionalProperties": false, "properties": {
		"title": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]"}, "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "minItems": 1, "uniqueItems": true},
		"state": {"enum": ["open", "closed", 3]}, "sort": {"enum": ["created", "updated"]}, "n": {"type": "integer", "minimum": 1, "maximum": 100, "multipleOf": 2}, "f": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1.5},
		"who": {"anyOf": [{"type": "integer"}, {"type": "null"}, {"type": "string"}]}, "c": {"const": "x"},
		"opt": {"type": "object", "properties": {"deep": {"type": "object", "properties": {"a b": {"type": "array", "items": {"type": "boolean"}}}}}, "minProperties": 1, "maxProperties": 1},
		"shape": {"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]}, {"type": "object", "properties": {"kind": {"const": "box"}, "w": {"type": "number"}}, "required": ["kind", "w"]}, {"type": "string"}]},
		"both": {"oneOf": [{"type": "integer"}, {"type": "number"}]}, "never": false, "odd": {"not": {"type": "string"}},
		"named": {"type": "object", "propertyNames": {"pattern": "^x-"}}, "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": false}, "two": {"dependentRequired": {"a": ["b"]}}, "def": {"properties": {"a": {"default": null}}, "required": ["a", "other"]}, "has": {"contains": {"type": "null"}}}}`
	tests := []struct{ name, value, want string }{
		{"fits", `{"title": "abc", "labels": ["a"], "state": 3.0, "n": 4, "f": 1, "who": null, "c": "x", "opt": {"deep": {"a b": [true]}}, "shape": {"kind": "box", "w": 1}, "odd": 1}`, ""},
		{"a whole float is an int", `{"title": "abc", "n": 4.0}`, ""},
		{"missing", `{}`, `["title"] is missing`},
		{"missing, with a default", `{"title": "abc", "def": {}}`, `["def"]["other"] is missing`},
		{"misspelt", `{"titel": "abc"}`, "[\"titel\"] is unknown; did you mean title?\n[\"title\"] is missing"},
		{"unlike any", `{"title": "abc", "zzz9": 1}`, `["zzz9"] is unknown; there are both, c, def, f, has, labels, n, named, never, odd, opt, pair, shape, sort, state, title, two or who`},
		{"another type", `{"title": 5}`, `["title"] must be str, not int`},
		{"None", `{"title": "abc", "n": null}`, `["n"] must be int, not None; leave it out if there is nothing to pass`},
		{"inside a list", `{"title": "abc", "labels": ["a", 7]}`, `["labels"][1] must be str, not int`},
		{"deep inside", `{"title": "abc", "opt": {"deep": {"a b": [true, {}]}}}`, `["opt"]["deep"]["a b"][1] must be bool, not dict`},
		{"none of the values", `{"title": "abc", "sort": "create"}`, `["sort"] must be one of "created" or "updated"; did you mean "created"?`},
		{"another type than the values", `{"title": "abc", "state": []}`, `["state"] must be "open", "closed" or 3, not list`},
		{"not the constant", `{"title": "abc", "c": "y"}`, `["c"] must be "x"`},
		{"none of the types", `{"title": "abc", "who": 1.5}`, `["who"] must be int, None or str, not float`},
		{"too small", `{"title": "abc", "n": 0}`, `["n"] must be at least 1`},
		{"too large", `{"title": "abc", "n": 12345678901234567890}`, `["n"] must be at most 100`},
		{"odd", `{"title": "abc", "n": 3}`, `["n"] must be a multiple of 2`},
		{"at the border", `{"title": "abc", "f": 1.5}`, `["f"] must be less than 1.5`},
		{"at the other border", `{"title": "abc", "f": 0}`, `["f"] must be more than 0`},
		{"too short", `{"title": "a"}`, `["title"] must have at least 2 characters, not 1`},
		{"too long", `{"title": "abcdefg"}`, `["title"] must have at most 5 characters, not 7`},
		{"no match", `{"title": "ABC"}`, `["title"] must match the regular expression ^[a-z]`},
		{"too few items", `{"title": "abc", "labels": []}`, `["labels"] must have at least 1 items, not 0`},
		{"too many items", `{"title": "abc", "labels": ["a", "b", "c"]}`, `["labels"] must have at most 2 items, not 3`},
		{"the same twice", `{"title": "abc", "labels": ["a", "a"]}`, `["labels"] must not have an item twice; 0 and 1 are equal`},
		{"too few keys", `{"title": "abc", "opt": {}}`, `["opt"] must have at least 1 keys, not 0`},
		{"too many keys", `{"title": "abc", "opt": {"a": 1, "b": 2}}`, `["opt"] must have at most 1 keys, not 2`},
		{"the alternative that was meant", `{"title": "abc", "shape": {"kind": "box", "r": 1}}`, `["shape"]["w"] is missing`},
		{"several alternatives", `{"title": "abc", "both": 1}`, `["both"] fits several of the alternatives, and must fit one only`},
		{"never", `{"title": "abc", "never": 1}`, `["never"] is not allowed`},
		{"not that", `{"title": "abc", "odd": "text"}`, `["odd"] is not allowed`},
		{"a name", `{"named": {"y": 1}}`, "[\"named\"] has the key \"y\", which is not an allowed name\n[\"title\"] is missing"},
		{"behind a tuple", `{"title": "abc", "pair": ["a", "b"]}`, `["pair"][1] is not allowed`},
		{"one without the other", `{"title": "abc", "two": {"a": 1}}`, `["two"]["b"] is missing, and is needed with "a"`},
		{"nothing of the kind", `{"title": "abc", "has": [1]}`, `["has"] does not have the items that it must have`},
		{"many problems", `{"a1": 1, "a2": 1, "a3": 1, "a4": 1, "a5": 1, "a6": 1}`, "more problems)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problem := misfitsOf(t, issue, tt.value)
			if got != tt.want && (tt.name != "many problems" || !strings.HasSuffix(got, tt.want)) || problem != "" {
				t.Errorf("got:\n%s\nwant:\n%s\nproblem: %q", got, tt.want, problem)
			}
		})
	}
}

func TestSchemasOfAllDialectsAreChecked(t *testing.T) {
	tests := []struct{ name, schema, good, bad string }{
		{"draft 4 as it says", `{"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {"minimum": 0, "exclusiveMinimum": true}}}`, `{"n": 1}`, `{"n": 0}`},
		{"draft 4 that does not say so", `{"properties": {"n": {"minimum": 0, "exclusiveMinimum": true}}}`, `{"n": 1}`, `{"n": 0}`},
		{"draft 6", `{"$schema": "http://json-schema.org/draft-06/schema#", "properties": {"n": {"const": 1}}}`, `{"n": 1}`, `{"n": 0}`},
		{"draft 7 over https", `{"$schema": "https://json-schema.org/draft-07/schema#", "properties": {"n": {"type": "integer"}}}`, `{"n": 1}`, `{"n": "1"}`},
		{"draft 7 with a tuple that does not say so", `{"properties": {"n": {"items": [{"type": "integer"}], "additionalItems": false}}}`, `{"n": [1]}`, `{"n": [1, 2]}`},
		{"2019", `{"$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}`, `{"n": 1}`, `{"n": "1"}`},
		{"2020", `{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"n": {"prefixItems": [{"type": "integer"}]}}, "unevaluatedProperties": false}`, `{"n": [1]}`, `{"m": 1}`},
		{"one that nobody knows", `{"$schema": "http://example.test/mine", "properties": {"n": {"type": "integer"}}}`, `{"n": 1}`, `{"n": "1"}`},
		{"with an id", `{"$id": "https://example.test/tool.json", "properties": {"n": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "integer"}}}`, `{"n": 1}`, `{"n": "1"}`},
		{"formats are not asserted", `{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"n": {"type": "string", "format": "date-time"}, "m": {"format": "regex"}, "o": {"format": "email"}}}`, `{"n": "soon", "m": "(", "o": "x"}`, `{"n": 1}`},
		{"a pattern that looks ahead", `{"properties": {"n": {"pattern": "^(?!x)", "type": "string"}}}`, `{"n": "xx"}`, `{"n": 1}`},
		{"a recursive one", `{"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "additionalProperties": false}}}`, `{"n": {"n": {}}}`, `{"n": {"n": {"m": 1}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, problem := misfitsOf(t, tt.schema, tt.good); got != "" || problem != "" {
				t.Errorf("%s: got %q, problem %q", tt.good, got, problem)
			}
			if got, _ := misfitsOf(t, tt.schema, tt.bad); got == "" {
				t.Errorf("%s passes", tt.bad)
			}
		})
	}
}

func TestASchemaThatCannotBeCheckedKeepsNothingFromPassing(t *testing.T) {
	deep := strings.Repeat(`{"properties": {"a": `, 3500) + "{}" + strings.Repeat("}}", 3500)
	tests := []struct{ name, schema, value, problem string }{
		{"no schema", ``, `{"n": 1}`, ""},
		{"null", `null`, `{"n": 1}`, ""},
		{"no JSON", `{`, `{"n": 1}`, "ends too early"},
		{"a misspelt type", `{"properties": {"n": {"type": "strng"}}}`, `{"n": 1}`, "no valid schema at #/properties/n/type"},
		{"a list", `[]`, `{"n": 1}`, "no valid schema"},
		{"a reference to the web", `{"properties": {"n": {"$ref": "http://127.0.0.1:1/x"}}}`, `{"n": 1}`, "another document, which is not fetched"},
		{"a reference to a file", `{"properties": {"n": {"$ref": "file:///etc/passwd"}}}`, `{"n": 1}`, "another document, which is not fetched"},
		{"a reference to nothing", `{"properties": {"n": {"$ref": "#/$defs/x"}}}`, `{"n": 1}`, "no valid schema"},
		{"a reference to itself", `{"$ref": "#"}`, `{"n": 1}`, "refers to itself"},
		{"large", `{"description": "` + strings.Repeat("x", maxCheckedSchema) + `"}`, `{"n": 1}`, "larger than"},
		{"deep", deep, `{"n": 1}`, "nested too deep"},
		{"wide", `{"x": [` + strings.Repeat("{},", maxSchemaObjects) + `{}]}`, `{"n": 1}`, "too large"},
		{"a number without end", `{"properties": {"n": {"maximum": 1e999999999}}}`, `{"n": 1}`, "too large"},
		{"a value without end", `{"properties": {"n": {"maximum": 1}}}`, `{"n": 1e999999999}`, ""},
		{"a value that is too large", `{"properties": {"n": {"maximum": 1}}}`, `{"n": 2, "text": "` + strings.Repeat("x", maxChecked) + `"}`, ""},
		{"a value that is no JSON", `{"type": "object"}`, `{`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problem := misfitsOf(t, tt.schema, tt.value)
			if got != "" || tt.problem == "" && problem != "" || !strings.Contains(problem, tt.problem) || strings.Contains(problem, "\n") {
				t.Errorf("got %q, problem %q, want %q", got, problem, tt.problem)
			}
		})
	}
}

// Each level of alternatives doubles the work, so that an honest check would
// never end.
func TestAlternativesWithoutEndAreGivenUp(t *testing.T) {
	var defs strings.Builder
	for i := range 60 {
		next := `{"$ref": "#/$defs/d` + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10)) + `"}`
		defs.WriteString(`"d` + string(rune('0'+i/10)) + string(rune('0'+i%10)) + `": {"anyOf": [` + next + `, ` + next + `]},`)
	}
	schema := `{"$ref": "#/$defs/d00", "$defs": {` + defs.String() + `"d60": {"type": "string"}}}`
	if got, problem := misfitsOf(t, schema, `{"n": 1}`); got != "" || problem != "" {
		t.Errorf("got %q, problem %q", got, problem)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(`{"type": "object", "properties": {"a": {"enum": [1, "x"]}}, "required": ["b"], "additionalProperties": false}`, `{"a": 2, "c": [1]}`)
	f.Add(`{"anyOf": [{"$ref": "#/$defs/a"}, {"not": {}}], "$defs": {"a": {"oneOf": [{"const": null}, {"prefixItems": [true]}]}}}`, `[null, 1e5]`)
	f.Add(`{"$schema": "http://json-schema.org/draft-04/schema#", "dependencies": {"a": ["b"], "c": {"maxProperties": 1}}, "patternProperties": {"(": false}}`, `{"a": 1, "c": 2}`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		c := &checker{of: json.RawMessage(schema)}
		found, _ := c.check(json.RawMessage(value))
		if len(found) > maxMisfits || len(found) > 0 && !json.Valid([]byte(value)) {
			t.Errorf("got %+v", found)
		}
		for _, m := range found {
			if m.Message == "" || strings.Contains(m.Path, "\n") {
				t.Errorf("got %+v", m)
			}
		}
	})
}

const benchSchema = `{"type": "object", "properties": {"owner": {"type": "string"}, "repo": {"type": "string"}, "title": {"type": "string", "maxLength": 256},
	"labels": {"type": "array", "items": {"type": "string"}}, "page": {"type": "integer", "minimum": 1}, "state": {"type": "string", "enum": ["open", "closed", "all"]}},
	"required": ["owner", "repo", "title"], "additionalProperties": false}`

func BenchmarkCheck(b *testing.B) {
	c := &checker{of: json.RawMessage(benchSchema)}
	for name, value := range map[string]string{
		"typical": `{"owner": "octo", "repo": "hello", "title": "A title", "labels": ["bug", "p1"], "page": 3, "state": "open"}`,
		"wrong":   `{"owner": "octo", "repo": 3, "titel": "A title"}`,
		"64KiB":   `{"owner": "octo", "repo": "hello", "title": "` + strings.Repeat("x", 64<<10) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c.check(json.RawMessage(value))
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		c := &checker{of: json.RawMessage(benchSchema)}
		c.check(json.RawMessage(`{}`))
	}
}

// FuzzDecodeExact compares the decoder with the standard library's.
func FuzzDecodeExact(f *testing.F) {
	for _, seed := range []string{`{"a": [1, -2.5e3, "x\\\"y\u00e9", null, true], "a": {}}`, `"\\"`, `"\\\\" `, `[1,]`, `{"a" 1}`, `tru`, `01`, `"é\ud800"`, "\"\x01\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := decodeExact(json.RawMessage(text))
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var want any
		wantErr := d.Decode(&want)
		if wantErr == nil {
			if _, end := d.Token(); !errors.Is(end, io.EOF) {
				wantErr = errJSON
			}
		}
		if errors.Is(err, errJSONDeep) {
			return
		}
		if (err == nil) != (wantErr == nil) || err == nil && !cmp.Equal(got, want) {
			t.Errorf("%q: got %#v, %v, want %#v, %v", text, got, err, want, wantErr)
		}
	})
}
