package discovery

import "time"

// A base is where a source's path starts.
type base int

const (
	atHome         base = iota // the person's home folder
	atProject                  // the working folder and its parents up to the git root
	atFile                     // the file that a variable of source.env names, and nothing else
	atConfig                   // $XDG_CONFIG_HOME or ~/.config, on every system
	atAppData                  // where a system keeps programs' settings: see loader.appData
	atLocalAppData             // %LOCALAPPDATA%, on Windows only
	atData                     // $XDG_DATA_HOME or ~/.local/share, except on Windows
	atSystem                   // the machine's own settings: see loader.systemDir
	atPrograms                 // %ProgramFiles%, on Windows only
	atText                     // no file: the variable of source.env holds the text itself
	atCode                     // the user folder of each editor of the VS Code family
)

// A source is one row of the table of agent config files. A new agent is a new
// row and a fixture.
type source struct {
	agent  string
	scope  Scope
	base   base
	path   string   // slash-separated below base; any part may be a pattern, and latestPart
	darwin string   // path on macOS, where it is another
	goos   string   // the only system where the row counts; "" means all
	env    []string // VARIABLE or VARIABLE/path that replace base and path; the first that is set

	key     []string  // path of keys to the map of servers
	named   []string  // fields that name an entry where the servers are a list
	dialect dialect   // of variables
	untyped Transport // of a URL without a type; "" means Auto

	timeout  []timeField   // where an entry has time limits, the first that is there counts
	adapt    func(*entry)  // brings what only this agent writes into common fields
	defaults []string      // fields at the top of the file that an entry without them gets
	maxBytes int64         // of a file; 0 means maxFile
	reserved []string      // names that the agent does not allow
	bare     bool          // a file may be one entry, or a map of them, without the key
	script   bool          // it is a program, which is never run, so its servers can't be known
	merged   bool          // entries of one name in several files are merged field by field
	clamp    time.Duration // the longest time limit that the agent allows; 0 means any
	minimum  time.Duration // the shortest
}

// A timeField is a field with a time limit.
type timeField struct {
	name string
	unit time.Duration
	of   limited
}

// A limited is what a time limit is for.
type limited int

const (
	startAndCall limited = iota
	onlyStart
	onlyCall
)

// projectKey stands in source.key for the project's folder, as the agent has
// recorded it.
const projectKey = "<project>"

// latestPart stands in source.path for the one folder with the highest version
// as its name.
const latestPart = "<latest>"

var (
	milliseconds = []timeField{{"timeout", time.Millisecond, startAndCall}}
	seconds      = []timeField{{"timeout", time.Second, startAndCall}}
	servers      = []string{"mcpServers"}
)
