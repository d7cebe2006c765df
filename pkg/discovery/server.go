package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
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
	ScopeLocal   Scope = "local"   // one person, in one project
	ScopeProject Scope = "project" // everybody, in one project
	ScopeUser    Scope = "user"    // one person, everywhere
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

// A Filter says which of a server's tools may be used.
type Filter struct {
	Allow []string // nil allows every tool, an empty list none
	Deny  []string // wins over Allow
}

// Allows reports whether the tool may be listed and called.
func (f Filter) Allows(tool string) bool {
	if slices.Contains(f.Deny, tool) {
		return false
	}
	return f.Allow == nil || slices.Contains(f.Allow, "*") || slices.Contains(f.Allow, tool)
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
	Timeout     time.Duration // for a start or a call; 0 means the reader's default
	Tools       Filter

	// Root is the project folder of a local or project definition, empty for
	// a user's. Relative paths and an empty Cwd mean this folder.
	Root string

	// DisabledBy says what switched the server off; empty means on.
	DisabledBy string

	// Sources are the places that define it; the first is the one in force,
	// others hold the same definition.
	Sources []Source

	dialect dialect
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
}

// Digest identifies the process or endpoint that an expanded definition means:
// servers with one digest can share one upstream whatever their names, and a
// changed variable or project gives another digest. Name, description, tool
// filter and time limit do not count. It reveals no value.
func (s Server) Digest() string {
	return s.launch().digest()
}

func (s Server) launch() launch {
	l := launch{
		Transport: s.Transport, Command: s.Command, Args: s.Args, Env: s.Env,
		Unset: s.Unset, EnvFile: s.EnvFile, Cwd: s.Cwd, URL: s.URL, Headers: s.Headers,
	}
	if s.Transport == Stdio {
		l.Root = s.Root
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
	Path string
	Key  string // of the entry or field; empty means the file as a whole
	Line int    // from 1; 0 when unknown
	Msg  string
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
