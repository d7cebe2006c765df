package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Transport is how a server is reached.
type Transport string

// The transports. A definition whose type is missing or unknown is Auto: try
// streamable HTTP, fall back to SSE.
const (
	Stdio     Transport = "stdio"     // a local process
	HTTP      Transport = "http"      // streamable HTTP
	SSE       Transport = "sse"       // HTTP and SSE, protocol 2024-11-05
	Auto      Transport = "auto"      // a URL and no usable type
	Websocket Transport = "websocket" // ws or wss
)

// A Scope is how far a definition reaches.
type Scope string

// The scopes, strongest first.
const (
	ScopeManaged  Scope = "managed"  // everybody on the machine, by its administrator
	ScopeLocal    Scope = "local"    // one person, in one project
	ScopeProject  Scope = "project"  // everybody, in one project
	ScopeUser     Scope = "user"     // one person, everywhere
	ScopeDefaults Scope = "defaults" // everybody on the machine who says nothing else
	ScopePlugin   Scope = "plugin"   // brought by a plugin, an extension or a catalogue
)

// A Source is one place that defines a server.
type Source struct {
	Agent string // whose file it is, such as "claude-code"
	Scope Scope
	Path  string // of the file
	Key   string // of the entry in it, such as "mcpServers.git"
	Line  int    // of the entry, from 1
}

// String names the place the way error messages do: path:line (key).
func (s Source) String() string {
	return s.Path + ":" + strconv.Itoa(s.Line) + " (" + s.Key + ")"
}

// A Filter says which of a server's tools may be used. Names may be patterns
// with * and ?.
type Filter struct {
	Allow []string // nil allows every tool, an empty list none
	Deny  []string // wins over Allow
}

// Allows reports whether the tool may be listed and called.
func (f Filter) Allows(tool string) bool {
	if matchesAny(f.Deny, tool) {
		return false
	}
	return f.Allow == nil || matchesAny(f.Allow, tool)
}

// matchesAny reports whether one of the names, which may be patterns with * and
// ?, is the tool's.
func matchesAny(names []string, tool string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return matchName(name, tool) })
}

// matchName reports whether a name is meant by a pattern: * is any text and ?
// any one character, all else is itself.
func matchName(pattern, name string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == name
	}
	p, n := []rune(pattern), []rune(name)
	star, mark, i, j := -1, 0, 0, 0
	for j < len(n) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == n[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// A Server is one definition in the form that every agent's dialect is brought
// to. Texts are as written, variables included, until [Server.Expand].
type Server struct {
	Name        string
	Transport   Transport
	Command     string
	Args        []string
	Env         map[string]string // added to the inherited environment
	Unset       []string          // taken out of the inherited environment
	EnvFile     string            // file of NAME=value lines, weaker than Env
	Cwd         string
	URL         string
	Headers     map[string]string
	Description string
	OAuth       OAuth // of a remote server
	Tools       Filter

	// How long a start and a call may take; 0 means the reader's default.
	StartTimeout, CallTimeout time.Duration

	Approved []string // tools that the person lets the agent call without asking, or patterns

	// Root is the project folder of a local or project definition, empty for
	// a user's. Relative paths and an empty Cwd mean this folder.
	Root string

	// DisabledBy says what switched the server off; empty means on.
	DisabledBy string

	// Held says why the server must not be used, though it is on; empty means
	// that it may be.
	Held string

	// Sources are the places that define it; the first is the one in force,
	// others hold the same definition.
	Sources []Source

	dialect dialect
	vars    map[string]string // that the agent itself sets, such as a plugin's folder

	// approvedVars are the variables that the person lets the agent put into
	// its definitions; nil is all.
	approvedVars []string

	// Values that only the agent's environment has, by the name of the
	// variable there.
	envFrom    map[string]string // for Env, by the name for the server
	headerFrom map[string]string // for Headers, by header
	bearerFrom string            // for the header Authorization
}

// Approves reports whether the agent calls a tool without asking.
func (s Server) Approves(tool string) bool {
	return matchesAny(s.Approved, tool)
}

// Agent returns the agent whose definition is in force.
func (s Server) Agent() string {
	if len(s.Sources) == 0 {
		return ""
	}
	return s.Sources[0].Agent
}

// Dir returns the absolute folder that the server's process starts in: Cwd,
// taken relative to the project, or to home for a user's definition.
func (s Server) Dir(home string) string {
	base := s.Root
	if base == "" {
		base = home
	}
	if s.Cwd == "" {
		return base
	}
	if filepath.IsAbs(s.Cwd) {
		return s.Cwd
	}
	return filepath.Join(base, s.Cwd)
}

// launch is what decides which process or endpoint a definition means. Maps
// are written with their keys sorted, so equal launches have equal text.
type launch struct {
	Transport Transport
	Command   string
	Args      []string
	Env       map[string]string
	Unset     []string
	EnvFile   string
	Cwd       string
	Root      string
	URL       string
	Headers   map[string]string
	From      map[string]string `json:",omitempty"` // what comes from the agent's environment
}

// Digest identifies the process or endpoint that an expanded definition means:
// servers with one digest can share one upstream whatever their names, and a
// changed variable or project gives another digest. Name, description, tool
// filter and time limit do not count. It reveals no value.
func (s Server) Digest() string {
	return s.launch().digest()
}

// Identity identifies a definition as it is written, without the values of its
// environment and headers: it is the same in all sessions, and when a key in it
// is renewed. It reveals no value.
func (s Server) Identity() string {
	l := s.launch()
	l.Env, l.Headers = withoutValues(l.Env), withoutValues(l.Headers)
	return l.digest()
}

func withoutValues(m map[string]string) map[string]string {
	names := make(map[string]string, len(m))
	for name := range m {
		names[name] = ""
	}
	return names
}

func (s Server) launch() launch {
	l := launch{
		Transport: s.Transport, Command: s.Command, Args: s.Args, Env: s.Env,
		Unset: s.Unset, EnvFile: s.EnvFile, Cwd: s.Cwd, URL: s.URL, Headers: s.Headers,
	}
	if s.Transport == Stdio {
		l.Root = s.Root
	}
	for name, from := range s.envFrom {
		l.From = with(l.From, "env "+name, from)
	}
	for name, from := range s.headerFrom {
		l.From = with(l.From, "header "+name, from)
	}
	if s.bearerFrom != "" {
		l.From = with(l.From, "bearer", s.bearerFrom)
	}
	if len(l.Args) == 0 {
		l.Args = nil
	}
	if len(l.Env) == 0 {
		l.Env = nil
	}
	if len(l.Headers) == 0 {
		l.Headers = nil
	}
	return l
}

func (l launch) digest() string {
	text, err := json.Marshal(l)
	if err != nil {
		panic("discovery: marshaling strings: " + err.Error()) // cannot happen
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// A Problem is something wrong in a file, an entry or a tool. It never holds
// the value of a variable or header.
type Problem struct {
	Path string `json:"path"`
	Key  string `json:"key,omitempty"`  // of the entry or field; empty means the file as a whole
	Line int    `json:"line,omitempty"` // from 1; 0 when unknown
	Msg  string `json:"msg"`

	// Self says that the entry leads back to us, as that of an agent's shim
	// does: it is left out as it should be.
	Self bool `json:"self,omitempty"`
}

// String puts the problem on one line.
func (p Problem) String() string {
	text := p.Path
	if p.Line > 0 {
		text += ":" + strconv.Itoa(p.Line)
	}
	if p.Key != "" {
		text += " (" + p.Key + ")"
	}
	return text + ": " + p.Msg
}
