package discovery

import (
	"slices"
	"strconv"
	"strings"
)

const (
	// maxUnion bounds the alternatives of one type that are spelled out.
	maxUnion = 4

	// paramWidth, returnWidth and docWidth bound the text of a type, in bytes:
	// of a parameter, of a result in a signature, and of a result in docs.
	paramWidth  = 160
	returnWidth = 160
	docWidth    = 600
)

// anyType is what a type is called when nothing is known about it.
const anyType = "Any"

// A pyType is the type of a JSON value, as a person who writes Python thinks of
// it. Nobody changes one that is part of another.
type pyType struct {
	kind   pyKind
	name   string    // of an atom, such as str or Literal["a"]
	parts  []*pyType // of a union or a tuple; of a list or dict the one inside
	fields []pyField // of a record
	open   bool      // a record may have other fields
}

type pyKind uint8

const (
	pyAtom   pyKind = iota
	pyList          // list[part], or list when there is no part
	pyDict          // dict[str, part], or dict when there is no part
	pyTuple         // tuple[parts]
	pyRecord        // {field: type, field?: type}: a dict with these keys
	pyUnion         // part | part
)

// A pyField is one key of a record. An optional one may be absent.
type pyField struct {
	name     string
	optional bool
	of       *pyType
}

func atom(name string) *pyType { return &pyType{name: name} }

var pyAny, pyNone = atom(anyType), atom("None")

func (t *pyType) isAny() bool { return t.kind == pyAtom && t.name == anyType }

func listOfType(item *pyType) *pyType { return &pyType{kind: pyList, parts: known(item)} }

func dictOfType(value *pyType) *pyType { return &pyType{kind: pyDict, parts: known(value)} }

// known leaves out a type that says nothing.
func known(t *pyType) []*pyType {
	if t == nil || t.isAny() {
		return nil
	}
	return []*pyType{t}
}

// unionOf joins alternatives, None last. Those that read the same are one, and
// one that may be anything makes all of it that.
func unionOf(types []*pyType) *pyType {
	var out []*pyType
	var seen []string
	none := false
	for _, t := range flatten(types) {
		text := t.text(docWidth)
		switch {
		case t.isAny():
			return pyAny
		case text == "None":
			none = true
		case !slices.Contains(seen, text):
			out, seen = append(out, t), append(seen, text)
		}
	}
	if len(out) > maxUnion {
		if out = summary(out); out[0].isAny() {
			return pyAny
		}
	}
	if none {
		out = append(out, pyNone)
	}
	switch len(out) {
	case 0:
		return pyAny
	case 1:
		return out[0]
	}
	return &pyType{kind: pyUnion, parts: out}
}

// flatten makes alternatives of alternatives.
func flatten(types []*pyType) []*pyType {
	var out []*pyType
	for _, t := range types {
		if t.kind == pyUnion {
			out = append(out, t.parts...)
			continue
		}
		out = append(out, t)
	}
	return out
}

// summary says of many alternatives only which kinds of value they are.
func summary(types []*pyType) []*pyType {
	var names []string
	for _, t := range types {
		if name := t.outer(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > maxUnion || slices.Contains(names, anyType) {
		return []*pyType{pyAny}
	}
	out := make([]*pyType, len(names))
	for i, name := range names {
		out[i] = atom(name)
	}
	return out
}

// outer names the kind of value without what is inside.
func (t *pyType) outer() string {
	switch t.kind {
	case pyList, pyTuple:
		return "list"
	case pyDict, pyRecord:
		return "dict"
	case pyUnion:
		return anyType
	}
	if strings.HasPrefix(t.name, "Literal[") {
		return anyType
	}
	return t.name
}

// A detail is how much of a type is spelled out: levels of nesting, and fields
// of each record.
type detail struct{ depth, fields int }

// details are tried in this order until the text is short enough.
var details = []detail{{8, 80}, {6, 40}, {5, 24}, {4, 16}, {3, 16}, {3, 10}, {3, 6}, {2, 10}, {2, 6}, {2, 4}, {1, 6}, {1, 3}, {0, 0}}

// text writes the type in about limit bytes at most: what does not fit is left
// out from the inside, with ... for fields.
func (t *pyType) text(limit int) string {
	var b strings.Builder
	for _, d := range details {
		b.Reset()
		if t.write(&b, d, limit); b.Len() <= limit {
			break
		}
	}
	return b.String()
}

// write stops early once b is over the limit, since the text is of no use then.
func (t *pyType) write(b *strings.Builder, d detail, limit int) {
	if b.Len() > limit {
		return
	}
	switch t.kind {
	case pyAtom:
		b.WriteString(t.name)
	case pyUnion:
		for i, part := range t.parts {
			if i > 0 {
				b.WriteString(" | ")
			}
			part.write(b, d, limit)
		}
	case pyList:
		t.writeInner(b, "list", d, limit)
	case pyDict:
		t.writeInner(b, "dict", d, limit)
	case pyTuple:
		t.writeInner(b, "tuple", d, limit)
	case pyRecord:
		t.writeRecord(b, d, limit)
	}
}

// writeInner writes a container and what is in it.
func (t *pyType) writeInner(b *strings.Builder, name string, d detail, limit int) {
	if name == "tuple" && d.depth == 0 {
		name = "list"
	}
	b.WriteString(name)
	if len(t.parts) == 0 || d.depth == 0 {
		return
	}
	d.depth--
	b.WriteByte('[')
	if t.kind == pyDict {
		b.WriteString("str, ")
	}
	for i, part := range t.parts {
		if i > 0 {
			b.WriteString(", ")
		}
		part.write(b, d, limit)
	}
	b.WriteByte(']')
}

func (t *pyType) writeRecord(b *strings.Builder, d detail, limit int) {
	if d.depth == 0 || d.fields == 0 {
		b.WriteString("dict")
		return
	}
	d.depth--
	b.WriteByte('{')
	for i, f := range t.fields {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == d.fields {
			break
		}
		b.WriteString(fieldName(f.name))
		if f.optional {
			b.WriteByte('?')
		}
		b.WriteString(": ")
		f.of.write(b, d, limit)
	}
	switch {
	case len(t.fields) > d.fields:
		b.WriteString("...")
	case t.open && len(t.fields) > 0:
		b.WriteString(", ...")
	case t.open:
		b.WriteString("...")
	}
	b.WriteByte('}')
}

// fieldName writes a key as it is when it reads like a name, and quoted when it
// does not.
func fieldName(name string) string {
	if name == "" {
		return `""`
	}
	for _, r := range name {
		if !isIdentifierRune(r) {
			return strconv.Quote(clip(name))
		}
	}
	return name
}
