package discovery

import (
	"encoding/json"
	"errors"
	"unicode"
)

const (
	// maxInspected bounds the JSON of one result that is looked at, in bytes.
	// Of what is cut off nothing is concluded.
	maxInspected = 1 << 20

	// Of a list the first denseItems are looked at and then every sparseItem-th.
	denseItems = 32
	sparseItem = 64

	// maxFieldName bounds a key that reads like the name of a field, in bytes.
	maxFieldName = 40
)

// Infer returns the shape of one JSON value, and nil when that is no JSON. It
// looks at a bounded part of a large one.
func Infer(value json.RawMessage) *Shape { return infer(value, false) }

// infer is [Infer] of a value that may be cut already.
func infer(value json.RawMessage, cut bool) *Shape {
	j := &jsonText{src: value[:min(len(value), maxInspected)]}
	s, err := j.shape(0)
	if err != nil && (!errors.Is(err, errJSONEnd) || !cut && len(value) <= maxInspected) {
		return nil
	}
	return s
}

// shape reads one value. When the text ends too early, it returns what is known
// by then.
func (j *jsonText) shape(depth int) (*Shape, error) {
	switch c := j.peek(); c {
	case '{', '[':
		if depth >= maxShapeDepth {
			return deepShape(c), j.skip()
		}
		if c == '{' {
			return j.dictShape(depth)
		}
		return j.listShape(depth)
	case '"':
		_, err := j.quoted()
		return scalarShapes[isText], err
	}
	word := j.bare()
	kind := kindOf(word)
	if kind == 0 || j.at == len(j.src) && depth > 0 {
		return nil, orEnd(j.end(), errJSON)
	}
	return scalarShapes[kind], nil
}

func orEnd(end, other error) error {
	if end != nil {
		return end
	}
	return other
}

// deepShape is all that is known of what is too deep.
func deepShape(bracket byte) *Shape {
	if bracket == '[' {
		return &Shape{kinds: isList, cost: 1}
	}
	return &Shape{kinds: isDict, whole: true, cost: 1}
}

func kindOf(word []byte) shapeKind {
	v, err := scalar(word)
	if err != nil {
		return 0
	}
	switch v := v.(type) {
	case nil:
		return isNull
	case bool:
		return isBool
	case json.Number:
		for _, c := range []byte(v) {
			if c == '.' || c == 'e' || c == 'E' {
				return isFloat
			}
		}
	}
	return isInt
}

func (j *jsonText) listShape(depth int) (*Shape, error) {
	s := &Shape{kinds: isList}
	j.at++
	for i := 0; ; i++ {
		more, err := j.more(']', i == 0)
		if !more || err != nil {
			s.settle(depth)
			return s, err
		}
		if i >= denseItems && i%sparseItem != 0 {
			err = j.skip()
		} else {
			var item *Shape
			item, err = j.shape(depth + 1)
			s.item = s.item.merge(item, depth+1)
		}
		if err != nil {
			s.settle(depth)
			return s, err
		}
	}
}

func (j *jsonText) dictShape(depth int) (*Shape, error) {
	s := &Shape{kinds: isDict, fields: map[string]shapeField{}}
	j.at++
	for i := 0; ; i++ {
		more, err := j.more('}', i == 0)
		if !more && err == nil {
			s.whole = true
			s.sortKeys(depth)
			return s, nil
		}
		if err == nil {
			err = j.fieldShape(s, i, depth+1)
		}
		if err != nil {
			s.sortKeys(depth)
			return s, err
		}
	}
}

// fieldShape reads a key and its value. When the value is cut off, what is known
// of it counts.
func (j *jsonText) fieldShape(s *Shape, place, depth int) error {
	quoted, err := j.quoted()
	if err != nil {
		return err
	}
	key, err := unquoteJSON(quoted)
	if err != nil {
		return err
	}
	if err := j.take(':'); err != nil {
		return err
	}
	value, err := j.shape(depth)
	switch f, twice := s.fields[key]; {
	case value == nil:
	case !isFieldName(key):
		s.values = s.values.merge(value, depth)
	case twice:
		s.fields[key] = shapeField{of: f.of.merge(value, depth), place: f.place}
	case len(s.fields) <= maxShapeFields: // one more than the limit makes it wide
		s.fields[key] = shapeField{of: value, place: place}
	default:
		s.values = s.values.merge(value, depth)
	}
	return err
}

// sortKeys decides which keys of one dict are data, and applies the bounds.
func (s *Shape) sortKeys(depth int) {
	if s.uniform() {
		for _, f := range s.fields {
			s.values = s.values.merge(f.of, depth+1)
		}
		s.fields = nil
	}
	s.settle(depth)
}

// uniform reports whether the keys must be data, since all lead to the same:
// to records with the same keys, or to the same kind of scalar very often.
func (s *Shape) uniform() bool {
	const records, scalars = 3, 24
	if len(s.fields) < records {
		return false
	}
	var first *Shape
	for _, f := range s.fields {
		if first == nil {
			first = f.of
		}
		if f.of.kinds != first.kinds || !sameKeys(f.of, first) {
			return false
		}
	}
	return first.kinds == isDict && len(first.fields) > 0 || first.kinds&(isList|isDict) == 0 && len(s.fields) >= scalars
}

func sameKeys(a, b *Shape) bool {
	if len(a.fields) != len(b.fields) {
		return false
	}
	for key := range a.fields {
		if _, ok := b.fields[key]; !ok {
			return false
		}
	}
	return true
}

// isFieldName reports whether a key reads like the name of a field, and not
// like data: ids, numbers, dates, addresses, paths, secrets, words of a
// sentence.
func isFieldName(key string) bool {
	if key == "" || len(key) > maxFieldName {
		return false
	}
	var digits, runs, letters, turns int
	var before rune
	for i, r := range key {
		switch {
		case unicode.IsDigit(r):
			digits++
			if !unicode.IsDigit(before) {
				runs++
			}
		case unicode.IsLetter(r):
			letters++
			if unicode.IsUpper(r) != unicode.IsUpper(before) && unicode.IsLetter(before) {
				turns++
			}
		case r == '_' || r == '-' || i == 0 && (r == '$' || r == '@'):
		default:
			return false
		}
		before = r
	}
	return letters > 0 && !unicode.IsDigit(rune(key[0])) && runs <= 1 && digits <= 3 && (letters < 12 || 2*turns <= letters)
}
