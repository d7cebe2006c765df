package discovery

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// managedClaude lists where a file of Claude Code lies that the machine's
// administrator has written.
func (l *loader) managedClaude(name string) []string {
	var files []string
	for i := range sources {
		src := &sources[i]
		if src.agent != "claude-code" || src.scope != ScopeManaged {
			continue
		}
		for _, p := range l.places(src) {
			files = append(files, filepath.Join(p.dir, filepath.Dir(filepath.FromSlash(p.path)), name))
		}
	}
	return files
}

// notManaged says why a server is off where the administrator names the only
// ones that there are, also while that file can't be read.
func (l *loader) notManaged(s Server) string {
	if s.Sources[0].Scope == ScopeManaged {
		return ""
	}
	for _, file := range l.managedClaude("managed-mcp.json") {
		if exists(file) {
			return file + " alone says which servers there are"
		}
	}
	return ""
}

// notAllowed says why a server is off that the administrator's list of allowed
// ones lacks. Anybody else's list of these allows and forbids nothing.
func (l *loader) notAllowed(s Server) string {
	for _, file := range l.managedClaude("managed-settings.json") {
		doc := l.open(file, 0)
		if doc == nil {
			continue
		}
		list, ok := doc.value("allowedMcpServers")
		if !ok || list.kind != kindArray {
			continue
		}
		if l.isAllowed(list, s) {
			return ""
		}
		return "it is not in allowedMcpServers in " + file
	}
	return ""
}

// isAllowed applies a list of allowed servers. Where it has commands, a server
// with a command must have one of them, whatever its name, and likewise for URLs.
func (l *loader) isAllowed(list node, s Server) bool {
	strict := "serverUrl"
	if s.Transport == Stdio {
		strict = "serverCommand"
	}
	var only node
	for _, item := range list.items {
		if _, ok := item.get(strict); ok {
			only.items = append(only.items, item)
		}
	}
	if len(only.items) > 0 {
		return l.isListed(only, s)
	}
	return l.isListed(list, s)
}

// isListed reports whether one entry of a list of policy means a server: by its
// name, by its whole command line, or by a pattern for its URL.
func (l *loader) isListed(list node, s Server) bool {
	expanded, _ := s.Expand(l.opts.Getenv, l.opts.Home, l.opts.Cwd) // what is missing stays as written
	return slices.ContainsFunc(list.items, func(n node) bool {
		if n.kind == kindString {
			return n.text == s.Name
		}
		if name, ok := n.get("serverName"); ok {
			return name.kind == kindString && name.text == s.Name
		}
		if pattern, ok := n.get("serverUrl"); ok {
			return pattern.kind == kindString && s.URL != "" && (matchName(pattern.text, expanded.URL) || matchName(pattern.text, s.URL))
		}
		command, ok := n.get("serverCommand")
		return ok && (isCommand(command, expanded) || isCommand(command, s))
	})
}

func isCommand(words node, s Server) bool {
	argv := append([]string{s.Command}, s.Args...)
	return s.Transport == Stdio && words.kind == kindArray && slices.EqualFunc(words.items, argv, func(n node, arg string) bool {
		text, ok := n.scalar()
		return ok && text == arg
	})
}

// claudeTimeouts takes the limits that Claude Code has for all its servers from
// the agent's environment, in milliseconds.
func (s *Server) claudeTimeouts(getenv func(string) (string, bool)) {
	if s.Agent() != "claude-code" {
		return
	}
	limit := func(name string, to *time.Duration) {
		text, _ := getenv(name)
		ms, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if *to == 0 && err == nil && ms > 0 {
			*to = time.Duration(min(ms, maxTimeout.Milliseconds())) * time.Millisecond
		}
	}
	limit("MCP_TIMEOUT", &s.StartTimeout)
	limit("MCP_TOOL_TIMEOUT", &s.CallTimeout)
}
