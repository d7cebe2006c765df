package discovery

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// A MissingError says which variables a definition needs and does not get. It
// holds no value.
type MissingError struct {
	Server string
	Vars   []string // environment variables that are not set
	Inputs []string // values that the agent's editor would ask for

	// Others are things that cannot be had otherwise, each in words: a file
	// that is not there, the output of a command.
	Others []string
}

func (e *MissingError) Error() string {
	text := "server " + e.Server + " needs a value: "
	var parts []string
	if len(e.Vars) > 0 {
		parts = append(parts, "variable "+strings.Join(e.Vars, ", ")+" is not set in the agent's environment")
	}
	if len(e.Inputs) > 0 {
		parts = append(parts, "input "+strings.Join(e.Inputs, ", ")+" is only known to the editor; write its value or a variable into the config")
	}
	return text + strings.Join(append(parts, e.Others...), "; ")
}

// Expand returns the server with the variables of its dialect replaced, in
// command, args, env, url, headers, cwd and envFile, and with a leading ~ in
// command, cwd and envFile. getenv looks a variable up in the agent's
// environment; cwd is the folder the agent works in.
//
// The variables of an EnvFile become part of Env, which is stronger; a file that
// is not there has none.
//
// When values are missing the error is a [*MissingError], and when the EnvFile
// cannot be read it says so. The server is then returned as far as it goes, for
// showing only: it must not be started.
func (s Server) Expand(getenv func(string) (string, bool), home, cwd string) (Server, error) {
	x := &expansion{getenv: getenv, home: home, cwd: cwd, missing: MissingError{Server: s.Name}}
	if s.Root != "" {
		x.cwd = s.Root
	}
	x.grammar, x.vars, x.approved, x.own = grammars[s.dialect], s.vars, s.approvedVars, s.Env
	s.Command = x.tilde(x.text(inCommand, s.Command))
	s.Cwd = x.tilde(x.text(inCwd, s.Cwd))
	s.EnvFile = x.tilde(x.text(inCwd, s.EnvFile))
	s.URL = x.text(inURL, s.URL)
	s.Args = slices.Clone(s.Args)
	for i, arg := range s.Args {
		s.Args[i] = x.text(inArgs, arg)
	}
	s.Env = x.values(inEnv, s.Env)
	s.Headers = x.values(inHeaders, s.Headers)
	x.fromAgent(&s)
	s.dialect, s.vars, s.approvedVars = literalDialect, nil, nil
	s.claudeTimeouts(getenv)
	if err := x.err(); err != nil {
		return s, err
	}
	return s, s.addEnvFile(home)
}

// An expansion is one server's expansion under way.
type expansion struct {
	getenv    func(string) (string, bool)
	home, cwd string
	grammar   grammar
	vars      map[string]string // that the agent itself sets
	approved  []string          // variables that may be used; nil is all
	own       map[string]string // the entry's own variables, as written
	missing   MissingError
}

// text expands one text of a field.
func (x *expansion) text(where fieldSet, text string) string {
	g := x.grammar
	if g.resolve == nil || g.fields&where == 0 {
		return text
	}
	return g.pattern.ReplaceAllStringFunc(text, func(whole string) string {
		if value, ok := g.resolve(x, where, g.pattern.FindStringSubmatch(whole)[1:]); ok {
			return value
		}
		return whole
	})
}

// values expands the values of a map, in the order of its keys so that missing
// names are reported in a stable order. A dialect may drop those that expand to
// nothing.
func (x *expansion) values(where fieldSet, m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value := x.text(where, m[key])
		if value == "" && m[key] != "" && x.grammar.dropsEmpty&where != 0 {
			continue
		}
		out[key] = value
	}
	return out
}

// fromAgent adds the values that the definition takes from the agent's
// environment by name.
func (x *expansion) fromAgent(s *Server) {
	for _, name := range slices.Sorted(maps.Keys(s.envFrom)) {
		if value, ok := x.env(s.envFrom[name]); ok {
			s.Env = with(s.Env, name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.headerFrom)) {
		if value, ok := x.header(s.headerFrom[name]); ok {
			s.Headers = with(s.Headers, name, value)
		}
	}
	if s.bearerFrom != "" {
		if value, ok := x.header(s.bearerFrom); ok {
			s.Headers = with(s.Headers, "Authorization", "Bearer "+value)
		}
	}
	s.envFrom, s.headerFrom, s.bearerFrom = nil, nil, ""
}

// header looks a variable up that becomes a header.
func (x *expansion) header(name string) (string, bool) {
	value, ok := x.env(name)
	if ok && strings.ContainsAny(value, "\r\n\x00") {
		x.missing.Others = append(x.missing.Others, "variable "+name+" holds a line break, which no header can have")
		return "", false
	}
	return value, ok
}

// with returns a copy of m with one more value.
func with(m map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}

// tilde expands a leading ~ or ~/, the only forms that need no user database.
func (x *expansion) tilde(path string) string {
	if path == "~" {
		return x.home
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(x.home, rest)
	}
	return path
}

func (x *expansion) err() error {
	if len(x.missing.Vars)+len(x.missing.Inputs)+len(x.missing.Others) == 0 {
		return nil
	}
	for _, list := range []*[]string{&x.missing.Vars, &x.missing.Inputs, &x.missing.Others} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return &x.missing
}

// env looks a variable up, and notes it as missing when it is not set. A
// variable that is set to nothing is set.
func (x *expansion) env(name string) (string, bool) {
	value, ok := x.getenv(name)
	if !ok {
		x.missing.Vars = append(x.missing.Vars, name)
	}
	return value, ok
}
