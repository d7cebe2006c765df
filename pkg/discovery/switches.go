package discovery

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// switchOff applies the lists that switch servers off outside of their own
// entries, once every file has been read.
func (l *loader) switchOff() {
	for i := range l.found {
		c := &l.found[i]
		if c.DisabledBy != "" {
			continue
		}
		switch c.Agent() {
		case "claude-code":
			c.DisabledBy = l.claudeSwitch(c.Server)
			l.claudePermissions(&c.Server)
		case "gemini-cli":
			c.DisabledBy = l.geminiSwitch(c.Server)
		case "qwen-code":
			c.DisabledBy = l.qwenSwitch(c.Server)
		case "amazon-q":
			c.DisabledBy = l.amazonSwitch(c.Server)
		case "docker-mcp":
			c.DisabledBy = l.dockerSwitch(&c.Server)
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
	if why := l.notManaged(s); why != "" {
		return why
	}
	if why := l.stateSwitch(s, off); why != "" {
		return why
	}
	if s.Sources[0].Scope == ScopePlugin {
		if why := l.pluginSwitch(s); why != "" {
			return why
		}
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
		if list, ok := doc.value("deniedMcpServers"); ok && l.isListed(list, s) {
			return "deniedMcpServers in " + file
		}
	}
	return l.notAllowed(s)
}

func (l *loader) stateSwitch(s Server, off func(*document, string, string, ...string) string) string {
	doc, project := l.claudeState()
	if project == "" {
		return ""
	}
	if why := off(doc, doc.path, "disabledMcpServers", "projects", project); why != "" {
		return why
	}
	if s.Sources[0].Scope != ScopeProject {
		return ""
	}
	return off(doc, doc.path, "disabledMcpjsonServers", "projects", project)
}

// claudeState returns Claude Code's state file and the name under which it
// knows the project, empty if it does not.
func (l *loader) claudeState() (doc *document, project string) {
	row := slices.IndexFunc(sources, func(r source) bool { return slices.Contains(r.key, projectKey) })
	src := &sources[row]
	places := l.places(src)
	if len(places) == 0 {
		return nil, ""
	}
	if doc = l.open(filepath.Join(places[0].dir, places[0].path), src.maxBytes); doc == nil {
		return nil, ""
	}
	return doc, l.recordedProject(doc, []string{"projects"})
}

// claudeSettings lists the settings files that apply, strongest first.
func (l *loader) claudeSettings() []string {
	files := l.managedClaude("managed-settings.json")
	for _, dir := range l.projects {
		for _, name := range []string{"settings.local.json", "settings.json"} {
			if file := filepath.Join(dir, ".claude", name); l.insideProject(file) {
				files = append(files, file)
			}
		}
	}
	if home := l.claudeHome(); home != "" {
		files = append(files, filepath.Join(home, "settings.json"))
	}
	return files
}

// claudeHome returns the folder of the person's own settings of Claude Code,
// empty if there is none.
func (l *loader) claudeHome() string {
	if dir, _ := l.opts.Getenv("CLAUDE_CONFIG_DIR"); filepath.IsAbs(dir) {
		return dir
	}
	if filepath.IsAbs(l.opts.Home) {
		return filepath.Join(l.opts.Home, ".claude")
	}
	return ""
}

// claudePermissions applies the rules on tools of Claude Code's settings files:
// those that are denied are off, and those that are allowed are called without
// asking, unless a project's file says so, which others write.
func (l *loader) claudePermissions(s *Server) {
	for _, file := range l.claudeSettings() {
		doc := l.open(file, 0)
		if doc == nil {
			continue
		}
		s.Tools.Deny = append(s.Tools.Deny, claudeTools(doc.strings("permissions", "deny"), s.Name)...)
		if !l.shared(file) {
			s.Approved = append(s.Approved, claudeTools(doc.strings("permissions", "allow"), s.Name)...)
		}
	}
}

// shared reports whether a settings file is a project's for everybody.
func (l *loader) shared(file string) bool {
	dir := filepath.Dir(filepath.Dir(file))
	return filepath.Base(file) == "settings.json" && dir != l.opts.Home && slices.Contains(l.projects, dir)
}

// claudeTools returns the tools of a server that permission rules name, such as
// mcp__server__tool; mcp__server alone is all of them.
func claudeTools(rules []string, server string) []string {
	prefix := "mcp__" + strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || (r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r))) {
			return r
		}
		return '_'
	}, server)
	var tools []string
	for _, rule := range rules {
		if rule == prefix {
			tools = append(tools, "*")
		} else if tool, ok := strings.CutPrefix(rule, prefix+"__"); ok && tool != "" {
			tools = append(tools, tool)
		}
	}
	return tools
}
