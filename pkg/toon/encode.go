package toon

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// FoldAll folds paths of any length, see [EncodeOptions].
const FoldAll = int(^uint(0) >> 1)

// EncodeOptions say how to write. The zero value is the specification's default.
type EncodeOptions struct {
	Indent    int  // spaces a level; 0 means 2
	Delimiter byte // of values in arrays and tables: ',', '\t' or '|'; 0 means ','

	// Fold is how many keys of objects that have but one may be joined by dots to
	// one key; below 2 none are.
	Fold int

	MaxBytes int // of the text, which deep lists make larger than the JSON; 0 means 16 MiB
}

// Encode writes a JSON value. The text has no newline at its end. An error says
// what there is in the JSON that TOON cannot hold.
func Encode(data []byte, o EncodeOptions) (string, error) {
	e := encoder{indent: o.Indent, delimiter: o.Delimiter, most: o.Fold, limit: cmp.Or(o.MaxBytes, defaultBytes)}
	if e.indent <= 0 {
		e.indent = 2
	}
	switch e.delimiter {
	case 0:
		e.delimiter = ','
	case ',', '|':
		e.mark = strings.TrimPrefix(string(rune(e.delimiter)), ",")
	case '\t':
		e.mark = "\t"
	default:
		return "", fmt.Errorf("encoding TOON: %q is no delimiter", e.delimiter)
	}
	v, err := parseJSON(data)
	if err != nil {
		return "", fmt.Errorf("encoding TOON: %w", err)
	}
	e.root(v)
	if e.out.Len() > e.limit+1 {
		return "", fmt.Errorf("encoding TOON: the text is larger than %d bytes", e.limit)
	}
	return strings.TrimSuffix(e.out.String(), "\n"), nil
}

// An encoder writes lines.
type encoder struct {
	out       strings.Builder
	indent    int
	delimiter byte
	mark      string // of the delimiter in a header
	most      int    // segments of a folded key
	limit     int    // bytes; past it no more is written
}

// start returns what a line at a depth begins with.
func (e *encoder) start(depth int) string { return strings.Repeat(" ", e.indent*depth) }

func (e *encoder) line(parts ...string) {
	if e.out.Len() > e.limit+1 {
		return
	}
	for _, p := range parts {
		e.out.WriteString(p)
	}
	e.out.WriteByte('\n')
}

func (e *encoder) root(v value) {
	switch v.kind {
	case object:
		e.members(v.record.members, 0, newScope(&v.record))
	case array:
		if len(v.items) == 0 {
			e.line("[]")
			return
		}
		e.array("", v.items, 0, true)
	default:
		e.line(e.primitive(v))
	}
}

// members writes those of an object, one after the other.
func (e *encoder) members(list []member, depth int, s scope) {
	for _, m := range list {
		e.field(e.start(depth), m, depth, s)
	}
}

// field writes a member whose line begins with start. What is in it is written
// from depth+1 on.
func (e *encoder) field(start string, m member, depth int, s scope) {
	m, s = e.fold(m, s)
	key := start + encodeKey(m.key)
	switch v := m.value; {
	case v.primitive():
		e.line(key, ": ", e.primitive(v))
	case v.kind == object:
		e.line(key, ":")
		e.members(v.record.members, depth+1, s.inside(m))
	case len(v.items) == 0:
		e.line(key, ": []")
	default:
		e.array(key, v.items, depth, true)
	}
}

// array writes a header after start, and the items beside or below it. Tables
// have no form inside of a list.
func (e *encoder) array(start string, items []value, depth int, tables bool) {
	head := start + "[" + strconv.Itoa(len(items)) + e.mark + "]"
	if inline(items) {
		if len(items) == 0 {
			e.line(head, ":")
			return
		}
		e.line(head, ": ", e.joined(items))
		return
	}
	if tables && table(items) {
		e.table(head, items, depth+1)
		return
	}
	e.line(head, ":")
	for _, item := range items {
		e.item(item, depth+1)
	}
}

func inline(items []value) bool {
	for _, v := range items {
		if !v.primitive() {
			return false
		}
	}
	return true
}

func (e *encoder) joined(items []value) string {
	var b strings.Builder
	for i, v := range items {
		if i > 0 {
			b.WriteByte(e.delimiter)
		}
		b.WriteString(e.primitive(v))
	}
	return b.String()
}

func (e *encoder) primitive(v value) string {
	if v.kind == text {
		return encodeString(v.text, e.delimiter)
	}
	return v.text
}

// table reports whether items are objects with the same keys and nothing but
// primitive values.
func table(items []value) bool {
	first := &items[0].record
	for _, item := range items {
		members := item.record.members
		if item.kind != object || len(members) == 0 || len(members) != len(first.members) {
			return false
		}
		for _, m := range members {
			if !m.value.primitive() || first.find(m.key) < 0 {
				return false
			}
		}
	}
	return true
}

func (e *encoder) table(head string, items []value, depth int) {
	first := &items[0].record
	columns := first.members
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = encodeKey(c.key)
	}
	e.line(head, "{", strings.Join(names, string(rune(e.delimiter))), "}:")
	row := make([]value, len(columns))
	for _, item := range items {
		for i, m := range item.record.members {
			if columns[i].key != m.key {
				i = first.find(m.key)
			}
			row[i] = m.value
		}
		e.line(e.start(depth), e.joined(row))
	}
}

// item writes an item of a list.
func (e *encoder) item(v value, depth int) {
	start := e.start(depth) + "- "
	switch {
	case v.primitive():
		e.line(start, e.primitive(v))
	case v.kind == array:
		e.array(start, v.items, depth, false)
	case len(v.record.members) == 0:
		e.line(e.start(depth), "-")
	default:
		s := newScope(&v.record)
		e.field(start, v.record.members[0], depth+1, s)
		e.members(v.record.members[1:], depth+1, s)
	}
}
