package discovery

import (
	"path/filepath"
	"slices"
)

// amazonSwitch says why a server of one of Amazon Q's old files is off: they
// count when one of its agents says so, or when there are no agents. A project's
// agents say nothing of the person's own file.
func (l *loader) amazonSwitch(s Server) string {
	if filepath.Base(s.Sources[0].Path) != "mcp.json" {
		return ""
	}
	seen := false
	for i := range sources {
		src := &sources[i]
		if src.agent != "amazon-q" || src.defaults == nil || src.scope == ScopeProject && s.Sources[0].Scope != ScopeProject {
			continue
		}
		for _, doc := range l.documentsOf(src) {
			seen = true
			if legacy, ok := doc.value("useLegacyMcpJson"); ok {
				if on, known := legacy.truth(); known && on {
					return ""
				}
			}
		}
	}
	if !seen {
		return ""
	}
	return "useLegacyMcpJson is true in none of the agents"
}

// documentsOf returns the documents that a row of the table reads.
func (l *loader) documentsOf(src *source) []*document {
	var docs []*document
	for _, p := range l.places(src) {
		for _, file := range l.files(p) {
			if l.opts.excludesFile(file) || src.base == atProject && !l.insideProject(file) {
				continue
			}
			if doc := l.open(file, src.maxBytes); doc != nil {
				docs = append(docs, doc)
			}
		}
	}
	return docs
}

// kiroApproved returns the variables that the person has approved in Kiro, nil
// when neither of its settings files has a list.
func (l *loader) kiroApproved() []string {
	if l.kiro != nil {
		return *l.kiro
	}
	const key = "kiroAgent.mcpApprovedEnvVars"
	var approved []string
	for _, file := range l.kiroSettings() {
		doc := l.open(file, maxStateFile)
		if doc == nil {
			continue
		}
		if list, ok := doc.value(key); ok && list.kind == kindArray {
			approved = append(append([]string{}, approved...), doc.strings(key)...)
		}
	}
	slices.Sort(approved)
	l.kiro = &approved
	return approved
}

func (l *loader) kiroSettings() []string {
	var files []string
	if l.opts.Home != "" {
		files = append(files, filepath.Join(l.opts.Home, ".kiro", "settings", "cli.json"))
	}
	if dir := l.appData(); dir != "" {
		files = append(files, filepath.Join(dir, "Kiro", "User", "settings.json"))
	}
	return files
}
