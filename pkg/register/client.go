package register

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Name is what the entry is called in every agent's file.
const Name = "bridged"

// A client is one row of the table of agents: where its file is and what an
// entry looks like. A path's first part may be ~, {config}, {support} or
// {appdata}; see [Where]. Of several paths the first that exists counts, or
// else the first.
type client struct {
	name    string
	syntax  syntax
	key     []string // path of keys to the servers
	entry   func(shim string) []field
	linux   []string
	darwin  []string // nil means as on Linux
	windows []string // nil means as on Linux
	env     string   // variable that names the folder instead
	envFile string   // the file below that folder
	project []string // below the project's folder; nil when the agent has none
	marker  string   // folder that shows the agent is there, if the file's own does not
	blank   string   // what a new file needs besides the servers

	variables []string // signs of a variable in a text
	words     []string // further fields that bridged reads as the agent does
	untyped   string   // how a URL without a type is reached
	also      []string // other files of settings in JSON that speak of servers
	rules     []string // keys of settings that hold for all servers
}

// clients lists the agents, in the order in which they are shown.
var clients = []client{
	{name: "claude-code", syntax: jsonc{}, key: []string{"mcpServers"}, entry: typed,
		linux: []string{"~/.claude.json"}, env: "CLAUDE_CONFIG_DIR", envFile: ".claude.json",
		project: []string{".mcp.json"}, marker: "~/.claude", variables: []string{"${"},
		also: []string{"~/.claude/settings.json", "~/.claude/settings.local.json"}, rules: []string{"allowedMcpServers"}},
	{name: "claude-desktop", syntax: jsonc{}, key: []string{"mcpServers"}, entry: plain,
		linux:   []string{"{config}/Claude/claude_desktop_config.json", "{config}/claude/claude_desktop_config.json"},
		darwin:  []string{"{support}/Claude/claude_desktop_config.json"},
		windows: []string{"{appdata}/Claude/claude_desktop_config.json"}},
	{name: "cursor", syntax: jsonc{}, key: []string{"mcpServers"}, entry: plain,
		linux: []string{"~/.cursor/mcp.json"}, project: []string{".cursor/mcp.json"}, variables: []string{"${"}},
	{name: "vscode", syntax: jsonc{}, key: []string{"servers"}, entry: typed,
		linux:   []string{"{config}/Code/User/mcp.json"},
		darwin:  []string{"{support}/Code/User/mcp.json"},
		windows: []string{"{appdata}/Code/User/mcp.json"},
		project: []string{".vscode/mcp.json"}, variables: []string{"${"}},
	{name: "windsurf", syntax: jsonc{}, key: []string{"mcpServers"}, entry: plain,
		linux: []string{"~/.codeium/windsurf/mcp_config.json"}, variables: []string{"${"}},
	{name: "gemini-cli", syntax: jsonc{}, key: []string{"mcpServers"}, entry: plain,
		linux: []string{"~/.gemini/settings.json"}, project: []string{".gemini/settings.json"},
		variables: []string{"$", "%"}, words: limit, also: []string{"~/.gemini/mcp-server-enablement.json"}, rules: []string{"allowed"}},
	{name: "codex", syntax: toml{}, key: []string{"mcp_servers"}, entry: plain,
		linux: []string{"~/.codex/config.toml"}, env: "CODEX_HOME", envFile: "config.toml",
		project: []string{".codex/config.toml"}, untyped: "http",
		words: []string{"env_vars", "http_headers", "env_http_headers", "bearer_token_env_var",
			"startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"}},
	{name: "opencode", syntax: jsonc{}, key: []string{"mcp"}, entry: opencode,
		linux:   []string{"{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"},
		windows: []string{"~/.config/opencode/opencode.json", "~/.config/opencode/opencode.jsonc"},
		project: []string{"opencode.json", "opencode.jsonc"}, variables: []string{"{env:", "{file:"}, words: limit},
	{name: "zed", syntax: jsonc{}, key: []string{"context_servers"}, entry: withArgs,
		linux:   []string{"{config}/zed/settings.json"},
		darwin:  []string{"~/.config/zed/settings.json"},
		windows: []string{"{appdata}/zed/settings.json", "~/.config/zed/settings.json"},
		project: []string{".zed/settings.json"}, untyped: "http", words: limit,
		rules: []string{"context_server_timeout"}},
	{name: "cline", syntax: jsonc{}, key: []string{"mcpServers"}, entry: plain,
		linux: []string{"~/.cline/data/settings/cline_mcp_settings.json"},
		env:   "CLINE_DATA_DIR", envFile: "settings/cline_mcp_settings.json",
		variables: []string{"${"}, untyped: "sse", words: limit},
	{name: "goose", syntax: yaml{}, key: []string{"extensions"}, entry: goose,
		linux:   []string{"{config}/goose/config.yaml"},
		darwin:  []string{"~/.config/goose/config.yaml"},
		windows: []string{"{appdata}/Block/goose/config/config.yaml"},
		words:   []string{"env_keys", "timeout"}},
	{name: "continue", syntax: yaml{list: true}, key: []string{"mcpServers"}, entry: plain,
		linux: []string{"~/.continue/config.yaml"}, env: "CONTINUE_GLOBAL_DIR", envFile: "config.yaml",
		variables: []string{"${{"},
		blank:     "name: Local Assistant\nversion: 1.0.0\nschema: v1\n"},
}

// limit is a time limit, in a unit of the agent's.
var limit = []string{"timeout"}

// A field is one line of an entry. Its value is one that JSON has.
type field struct {
	key   string
	value any
}

func plain(shim string) []field { return []field{{"command", shim}} }

func typed(shim string) []field { return []field{{"type", "stdio"}, {"command", shim}} }

func withArgs(shim string) []field { return []field{{"command", shim}, {"args", []any{}}} }

func opencode(shim string) []field {
	return []field{{"type", "local"}, {"command", []any{shim}}}
}

func goose(shim string) []field {
	return []field{{"enabled", true}, {"type", "stdio"}, {"name", Name}, {"cmd", shim}, {"args", []any{}}}
}

// Clients lists the names of the agents that are known.
func Clients() []string {
	names := make([]string, len(clients))
	for i, c := range clients {
		names[i] = c.name
	}
	return names
}

// Where says whose files are meant.
type Where struct {
	GOOS    string              // linux, darwin, windows
	Home    string              // absolute
	Project string              // absolute; "" means the person's own files
	Getenv  func(string) string // of XDG_CONFIG_HOME, APPDATA and the agents' own variables
}

// Files lists the files that an agent may have, the one that counts first if
// there are several.
func (w Where) Files(name string) []string {
	at := slices.IndexFunc(clients, func(c client) bool { return c.name == name })
	if at < 0 {
		return nil
	}
	return w.candidates(&clients[at])
}

// path returns the file of an agent, or "" if it has none there.
func (w Where) path(c *client) string {
	list := w.candidates(c)
	for _, path := range list {
		if exists(path) {
			return path
		}
	}
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (w Where) candidates(c *client) []string {
	list := c.project
	if w.Project == "" {
		if dir := w.folder(c.env); dir != "" {
			return []string{filepath.Join(dir, c.envFile)}
		}
		list = c.linux
		if w.GOOS == "darwin" && c.darwin != nil {
			list = c.darwin
		}
		if w.GOOS == "windows" && c.windows != nil {
			list = c.windows
		}
	}
	paths := make([]string, len(list))
	for i, path := range list {
		paths[i] = w.expand(path)
	}
	return paths
}

// expand puts the person's folders in place.
func (w Where) expand(path string) string {
	first, rest, _ := strings.Cut(path, "/")
	rest = filepath.FromSlash(rest)
	switch first {
	case "~":
		return filepath.Join(w.Home, rest)
	case "{config}":
		return filepath.Join(or(w.folder("XDG_CONFIG_HOME"), filepath.Join(w.Home, ".config")), rest)
	case "{support}":
		return filepath.Join(w.Home, "Library", "Application Support", rest)
	case "{appdata}":
		return filepath.Join(or(w.folder("APPDATA"), filepath.Join(w.Home, "AppData", "Roaming")), rest)
	}
	return filepath.Join(w.Project, filepath.FromSlash(path))
}

// folder returns the absolute path that a variable holds, or "".
func (w Where) folder(name string) string {
	if name == "" || w.Getenv == nil || !filepath.IsAbs(w.Getenv(name)) {
		return ""
	}
	return w.Getenv(name)
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Present lists the agents whose file is there, or the folder that it belongs in.
func (w Where) Present() []string {
	var names []string
	for i := range clients {
		c := &clients[i]
		if path := w.path(c); path != "" && w.present(c, path) {
			names = append(names, c.name)
		}
	}
	return names
}

func (w Where) present(c *client, path string) bool {
	if exists(path) || w.Project == "" && c.marker != "" && exists(w.expand(c.marker)) {
		return true
	}
	dir := filepath.Dir(path)
	return !slices.Contains([]string{w.Home, w.Project}, dir) && exists(dir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
