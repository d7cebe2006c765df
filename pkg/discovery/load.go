package discovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const (
	// maxFilesPerSource bounds how many files of one folder are read.
	maxFilesPerSource = 200

	// maxServers bounds the definitions of one load.
	maxServers = 5000

	// maxParents bounds the walk from the working folder to the git root.
	maxParents = 64
)

// Options say whose configs are read. The zero value reads nothing.
type Options struct {
	Home   string                               // the person's home folder; empty means none
	Cwd    string                               // the agent's working folder; empty means no project
	Getenv func(string) (value string, ok bool) // the agent's environment; nil means empty
	GOOS   string                               // whose paths are used; empty means this system's

	// Exclude leaves out agents by name, and files by path.
	Exclude []string

	// Self holds paths of our own programs and sockets, beyond their usual
	// names, so that definitions that lead back to us are found.
	Self []string
}

// A Shadow is a definition that another one of the same agent and name hides.
type Shadow struct {
	Server Server
	By     Source // of the one in force
}

// A Result is what a load found. All lists are sorted.
type Result struct {
	Servers  []Server  // usable, by name; no two have one name
	Disabled []Server  // switched off; must be neither started nor contacted
	Shadowed []Shadow  // not in force
	Problems []Problem // by path and line
}

// Load reads the config files of every known agent that apply to a session in
// opts.Cwd, and merges them by the rules in the package documentation. It
// reads files and nothing else: nothing is executed, contacted or written.
// Equal files give an equal result. Whatever is broken is in Problems, and
// does not keep its neighbours away.
//
// The servers hold their variables as written: [Server.Expand] them for the
// session before use.
func Load(opts Options) Result {
	if opts.Getenv == nil {
		opts.Getenv = func(string) (string, bool) { return "", false }
	}
	if opts.GOOS == "" {
		opts.GOOS = runtime.GOOS
	}
	l := &loader{opts: opts, docs: map[string]*document{}, rejected: map[string]bool{}}
	l.projects = l.projectDirs()
	for i := range sources {
		l.readSource(i)
	}
	l.switchOff()
	return l.resolve()
}

// A loader holds one load's state.
type loader struct {
	opts     Options
	projects []string // the working folder and its parents up to the git root
	docs     map[string]*document
	rejected map[string]bool // paths whose trouble has been told
	found    []candidate
	problems []Problem
}

// A candidate is a definition with what its precedence depends on.
type candidate struct {
	Server
	row   int // in sources
	depth int // of its folder above the working folder
}

func (l *loader) report(p Problem) { l.problems = append(l.problems, p) }

// projectDirs lists the working folder and its parents up to the git root,
// nearest first. Symbolic links are resolved first: where the folder really
// is decides which project it belongs to. Outside of a git repository only the
// working folder counts, since its parents may be anybody's.
func (l *loader) projectDirs() []string {
	if !filepath.IsAbs(l.opts.Cwd) {
		return nil
	}
	dir, err := filepath.EvalSymlinks(l.opts.Cwd)
	if err != nil {
		dir = filepath.Clean(l.opts.Cwd)
	}
	var dirs []string
	for at := dir; len(dirs) < maxParents; at = filepath.Dir(at) {
		dirs = append(dirs, at)
		if exists(filepath.Join(at, ".git")) {
			return dirs
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return dirs[:1]
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readSource reads every file of one row of the table.
func (l *loader) readSource(row int) {
	src := &sources[row]
	if slices.Contains(l.opts.Exclude, src.agent) {
		return
	}
	switch src.base {
	case atHome:
		l.readPattern(row, l.homeOf(src), 0)
	case atProject:
		for depth, dir := range l.projects {
			l.readPattern(row, dir, depth)
		}
	case atFile:
		if file, _ := l.opts.Getenv(src.env); filepath.IsAbs(file) {
			l.readFile(row, filepath.Clean(file), 0)
		}
	}
}

// homeOf returns the folder that a user-level source's path is below: home, or
// the one that the agent's own variable names.
func (l *loader) homeOf(src *source) string {
	if src.env != "" {
		if dir, _ := l.opts.Getenv(src.env); filepath.IsAbs(dir) {
			return filepath.Clean(dir)
		}
	}
	return l.opts.Home
}

// readPattern reads the files below dir that the source's path matches.
func (l *loader) readPattern(row int, dir string, depth int) {
	src := &sources[row]
	if dir == "" {
		return
	}
	folder, last := path.Split(src.path)
	if !strings.Contains(last, "*") {
		l.readFile(row, filepath.Join(dir, filepath.FromSlash(src.path)), depth)
		return
	}
	folder = filepath.Join(dir, filepath.FromSlash(folder))
	entries, err := os.ReadDir(folder)
	if err != nil && !isAbsent(err) {
		l.reject(folder, fmt.Sprintf("reading the folder: %v", cause(err)))
	}
	names := matching(entries, last)
	if len(names) > maxFilesPerSource {
		l.reject(folder, fmt.Sprintf("only the first %d of %d files are read", maxFilesPerSource, len(names)))
		names = names[:maxFilesPerSource]
	}
	for _, name := range names {
		l.readFile(row, filepath.Join(folder, name), depth)
	}
}

// matching returns the sorted names that match a pattern. Hidden files, such
// as those that editors keep beside one that is open, never do.
func matching(entries []os.DirEntry, pattern string) []string {
	var names []string
	for _, e := range entries {
		if ok, err := path.Match(pattern, e.Name()); ok && err == nil && e.Name()[0] != '.' {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// readFile reads the definitions that one file holds for one row.
func (l *loader) readFile(row int, file string, depth int) {
	src := &sources[row]
	if slices.Contains(l.opts.Exclude, file) {
		return
	}
	if src.base == atProject && !l.insideProject(file) {
		return
	}
	doc := l.open(file, src.maxBytes)
	if doc == nil {
		return
	}
	key := l.keyIn(src, doc)
	at, ok, err := doc.find(key...)
	if err != nil {
		doc.broken(err, key)
		return
	}
	r := &fileReader{loader: l, row: row, depth: depth, doc: doc, key: key, root: l.rootOf(src, file, key)}
	switch {
	case ok:
		r.readServers(at)
	case src.bare:
		r.readBare()
	}
}

// insideProject keeps a cloned repository from showing us files elsewhere
// through a symbolic link.
func (l *loader) insideProject(file string) bool {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return true // absent or unreadable: opening it tells which
	}
	root := l.projects[len(l.projects)-1]
	if rel, err := filepath.Rel(root, target); err == nil && filepath.IsLocal(rel) {
		return true
	}
	l.reject(file, "it is a link to a file outside of the project, so it is not read")
	return false
}

// open returns the document in a file, or nil when there is none or it is
// broken, which is told once.
func (l *loader) open(file string, limit int64) *document {
	if doc, ok := l.docs[file]; ok {
		return doc
	}
	if limit == 0 {
		limit = maxFile
	}
	l.docs[file] = nil
	data, err := readBounded(file, limit)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		l.reject(file, fmt.Sprintf("reading the file: %v", cause(err)))
		return nil
	}
	text, clean := decodeText(data)
	if !clean {
		l.report(Problem{Path: file, Msg: "some bytes are no text in the file's encoding and were replaced"})
	}
	doc, err := parseDocument(file, text, l.report)
	if err != nil {
		l.report(Problem{Path: file, Line: lineOf(text, err), Msg: err.Error()})
		return nil
	}
	l.docs[file] = doc
	return doc
}

func lineOf(text []byte, err error) int {
	return (&document{scan: scanner{text}}).errorLine(err)
}

// isAbsent reports whether an error means that there is no such file, which
// is the ordinary case.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir)
}

// cause strips the path from a file error, since a [Problem] has it.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// reject tells what is wrong with a path, once.
func (l *loader) reject(path, msg string) {
	if !l.rejected[path] {
		l.rejected[path] = true
		l.report(Problem{Path: path, Msg: msg})
	}
}

// keyIn returns the source's path of keys, with the project's recorded name in
// place of projectKey.
func (l *loader) keyIn(src *source, doc *document) []string {
	at := slices.Index(src.key, projectKey)
	if at < 0 {
		return src.key
	}
	key := slices.Clone(src.key)
	key[at] = l.recordedProject(doc, key[:at])
	return key
}

// recordedProject returns the name under which an agent's state file knows the
// nearest of the session's project folders, or an impossible name.
func (l *loader) recordedProject(doc *document, at []string) string {
	m, ok, err := doc.find(at...)
	if err != nil || !ok {
		return ""
	}
	list, err := doc.members(m.at, at)
	if err != nil {
		return ""
	}
	for _, dir := range l.projects {
		for _, m := range list {
			if m.key != "" && l.samePath(m.key, dir) {
				return m.key
			}
		}
	}
	return ""
}

// samePath compares a recorded folder with a real one. Windows paths may
// differ in case and slashes.
func (l *loader) samePath(recorded, dir string) bool {
	if l.opts.GOOS == "windows" {
		clean := func(p string) string { return strings.ToLower(path.Clean(strings.ReplaceAll(p, `\`, "/"))) }
		return clean(recorded) == clean(dir)
	}
	return filepath.Clean(recorded) == dir
}

// rootOf returns the project folder that a definition belongs to.
func (l *loader) rootOf(src *source, file string, key []string) string {
	switch src.scope {
	case ScopeProject:
		for _, dir := range l.projects {
			if file == filepath.Join(dir, filepath.FromSlash(src.path)) {
				return dir
			}
		}
	case ScopeLocal:
		if at := slices.Index(src.key, projectKey); at >= 0 {
			return filepath.Clean(key[at])
		}
	}
	return ""
}

// keep adds a candidate unless it leads back to us.
func (l *loader) keep(c candidate) {
	where := c.Sources[0]
	// Values that are missing now matter when the server is used, not here.
	expanded, _ := c.Expand(l.opts.Getenv, l.opts.Home, l.opts.Cwd)
	if why := l.selfReference(expanded); why != "" {
		l.report(Problem{where.Path, where.Key, where.Line,
			"it would start this bridge inside itself (" + why + "); the entry is skipped"})
		return
	}
	if len(l.found) >= maxServers {
		l.reject(where.Path, fmt.Sprintf("more than %d servers are defined in all; the rest is skipped", maxServers))
		return
	}
	l.found = append(l.found, c)
}
