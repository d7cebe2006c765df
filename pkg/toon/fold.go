package toon

import "strings"

// A scope is where an object's members are written, as far as folding must know.
type scope struct {
	siblings *record // the object
	root     *record // the one that the path begins in
	path     string  // of the object, with a dot at its end
	nested   int     // levels that are not folded: what is left of a chain that was
}

func newScope(r *record) scope { return scope{siblings: r, root: r} }

// inside returns the scope of what an object has that is the value of m.
func (s scope) inside(m member) scope {
	return scope{
		siblings: &m.value.record, root: s.root, path: s.path + m.key + ".", nested: max(s.nested-1, 0),
	}
}

// fold returns m, or what it is when a chain of objects with one member each is
// one key, and the scope of that.
func (e *encoder) fold(m member, s scope) (member, scope) {
	if e.most < 2 || s.nested > 0 {
		return m, s
	}
	keys, leaf := chain(m)
	n := min(len(keys), e.most)
	if n < 2 || !safe(keys[:n], s) {
		return m, s
	}
	folded := member{key: strings.Join(keys[:n], "."), value: m.value}
	for range n - 1 {
		folded.value = folded.value.record.members[0].value
	}
	if n == len(keys) {
		folded.value = leaf
	} else {
		s.nested = len(keys) - n + 1
	}
	return folded, s
}

// chain returns the keys from m down to the first value that is no object with
// one member, and that value.
func chain(m member) (keys []string, leaf value) {
	keys, leaf = []string{m.key}, m.value
	for leaf.kind == object && len(leaf.record.members) == 1 {
		keys = append(keys, leaf.record.members[0].key)
		leaf = leaf.record.members[0].value
	}
	return keys, leaf
}

// safe reports whether keys joined to one mean the same: each is a word, and no
// other member has that name.
func safe(keys []string, s scope) bool {
	for _, k := range keys {
		if !segment(k) {
			return false
		}
	}
	joined := strings.Join(keys, ".")
	return s.siblings.find(joined) < 0 && s.root.find(s.path+joined) < 0
}
