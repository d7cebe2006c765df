package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/pelletier/go-toml/v2"
	tomltext "github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML decodes a TOML document. Dates and times become text. The error is a
// *lineError.
func parseTOML(src []byte) (n node, err error) {
	defer recoverFrom("TOML", &n, &err)
	if err := boundTOML(src); err != nil {
		return node{}, err
	}
	if err := checkTOML(src); err != nil {
		return node{}, err
	}
	t := &tomlReader{src: src, root: node{kind: kindObject, line: 1}}
	t.parser.Reset(src)
	at := &t.root
	for t.parser.NextExpression() {
		e := t.parser.Expression()
		switch e.Kind {
		case tomltext.Table, tomltext.ArrayTable:
			if at, err = t.table(e); err != nil {
				return node{}, err
			}
		case tomltext.KeyValue:
			if err := t.assign(at, e, 0); err != nil {
				return node{}, err
			}
		}
	}
	if err := t.parser.Error(); err != nil {
		return node{}, &lineError{t.line, "it is not valid TOML"}
	}
	return t.root, nil
}

// checkTOML finds what the parser of single expressions does not: keys that
// are there twice, tables that are values. It quotes nothing of the file.
func checkTOML(src []byte) error {
	var ignored map[string]any
	err := toml.Unmarshal(src, &ignored)
	if err == nil {
		return nil
	}
	line := 1
	if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ = decode.Position()
	}
	return &lineError{max(line, 1), "it is not valid TOML; half of a file that is being written?"}
}

// nestingOf bounds brackets within brackets before a recursive decoder meets
// them. Those in strings count too, since no config has so many.
func nestingOf(src []byte) error {
	depth := 0
	for i, c := range src {
		switch c {
		case '[', '{':
			if depth++; depth > maxDepth {
				return &lineError{1 + bytes.Count(src[:i], []byte{'\n'}), fmt.Sprintf("nested more than %d deep", maxDepth)}
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return nil
}

// A tomlReader puts the expressions of a document together.
type tomlReader struct {
	src    []byte
	root   node
	parser tomltext.Parser
	at     int // offset of the last line asked for
	line   int // and its number less one
}

// lineOf returns the line of a part of the text. Expressions come in order.
func (t *tomlReader) lineOf(n *tomltext.Node) int {
	at := int(n.Raw.Offset)
	if n.Raw.Length == 0 && len(n.Data) > 0 {
		at = t.at // an allocated value; the key was just before
	}
	if at < t.at {
		t.at, t.line = 0, 0
	}
	at = min(at, len(t.src))
	t.line += bytes.Count(t.src[t.at:at], []byte{'\n'})
	t.at = at
	return t.line + 1
}

// table returns the table that a header opens.
func (t *tomlReader) table(e *tomltext.Node) (*node, error) {
	var path []string
	line := 0
	for keys := e.Key(); keys.Next(); {
		path = append(path, string(keys.Node().Data))
		line = t.lineOf(keys.Node())
	}
	if len(path) > maxDepth {
		return nil, &lineError{line, fmt.Sprintf("nested more than %d deep", maxDepth)}
	}
	last := len(path) - 1
	at, err := t.descend(&t.root, path[:last], line)
	if err != nil {
		return nil, err
	}
	if e.Kind == tomltext.Table {
		return t.descend(at, path[last:], line)
	}
	list := at.child(path[last], line, kindArray)
	if list.kind != kindArray {
		return nil, &lineError{line, path[last] + " is not a list"}
	}
	list.items = append(list.items, node{kind: kindObject, line: line})
	return &list.items[len(list.items)-1], nil
}

// descend goes down tables, and into the last table of a list.
func (t *tomlReader) descend(at *node, path []string, line int) (*node, error) {
	for _, key := range path {
		at = at.child(key, line, kindObject)
		if at.kind == kindArray && len(at.items) > 0 {
			at = &at.items[len(at.items)-1]
		}
		if at.kind != kindObject {
			return nil, &lineError{line, key + " is not a table"}
		}
	}
	return at, nil
}

// child returns the field of that name, which is made where there is none.
func (n *node) child(key string, line int, kind byte) *node {
	i := slices.IndexFunc(n.fields, func(f field) bool { return f.key == key })
	if i < 0 {
		i = len(n.fields)
		n.fields = append(n.fields, field{key, line, node{kind: kind, line: line}})
	}
	return &n.fields[i].val
}

// assign puts the value of key = value into a table.
func (t *tomlReader) assign(at *node, e *tomltext.Node, depth int) error {
	var path []string
	line := 0
	for keys := e.Key(); keys.Next(); {
		path = append(path, string(keys.Node().Data))
		line = t.lineOf(keys.Node())
	}
	if len(path)+depth > maxDepth {
		return &lineError{line, fmt.Sprintf("nested more than %d deep", maxDepth)}
	}
	last := len(path) - 1
	at, err := t.descend(at, path[:last], line)
	if err != nil {
		return err
	}
	val, err := t.value(e.Value(), line, depth+len(path))
	if err != nil {
		return err
	}
	*at.child(path[last], line, val.kind) = val
	return nil
}

func (t *tomlReader) value(v *tomltext.Node, line, depth int) (node, error) {
	n := node{kind: kindString, line: line, text: string(v.Data)}
	switch v.Kind {
	case tomltext.Bool:
		n.kind = kindFalse
		if n.text == "true" {
			n.kind = kindTrue
		}
	case tomltext.Integer, tomltext.Float:
		n.kind = kindNumber
	case tomltext.Array:
		n = node{kind: kindArray, line: line}
		for items := v.Children(); items.Next(); {
			item, err := t.value(items.Node(), line, depth+1)
			if err != nil {
				return node{}, err
			}
			n.items = append(n.items, item)
		}
	case tomltext.InlineTable:
		n = node{kind: kindObject, line: line}
		for pairs := v.Children(); pairs.Next(); {
			if err := t.assign(&n, pairs.Node(), depth+1); err != nil {
				return node{}, err
			}
		}
	}
	return n, nil
}
