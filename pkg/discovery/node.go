package discovery

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// Kinds of a [node], as in hujson.
const (
	kindObject = '{'
	kindArray  = '['
	kindString = '"'
	kindNumber = '0'
	kindTrue   = 't'
	kindFalse  = 'f'
	kindNull   = 'n'
)

// A node is a decoded value of any config format, with its line. Numbers keep
// their text, so 1.50 and 64-bit ids survive.
type node struct {
	kind   byte
	line   int
	text   string  // of a string, unquoted, or of any other scalar
	items  []node  // of an array
	fields []field // of an object, in order, the last of duplicates only
	dups   []field // of an object: duplicates that lost
}

type field struct {
	key  string
	line int
	val  node
}

// get returns the object's field of that name.
func (n node) get(key string) (node, bool) {
	for _, f := range n.fields {
		if f.key == key {
			return f.val, true
		}
	}
	return node{}, false
}

// first returns the first of the named fields that is there and not null.
func (n node) first(keys ...string) (node, string, bool) {
	for _, key := range keys {
		if v, ok := n.get(key); ok && v.kind != kindNull {
			return v, key, true
		}
	}
	return node{}, "", false
}

// scalar returns the text of a string, number or boolean.
func (n node) scalar() (string, bool) {
	switch n.kind {
	case kindString, kindNumber, kindTrue, kindFalse:
		return n.text, true
	}
	return "", false
}

// what names the kind for messages.
func (n node) what() string {
	switch n.kind {
	case kindObject:
		return "an object"
	case kindArray:
		return "a list"
	case kindString:
		return "a string"
	case kindNumber:
		return "a number"
	case kindNull:
		return "null"
	}
	return "a boolean"
}

// truth reads a switch that may be written true, "true" or 1. Anything else is
// neither true nor false.
func (n node) truth() (value, ok bool) {
	text, ok := n.scalar()
	if !ok {
		return false, false
	}
	value, err := strconv.ParseBool(strings.TrimSpace(strings.ToLower(text)))
	return value, err == nil
}

// hujsonPlace matches what hujson puts before a message. Its line counts from
// the start of the value, so it has to be moved to the file's.
var hujsonPlace = regexp.MustCompile(`^hujson: line (\d+), column \d+: `)

// parseValue decodes one value of JSON with comments and trailing commas,
// which starts on the given line of its file. The scanner has bounded its
// depth. The error is a *lineError.
func parseValue(src []byte, line int) (node, error) {
	v, err := hujson.Parse(src)
	if err != nil {
		return node{}, newLineError(err.Error(), line)
	}
	return (&converter{src: src, line: line}).convert(v), nil
}

// A lineError says what is wrong on a line.
type lineError struct {
	line int
	msg  string
}

func (e *lineError) Error() string { return e.msg }

func newLineError(msg string, line int) *lineError {
	if m := hujsonPlace.FindStringSubmatch(msg); m != nil {
		msg = msg[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line += n - 1
		}
	}
	// The rest would be the literal itself, which may be a secret.
	if strings.HasPrefix(msg, "invalid literal") || strings.Contains(msg, ": invalid literal") {
		msg = "invalid literal"
	}
	return &lineError{line, msg}
}

// A converter turns hujson's tree into nodes. Values come in the order of the
// text, so counting lines is one pass.
type converter struct {
	src  []byte
	at   int
	line int
}

func (c *converter) lineAt(at int) int {
	for ; c.at < at; c.at++ {
		if c.src[c.at] == '\n' {
			c.line++
		}
	}
	return c.line
}

func (c *converter) convert(v hujson.Value) node {
	n := node{kind: byte(v.Value.Kind()), line: c.lineAt(v.StartOffset)}
	switch v := v.Value.(type) {
	case hujson.Literal:
		n.text = v.String()
	case *hujson.Array:
		for _, item := range v.Elements {
			n.items = append(n.items, c.convert(item))
		}
	case *hujson.Object:
		c.object(&n, v)
	}
	return n
}

func (c *converter) object(n *node, v *hujson.Object) {
	last := make(map[string]int, len(v.Members))
	for i, m := range v.Members {
		last[keyOf(m)] = i
	}
	for i, m := range v.Members {
		f := field{key: keyOf(m), line: c.lineAt(m.Name.StartOffset)}
		f.val = c.convert(m.Value)
		if last[f.key] == i {
			n.fields = append(n.fields, f)
			continue
		}
		n.dups = append(n.dups, f)
	}
}

func keyOf(m hujson.ObjectMember) string {
	name, _ := m.Name.Value.(hujson.Literal) // the parser lets nothing else be a name
	return name.String()
}
