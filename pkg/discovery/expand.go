package discovery

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A dialect is an agent's way to write variables.
type dialect string

// The dialects. In each a text is expanded once: what a value contains is
// never expanded again, and no shell is involved.
const (
	literalDialect dialect = ""       // nothing is a variable
	claudeDialect  dialect = "claude" // ${VAR} and ${VAR:-default}
	editorDialect  dialect = "editor" // ${env:VAR}, ${input:id}, ${userHome}, ${workspaceFolder}
)

// A MissingError says which variables a definition needs and does not get. It
// holds no value.
type MissingError struct {
	Server string
	Vars   []string // environment variables that are not set
	Inputs []string // values that the agent's editor would ask for
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
	return text + strings.Join(parts, "; ")
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
	x.resolve = resolvers[s.dialect]
	s.Command = x.tilde(x.text(s.Command))
	s.Cwd = x.tilde(x.text(s.Cwd))
	s.EnvFile = x.tilde(x.text(s.EnvFile))
	s.URL = x.text(s.URL)
	s.Args = slices.Clone(s.Args)
	for i, arg := range s.Args {
		s.Args[i] = x.text(arg)
	}
	s.Env = x.values(s.Env)
	s.Headers = x.values(s.Headers)
	s.dialect = literalDialect
	if err := x.err(); err != nil {
		return s, err
	}
	return s, s.addEnvFile(home)
}

// An expansion is one server's expansion under way.
type expansion struct {
	getenv    func(string) (string, bool)
	home, cwd string
	resolve   func(x *expansion, inner string) (value string, ok bool)
	missing   MissingError
}

// bracesPattern is the form that the dialects share. An opening brace without
// a closing one stays as it is.
var bracesPattern = regexp.MustCompile(`\$\{([^{}]*)\}`)

// text expands one text.
func (x *expansion) text(text string) string {
	if x.resolve == nil || !strings.Contains(text, "${") {
		return text
	}
	return bracesPattern.ReplaceAllStringFunc(text, func(whole string) string {
		if value, ok := x.resolve(x, whole[2:len(whole)-1]); ok {
			return value
		}
		return whole
	})
}

// values expands the values of a map, in the order of its keys so that missing
// names are reported in a stable order.
func (x *expansion) values(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out[key] = x.text(m[key])
	}
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
	if len(x.missing.Vars)+len(x.missing.Inputs) == 0 {
		return nil
	}
	for _, list := range []*[]string{&x.missing.Vars, &x.missing.Inputs} {
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

// resolvers hold, for each dialect, what the text between braces stands for.
// ok is false for what is no variable of the dialect or is missing: it stays
// as written.
var resolvers = map[dialect]func(*expansion, string) (string, bool){
	claudeDialect: (*expansion).claude,
	editorDialect: (*expansion).editor,
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (x *expansion) claude(inner string) (string, bool) {
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !variableName.MatchString(name) {
		return "", false
	}
	if !hasFallback {
		return x.env(name)
	}
	if value, ok := x.getenv(name); ok {
		return value, true
	}
	return fallback, true
}

func (x *expansion) editor(inner string) (string, bool) {
	kind, name, _ := strings.Cut(inner, ":")
	switch {
	case kind == "env" && name != "":
		return x.env(name)
	case kind == "input" && name != "":
		x.missing.Inputs = append(x.missing.Inputs, name)
		return "", false
	}
	switch inner {
	case "userHome":
		return x.home, true
	case "workspaceFolder":
		return x.cwd, true
	case "workspaceFolderBasename":
		return filepath.Base(x.cwd), true
	case "pathSeparator", "/":
		return string(filepath.Separator), true
	}
	return "", false
}
