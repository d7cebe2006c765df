package discovery

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
)

// A fileReader reads the servers of one file for one row.
type fileReader struct {
	*loader
	row   int
	depth int
	doc   *document
	key   []string // of the map of servers
	root  string
}

func (r *fileReader) readServers(at member) {
	if r.doc.kind(at) == kindArray && len(r.src().named) > 0 {
		r.readList(at)
		return
	}
	list, err := r.doc.members(at, r.key)
	if err != nil {
		r.doc.broken(err, r.key)
		return
	}
	inherited := r.fileDescription()
	for _, m := range list[:r.bound(len(list), r.doc.keyLine(at))] {
		r.readEntry(m, m.key, append(slices.Clone(r.key), m.key), inherited)
	}
}

func (r *fileReader) src() *source { return &sources[r.row] }

// bound tells when there are too many servers, and returns how many are read.
func (r *fileReader) bound(n, line int) int {
	if n > maxServersPerFile {
		r.report(Problem{Path: r.doc.path, Key: joinKey(r.key...), Line: line,
			Msg: fmt.Sprintf("only the first %d of %d servers are read", maxServersPerFile, n)})
	}
	return min(n, maxServersPerFile)
}

// readList reads servers that are a list and carry their names.
func (r *fileReader) readList(at member) {
	list, err := r.doc.decode(at, maxFile)
	if err != nil {
		r.doc.broken(err, r.key)
		return
	}
	for i, n := range list.items[:r.bound(len(list.items), list.line)] {
		key := append(slices.Clone(r.key), strconv.Itoa(i))
		name, _, _ := n.first(r.src().named...)
		text, ok := name.scalar()
		switch _, isBlock := n.get("uses"); {
		case isBlock:
			r.report(Problem{Path: r.doc.path, Key: joinKey(key...), Line: n.line, Msg: "it is a block of a hub, whose contents are not in the file; the entry is skipped"})
		case !ok:
			r.report(Problem{Path: r.doc.path, Key: joinKey(key...), Line: n.line, Msg: "it has no " + r.src().named[0] + "; the entry is skipped"})
		default:
			r.readEntry(member{key: text, val: &n, line: n.line}, text, key, "")
		}
	}
}

// fileDescription returns the description beside the map of servers, which
// counts for those that have none.
func (r *fileReader) fileDescription() string {
	if len(r.key) != 1 || !sources[r.row].bare {
		return ""
	}
	n, _ := r.doc.value("description")
	if n.kind != kindString {
		return ""
	}
	return n.text
}

// readBare reads a file without the key: one entry that is named after the
// file, or a map of entries.
func (r *fileReader) readBare() {
	list, err := r.doc.members(r.doc.whole(), nil)
	if err != nil || len(list) == 0 {
		return
	}
	if hasLaunchKey(list) {
		r.readEntry(r.doc.whole(), stem(r.doc.path), nil, "")
		return
	}
	for _, m := range list {
		if r.doc.kind(m) != kindObject {
			return // no map of entries: the file is about something else
		}
		if inner, err := r.doc.members(m, []string{m.key}); err != nil || !hasLaunchKey(inner) {
			return
		}
	}
	r.key = nil
	r.readServers(r.doc.whole())
}

func hasLaunchKey(list []member) bool {
	return slices.ContainsFunc(list, func(m member) bool { return m.key == "command" || m.key == "url" })
}

// readEntry decodes one definition and keeps it, or tells why not.
func (r *fileReader) readEntry(m member, name string, key []string, description string) {
	src := r.src()
	where := Source{src.agent, src.scope, r.doc.path, joinKey(key...), r.doc.keyLine(m)}
	n, err := r.doc.decode(m, maxEntry)
	if err != nil {
		r.doc.broken(err, key)
		return
	}
	d := definition{name: name, n: r.withDefaults(n), row: r.row, depth: r.depth, root: r.root,
		where: where, description: description, vars: r.variables()}
	if src.merged {
		d.n = absoluteFiles(d.n, r.folderOf(r.doc.path))
		r.merging = append(r.merging, d)
		return
	}
	r.define(d)
}

// withDefaults adds the fields at the top of the file that the entry lacks.
func (r *fileReader) withDefaults(n node) node {
	if n.kind != kindObject {
		return n
	}
	for _, key := range r.src().defaults {
		if _, has := n.get(key); has {
			continue
		}
		if v, ok := r.doc.value(key); ok {
			n.fields = append(slices.Clone(n.fields), field{key, v.line, v})
		}
	}
	return n
}

// A definition is one entry as a file has it.
type definition struct {
	name        string
	n           node
	row         int
	depth       int
	root        string
	where       Source
	description string
	vars        map[string]string // that the agent sets for the entry's file
}

// define decodes a definition and keeps it, or tells why not.
func (l *loader) define(d definition) {
	row, err := spokenIn(&sources[d.row], d.n)
	var s Server
	var notes []note
	if err == nil {
		s, notes, err = decodeEntry(row, d.name, d.n)
	}
	for _, n := range notes {
		l.report(Problem{Path: d.where.Path, Key: joinKey(trimEmpty(d.where.Key, n.field)...), Line: n.line, Msg: n.msg})
	}
	if err != nil {
		l.report(Problem{Path: d.where.Path, Key: d.where.Key, Line: d.where.Line, Msg: err.Error() + "; the entry is skipped"})
		return
	}
	if s.dialect == geminiDialect && l.opts.GOOS == "windows" {
		s.dialect = geminiWindowsDialect
	}
	if s.dialect == kiroDialect {
		s.approvedVars = l.kiroApproved()
	}
	s.Sources = []Source{d.where}
	s.Root = d.root
	s.vars = d.vars
	if s.Description == "" {
		s.Description = d.description
	}
	l.keep(candidate{Server: s, row: d.row, depth: d.depth})
}

// spokenIn returns the row by which an entry is read: in our own files a field
// dialect may say that it is written as one of another agent's would be.
func spokenIn(own *source, n node) (*source, error) {
	said, ok := n.get("dialect")
	if own.agent != ownAgent || !ok {
		return own, nil
	}
	at := slices.IndexFunc(sources, func(s source) bool { return s.agent == said.text && s.scope == ScopeUser })
	if said.kind != kindString || at < 0 {
		return nil, errors.New("its dialect is the name of no agent whose files are read")
	}
	row, other := *own, sources[at]
	row.dialect, row.untyped, row.timeout, row.adapt = other.dialect, other.untyped, other.timeout, other.adapt
	row.clamp, row.minimum, row.reserved = other.clamp, other.minimum, other.reserved
	return &row, nil
}

// variables returns what the agent itself sets for the entries of the file.
func (r *fileReader) variables() map[string]string {
	folder := filepath.Dir(r.doc.path)
	switch src := r.src(); {
	case src.dialect == dockerDialect:
		if r.docker == nil {
			r.docker = r.dockerValues()
		}
		return r.docker
	case src.agent == "gemini-cli" && src.scope == ScopePlugin:
		return map[string]string{"extensionPath": folder}
	case src.agent == "claude-code" && src.scope == ScopePlugin:
		p := pluginOf(r.doc.path)
		return map[string]string{
			"CLAUDE_PLUGIN_ROOT": p.folder,
			"CLAUDE_PLUGIN_DATA": filepath.Join(p.data, p.name),
		}
	}
	return nil
}

func trimEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" })
}
