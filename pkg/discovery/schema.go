package discovery

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxSchemaWork bounds the bytes that are decoded for one tool's schema,
	// whose references can make a small text stand for a large tree.
	maxSchemaWork = 8 << 20

	// maxSchemaDepth bounds how deep types are spelled out. A recursive type
	// ends here.
	maxSchemaDepth = 4

	// maxParams bounds a tool's parameters.
	maxParams = 500

	maxPointer = 16 // steps of a reference
	maxUnion   = 4  // alternatives of one type that are spelled out
	maxLiteral = 60 // bytes of an enumeration that is spelled out
)

// A schemaReader turns a tool's input schema into parameters. It follows
// references within the schema only: nothing is ever fetched.
type schemaReader struct {
	tool   *Tool
	param  string // being read, for messages
	budget int    // bytes of work left

	targets map[string]object // of references, by JSON pointer
}

type object = map[string]json.RawMessage

// readInput fills in the tool's parameters, or makes it loose.
func (r *schemaReader) readInput(raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		r.loose("it has no inputSchema")
		return
	}
	fields, err := objectOf(raw)
	if err != nil {
		r.loose("its inputSchema is not an object")
		return
	}
	r.targets = map[string]object{"": fields}
	fields = r.deref(fields)
	if kind := textOf(fields["type"]); kind != "" && kind != "object" {
		r.loose("its inputSchema is of type " + strconv.Quote(clip(kind)) + ", not object")
		return
	}
	r.collect(fields, true, 0)
	slices.SortStableFunc(r.tool.Params, func(a, b Param) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	r.judge(fields)
}

func (r *schemaReader) loose(problem string) {
	r.tool.Loose = true
	r.tool.addProblem("%s", problem)
}

// judge decides whether the schema leaves open which arguments there are.
func (r *schemaReader) judge(fields object) {
	_, hasType := fields["type"]
	switch {
	case len(fields["anyOf"])+len(fields["oneOf"]) > 0 && len(fields["properties"]) == 0:
		r.loose("its inputSchema is a choice of several, so parameters are shown without telling which go together")
	case !hasType && len(fields["properties"]) == 0 && len(fields["allOf"]) == 0:
		r.loose("its inputSchema does not describe the arguments")
	case len(r.tool.Params) == 0 && opensArguments(fields["additionalProperties"]):
		r.tool.Loose = true
	}
}

// opensArguments reports whether additionalProperties asks for arguments that
// have no name in the schema.
func opensArguments(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "false" && string(raw) != "null"
}

// collect adds the parameters of an object schema and of the schemas that it
// is made of. What only one of several alternatives requires is not required.
func (r *schemaReader) collect(fields object, required bool, depth int) {
	if depth > maxSchemaDepth {
		return
	}
	need := map[string]bool{}
	if required {
		for _, name := range stringsOf(fields["required"]) {
			need[name] = true
		}
	}
	for _, p := range orderedMembers(fields["properties"]) {
		r.addParam(p.key, p.raw, need[p.key])
		delete(need, p.key)
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		if len(r.tool.Params) < maxParams && !r.hasParam(name) {
			r.addParam(name, json.RawMessage("true"), true)
			r.tool.addProblem("parameter %s is required but not described", clip(name))
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		for _, raw := range listOf(fields[key]) {
			if part, err := objectOf(raw); err == nil && r.spend(len(raw)) {
				r.collect(r.deref(part), required && key == "allOf", depth+1)
			}
		}
	}
}

func (r *schemaReader) hasParam(name string) bool {
	return slices.ContainsFunc(r.tool.Params, func(p Param) bool { return p.Name == name })
}

func (r *schemaReader) addParam(name string, raw json.RawMessage, required bool) {
	if r.hasParam(name) {
		return
	}
	if len(r.tool.Params) >= maxParams {
		r.tool.addProblem("only its first %d parameters are shown", maxParams)
		return
	}
	r.param = name
	p := Param{Name: name, Type: r.typeOf(raw, 0), Required: required}
	if fields, err := objectOf(raw); err == nil {
		p.Description = textOf(fields["description"])
		p.Default = pythonLiteral(fields["default"])
	}
	r.tool.Params = append(r.tool.Params, p)
}

// spend takes a node of so many bytes from the budget, and reports whether it
// is still within it.
func (r *schemaReader) spend(bytes int) bool {
	r.budget -= bytes + 64
	return r.budget >= 0
}

// anyType is what a type is called when nothing is known about it.
const anyType = "Any"

// typeOf returns the Python spelling of a schema's type.
func (r *schemaReader) typeOf(raw json.RawMessage, depth int) string {
	if depth > maxSchemaDepth || !r.spend(len(raw)) {
		return anyType
	}
	fields, err := objectOf(raw)
	if err != nil {
		return anyType
	}
	fields = r.deref(fields)
	if values := listOf(fields["enum"]); len(values) > 0 {
		return enumType(values)
	}
	if value := fields["const"]; len(value) > 0 {
		return enumType([]json.RawMessage{value})
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if parts := listOf(fields[key]); len(parts) > 0 {
			return r.union(parts, depth)
		}
	}
	if parts := listOf(fields["allOf"]); len(parts) > 0 && len(fields["type"]) == 0 {
		return r.typeOf(parts[0], depth+1)
	}
	return r.namedType(fields, depth)
}

func (r *schemaReader) union(parts []json.RawMessage, depth int) string {
	var types []string
	for _, part := range parts {
		types = append(types, r.typeOf(part, depth+1))
	}
	return unionOf(types)
}

// unionOf joins alternatives, None last.
func unionOf(types []string) string {
	var out []string
	none := false
	for _, t := range types {
		switch {
		case t == anyType:
			return anyType
		case t == "None":
			none = true
		case !slices.Contains(out, t):
			out = append(out, t)
		}
	}
	if len(out) > maxUnion {
		return anyType
	}
	if none {
		out = append(out, "None")
	}
	if len(out) == 0 {
		return anyType
	}
	return strings.Join(out, " | ")
}

// namedType reads the type keyword: a name or a list of names.
func (r *schemaReader) namedType(fields object, depth int) string {
	if names := stringsOf(fields["type"]); len(names) > 0 {
		var types []string
		for _, name := range names {
			types = append(types, r.pythonType(name, fields, depth))
		}
		return unionOf(types)
	}
	name := textOf(fields["type"])
	switch {
	case name != "":
		return r.pythonType(name, fields, depth)
	case len(fields["properties"]) > 0:
		return "dict"
	case len(fields["items"]) > 0:
		return r.pythonType("array", fields, depth)
	}
	return anyType
}

func (r *schemaReader) pythonType(name string, fields object, depth int) string {
	switch name {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	case "object":
		return "dict"
	case "array":
		if item := r.typeOf(fields["items"], depth+1); item != anyType {
			return "list[" + item + "]"
		}
		return "list"
	}
	r.tool.addProblem("parameter %s has the unknown type %q", clip(r.param), clip(name))
	return anyType
}

// deref follows a schema's reference, as often as it leads to another one. A
// reference that cannot be followed leaves a schema that says nothing.
func (r *schemaReader) deref(fields object) object {
	for range maxSchemaDepth {
		ref := textOf(fields["$ref"])
		if ref == "" {
			return fields
		}
		path, local := strings.CutPrefix(ref, "#")
		if !local {
			r.tool.addProblem("parameter %s refers to another document, which is not fetched", clip(r.param))
			return object{}
		}
		target, ok := r.target(path)
		if !ok || !r.spend(sizeOf(target)) {
			r.tool.addProblem("parameter %s refers to %s, which is not there", clip(r.param), clip(ref))
			return object{}
		}
		fields = target
	}
	return object{} // references in a circle
}

func sizeOf(fields object) int {
	size := 0
	for _, raw := range fields {
		size += len(raw)
	}
	return size
}

// target returns the object that a JSON pointer (RFC 6901) leads to, through
// objects only. Each is decoded once.
func (r *schemaReader) target(path string) (object, bool) {
	if fields, ok := r.targets[path]; ok {
		return fields, true
	}
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 || strings.Count(path, "/") > maxPointer {
		return nil, false
	}
	parent, ok := r.target(path[:cut])
	if !ok {
		return nil, false
	}
	raw := parent[strings.NewReplacer("~1", "/", "~0", "~").Replace(path[cut+1:])]
	if !r.spend(len(raw)) {
		return nil, false
	}
	fields, err := objectOf(raw)
	if err != nil {
		return nil, false
	}
	r.targets[path] = fields
	return fields, true
}

// enumType spells a short enumeration out, and gives a long one its values'
// type.
func enumType(values []json.RawMessage) string {
	literals := make([]string, 0, len(values))
	length := 0
	for _, v := range values {
		text := pythonLiteral(v)
		if length += len(text); text == "" || length > maxLiteral {
			return valueType(values[0])
		}
		literals = append(literals, text)
	}
	return "Literal[" + strings.Join(literals, ", ") + "]"
}

func valueType(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return anyType
	case raw[0] == '"':
		return "str"
	case raw[0] == 't' || raw[0] == 'f':
		return "bool"
	case raw[0] == 'n':
		return "None"
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		if strings.ContainsAny(string(raw), ".eE") {
			return "float"
		}
		return "int"
	}
	return anyType
}

// pythonLiteral writes a short scalar the way Python does, and nothing for
// any other value.
func pythonLiteral(raw json.RawMessage) string {
	if len(raw) == 0 || len(raw) > maxLiteral {
		return ""
	}
	switch raw[0] {
	case '"':
		return strconv.Quote(textOf(raw))
	case 't':
		return "True"
	case 'f':
		return "False"
	case 'n':
		return "None"
	case '{', '[':
		return ""
	}
	return string(raw)
}

func listOf(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// stringsOf returns the strings of a JSON list, and leaves out what is none.
func stringsOf(raw json.RawMessage) []string {
	var texts []string
	for _, item := range listOf(raw) {
		if text := textOf(item); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

type property struct {
	key string
	raw json.RawMessage
}

// orderedMembers lists an object's members in the order of the text, which a
// map would lose. Of duplicates the first place and the last value count.
func orderedMembers(raw json.RawMessage) []property {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	list, _, err := scanner{raw}.members(0)
	if err != nil {
		return nil
	}
	at := make(map[string]int, len(list))
	var out []property
	for _, m := range list {
		if i, ok := at[m.key]; ok {
			out[i].raw = raw[m.at:m.end]
			continue
		}
		at[m.key] = len(out)
		out = append(out, property{m.key, raw[m.at:m.end]})
	}
	return out
}
