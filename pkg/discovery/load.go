package discovery

import (
	"bytes"
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

	// Sources are the agents whose files are read; none means all.
	Sources []string

	// Instead are texts that files are taken to hold, by path, whatever is
	// there; nil stands for no file.
	Instead map[string][]byte

	// Exclude leaves out agents by name, single servers as agent/name, and
	// files by absolute path or pattern, a folder with everything in it. ~/ is
	// Home.
	Exclude []string

	// Trust says why a definition of a project's own files must not be used,
	// and nothing if it may be. The server has its Root, the project's real
	// folder, and its texts as written. Nil trusts every project.
	Trust func(Server) (why string)

	// TrustAgents lets a project's server be used that the person has allowed
	// in an agent of theirs, before Trust is asked. Agents know them by name
	// alone, whatever the definition.
	TrustAgents bool

	// Memory remembers files for later loads, which use what it has of one
	// that is half-written; nil is none.
	Memory *Memory

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
	Held     []Server  // of the project's files, not trusted; must be neither started nor contacted, nor hide others
	Shadowed []Shadow  // not in force
	Problems []Problem // by path and line

	// Looked are the files and folders that were read, or would have been if
	// they were there: when none of them changes, neither does the result.
	Looked []string
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
	l := &loader{opts: opts, docs: map[string]*document{}, rejected: map[string]bool{}, filled: map[string]base{}}
	l.projects = l.projectDirs()
	for i := range sources {
		l.readSource(i)
	}
	l.mergeFiles()
	l.switchOff()
	return l.resolve()
}

// A loader holds one load's state.
type loader struct {
	opts     Options
	system   string   // in place of the machine's folder of settings
	projects []string // the working folder and its parents up to the git root
	docs     map[string]*document
	rejected map[string]bool // paths whose trouble has been told
	filled   map[string]base // files in whose text OpenCode replaces things before it is parsed
	found    []candidate
	problems []Problem
	looked   []string          // paths that were read, or are not there
	docker   map[string]string // values of Docker's config.yaml, once read
	merging  []definition      // of agents that merge their files
	kiro     *[]string         // variables that are approved there, once read
}

// A candidate is a definition with what its precedence depends on.
type candidate struct {
	Server
	row   int // in sources
	depth int // of its folder above the working folder

	behind  bool // it stands behind one that a project has a part in
	project bool // merged, and partly from a project's own file
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
	if !l.opts.reads(src.agent) {
		return
	}
	if src.base == atText {
		l.readText(row)
		return
	}
	for _, p := range l.places(src) {
		for _, file := range l.files(p) {
			l.readFile(row, file, p)
		}
	}
}

// readFile reads the definitions that one file holds for one row.
func (l *loader) readFile(row int, file string, p location) {
	src := &sources[row]
	if l.opts.excludesFile(file) {
		return
	}
	if src.base == atProject && !l.insideProject(file) {
		return
	}
	if src.script {
		l.readScript(file)
		return
	}
	if src.dialect == opencodeDialect {
		l.filled[file] = src.base
	}
	if doc := l.open(file, src.maxBytes); doc != nil {
		l.readDocument(row, doc, p)
	}
}

// readText reads the definitions that a variable itself holds.
func (l *loader) readText(row int) {
	src := &sources[row]
	text, _ := l.opts.Getenv(src.env[0])
	if strings.TrimSpace(text) == "" {
		return
	}
	name := "$" + src.env[0]
	if len(text) > maxFile {
		l.reject(name, fmt.Sprintf("it is larger than %d MiB", maxFile>>20))
		return
	}
	if src.dialect == opencodeDialect {
		l.filled[name] = src.base
	}
	data, _ := decodeText([]byte(text))
	doc, err := l.parse(name, data)
	if err != nil {
		l.report(Problem{Path: name, Line: lineOf(data, err), Msg: err.Error()})
		return
	}
	l.readDocument(row, doc, location{dir: l.opts.Cwd})
}

// readScript tells of a file whose servers could only be known by running it.
func (l *loader) readScript(file string) {
	l.looked = append(l.looked, file)
	data, err := readBounded(file, maxFile)
	if isAbsent(err) {
		return
	}
	if err != nil {
		l.reject(file, fmt.Sprintf("reading the file: %v", cause(err)))
		return
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if text = bytes.TrimSpace(text); bytes.Contains(text, []byte("mcp")) && text[0] != '#' {
			l.report(Problem{Path: file, Line: line,
				Msg: "it is a script, and scripts are not run to find servers; put those that it defines into crush.json"})
			return
		}
	}
}

// readDocument reads the definitions that one document holds for one row.
func (l *loader) readDocument(row int, doc *document, p location) {
	src := &sources[row]
	key := l.keyIn(src, doc)
	at, ok, err := doc.find(key...)
	if err != nil {
		doc.broken(err, key)
		return
	}
	r := &fileReader{loader: l, row: row, depth: p.depth, doc: doc, key: key, root: rootOf(src, p, key)}
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
	if !l.leadsOut(file) {
		return true
	}
	l.reject(file, "it is a link to a file outside of the project, so it is not read")
	return false
}

// leadsOut reports whether a file really lies outside of the project.
func (l *loader) leadsOut(file string) bool {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false // absent or unreadable: opening it tells which
	}
	root := l.projects[len(l.projects)-1]
	rel, err := filepath.Rel(root, target)
	return err != nil || !filepath.IsLocal(rel)
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
	data, err := l.content(file, limit)
	l.looked = append(l.looked, file)
	if isAbsent(err) {
		l.opts.Memory.drop(file)
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
	l.docs[file] = l.read(file, text)
	return l.docs[file]
}

// content returns what is in a file, or is to be taken for that.
func (l *loader) content(file string, limit int64) ([]byte, error) {
	data, instead := l.opts.Instead[file]
	switch {
	case !instead:
		return readBounded(file, limit)
	case data == nil:
		return nil, fs.ErrNotExist
	}
	return data, nil
}

// parse decodes a file in the format that its name tells.
func (l *loader) parse(file string, text []byte) (*document, error) {
	var decode func([]byte) (node, error)
	switch strings.ToLower(filepath.Ext(file)) {
	case ".toml":
		decode = parseTOML
	case ".yaml", ".yml":
		decode = parseYAML
	default:
		if _, ok := l.filled[file]; ok {
			text = l.fillIn(file, text)
		}
		return parseDocument(file, text, l.report)
	}
	tree, err := decode(text)
	if err != nil {
		return nil, err
	}
	doc := &document{path: file, report: l.report, tree: &tree, warned: map[string]bool{}}
	if tree.kind != kindObject && tree.kind != kindNull {
		return nil, &lineError{max(tree.line, 1), "the document is not an object, so it defines no servers"}
	}
	return doc, nil
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
	list, err := doc.members(m, at)
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
func rootOf(src *source, p location, key []string) string {
	if at := slices.Index(src.key, projectKey); at >= 0 {
		return filepath.Clean(key[at])
	}
	return p.root
}

// keep adds a candidate unless it leads back to us.
func (l *loader) keep(c candidate) {
	where := c.Sources[0]
	if l.opts.excludesServer(c.Server) {
		return
	}
	// Values that are missing now matter when the server is used, not here.
	expanded, _ := c.Expand(l.opts.Getenv, l.opts.Home, l.opts.Cwd)
	if why := l.selfReference(expanded); why != "" {
		l.report(Problem{Path: where.Path, Key: where.Key, Line: where.Line, Self: true,
			Msg: "it would start this bridge inside itself (" + why + "); the entry is skipped"})
		return
	}
	if why := l.unsuitable(expanded); why != "" {
		l.report(Problem{Path: where.Path, Key: where.Key, Line: where.Line, Msg: why})
	}
	if len(l.found) >= maxServers {
		l.reject(where.Path, fmt.Sprintf("more than %d servers are defined in all; the rest is skipped", maxServers))
		return
	}
	l.found = append(l.found, c)
}
