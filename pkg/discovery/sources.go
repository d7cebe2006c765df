package discovery

import "time"

// A base is where a source's path starts.
type base int

const (
	atHome    base = iota // the person's home folder
	atProject             // the working folder and its parents up to the git root
	atFile                // the file that the variable in source.env names
)

// A source is one row of the table of agent config files. A new agent is a new
// row and a fixture.
type source struct {
	agent string
	scope Scope
	base  base
	path  string // slash-separated below base; the last part may be a pattern
	env   string // variable that replaces the folder of path, or for atFile names the file

	key     []string  // path of keys to the map of servers
	dialect dialect   // of variables
	untyped Transport // of a URL without a type; "" means Auto

	timeUnit time.Duration // of an entry's timeout; 0 when the agent has none
	maxBytes int64         // of a file; 0 means maxFile
	reserved []string      // names that the agent does not allow
	bare     bool          // a file may be one entry, or a map of them, without the key
}

// projectKey stands in source.key for the project's folder, as the agent has
// recorded it.
const projectKey = "<project>"

// sources lists every file that is read. The order is the precedence between
// agents within one scope.
var sources = []source{
	{agent: "seed", scope: ScopeUser, base: atHome, path: "MCPs/*.json",
		key: []string{"mcpServers"}, bare: true, timeUnit: time.Millisecond},
	{agent: "seed", scope: ScopeUser, base: atHome, path: ".config/mcp/servers/*.json",
		key: []string{"mcpServers"}, bare: true, timeUnit: time.Millisecond},
	{agent: "seed", scope: ScopeUser, base: atFile, env: "MCP_SERVERS_CONFIG",
		key: []string{"mcpServers"}, bare: true, timeUnit: time.Millisecond},

	{agent: "claude-code", scope: ScopeLocal, base: atHome, path: ".claude.json", env: "CLAUDE_CONFIG_DIR",
		key: []string{"projects", projectKey, "mcpServers"}, dialect: claudeDialect,
		maxBytes: maxStateFile, reserved: []string{"workspace"}},
	{agent: "claude-code", scope: ScopeProject, base: atProject, path: ".mcp.json",
		key: []string{"mcpServers"}, dialect: claudeDialect, reserved: []string{"workspace"}},
	{agent: "claude-code", scope: ScopeUser, base: atHome, path: ".claude.json", env: "CLAUDE_CONFIG_DIR",
		key: []string{"mcpServers"}, dialect: claudeDialect,
		maxBytes: maxStateFile, reserved: []string{"workspace"}},

	{agent: "visual-studio", scope: ScopeProject, base: atProject, path: ".mcp.json",
		key: []string{"servers"}, dialect: editorDialect},

	{agent: "cursor", scope: ScopeUser, base: atHome, path: ".cursor/mcp.json",
		key: []string{"mcpServers"}, dialect: editorDialect},
}
