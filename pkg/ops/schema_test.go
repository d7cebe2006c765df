package ops

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write the schema of the status anew")

// TestTheSchemaIsThatOfTheStatus compares the published schema with the types.
func TestTheSchemaIsThatOfTheStatus(t *testing.T) {
	g := generator{words: comments(t), defs: map[string]any{}}
	root := g.object(reflect.TypeFor[Status]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Status of bridged"
	root["$defs"] = g.defs
	properties, ok := root["properties"].(map[string]any)
	if !ok {
		t.Fatal("the status has no properties")
	}
	properties["schema"] = map[string]any{"const": SchemaVersion, "description": "fields are only added under one version"}
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("status.schema.json", want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want.String(), string(statusSchema)); diff != "" && !*update {
		t.Errorf("status.schema.json is another than the types (-types +file); go test ./pkg/ops -update writes it:\n%s", diff)
	}
}

// TestAStatusFitsItsSchema fills every field, and none.
func TestAStatusFitsItsSchema(t *testing.T) {
	schema := compile(t)
	var full Status
	fill(reflect.ValueOf(&full).Elem())
	for name, s := range map[string]Status{
		"full":  full,
		"empty": {Schema: SchemaVersion, Sandboxes: []Sandbox{}, Sessions: []Session{}, Servers: []Server{}, Versions: Versions{MCP: []string{}}},
	} {
		s.Schema = SchemaVersion
		if err := schema.Validate(asJSON(t, s)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	full.Schema = SchemaVersion + 1
	if schema.Validate(asJSON(t, full)) == nil {
		t.Error("a status of another schema fits")
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(statusSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("status.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("status.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func asJSON(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// fill gives every field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1700000000, 5)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		panic("a kind of field that no status has: " + v.Kind().String())
	}
}

// A generator makes a JSON Schema of types: objects may have more than is said,
// since fields are added.
type generator struct {
	words map[string]string // comments by Type or Type.Field
	defs  map[string]any
}

func (g generator) schema(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.schema(t.Elem())}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return map[string]any{"type": "string", "format": "date-time"}
		}
		if _, ok := g.defs[t.Name()]; !ok {
			g.defs[t.Name()] = nil // in case it has one of its own kind
			g.defs[t.Name()] = g.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	panic("a kind of field that no status has: " + t.String())
}

func (g generator) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		var p map[string]any
		if f.Type.Kind() == reflect.Pointer {
			p = g.schema(f.Type.Elem())
			if options == "" {
				p = map[string]any{"anyOf": []any{p, map[string]any{"type": "null"}}}
			}
		} else {
			p = g.schema(f.Type)
			if f.Type.Kind() == reflect.Slice && options == "" {
				p["type"] = []string{"array", "null"}
			}
		}
		if options == "" {
			required = append(required, name)
		}
		if words := g.words[t.Name()+"."+f.Name]; words != "" {
			p["description"] = words
		}
		properties[name] = p
	}
	o := map[string]any{"type": "object", "properties": properties, "required": required}
	if words := g.words[t.Name()]; words != "" {
		o["description"] = words
	}
	return o
}

// comments returns what the package's source says of its types and their fields.
func comments(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || len(decl.Specs) == 0 {
				continue
			}
			spec, ok := decl.Specs[0].(*ast.TypeSpec)
			if !ok {
				continue
			}
			words[spec.Name.Name] = plain(decl.Doc)
			body, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range body.Fields.List {
				for _, n := range f.Names {
					words[spec.Name.Name+"."+n.Name] = plain(f.Comment)
				}
			}
		}
	}
	return words
}

func plain(c *ast.CommentGroup) string {
	text := strings.Join(strings.Fields(c.Text()), " ")
	return strings.NewReplacer("[", "", "]", "").Replace(text)
}
