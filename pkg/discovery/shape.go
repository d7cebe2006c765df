package discovery

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// maxShapeDepth is how deep results are looked into.
	maxShapeDepth = 6

	// maxShapeFields is how many keys a record may have. With more it is a dict.
	maxShapeFields = 80
)

// maxShapeCost bounds a shape by its depth. What costs more is known by its
// kind only.
var maxShapeCost = [maxShapeDepth + 1]int{8000, 4000, 1500, 500, 150, 50, 1}

// A shapeKind is a set of JSON's types.
type shapeKind uint8

const (
	isNull shapeKind = 1 << iota
	isBool
	isInt
	isFloat
	isText
	isList
	isDict
)

// A Shape is what values were like: which types they had, and the same of what
// was in them. It holds none of the values, and of keys only those that read
// like the names of fields. Nobody changes a shape.
//
// Shapes of values that were seen one after the other are merged, and the order
// does not matter: merging is commutative, associative and idempotent, with all
// bounds applied.
type Shape struct {
	kinds  shapeKind
	item   *Shape                // of lists; nil when all were empty
	fields map[string]shapeField // of dicts, by key
	values *Shape                // of dicts whose keys are data; nil when there were none

	whole bool // a dict was seen to its end, so that a key that it lacks is optional
	wide  bool // there were too many keys, so that all are data
	vague bool // there was too much in it, so that only kinds is known
	cost  int
}

// A shapeField is one key of a record.
type shapeField struct {
	of       *Shape
	optional bool
	place    int // the earliest place that it had among the keys
}

// scalarShapes are the shapes of scalars, by kind. (They are many.)
var scalarShapes = func() (list [isList]*Shape) {
	for kind := range list {
		list[kind] = &Shape{kinds: shapeKind(kind), cost: 1}
	}
	return list
}()

// Merge returns the shape of what a or b is the shape of. Either may be nil.
func (s *Shape) Merge(other *Shape) *Shape { return s.merge(other, 0) }

func (s *Shape) merge(o *Shape, depth int) *Shape {
	switch {
	case s == nil || s == o:
		return o
	case o == nil:
		return s
	case s.kinds|o.kinds < isList:
		return scalarShapes[s.kinds|o.kinds]
	}
	m := &Shape{kinds: s.kinds | o.kinds, wide: s.wide || o.wide, vague: s.vague || o.vague, whole: s.whole || o.whole}
	if depth < maxShapeDepth && !m.vague {
		m.item = s.item.merge(o.item, depth+1)
		m.values = s.values.merge(o.values, depth+1)
		m.fields = mergeFields(s, o, depth+1)
	}
	m.settle(depth)
	return m
}

// mergeFields joins the keys of two dicts. One that either lacks is optional,
// unless that one was not seen to its end.
func mergeFields(a, b *Shape, depth int) map[string]shapeField {
	if len(a.fields) == 0 && len(b.fields) == 0 {
		return nil
	}
	out := make(map[string]shapeField, max(len(a.fields), len(b.fields)))
	for key, f := range a.fields {
		g, ok := b.fields[key]
		if !ok {
			f.optional = f.optional || b.whole
			out[key] = f
			continue
		}
		out[key] = shapeField{f.of.merge(g.of, depth), f.optional || g.optional, min(f.place, g.place)}
	}
	for key, g := range b.fields {
		if _, ok := a.fields[key]; !ok {
			g.optional = g.optional || a.whole
			out[key] = g
		}
	}
	return out
}

// settle applies the bounds. What was settled before and is merged again has
// the same outcome as if all had been merged first.
func (s *Shape) settle(depth int) {
	if depth >= maxShapeDepth {
		s.item, s.fields, s.values, s.cost = nil, nil, nil, 1
		return
	}
	if len(s.fields) > maxShapeFields {
		s.wide = true
	}
	if s.wide {
		for _, f := range s.fields {
			s.values = s.values.merge(f.of, depth+1)
		}
		s.fields = nil
	}
	if !s.vague {
		s.reckon()
	}
	if s.vague || s.cost > maxShapeCost[depth] {
		s.vague = true
		s.item, s.fields, s.values = nil, nil, nil
		s.cost = maxShapeCost[depth] + 1
	}
}

// reckon sets the cost. It never falls when more is merged in: the dict that
// stands for many keys costs at least as much as they did.
func (s *Shape) reckon() {
	s.cost = 1
	if s.item != nil {
		s.cost += s.item.cost
	}
	if s.values != nil {
		s.cost += s.values.cost
	}
	for _, f := range s.fields {
		s.cost += 1 + f.of.cost
	}
	if s.wide {
		s.cost += (maxShapeFields + 1) * (1 + s.values.cost)
	}
}

// equal reports whether two shapes say the same.
func (s *Shape) equal(o *Shape) bool {
	if s == o {
		return true
	}
	if s == nil || o == nil || s.kinds != o.kinds || s.whole != o.whole || s.wide != o.wide || s.vague != o.vague || s.cost != o.cost {
		return false
	}
	return s.item.equal(o.item) && s.values.equal(o.values) && maps.EqualFunc(s.fields, o.fields, func(f, g shapeField) bool {
		return f.optional == g.optional && f.place == g.place && f.of.equal(g.of)
	})
}

// pyType returns the shape as a type.
func (s *Shape) pyType() *pyType {
	if s == nil {
		return pyAny
	}
	var types []*pyType
	if s.kinds&isDict != 0 {
		types = append(types, s.dictType())
	}
	if s.kinds&isList != 0 {
		types = append(types, listOfType(s.item.pyType()))
	}
	for _, k := range []struct {
		kind shapeKind
		of   *pyType
	}{{isText, pyStr}, {isInt, pyInt}, {isFloat, pyFloat}, {isBool, pyBool}, {isNull, pyNone}} {
		if s.kinds&k.kind != 0 && (k.kind != isInt || s.kinds&isFloat == 0) {
			types = append(types, k.of)
		}
	}
	return unionOf(types)
}

// dictType is a record, unless any of the keys are data.
func (s *Shape) dictType() *pyType {
	if s.values != nil || s.scattered() {
		all := s.values
		for _, f := range s.fields {
			all = all.merge(f.of, 1)
		}
		return dictOfType(all.pyType())
	}
	if len(s.fields) == 0 {
		return dictOfType(nil)
	}
	t := &pyType{kind: pyRecord, open: !s.whole}
	for _, key := range s.order() {
		f := s.fields[key]
		t.fields = append(t.fields, pyField{key, f.optional, f.of.pyType()})
	}
	return t
}

// scattered reports whether the keys of single values are so different that they
// must be data: none of many is in all of them, and all lead to the same.
func (s *Shape) scattered() bool {
	const many = 8
	var kinds shapeKind
	for _, f := range s.fields {
		if !f.optional {
			return false
		}
		kinds |= f.of.kinds
	}
	return len(s.fields) >= many && kinds&(kinds-1) == 0
}

// order returns the keys in the order in which servers write them, as far as
// that is known.
func (s *Shape) order() []string {
	return slices.SortedFunc(maps.Keys(s.fields), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.fields[a].place, s.fields[b].place), cmp.Compare(a, b))
	})
}
