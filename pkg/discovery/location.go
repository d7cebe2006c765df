package discovery

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxPatternFolders bounds how many folders one pattern goes through.
const maxPatternFolders = 1000

// A location is a folder that a source's path is below.
type location struct {
	dir   string
	path  string // slash-separated, may have patterns
	depth int    // above the working folder
	root  string // project folder; empty outside of projects
}

// places lists where one row of the table looks, strongest first.
func (l *loader) places(src *source) []location {
	if src.goos != "" && src.goos != l.opts.GOOS {
		return nil
	}
	if p, ok := l.movedPlace(src); ok {
		return []location{p}
	}
	if src.base == atText {
		return nil
	}
	if src.base == atProject {
		list := make([]location, len(l.projects))
		for depth, dir := range l.projects {
			list[depth] = location{dir, src.path, depth, dir}
		}
		return list
	}
	var list []location
	for _, dir := range l.folders(src.base) {
		if dir != "" {
			list = append(list, location{dir: dir, path: l.pathOf(src)})
		}
	}
	return list
}

func (l *loader) pathOf(src *source) string {
	if src.darwin != "" && l.opts.GOOS == "darwin" {
		return src.darwin
	}
	return src.path
}

// movedPlace returns the place that one of the source's variables names.
func (l *loader) movedPlace(src *source) (location, bool) {
	for _, env := range src.env {
		name, below, _ := strings.Cut(env, "/")
		dir, _ := l.opts.Getenv(name)
		if !filepath.IsAbs(dir) || src.base == atText {
			continue
		}
		if below != "" && filepath.Ext(dir) != path.Ext(below) { // else the variable names the file itself
			return location{dir: filepath.Clean(dir), path: below}, true
		}
		return location{dir: filepath.Dir(filepath.Clean(dir)), path: literalPart(filepath.Base(dir))}, true
	}
	return location{}, false
}

// literalPart keeps the part of a path from being a pattern.
func literalPart(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

// folders lists the folders of a base. Empty ones do not exist on the system.
func (l *loader) folders(b base) []string {
	switch b {
	case atHome:
		return []string{l.opts.Home}
	case atConfig:
		return []string{l.variableOr("XDG_CONFIG_HOME", ".config")}
	case atAppData:
		return []string{l.appData()}
	case atLocalAppData:
		if l.opts.GOOS == "windows" {
			return []string{l.variableOr("LOCALAPPDATA", "AppData", "Local")}
		}
	case atData:
		if l.opts.GOOS != "windows" {
			return []string{l.variableOr("XDG_DATA_HOME", ".local", "share")}
		}
	case atSystem:
		return []string{l.systemDir()}
	case atPrograms:
		return []string{l.programsDir()}
	case atCode:
		return l.codeFolders()
	}
	return nil
}

// variableOr returns the absolute folder in a variable, or one below home.
func (l *loader) variableOr(name string, below ...string) string {
	if dir, _ := l.opts.Getenv(name); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	if l.opts.Home == "" {
		return ""
	}
	return filepath.Join(append([]string{l.opts.Home}, below...)...)
}

// appData returns the folder where the system keeps the settings of programs.
func (l *loader) appData() string {
	switch l.opts.GOOS {
	case "windows":
		return l.variableOr("APPDATA", "AppData", "Roaming")
	case "darwin":
		return l.variableOr("", "Library", "Application Support")
	}
	return l.variableOr("XDG_CONFIG_HOME", ".config")
}

// systemDir returns the folder of settings for everybody on the machine. Tests
// put another one in its place.
func (l *loader) systemDir() string {
	if l.system != "" {
		return l.system
	}
	switch l.opts.GOOS {
	case "windows":
		return l.windowsDir("ProgramData", `C:\ProgramData`)
	case "darwin":
		return "/Library/Application Support"
	}
	return "/etc"
}

// programsDir returns the folder of Windows where programs are installed.
func (l *loader) programsDir() string {
	switch {
	case l.opts.GOOS != "windows":
		return ""
	case l.system != "":
		return l.system
	}
	return l.windowsDir("ProgramFiles", `C:\Program Files`)
}

// windowsDir returns the absolute folder in a variable, or where it is on most
// machines.
func (l *loader) windowsDir(name, usual string) string {
	if dir, _ := l.opts.Getenv(name); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return usual
}

// codeEditors are the folders of the editors of the VS Code family.
var codeEditors = []string{"Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Trae"}

// codeServers are the folders of those editors' remote halves.
var codeServers = []string{".vscode-server", ".vscode-server-insiders", ".cursor-server", ".windsurf-server"}

// codeFolders lists the folders that hold each editor's settings of the user.
func (l *loader) codeFolders() []string {
	var list []string
	if dir := l.appData(); dir != "" {
		for _, name := range codeEditors {
			list = append(list, filepath.Join(dir, name, "User"))
		}
	}
	for _, name := range codeServers {
		if l.opts.Home != "" {
			list = append(list, filepath.Join(l.opts.Home, name, "data", "User"))
		}
	}
	return list
}

// files lists the files of a place, sorted within each folder.
func (l *loader) files(p location) []string {
	dirs := []string{p.dir}
	for part := range strings.SplitSeq(p.path, "/") {
		var next []string
		for _, dir := range dirs {
			next = append(next, l.step(dir, part)...)
		}
		if dirs = next; len(dirs) > maxPatternFolders {
			l.reject(p.dir, fmt.Sprintf("only the first %d folders that match %s are read", maxPatternFolders, p.path))
			dirs = dirs[:maxPatternFolders]
		}
	}
	return dirs
}

// step lists what one part of a path means in a folder.
func (l *loader) step(dir, part string) []string {
	if part != latestPart && !strings.ContainsAny(part, `*?[\`) {
		return []string{filepath.Join(dir, part)}
	}
	l.looked = append(l.looked, dir)
	entries, err := os.ReadDir(dir)
	if err != nil && !isAbsent(err) {
		l.reject(dir, fmt.Sprintf("reading the folder: %v", cause(err)))
	}
	var names []string
	if part == latestPart {
		names = latest(entries)
	} else {
		names = matching(slices.Concat(namesOf(entries), l.insteadIn(dir)), part)
	}
	if len(names) > maxFilesPerSource {
		l.reject(dir, fmt.Sprintf("only the first %d of %d files are read", maxFilesPerSource, len(names)))
		names = names[:maxFilesPerSource]
	}
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names
}

// matching returns the sorted names that match a pattern. Hidden files, such
// as those that editors keep beside one that is open, never do.
func matching(all []string, pattern string) []string {
	var names []string
	for _, name := range all {
		if ok, err := path.Match(pattern, name); ok && err == nil && name[0] != '.' {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namesOf(entries []os.DirEntry) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// insteadIn lists the files of a folder that are taken to be there.
func (l *loader) insteadIn(dir string) []string {
	var names []string
	for file := range l.opts.Instead {
		if filepath.Dir(file) == dir {
			names = append(names, filepath.Base(file))
		}
	}
	return names
}

// latest returns the name with the highest version.
func latest(entries []os.DirEntry) []string {
	var names []string
	for _, e := range entries {
		if e.Name()[0] != '.' {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{slices.MaxFunc(names, compareVersions)}
}

// compareVersions compares names part by part, numbers as numbers.
func compareVersions(a, b string) int {
	parts := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '-' || r == '+' || r == '_' })
	}
	return cmp.Or(slices.CompareFunc(parts(a), parts(b), func(x, y string) int {
		left, errLeft := strconv.Atoi(x)
		right, errRight := strconv.Atoi(y)
		if errLeft == nil && errRight == nil {
			return cmp.Compare(left, right)
		}
		return cmp.Compare(x, y)
	}), cmp.Compare(a, b))
}
