// Package discovery finds the MCP servers that a person's agents are
// configured with, and finds the right tool among theirs.
//
//	config files --Load--> Servers --Expand--> definitions to start
//	tools/list results --ParseTools--> Tools --Catalog--> Search, Signature
//
// # Definitions
//
// One table, sources, says where each agent keeps its servers, in which format
// and dialect. [Load] reads the files that apply to a session, each bounded in
// size, and never executes, contacts or writes anything. JSON is read
// leniently whoever owns the file: byte order marks and UTF-16, comments,
// trailing commas, numbers where text should be. What is broken becomes a
// [Problem] with file, line and key; its neighbours are unaffected.
//
// # Precedence
//
// Within one agent the agent's own rule holds: local (one person in one
// project) over project (.mcp.json) over user, and the whole entry counts, also
// when it is switched off. In a folder of files the first by name wins. The
// definitions that lose are in [Result].Shadowed.
//
// Between agents, definitions that are equal for the session (variables in
// place) are one server with several sources. When they differ, the one of the
// stronger scope keeps the name, then the one that comes first in the table:
// ~/MCPs, ~/.config/mcp/servers, $MCP_SERVERS_CONFIG, Claude Code, Visual
// Studio, Cursor. The others are called agent/name. Names that differ in case
// are different names.
//
// # Projects
//
// A project is the working folder and its parents up to the git root, the
// nearest first; without a git repository it is the working folder alone.
// Symbolic links are resolved before: a folder belongs where it really lies,
// and a project file that is a link out of the project is not read. A session
// sees the local servers that Claude Code has recorded for the nearest of these
// folders, and nothing of any other project.
//
// # Variables
//
// Files keep their own dialect. ~/MCPs has no variables. Claude Code has ${VAR}
// and ${VAR:-default}, where a variable set to nothing counts as set. Cursor and
// Visual Studio have ${env:VAR}, ${input:id}, ${userHome} and
// ${workspaceFolder}. [Server.Expand] replaces them once, never through a shell,
// in every field that a server gets; a leading ~ in command and cwd is the home
// folder in all of them. $VAR, $$ and an unclosed brace stay as they are. A value
// that is missing makes the one server unusable, with the variable's name.
//
// # Off switches
//
// An entry with disabled: true, enabled: false, isActive: false or state:
// disabled is off for every agent, and so are the servers that Claude Code's
// lists turn off (disabledMcpServers, disabledMcpjsonServers,
// deniedMcpServers). They are in [Result].Disabled and must not be started.
//
// # Concurrency
//
// Load and all other functions may be called from many goroutines, and a
// [Catalog] is safe for concurrent use. Servers and tools are values that
// nobody changes once they are handed out.
package discovery
