package discovery

import (
	"path/filepath"
	"slices"
	"strings"
)

// geminiSwitch says which of Gemini CLI's lists switches a server off. Names
// are compared without case and the space around them.
func (l *loader) geminiSwitch(s Server) string {
	normal := func(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
	same := func(entry, name string) bool { return normal(entry) == normal(name) }
	if why := l.listSwitch("gemini-cli", s.Name, same); why != "" {
		return why
	}
	if l.opts.Home == "" {
		return ""
	}
	file := filepath.Join(l.opts.Home, ".gemini", "mcp-server-enablement.json")
	doc := l.open(file, 0)
	if doc == nil {
		return ""
	}
	list, err := doc.members(doc.whole(), nil)
	if err != nil {
		doc.broken(err, nil)
		return ""
	}
	for _, m := range list {
		if !same(m.key, s.Name) {
			continue
		}
		if on, ok := doc.value(m.key, "enabled"); ok {
			if value, known := on.truth(); known && !value {
				return m.key + ".enabled in " + file
			}
		}
	}
	return ""
}

// qwenSwitch says which of Qwen Code's lists switches a server off. Their
// entries are patterns.
func (l *loader) qwenSwitch(s Server) string {
	return l.listSwitch("qwen-code", s.Name, matchName)
}

// listSwitch applies mcp.excluded of every settings file of an agent, and
// mcp.allowed of the strongest that has it: a server that it lacks is off. A
// project's list counts beside the person's and not in its place, since a cloned
// repository must not be able to turn on what a person has left out.
func (l *loader) listSwitch(agent, name string, same func(entry, name string) bool) string {
	done := map[bool]bool{} // for projects, and for the others
	for _, f := range l.settingsOf(agent) {
		doc := l.open(f.path, maxStateFile)
		if doc == nil {
			continue
		}
		has := func(entries []string) bool {
			return slices.ContainsFunc(entries, func(entry string) bool { return same(entry, name) })
		}
		if has(doc.strings("mcp", "excluded")) {
			return "mcp.excluded in " + f.path
		}
		if list, ok := doc.value("mcp", "allowed"); ok && list.kind == kindArray && !done[f.project] {
			done[f.project] = true
			if !has(doc.strings("mcp", "allowed")) {
				return "it is not in mcp.allowed in " + f.path
			}
		}
	}
	return ""
}

// A settingsFile is one of an agent.
type settingsFile struct {
	path    string
	project bool
}

// settingsOf lists the settings files of an agent, strongest first.
func (l *loader) settingsOf(agent string) []settingsFile {
	var files []settingsFile
	for i := range sources {
		src := &sources[i]
		if src.agent != agent || src.scope == ScopePlugin {
			continue
		}
		for _, at := range l.places(src) {
			for _, file := range l.files(at) {
				if !l.opts.excludesFile(file) && (src.base != atProject || l.insideProject(file)) {
					files = append(files, settingsFile{file, src.base == atProject})
				}
			}
		}
	}
	return files
}
