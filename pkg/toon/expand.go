package toon

import (
	"fmt"
	"strings"
)

// An expander makes objects of keys that are paths.
type expander struct{ lenient bool }

// value expands what is in v, which is inside of depth others.
func (x expander) value(v value, depth int) (value, error) {
	if depth > MaxDepth {
		return value{}, errDeep
	}
	out := value{kind: v.kind, text: v.text}
	for _, item := range v.items {
		item, err := x.value(item, depth+1)
		if err != nil {
			return value{}, err
		}
		out.items = append(out.items, item)
	}
	for _, m := range v.record.members {
		path := pathOf(m)
		inner, err := x.value(m.value, depth+len(path))
		if err != nil {
			return value{}, err
		}
		if err := x.put(&out.record, path, inner); err != nil {
			return value{}, err
		}
	}
	return out, nil
}

// pathOf returns the keys that a member's stands for.
func pathOf(m member) []string {
	path := strings.Split(m.key, ".")
	for _, key := range path {
		if m.quoted || !segment(key) {
			return []string{m.key}
		}
	}
	return path
}

// put sets what is at a path of an object, and merges objects that meet there.
func (x expander) put(r *record, path []string, v value) error {
	if len(path) > 1 {
		inner := value{kind: object}
		if err := x.put(&inner.record, path[1:], v); err != nil {
			return err
		}
		v = inner
	}
	i := r.find(path[0])
	if i < 0 {
		r.add(member{key: path[0], value: v})
		return nil
	}
	there := &r.members[i].value
	if there.kind == object && v.kind == object {
		return x.merge(&there.record, v.record.members)
	}
	if !x.lenient {
		return fmt.Errorf("the key %.40q stands for two things, of which one is no object", path[0])
	}
	*there = v
	return nil
}

func (x expander) merge(r *record, members []member) error {
	for _, m := range members {
		if err := x.put(r, []string{m.key}, m.value); err != nil {
			return err
		}
	}
	return nil
}
