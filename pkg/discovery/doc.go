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
// size, and never executes, contacts or writes anything. TOML and YAML become the
// same tree as JSON, with lines, YAML's aliases in place and bounded. JSON is read
// leniently whoever owns the file: byte order marks and UTF-16, comments,
// trailing commas, numbers where text should be. What is broken becomes a
// [Problem] with file, line and key; its neighbours are unaffected.
//
// # Precedence
//
// Within one agent the agent's own rule holds, which is the order of its rows:
// for Claude Code, local (one person in one project) over project (.mcp.json)
// over user over plugin. The whole entry counts, also when it is switched off.
// In a folder of files the first by name wins. The definitions that lose are in
// [Result].Shadowed.
//
// OpenCode, Kilo Code and Crush merge their files: an entry's fields come from
// the strongest file that has each. Where a project's own file has a part in it,
// the whole is the project's.
//
// Between agents, definitions that are equal for the session (variables in
// place) are one server with several sources. When they differ, the one of the
// stronger scope keeps the name (managed, local, project, user, defaults,
// plugin), then the one that comes first in the table, which begins with
// ~/MCPs, ~/.config/mcp/servers, $MCP_SERVERS_CONFIG and Claude Code. The others
// are called agent/name. Names that differ in case are different names.
//
// A file that several agents read is the first one's alone: .mcp.json with
// mcpServers is Claude Code's, whose lists say what is off, and with servers
// Visual Studio's.
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
// # Trust
//
// A project's own files come with the project, from whoever wrote it. When
// [Options].Trust does not allow one of their definitions, it is in
// [Result].Held: it must be neither started nor contacted, and it neither hides
// nor switches off one of the person's own. What is asked about is the real
// folder and all of the definition as written, see [Server.Definition]; local
// definitions are in the person's own file and need no trust.
//
// # Variables
//
// Files keep their own dialect; grammars lists them all. ~/MCPs and many others
// have no variables. Claude Code has ${VAR} and ${VAR:-default}, where a variable
// set to nothing counts as set. Cursor and VS Code have ${env:VAR}, ${input:id},
// ${userHome} and ${workspaceFolder}. [Server.Expand] replaces them once, never
// through a shell, in the fields where the agent does; a leading ~ in command and
// cwd is the home folder in all of them. What is no variable of the dialect
// stays as it is. A value that is missing makes the one server unusable, with
// the variable's name, whatever the agent itself would put in its place.
//
// # Off switches
//
// An entry with disabled: true, enabled: false, isActive: false or state:
// disabled is off for every agent, and so are the servers that an agent's lists
// turn off: Claude Code's (disabledMcpServers, disabledMcpjsonServers,
// deniedMcpServers, enabledPlugins, and its administrator's managed-mcp.json and
// allowedMcpServers), Gemini CLI's and Qwen Code's (mcp.allowed, mcp.excluded,
// mcp-server-enablement.json) and Amazon Q's (useLegacyMcpJson). They are in
// [Result].Disabled and must not be started.
//
// Single tools are off by an entry's own lists, in every agent's spelling, and by
// the permissions in Claude Code's settings; see [Filter]. Lists that approve
// tools are in [Server].Approved, and those of a project's files are left out.
//
// # Tools
//
// A tool's schemas become parameters and types in Python's words, as far as
// they can: references are followed within the schema, and what is odd leaves a
// loose tool with its Problem, never none. Types are cut from the inside when
// they are long.
//
// [Catalog.Check] compares arguments with the inputSchema itself, which is
// compiled when it is first needed. [Catalog.Learn] keeps the [Shape] of results:
// types and names of fields, no values, merged within bounds such that the order
// does not matter. It lives as long as the catalogue, or longer with
// [Catalog.ExportLearnt], and stays when a server's tools are dropped.
//
// An [Archive] keeps lists of tools on disk, a file for each definition that is
// called by the definition's digest, and what was learnt of results in one more.
// Files have a version and a checksum; one that is damaged or of another version
// counts as not there.
//
// # Concurrency
//
// Load and all other functions may be called from many goroutines, and a
// [Catalog] is safe for concurrent use. Servers and tools are values that
// nobody changes once they are handed out.
package discovery
