package discovery

import (
	"fmt"
	"slices"
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
	list, err := r.doc.members(at.at, r.key)
	if err != nil {
		r.doc.broken(err, r.key)
		return
	}
	if len(list) > maxServersPerFile {
		r.report(Problem{r.doc.path, joinKey(r.key...), r.doc.line(at.at),
			fmt.Sprintf("only the first %d of %d servers are read", maxServersPerFile, len(list))})
		list = list[:maxServersPerFile]
	}
	inherited := r.fileDescription()
	for _, m := range list {
		r.readEntry(m, m.key, append(slices.Clone(r.key), m.key), inherited)
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
	list, err := r.doc.members(r.doc.root, nil)
	if err != nil || len(list) == 0 {
		return
	}
	if hasLaunchKey(list) {
		whole := member{at: r.doc.root, keyAt: r.doc.root, end: len(r.doc.scan.src)}
		r.readEntry(whole, stem(r.doc.path), nil, "")
		return
	}
	for _, m := range list {
		if r.doc.scan.src[m.at] != '{' {
			return // no map of entries: the file is about something else
		}
		if inner, _, err := r.doc.scan.members(m.at); err != nil || !hasLaunchKey(inner) {
			return
		}
	}
	r.key = nil
	r.readServers(member{at: r.doc.root})
}

func hasLaunchKey(list []member) bool {
	return slices.ContainsFunc(list, func(m member) bool { return m.key == "command" || m.key == "url" })
}

// readEntry decodes one definition and keeps it, or tells why not.
func (r *fileReader) readEntry(m member, name string, key []string, description string) {
	src := &sources[r.row]
	where := Source{src.agent, src.scope, r.doc.path, joinKey(key...), r.doc.line(m.keyAt)}
	n, err := r.doc.decode(m, maxEntry)
	if err != nil {
		r.doc.broken(err, key)
		return
	}
	s, notes, err := decodeEntry(src, name, n)
	for _, n := range notes {
		r.report(Problem{where.Path, joinKey(trimEmpty(where.Key, n.field)...), n.line, n.msg})
	}
	if err != nil {
		r.report(Problem{where.Path, where.Key, where.Line, err.Error() + "; the entry is skipped"})
		return
	}
	s.Sources = []Source{where}
	s.Root = r.root
	if s.Description == "" {
		s.Description = description
	}
	r.keep(candidate{s, r.row, r.depth})
}

func trimEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" })
}
