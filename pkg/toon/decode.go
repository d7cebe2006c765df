package toon

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// defaultBytes bounds what is read and written, for those who set no bound.
const defaultBytes = 16 << 20

// DecodeOptions say how to read. The zero value is the specification's default.
type DecodeOptions struct {
	Indent   int  // spaces a level; 0 means 2
	Lenient  bool // takes what is not quite right: counts, indents, keys that come twice (the last counts)
	Expand   bool // takes keys with dots and no quotes for paths
	MaxBytes int  // of the text, and of the JSON; 0 means 16 MiB
}

// Decode reads a text and returns compact JSON. An error names the line.
func Decode(text string, o DecodeOptions) ([]byte, error) {
	limit := cmp.Or(o.MaxBytes, defaultBytes)
	d := &decoder{indent: max(o.Indent, 0), lenient: o.Lenient}
	d.indent = cmp.Or(d.indent, 2)
	switch {
	case len(text) > limit:
		return nil, fmt.Errorf("decoding TOON: the text has %d bytes and the limit is %d", len(text), limit)
	case !utf8.ValidString(text):
		return nil, errors.New("decoding TOON: the text is not UTF-8")
	}
	v, err := d.decode(text, o.Expand)
	if err != nil {
		return nil, fmt.Errorf("decoding TOON: %w", err)
	}
	data, err := marshal(v, limit)
	if err != nil {
		return nil, fmt.Errorf("decoding TOON: %w", err)
	}
	return data, nil
}

// A decoder reads lines from the first to the last.
type decoder struct {
	indent  int
	lenient bool
	lines   []line
	at      int // of the next line
	level   int // objects and arrays around it
}

func (d *decoder) decode(text string, expand bool) (value, error) {
	if err := d.scan(text); err != nil {
		return value{}, err
	}
	v, err := d.root()
	if err != nil || !expand {
		return v, err
	}
	x := expander{lenient: d.lenient}
	return x.value(v, 0)
}

func (l line) fault(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{l.number}, args...)...)
}

// root finds out what the text as a whole is.
func (d *decoder) root() (value, error) {
	if len(d.lines) == 0 {
		return value{kind: object}, nil
	}
	first := d.lines[0]
	if first.depth > 0 && !d.lenient {
		return value{}, first.fault("the first line is indented")
	}
	h, ok, err := d.header(first)
	if err != nil {
		return value{}, err
	}
	if ok && !h.keyed {
		d.at++
		v, err := d.array(h, first, first.depth)
		if err == nil && d.at < len(d.lines) && !d.lenient {
			err = d.lines[d.at].fault("it follows the array that is the whole text")
		}
		return v, err
	}
	if len(d.lines) == 1 {
		if trim(first.text) == "[]" {
			return value{kind: array}, nil
		}
		if !ok && find(first.text, ":", 0) < 0 {
			v, err := decodeToken(first.text)
			return v, first.wrap(err)
		}
	}
	return d.object(first.depth)
}

// header reads a line that may be one. A lenient decoder takes what is nearly
// one for something else.
func (d *decoder) header(l line) (header, bool, error) {
	h, ok, err := parseHeader(l.text)
	if err != nil && d.lenient {
		return header{}, false, nil
	}
	return h, ok, l.wrap(err)
}

// wrap says in which line an error is.
func (l line) wrap(err error) error {
	if err == nil {
		return nil
	}
	return l.fault("%w", err)
}

// enter counts a level, and the function that it returns takes it back.
func (d *decoder) enter(l line) (leave func(), err error) {
	if d.level == MaxDepth {
		return nil, l.wrap(errDeep)
	}
	d.level++
	return func() { d.level-- }, nil
}

// deeper reports whether the next line is deeper than depth.
func (d *decoder) deeper(depth int) bool {
	return d.at < len(d.lines) && d.lines[d.at].depth > depth
}

// object reads the members at a depth, of which there is one at least.
func (d *decoder) object(depth int) (value, error) {
	leave, err := d.enter(d.lines[d.at])
	if err != nil {
		return value{}, err
	}
	defer leave()
	v := value{kind: object}
	for d.at < len(d.lines) && d.lines[d.at].depth >= depth {
		l := d.lines[d.at]
		if l.depth > depth && !d.lenient {
			return value{}, l.fault("it is indented and nothing above it can hold it")
		}
		m, err := d.field(depth)
		if err != nil {
			return value{}, err
		}
		if err := d.put(&v.record, m); err != nil {
			return value{}, l.wrap(err)
		}
	}
	return v, nil
}

// put adds a member. A key that is there already is an error, or the last one
// counts.
func (d *decoder) put(r *record, m member) error {
	i := r.find(m.key)
	switch {
	case i < 0:
		r.add(m)
	case d.lenient:
		r.members[i] = m
	default:
		return fmt.Errorf("the key %.40q comes twice", m.key)
	}
	return nil
}

// field reads the member that begins in the next line.
func (d *decoder) field(depth int) (member, error) {
	l := d.lines[d.at]
	d.at++
	h, ok, err := d.header(l)
	if err != nil {
		return member{}, err
	}
	if ok {
		m := member{key: h.key, quoted: h.quoted}
		m.value, err = d.array(h, l, depth)
		return m, err
	}
	m, rest, err := parseField(l.text)
	if err != nil {
		return member{}, l.wrap(err)
	}
	switch rest = trim(rest); {
	case rest == "[]":
		m.value = value{kind: array}
	case rest != "":
		m.value, err = decodeToken(rest)
		err = l.wrap(err)
	case d.deeper(depth):
		m.value, err = d.object(d.lines[d.at].depth)
	default:
		m.value = value{kind: object}
	}
	return m, err
}

// array reads what follows a header, whose line is l. What is in it is deeper
// than depth.
func (d *decoder) array(h header, l line, depth int) (value, error) {
	leave, err := d.enter(l)
	if err != nil {
		return value{}, err
	}
	defer leave()
	v := value{kind: array}
	switch first := d.at; {
	case trim(h.rest) != "" && h.columns != nil && !d.lenient:
		return value{}, l.fault("a table's rows stand on lines of their own")
	case trim(h.rest) != "":
		v.items, err = inlineItems(h)
		err = l.wrap(err)
	case !d.deeper(depth):
	case h.columns != nil:
		v.items, err = d.rows(h, d.lines[first].depth)
		err = firstOf(err, d.gap(first))
	default:
		v.items, err = d.items(d.lines[first].depth)
		err = firstOf(err, d.gap(first))
	}
	if err == nil && uint64(len(v.items)) != h.count && !d.lenient {
		err = l.fault("the array has %d items and is said to have %d", len(v.items), h.count)
	}
	return v, err
}

// firstOf returns the first error there is.
func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// gap returns an error if there are blank lines between the line at first and
// the last that was read.
func (d *decoder) gap(first int) error {
	if d.lenient || d.at == first || d.lines[d.at-1].blanks == d.lines[first].blanks {
		return nil
	}
	return d.lines[d.at-1].fault("there is a blank line in the array above it")
}

func inlineItems(h header) ([]value, error) {
	var items []value
	for _, token := range splitTokens(strings.TrimLeft(h.rest, " "), h.delimiter) {
		v, err := decodeToken(token)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, nil
}

// rows reads the lines of a table, which ends with them or before a line that
// has a key.
func (d *decoder) rows(h header, depth int) ([]value, error) {
	var rows []value
	for d.at < len(d.lines) && d.lines[d.at].depth == depth {
		l := d.lines[d.at]
		if at := find(l.text, string(rune(h.delimiter))+":", 0); at >= 0 && l.text[at] == ':' {
			break
		}
		d.at++
		v, err := d.row(h, l)
		if err != nil {
			return nil, l.wrap(err)
		}
		rows = append(rows, v)
	}
	return rows, nil
}

func (d *decoder) row(h header, l line) (value, error) {
	tokens := splitTokens(l.text, h.delimiter)
	if len(tokens) != len(h.columns) && !d.lenient {
		return value{}, fmt.Errorf("the row has %d values and the table %d columns", len(tokens), len(h.columns))
	}
	v := value{kind: object}
	for i, column := range h.columns[:min(len(tokens), len(h.columns))] {
		cell, err := decodeToken(tokens[i])
		if err != nil {
			return value{}, err
		}
		column.value = cell
		if err := d.put(&v.record, column); err != nil {
			return value{}, err
		}
	}
	return v, nil
}

// items reads the lines of a list that begin with a hyphen, and what is in each.
func (d *decoder) items(depth int) ([]value, error) {
	var items []value
	for d.at < len(d.lines) && d.lines[d.at].depth == depth {
		text := d.lines[d.at].text
		if trim(text) != "-" && !strings.HasPrefix(text, "- ") {
			break
		}
		v, err := d.item(depth)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, nil
}

// item reads one. What stands after its hyphen counts as a line of its own, one
// level deeper, when it is the first member of an object.
func (d *decoder) item(depth int) (value, error) {
	l := d.lines[d.at]
	l.text = strings.TrimLeft(l.text[1:], " ")
	if trim(l.text) == "" {
		d.at++
		if d.deeper(depth) {
			return d.object(d.lines[d.at].depth)
		}
		return value{kind: object}, nil
	}
	h, ok, err := d.header(l)
	switch {
	case err != nil:
		return value{}, err
	case ok && !h.keyed:
		d.at++
		return d.array(h, l, depth)
	case ok || find(l.text, ":", 0) >= 0:
		l.depth = depth + 1
		d.lines[d.at] = l
		return d.object(l.depth)
	}
	d.at++
	v, err := decodeToken(l.text)
	return v, l.wrap(err)
}
