package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxNodes bounds the values of a document once its aliases are in place, so
// that a few lines cannot become gigabytes.
const maxNodes = 200_000

// parseYAML decodes the first document of a YAML text, with aliases and merge
// keys in place. The error is a *lineError.
func parseYAML(src []byte) (n node, err error) {
	defer recoverFrom("YAML", &n, &err)
	src = bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n")) // the parser miscounts lines otherwise
	if err := boundYAML(src); err != nil {
		return node{}, err
	}
	file, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return node{}, yamlError(err)
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return node{kind: kindNull, line: 1}, nil
	}
	y := &yamlReader{anchors: map[string]ast.Node{}}
	n = y.convert(file.Docs[0].Body, 0)
	return n, y.err
}

// yamlError says where a text is broken, without quoting it.
func yamlError(err error) error {
	line := 1
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.GetToken() != nil {
		line = max(syntax.GetToken().Position.Line, 1)
	}
	return &lineError{line, "it is not valid YAML; half of a file that is being written?"}
}

// A yamlReader turns the tree of a document into nodes.
type yamlReader struct {
	anchors map[string]ast.Node
	open    []string // aliases being expanded
	count   int
	err     error
}

func (y *yamlReader) fail(n ast.Node, msg string) node {
	if y.err == nil {
		y.err = &lineError{lineOfYAML(n), msg}
	}
	return node{kind: kindNull, line: lineOfYAML(n)}
}

func lineOfYAML(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return max(n.GetToken().Position.Line, 1)
}

func (y *yamlReader) convert(v ast.Node, depth int) node {
	if v == nil {
		return node{kind: kindNull, line: 1}
	}
	if y.count++; y.count > maxNodes {
		return y.fail(v, fmt.Sprintf("it has more than %d values once its aliases are in place", maxNodes))
	}
	if depth > maxDepth {
		return y.fail(v, fmt.Sprintf("nested more than %d deep", maxDepth))
	}
	if y.err != nil {
		return node{kind: kindNull, line: 1}
	}
	switch v := v.(type) {
	case *ast.AnchorNode:
		y.anchors[v.Name.GetToken().Value] = v.Value
		return y.convert(v.Value, depth+1)
	case *ast.AliasNode:
		return y.alias(v, depth)
	case *ast.TagNode:
		return y.tagged(v, depth)
	case *ast.MappingNode:
		return y.mapping(v, v.Values, depth)
	case *ast.MappingValueNode:
		return y.mapping(v, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		n := node{kind: kindArray, line: lineOfYAML(v)}
		for _, item := range v.Values {
			n.items = append(n.items, y.convert(item, depth+1))
		}
		return n
	}
	return scalarOf(v)
}

func scalarOf(v ast.Node) node {
	n := node{kind: kindString, line: lineOfYAML(v)}
	switch v := v.(type) {
	case *ast.NullNode:
		n.kind = kindNull
	case *ast.BoolNode:
		n.kind, n.text = kindFalse, strconv.FormatBool(v.Value)
		if v.Value {
			n.kind = kindTrue
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = kindNumber, v.GetToken().Value
	case *ast.StringNode:
		n.text = v.Value
	case *ast.LiteralNode:
		n.text = v.Value.Value
	}
	return n
}

func (y *yamlReader) alias(v *ast.AliasNode, depth int) node {
	name := v.Value.GetToken().Value
	target, ok := y.anchors[name]
	if !ok {
		return y.fail(v, "an alias has no anchor before it")
	}
	for _, open := range y.open {
		if open == name {
			return y.fail(v, "an anchor contains itself")
		}
	}
	y.open = append(y.open, name)
	n := y.convert(target, depth+1)
	y.open = y.open[:len(y.open)-1]
	n.line = lineOfYAML(v)
	return n
}

// tagged reads a value with a tag. Of the tags only !!str matters here.
func (y *yamlReader) tagged(v *ast.TagNode, depth int) node {
	n := y.convert(v.Value, depth+1)
	if v.Start.Value == "!!str" {
		if text, ok := n.scalar(); ok {
			n.kind, n.text = kindString, text
		}
	}
	return n
}

// mapping reads an object. What << brings is weaker than its own keys.
func (y *yamlReader) mapping(v ast.Node, values []*ast.MappingValueNode, depth int) node {
	n := node{kind: kindObject, line: lineOfYAML(v)}
	var merged []field
	last := map[string]int{}
	for _, pair := range values {
		val := y.convert(pair.Value, depth+1)
		if pair.Key.IsMergeKey() {
			merged = append(merged, fieldsFrom(val)...)
			continue
		}
		key, ok := y.convert(pair.Key, depth+1).scalar()
		if !ok {
			continue // an object or list as a key names nothing
		}
		f := field{key, lineOfYAML(pair.Key), val}
		if i, dup := last[key]; dup {
			n.dups = append(n.dups, n.fields[i])
			n.fields[i] = f
			continue
		}
		last[key] = len(n.fields)
		n.fields = append(n.fields, f)
	}
	for _, f := range merged {
		if _, has := last[f.key]; !has {
			last[f.key] = len(n.fields)
			n.fields = append(n.fields, f)
		}
	}
	if len(n.fields) > 0 {
		n.line = n.fields[0].line
	}
	return n
}

// fieldsFrom lists the fields of an object, or of a list of objects.
func fieldsFrom(n node) []field {
	fields := n.fields
	for _, item := range n.items {
		fields = append(fields[:len(fields):len(fields)], item.fields...)
	}
	return fields
}
