package discovery

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxSchemaWork bounds the bytes that are decoded for one tool's schema,
	// whose references can make a small text stand for a large tree.
	maxSchemaWork = 4 << 20

	// maxListWork bounds the same for all tools of one server. Those that come
	// later have no types.
	maxListWork = 256 << 20

	// maxSchemaDepth bounds how deep types are spelled out. A recursive type
	// ends here.
	maxSchemaDepth = 4

	// maxParams bounds a tool's parameters.
	maxParams = 500

	maxPointer = 16 // steps of a reference
	maxLiteral = 60 // bytes of an enumeration that is spelled out
	maxFields  = 80 // fields of one record that are spelled out
)

// A schemaReader turns a tool's schemas into parameters and types. It follows
// references within the schema only: nothing is ever fetched.
type schemaReader struct {
	tool   *Tool
	param  string // being read, for messages
	budget int    // bytes of work left

	places map[string]*place // of references, by JSON pointer
	within []string          // references that are being spelled out
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
	r.places = map[string]*place{"": newPlace(raw)}
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
	spellParams(r.tool.Params)
	r.judge(fields)
}

// spellParams gives each parameter its alias.
func spellParams(params []Param) {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	aliases := Aliases(names)
	for i := range params {
		params[i].Alias = aliases[names[i]]
	}
}

// fastWrap is how a Python library marks the schema of what is no object: the
// value is under a key, and code gets it without.
const fastWrap = "x-fastmcp-wrap-result"

// readOutput reads what the tool says of its results. A schema that says no
// more than that they are objects says nothing.
func (r *schemaReader) readOutput(raw json.RawMessage) {
	fields, err := objectOf(raw)
	if err != nil {
		return
	}
	r.tool.hasOutput = true
	r.param, r.places = "", map[string]*place{"": newPlace(raw)}
	if r.tool.wrapped = string(fields[fastWrap]) == "true"; r.tool.wrapped {
		for _, p := range orderedMembers(fields["properties"]) {
			raw = p.raw // it is the only one
		}
	}
	if t := r.typeOf(raw, 0); !t.isAny() && (t.kind != pyDict || len(t.parts) > 0) {
		r.tool.output = t
	}
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
	case opensArguments(fields["additionalProperties"]):
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
	p := Param{Name: name, Type: r.typeOf(raw, 0).text(paramWidth), Required: required}
	if fields, err := objectOf(raw); err == nil {
		p.describe(fields, r.deref(fields))
	}
	if p.Value != nil {
		p.Required = false // whatever the schema says: some libraries require what has a default
	}
	r.tool.Params = append(r.tool.Params, p)
}

// spend takes a node of so many bytes from the budget, and reports whether it
// is still within it.
func (r *schemaReader) spend(bytes int) bool {
	r.budget -= bytes + 64
	return r.budget >= 0
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
			r.tool.addProblem("%s refers to another document, which is not fetched", r.subject())
			return object{}
		}
		target, ok := r.target(path)
		if !ok || !r.spend(sizeOf(target)) {
			r.tool.addProblem("%s refers to %s, which is not there", r.subject(), clip(ref))
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

// A place is a part of a schema that references may lead to or through, taken
// apart once.
type place struct {
	raw    json.RawMessage
	fields object            // nil if it is no object
	items  []json.RawMessage // nil if it is no list
}

func newPlace(raw json.RawMessage) *place {
	fields, _ := objectOf(raw) // nil if it is none
	return &place{raw, fields, listOf(raw)}
}

func (p *place) step(key string) json.RawMessage {
	if i, err := strconv.Atoi(key); err == nil && p.items != nil && i >= 0 && i < len(p.items) {
		return p.items[i]
	}
	return p.fields[key]
}

// target returns the object that the fragment of a reference leads to: a JSON
// pointer (RFC 6901). What is true, and not an object, says nothing.
func (r *schemaReader) target(fragment string) (object, bool) {
	if text, err := url.PathUnescape(fragment); err == nil {
		fragment = text
	}
	p, ok := r.place(fragment)
	if !ok || p.items != nil {
		return nil, false
	}
	if p.fields == nil {
		return object{}, string(p.raw) == "true"
	}
	return p.fields, true
}

func (r *schemaReader) place(path string) (*place, bool) {
	if p, ok := r.places[path]; ok {
		return p, true
	}
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 || strings.Count(path, "/") > maxPointer {
		return nil, false
	}
	parent, ok := r.place(path[:cut])
	if !ok {
		return nil, false
	}
	raw := parent.step(strings.NewReplacer("~1", "/", "~0", "~").Replace(path[cut+1:]))
	if len(raw) == 0 || !r.spend(len(raw)) {
		return nil, false
	}
	p := newPlace(raw)
	r.places[path] = p
	return p, true
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
		if text := string(raw); text == "[]" || text == "{}" {
			return text
		}
		return ""
	}
	return string(raw)
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
	var out []property
	at := map[string]int{}
	eachMember(raw, func(key string, value json.RawMessage) {
		if i, ok := at[key]; ok {
			out[i].raw = value
			return
		}
		at[key] = len(out)
		out = append(out, property{key, value})
	})
	return out
}
