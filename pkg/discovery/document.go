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
	root int // offset of the root value; past the end when there is none

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
	m = member{at: d.root, end: len(d.scan.src)}
	for i, key := range path {
		list, err := d.members(m.at, path[:i])
		if err != nil {
			return m, false, err
		}
		at := slices.IndexFunc(list, func(m member) bool { return m.key == key })
		if at < 0 {
			return m, false, nil
		}
		m = list[at]
	}
	return m, m.at < len(d.scan.src) && !d.isNull(m.at), nil
}

func (d *document) isNull(at int) bool {
	return bytes.HasPrefix(d.scan.src[at:], []byte("null"))
}

// members lists the object at an offset, the last of duplicate keys only. The
// duplicates are reported once. A null or missing object has no members.
func (d *document) members(at int, path []string) ([]member, error) {
	if at >= len(d.scan.src) || d.isNull(at) {
		return nil, nil
	}
	if d.scan.src[at] != '{' {
		return nil, &syntaxError{at, joinKey(path...) + " is not an object"}
	}
	list, ok := d.objects[at]
	if !ok {
		var err error
		if list, _, err = d.scan.members(at); err != nil {
			return nil, err
		}
		d.objects[at] = list
	}
	return d.lastOf(list, path), nil
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
	d.report(Problem{d.path, key, d.line(m.keyAt), "the key is there more than once; the last one counts"})
}

// decode decodes the value of a member, bounded by limit bytes of text. The
// error is a *lineError.
func (d *document) decode(m member, limit int) (node, error) {
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
	d.report(Problem{d.path, joinKey(path...), d.errorLine(err), err.Error()})
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
