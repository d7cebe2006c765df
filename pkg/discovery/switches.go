package discovery

import (
	"fmt"
	"path/filepath"
	"slices"
)

// switchOff applies the lists that switch servers off outside of their own
// entries, once every file has been read.
func (l *loader) switchOff() {
	if slices.Contains(l.opts.Exclude, "claude-code") {
		return
	}
	for i := range l.found {
		c := &l.found[i]
		if c.Agent() == "claude-code" && c.DisabledBy == "" {
			c.DisabledBy = l.claudeSwitch(c.Server)
		}
	}
}

// claudeSwitch says which of Claude Code's lists switches a server off. The
// state file has lists for each project, and the settings files of person,
// project and both have lists of their own.
func (l *loader) claudeSwitch(s Server) string {
	off := func(doc *document, where, list string, key ...string) string {
		if doc == nil || !slices.Contains(doc.strings(append(key, list)...), s.Name) {
			return ""
		}
		return fmt.Sprintf("%s in %s", joinKey(append(key, list)...), where)
	}
	if why := l.stateSwitch(s, off); why != "" {
		return why
	}
	for _, file := range l.claudeSettings() {
		doc := l.open(file, 0)
		if doc == nil {
			continue
		}
		if s.Sources[0].Scope == ScopeProject {
			if why := off(doc, file, "disabledMcpjsonServers"); why != "" {
				return why
			}
		}
		if isDenied(doc, s.Name) {
			return "deniedMcpServers in " + file
		}
	}
	return ""
}

func (l *loader) stateSwitch(s Server, off func(*document, string, string, ...string) string) string {
	row := slices.IndexFunc(sources, func(r source) bool { return slices.Contains(r.key, projectKey) })
	src := &sources[row]
	home := l.homeOf(src)
	if home == "" {
		return ""
	}
	file := filepath.Join(home, src.path)
	doc := l.open(file, src.maxBytes)
	if doc == nil {
		return ""
	}
	project := l.recordedProject(doc, []string{"projects"})
	if project == "" {
		return ""
	}
	if why := off(doc, file, "disabledMcpServers", "projects", project); why != "" {
		return why
	}
	if s.Sources[0].Scope != ScopeProject {
		return ""
	}
	return off(doc, file, "disabledMcpjsonServers", "projects", project)
}

// claudeSettings lists the settings files that apply, strongest first.
func (l *loader) claudeSettings() []string {
	var files []string
	for _, dir := range l.projects {
		for _, name := range []string{"settings.local.json", "settings.json"} {
			if file := filepath.Join(dir, ".claude", name); l.insideProject(file) {
				files = append(files, file)
			}
		}
	}
	home := filepath.Join(l.opts.Home, ".claude")
	if dir, _ := l.opts.Getenv("CLAUDE_CONFIG_DIR"); filepath.IsAbs(dir) {
		home = dir
	}
	if filepath.IsAbs(home) {
		files = append(files, filepath.Join(home, "settings.json"))
	}
	return files
}

// isDenied reports whether a settings file denies a server by name.
func isDenied(doc *document, name string) bool {
	list, _ := doc.value("deniedMcpServers")
	return slices.ContainsFunc(list.items, func(n node) bool {
		denied, ok := n.get("serverName")
		return ok && denied.kind == kindString && denied.text == name
	})
}
