package ops

import "time"

// Server is one upstream MCP server that is or was running. A name comes
// several times when sessions mean different servers by it, or have one each.
type Server struct {
	Name      string    `json:"name"`
	State     string    `json:"state"` // "stopped", "starting", "started" or "failed"
	Transport string    `json:"transport"`
	Private   bool      `json:"private,omitempty"` // it is one session's alone
	PID       int       `json:"pid,omitempty"`
	Container string    `json:"container,omitempty"` // the engine's name for it
	Since     time.Time `json:"since,omitzero"`      // of the process, or of the start under way
	Restarts  int       `json:"restarts"`
	Calls     int64     `json:"calls"`
	Errors    int64     `json:"errors"` // of those, without the tools' own
	InFlight  int       `json:"in_flight"`
	Waiting   int       `json:"waiting"`          // calls that wait for their turn
	P50       float64   `json:"p50_ms,omitempty"` // what half of the latest calls took at most, to an eighth
	P95       float64   `json:"p95_ms,omitempty"`
	Error     string    `json:"error,omitempty"`         // the last one
	Warning   string    `json:"warning,omitempty"`       // what is odd about its list of tools
	Changed   []string  `json:"changed_tools,omitempty"` // whose definition is another than the accepted one
	Stderr    string    `json:"stderr,omitempty"`        // the end of what it wrote there, without its definition's secrets
	Log       string    `json:"log,omitempty"`           // the end of the log messages that it sent, likewise
}

// ServerRoom says how many servers there are.
type ServerRoom struct {
	Count int `json:"count"` // those that start or are being stopped included
	Max   int `json:"max"`
}
