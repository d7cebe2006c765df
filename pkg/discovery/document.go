package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxEntry bounds the text of one server's definition.
	maxEntry = 256 << 10

	// maxServersPerFile bounds what one file may define.
	maxServersPerFile = 1000
)

// A document is one config file, decoded key by key as it is asked.
type document struct {
	path string
	scan scanner
	root int   // offset of the root value; past the end when there is none
	tree *node // the root of a format without offsets, such as TOML

	objects map[int][]member // by offset, so that no object is scanned twice
	lineAt  int              // offset of the last line asked for, and
	lineNo  int              // its number less one
	warned  map[string]bool  // duplicate keys reported
	report  func(Problem)
}

// parseDocument checks the outline of a JSON document: that there is one
// value, an object or null, and nothing after it.
func parseDocument(path string, text []byte, report func(Problem)) (*document, error) {
	d := &document{
		path: path, scan: scanner{text}, report: report,
		objects: map[int][]member{}, warned: map[string]bool{},
	}
	at, err := d.scan.space(0)
	if err != nil {
		return nil, err
	}
	d.root = at
	if at == len(text) {
		return d, nil
	}
	end, err := d.outline(at)
	if err != nil {
		return nil, err
	}
	if end, err = d.scan.space(end); err != nil {
		return nil, err
	}
	if end < len(text) {
		return nil, &syntaxError{end, "there is text after the end of the document; half of an older version?"}
	}
	return d, nil
}

func (d *document) outline(at int) (end int, err error) {
	if d.scan.src[at] == '{' {
		list, end, err := d.scan.members(at)
		d.objects[at] = list
		return end, err
	}
	end, err = d.scan.value(at)
	if err == nil && string(d.scan.src[at:end]) != "null" {
		err = &syntaxError{at, "the document is not an object, so it defines no servers"}
	}
	return end, err
}

// line returns the line of an offset, from 1. Offsets mostly rise, so it counts
// on from the last one.
func (d *document) line(at int) int {
	at = min(at, len(d.scan.src))
	if at < d.lineAt {
		d.lineAt, d.lineNo = 0, 0
	}
	d.lineNo += bytes.Count(d.scan.src[d.lineAt:at], []byte{'\n'})
	d.lineAt = at
	return d.lineNo + 1
}

// find returns where the value at a path of keys lies. It is not there when a
// key is missing or a value on the way is null.
func (d *document) find(path ...string) (m member, ok bool, err error) {
	m = d.whole()
	for i, key := range path {
		list, err := d.members(m, path[:i])
		if err != nil {
			return m, false, err
		}
		at := slices.IndexFunc(list, func(m member) bool { return m.key == key })
		if at < 0 {
			return m, false, nil
		}
		m = list[at]
	}
	return m, !d.isNothing(m), nil
}

// whole returns the document itself.
func (d *document) whole() member {
	return member{at: d.root, keyAt: d.root, end: len(d.scan.src), val: d.tree, line: 1}
}

// kind returns what a value starts with, one of the kinds of nodes except that
// any other scalar is its first byte.
func (d *document) kind(m member) byte {
	switch {
	case m.val != nil:
		return m.val.kind
	case m.at >= len(d.scan.src):
		return kindNull
	}
	return d.scan.src[m.at]
}

func (d *document) isNothing(m member) bool {
	if m.val != nil {
		return m.val.kind == 0 || m.val.kind == kindNull
	}
	return m.at >= len(d.scan.src) || d.isNull(m.at)
}

// keyLine returns the line of a member's key.
func (d *document) keyLine(m member) int {
	if m.val != nil {
		return m.line
	}
	return d.line(m.keyAt)
}

func (d *document) isNull(at int) bool {
	return bytes.HasPrefix(d.scan.src[at:], []byte("null"))
}

// members lists the object at an offset, the last of duplicate keys only. The
// duplicates are reported once. A null or missing object has no members.
func (d *document) members(m member, path []string) ([]member, error) {
	if d.isNothing(m) {
		return nil, nil
	}
	if d.kind(m) != kindObject {
		return nil, d.errorAt(m, joinKey(path...)+" is not an object")
	}
	if m.val != nil {
		return d.fieldsOf(*m.val, path), nil
	}
	list, ok := d.objects[m.at]
	if !ok {
		var err error
		if list, _, err = d.scan.members(m.at); err != nil {
			return nil, err
		}
		d.objects[m.at] = list
	}
	return d.lastOf(list, path), nil
}

// fieldsOf lists the fields of a decoded object.
func (d *document) fieldsOf(n node, path []string) []member {
	for _, f := range n.dups {
		d.duplicate(member{val: &f.val, line: f.line}, joinKey(append(slices.Clone(path), f.key)...))
	}
	list := make([]member, len(n.fields))
	for i := range n.fields {
		f := &n.fields[i]
		list[i] = member{key: f.key, val: &f.val, line: f.line}
	}
	return list
}

// errorAt says what is wrong with a value.
func (d *document) errorAt(m member, msg string) error {
	if m.val != nil {
		return &lineError{max(m.val.line, 1), msg}
	}
	return &syntaxError{m.at, msg}
}

func (d *document) lastOf(list []member, path []string) []member {
	last := make(map[string]int, len(list))
	for i, m := range list {
		last[m.key] = i
	}
	if len(last) == len(list) {
		return list
	}
	kept := make([]member, 0, len(last))
	for i, m := range list {
		if last[m.key] == i {
			kept = append(kept, m)
			continue
		}
		d.duplicate(m, joinKey(append(slices.Clone(path), m.key)...))
	}
	return kept
}

func (d *document) duplicate(m member, key string) {
	if d.warned[key] {
		return
	}
	d.warned[key] = true
	d.report(Problem{Path: d.path, Key: key, Line: d.keyLine(m), Msg: "the key is there more than once; the last one counts"})
}

// decode decodes the value of a member, bounded by limit bytes of text. The
// error is a *lineError.
func (d *document) decode(m member, limit int) (node, error) {
	if m.val != nil {
		return *m.val, nil
	}
	line := d.line(m.at)
	if m.end-m.at > limit {
		return node{}, &lineError{line, fmt.Sprintf("larger than %d KiB", limit>>10)}
	}
	return parseValue(d.scan.src[m.at:m.end], line)
}

// value decodes what is at a path of keys. Something broken there is reported
// and counts as missing.
func (d *document) value(path ...string) (node, bool) {
	m, ok, err := d.find(path...)
	if err != nil {
		d.broken(err, path)
		return node{}, false
	}
	if !ok {
		return node{}, false
	}
	n, err := d.decode(m, maxEntry)
	if err != nil {
		d.broken(err, path)
		return node{}, false
	}
	return n, true
}

// strings decodes a list of strings, and leaves out what is none.
func (d *document) strings(path ...string) []string {
	n, _ := d.value(path...)
	var list []string
	for _, item := range n.items {
		if item.kind == kindString {
			list = append(list, item.text)
		}
	}
	return list
}

// broken reports an error at a path of keys.
func (d *document) broken(err error, path []string) {
	d.report(Problem{Path: d.path, Key: joinKey(path...), Line: d.errorLine(err), Msg: err.Error()})
}

// recoverFrom makes a panic of a library's decoder an error: a broken file of
// one agent must not end the daemon of all. Such a decoder has no state that
// anybody else sees.
func recoverFrom(format string, n *node, err *error) {
	if recover() != nil {
		*n, *err = node{}, &lineError{0, "it is not valid " + format + ", and the decoder cannot say where"}
	}
}

func (d *document) errorLine(err error) int {
	var syntax *syntaxError
	var line *lineError
	switch {
	case errors.As(err, &syntax):
		return d.line(syntax.at)
	case errors.As(err, &line):
		return line.line
	}
	return 0
}

// joinKey writes a path of keys the way people do: mcpServers.git.
func joinKey(path ...string) string {
	return strings.Join(path, ".")
}
