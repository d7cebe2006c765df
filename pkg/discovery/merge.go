package discovery

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// mergeFiles brings together the entries of agents that merge their files: an
// entry of one name is one definition, whose fields come from the strongest file
// that has each. Where a project's own file has a part in it, the whole is the
// project's, and what the person's files say alone stands behind it.
func (l *loader) mergeFiles() {
	type owner struct{ agent, name string }
	groups := map[owner][]definition{}
	var order []owner
	for _, d := range l.merging {
		key := owner{d.where.Agent, d.name}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], d)
	}
	for _, key := range order {
		parts := groups[key]
		slices.SortStableFunc(parts, func(a, b definition) int {
			return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.depth, b.depth))
		})
		l.defineMerged(parts)
	}
}

func (l *loader) defineMerged(parts []definition) {
	isProject := func(d definition) bool { return sources[d.row].base == atProject }
	first := slices.IndexFunc(parts, isProject)
	if first < 0 {
		l.defineParts(parts, parts[0])
		return
	}
	l.defineParts(parts, parts[first])
	own := slices.DeleteFunc(slices.Clone(parts), isProject)
	if len(own) > 0 {
		before := len(l.found)
		l.defineParts(own, own[0])
		for i := range l.found[before:] {
			l.found[before+i].behind = true
		}
	}
}

// defineParts defines what the parts, strongest first, make together; it
// belongs to the scope and folder of one of them.
func (l *loader) defineParts(parts []definition, owner definition) {
	whole := owner
	whole.row, whole.depth = parts[0].row, parts[0].depth
	whole.n = parts[len(parts)-1].n
	for _, part := range slices.Backward(parts[:len(parts)-1]) {
		whole.n = mergeNodes(whole.n, part.n)
	}
	before := len(l.found)
	l.define(whole)
	if len(l.found) == before {
		return
	}
	c := &l.found[before]
	c.project = sources[owner.row].base == atProject
	for _, part := range parts {
		if part.where != owner.where {
			c.Sources = append(c.Sources, part.where)
		}
	}
}

// mergeNodes puts the fields of one value over another's. Lists and what is no
// object are replaced.
func mergeNodes(under, over node) node {
	if under.kind != kindObject || over.kind != kindObject {
		return over
	}
	out := over
	out.fields = slices.Clone(under.fields)
	for _, f := range over.fields {
		i := slices.IndexFunc(out.fields, func(g field) bool { return g.key == f.key })
		if i < 0 {
			out.fields = append(out.fields, f)
			continue
		}
		f.val = mergeNodes(out.fields[i].val, f.val)
		out.fields[i] = f
	}
	return out
}

// absoluteFiles makes the {file:path} of a definition absolute, since parts of
// several folders become one.
func absoluteFiles(n node, folder string) node {
	out := n
	if n.kind == kindString {
		out.text = singleBraces.ReplaceAllStringFunc(n.text, func(whole string) string {
			path, isFile := strings.CutPrefix(whole, "{file:")
			path = strings.TrimSuffix(path, "}")
			if !isFile || filepath.IsAbs(path) || path == "~" || strings.HasPrefix(path, "~/") {
				return whole
			}
			return "{file:" + filepath.Join(folder, path) + "}"
		})
	}
	out.items, out.fields = slices.Clone(n.items), slices.Clone(n.fields)
	for i := range out.items {
		out.items[i] = absoluteFiles(out.items[i], folder)
	}
	for i := range out.fields {
		out.fields[i].val = absoluteFiles(out.fields[i].val, folder)
	}
	return out
}
