package discovery

import (
	"encoding/json"
	"slices"
	"strings"
)

// typeOf returns a schema's type.
func (r *schemaReader) typeOf(raw json.RawMessage, depth int) *pyType {
	if len(raw) == 0 || raw[0] != '{' || !r.spend(len(raw)) {
		return pyAny // true, or nothing
	}
	fields, err := objectOf(raw)
	if err != nil {
		return pyAny
	}
	if ref := textOf(fields["$ref"]); ref != "" {
		if depth > maxSchemaDepth || slices.Contains(r.within, ref) {
			return outerType(r.deref(fields))
		}
		r.within = append(r.within, ref)
		defer func() { r.within = r.within[:len(r.within)-1] }()
		fields = r.deref(fields)
	}
	t := r.typeIn(fields, depth)
	if string(fields["nullable"]) == "true" {
		t = unionOf([]*pyType{t, pyNone})
	}
	return t
}

// outerType is the type of a schema that is not looked into.
func outerType(fields object) *pyType {
	kind := textOf(fields["type"])
	switch {
	case kind == "object" || len(fields["properties"]) > 0:
		return dictOfType(nil)
	case kind == "array":
		return listOfType(nil)
	}
	return pyAny
}

// typeIn returns the type of a schema that is no reference.
func (r *schemaReader) typeIn(fields object, depth int) *pyType {
	if depth > maxSchemaDepth {
		return outerType(fields)
	}
	if values := listOf(fields["enum"]); len(values) > 0 {
		return enumType(values)
	}
	if value := fields["const"]; len(value) > 0 {
		return enumType([]json.RawMessage{value})
	}
	own := r.ownType(fields, depth)
	for _, key := range []string{"anyOf", "oneOf"} {
		if parts := listOf(fields[key]); len(parts) > 0 {
			return r.choice(own, parts, depth)
		}
	}
	if parts := listOf(fields["allOf"]); len(parts) > 0 {
		return r.together(own, parts, depth)
	}
	return own
}

// choice is one of several types. Alternatives that only say more about the
// schema's own type, such as which keys go together, are left out.
func (r *schemaReader) choice(own *pyType, parts []json.RawMessage, depth int) *pyType {
	var types []*pyType
	for _, part := range parts[:min(len(parts), 4*maxUnion)] {
		types = append(types, r.typeOf(part, depth+1))
	}
	t := unionOf(types)
	if t.isAny() || own.kind == pyRecord && len(own.fields) > 0 {
		return own
	}
	return t
}

// together is what all of several types say: the fields of all records, or else
// the first that says anything.
func (r *schemaReader) together(own *pyType, parts []json.RawMessage, depth int) *pyType {
	all := own
	for _, part := range parts[:min(len(parts), 4*maxUnion)] {
		t := r.typeOf(part, depth+1)
		switch {
		case all.kind == pyRecord && t.kind == pyRecord:
			all = &pyType{kind: pyRecord, fields: joinFields(all.fields, t.fields), open: all.open && t.open}
		case all.isAny() || all.kind == pyDict && len(all.parts) == 0 && t.kind == pyRecord:
			all = t
		}
	}
	return all
}

func joinFields(a, b []pyField) []pyField {
	out := slices.Clone(a)
	for _, f := range b {
		if !slices.ContainsFunc(out, func(o pyField) bool { return o.name == f.name }) {
			out = append(out, f)
		}
	}
	return out
}

// ownType reads the type keyword, a name or a list of names, and where there is
// none what the other keywords imply.
func (r *schemaReader) ownType(fields object, depth int) *pyType {
	if names := stringsOf(fields["type"]); len(names) > 0 {
		types := make([]*pyType, len(names))
		for i, name := range names {
			types[i] = r.named(name, fields, depth)
		}
		return unionOf(types)
	}
	name := textOf(fields["type"])
	switch {
	case name != "":
		return r.named(name, fields, depth)
	case len(fields["properties"]) > 0 || len(fields["patternProperties"]) > 0:
		return r.named("object", fields, depth)
	case len(fields["items"]) > 0 || len(fields["prefixItems"]) > 0:
		return r.named("array", fields, depth)
	}
	return pyAny
}

func (r *schemaReader) named(name string, fields object, depth int) *pyType {
	switch name {
	case "string":
		return atom("str")
	case "integer":
		return atom("int")
	case "number":
		return atom("float")
	case "boolean":
		return atom("bool")
	case "null":
		return pyNone
	case "object":
		return r.dict(fields, depth)
	case "array":
		return r.list(fields, depth)
	}
	r.tool.addProblem("%s has the unknown type %q", r.subject(), clip(name))
	return pyAny
}

// subject names what is being read, for a message.
func (r *schemaReader) subject() string {
	if r.param == "" {
		return "its outputSchema"
	}
	return "parameter " + clip(r.param)
}

func (r *schemaReader) list(fields object, depth int) *pyType {
	tuple := listOf(fields["prefixItems"])
	if tuple == nil {
		tuple = listOf(fields["items"]) // as of 2019 and before
	}
	if len(tuple) == 0 || len(tuple) > maxUnion {
		return listOfType(r.typeOf(fields["items"], depth+1))
	}
	t := &pyType{kind: pyTuple}
	for _, item := range tuple {
		t.parts = append(t.parts, r.typeOf(item, depth+1))
	}
	return t
}

// dict is a record when the schema names keys, else a dict of what their values
// are.
func (r *schemaReader) dict(fields object, depth int) *pyType {
	if depth >= maxSchemaDepth {
		return dictOfType(nil)
	}
	list := orderedMembers(fields["properties"])
	if len(list) == 0 {
		return dictOfType(r.values(fields, depth))
	}
	required := stringsOf(fields["required"])
	t := &pyType{kind: pyRecord, open: opensArguments(fields["additionalProperties"]) || len(list) > maxFields}
	for _, p := range list[:min(len(list), maxFields)] {
		t.fields = append(t.fields, pyField{p.key, !slices.Contains(required, p.key), r.typeOf(p.raw, depth+1)})
	}
	return t
}

func (r *schemaReader) values(fields object, depth int) *pyType {
	var types []*pyType
	for _, p := range orderedMembers(fields["patternProperties"]) {
		if len(types) <= maxUnion {
			types = append(types, r.typeOf(p.raw, depth+1))
		}
	}
	if raw := fields["additionalProperties"]; opensArguments(raw) {
		types = append(types, r.typeOf(raw, depth+1))
	}
	return unionOf(types)
}

// enumType spells a short enumeration out, and of a long one the types of its
// values.
func enumType(values []json.RawMessage) *pyType {
	literals := make([]string, 0, len(values))
	length := 0
	for _, v := range values {
		text := pythonLiteral(v)
		if length += len(text); text == "" || v[0] == '{' || v[0] == '[' || length > maxLiteral {
			return valueTypes(values)
		}
		literals = append(literals, text)
	}
	return atom("Literal[" + strings.Join(literals, ", ") + "]")
}

func valueTypes(values []json.RawMessage) *pyType {
	var types []*pyType
	for _, v := range values {
		if t := valueType(v); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return unionOf(types)
}

// The types of single values.
var pyStr, pyBool, pyFloat, pyInt, pyAnyDict, pyAnyList = atom("str"), atom("bool"), atom("float"), atom("int"), dictOfType(nil), listOfType(nil)

func valueType(raw json.RawMessage) *pyType {
	switch {
	case len(raw) == 0:
		return pyAny
	case raw[0] == '"':
		return pyStr
	case raw[0] == 't' || raw[0] == 'f':
		return pyBool
	case raw[0] == 'n':
		return pyNone
	case raw[0] == '{':
		return pyAnyDict
	case raw[0] == '[':
		return pyAnyList
	case strings.ContainsAny(string(raw), ".eE"):
		return pyFloat
	}
	return pyInt
}
