package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Agents lists the agents whose files are read, sorted.
func Agents() []string {
	var names []string
	for _, src := range sources {
		names = append(names, src.agent)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// reads reports whether an agent's files are to be read at all.
func (o Options) reads(agent string) bool {
	return (len(o.Sources) == 0 || slices.Contains(o.Sources, agent)) && !slices.Contains(o.Exclude, agent)
}

// excludesFile reports whether a file, or a folder that it lies in, is left
// out by its path.
func (o Options) excludesFile(file string) bool {
	return slices.ContainsFunc(o.Exclude, func(pattern string) bool {
		if home, ok := strings.CutPrefix(pattern, "~/"); ok {
			pattern = filepath.Join(o.Home, home)
		}
		if !filepath.IsAbs(pattern) {
			return false
		}
		for at := file; ; at = filepath.Dir(at) {
			if ok, err := filepath.Match(pattern, at); ok && err == nil {
				return true
			}
			if at == filepath.Dir(at) {
				return false
			}
		}
	})
}

// excludesServer reports whether one server of an agent's is left out.
func (o Options) excludesServer(s Server) bool {
	return slices.Contains(o.Exclude, s.Agent()+"/"+s.Name)
}

// Definition identifies everything that a definition says, as it is written:
// values, variables and what the agent may do unasked included. What a person
// has approved is this; any change gives another. It reveals no value.
func (s Server) Definition() string {
	text, err := json.Marshal(struct {
		Agent, Name string
		Launch      launch
		Root        string
		Dialect     dialect
		Tools       Filter
		Approved    []string
		Description string
		Timeouts    [2]time.Duration
		Vars        map[string]string
		EnvFrom     map[string]string
		HeaderFrom  map[string]string
		BearerFrom  string
		OAuth       OAuth
	}{
		s.Agent(), s.Name, s.launch(), s.Root, s.dialect, s.Tools, s.Approved, s.Description,
		[2]time.Duration{s.StartTimeout, s.CallTimeout}, s.vars, s.envFrom, s.headerFrom, s.bearerFrom, s.OAuth,
	})
	if err != nil {
		panic("discovery: marshaling strings: " + err.Error()) // cannot happen
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Takes lists the variables of the agent's environment that the definition
// passes on by their name alone, sorted; those inside of its texts are to be
// seen there.
func (s Server) Takes() []string {
	names := slices.Concat(slices.Collect(maps.Values(s.envFrom)), slices.Collect(maps.Values(s.headerFrom)))
	if s.bearerFrom != "" {
		names = append(names, s.bearerFrom)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hold takes the definitions out of the found ones that a project's own files
// have and nobody has allowed. They hide nothing: a repository that was just
// cloned must not be able to replace or to switch off a server of the person's.
func (l *loader) hold(res *Result) {
	if l.opts.Trust == nil {
		return
	}
	own := l.ownEntries()
	l.found = slices.DeleteFunc(l.found, func(c candidate) bool {
		if !c.ofProject() {
			return false
		}
		if c.Root == "" && c.depth < len(l.projects) {
			c.Root = l.projects[c.depth]
		}
		c.Held = l.distrust(c.Server)
		switch {
		case c.Held == "":
			return false
		case own[rowOf(c)]:
			// Whoever works in the home folder has it as the person's already.
		case c.DisabledBy != "":
			res.Disabled = append(res.Disabled, c.Server)
		default:
			res.Held = append(res.Held, c.Server)
		}
		return true
	})
	slices.SortStableFunc(res.Held, func(a, b Server) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Sources[0].Path, b.Sources[0].Path))
	})
}

// ofProject reports whether a project's own files have a part in a definition.
func (c candidate) ofProject() bool {
	return sources[c.row].base == atProject || c.Sources[0].Scope == ScopeProject || c.project
}

// A rowAt is one entry of one file.
type rowAt struct{ agent, path, key string }

func rowOf(c candidate) rowAt {
	e := rowAt{c.Agent(), c.Sources[0].Path, c.Sources[0].Key}
	if target, err := filepath.EvalSymlinks(e.path); err == nil {
		e.path = target
	}
	return e
}

// ownEntries are the entries of the person's own files.
func (l *loader) ownEntries() map[rowAt]bool {
	own := map[rowAt]bool{}
	for _, c := range l.found {
		if !c.ofProject() {
			own[rowOf(c)] = true
		}
	}
	return own
}

// distrust says why a project's definition must not be used; empty means that
// it may be.
func (l *loader) distrust(s Server) string {
	if l.opts.TrustAgents && s.Agent() == "claude-code" && l.claudeApproves(s.Name) {
		return ""
	}
	return l.opts.Trust(s)
}

// claudeApproves reports whether the person has told Claude Code to use a
// project's server. Only the person's own files count: what a project's
// settings say of the project's servers is the project's word.
func (l *loader) claudeApproves(name string) bool {
	if doc, project := l.claudeState(); project != "" && approvesIn(doc, name, "projects", project) {
		return true
	}
	home := l.claudeHome()
	if home == "" {
		return false
	}
	doc := l.open(filepath.Join(home, "settings.json"), 0)
	return doc != nil && approvesIn(doc, name)
}

func approvesIn(doc *document, name string, at ...string) bool {
	if slices.Contains(doc.strings(append(slices.Clone(at), "enabledMcpjsonServers")...), name) {
		return true
	}
	all, ok := doc.value(append(slices.Clone(at), "enableAllProjectMcpServers")...)
	return ok && all.kind == kindTrue
}
