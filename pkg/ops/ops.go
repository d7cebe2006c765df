// Package ops tells people and machines how a daemon is.
//
// [Handler] serves, over HTTP on the daemon's operations socket:
//
//	GET /healthz   200 while the daemon runs
//	GET /readyz    200 while sessions can start, else 503 and the reason
//	GET /status    a [Status] as JSON
//	GET /status.schema.json    the JSON Schema of that
//
// [HandleEvents] adds what happens, as it does, [HandleApprovals] the calls that wait for a person, [HandlePins] the tools
// that have changed, and [HandleCatalog] the lists of tools. [Get] and others are
// the client's side. The socket is the same user's alone; there is
// no other access control. [Guard] is that of a TCP port.
package ops

import (
	"context"
	_ "embed" // of the schema
	"fmt"
	"net"
	"net/http"
	"time"
)

// SchemaVersion is the version of [Status]. Fields are only ever added under
// one version.
const SchemaVersion = 1

// maxStatus bounds what a client reads of a status, in bytes.
const maxStatus = 16 << 20

// Status is a snapshot of the daemon.
type Status struct {
	Schema    int       `json:"schema"`
	Version   string    `json:"version"`
	Versions  Versions  `json:"versions"`
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	Ready     bool      `json:"ready"`
	Reason    string    `json:"reason,omitempty"` // why it is not ready
	Engine    Engine    `json:"engine"`
	Pool      Pool      `json:"pool"`
	Sandboxes []Sandbox `json:"sandboxes"` // the oldest first, at most pool.max
	Sessions  []Session `json:"sessions"`
	Servers   []Server  `json:"servers"`

	ServerRoom ServerRoom `json:"server_room"`
	Audit      *Audit     `json:"audit,omitempty"`  // null when it is switched off
	Traces     *Traces    `json:"traces,omitempty"` // null when none are made
	Approvals  int        `json:"approvals"`        // calls that wait for a person
	Queues     Queues     `json:"queues"`
	Ops        Access     `json:"ops"`
}

// Access says where the daemon answers people and machines.
type Access struct {
	Socket    string `json:"socket"`
	Address   string `json:"address,omitempty"`    // IP:PORT, if one is configured and can be had
	URL       string `json:"url,omitempty"`        // of that, for a browser
	TokenFile string `json:"token_file,omitempty"` // which holds what is asked for there
	Error     string `json:"error,omitempty"`      // why there is no address
	Profiles  bool   `json:"profiles"`             // /debug/pprof is there
}

// Versions are those of what the daemon is made of and speaks. Its engine's are
// in [Engine].
type Versions struct {
	Go      string   `json:"go"`
	MCP     []string `json:"mcp"`     // of the protocol with agents, the newest first
	Shim    int      `json:"shim"`    // of the wire between shim and daemon
	Sandbox int      `json:"sandbox"` // of the frames between daemon and sandbox
}

// Queues say how much waits now.
type Queues struct {
	Runs      int `json:"runs"`      // calls of run_python behind others of their Python session
	Leases    int `json:"leases"`    // Python sessions that wait for a sandbox
	Calls     int `json:"calls"`     // of servers' tools, for their turn
	Approvals int `json:"approvals"` // calls that wait for a person
	Shims     int `json:"shims"`     // sessions of an earlier daemon, for their agents' shims to come back
}

// Audit is the audit log.
type Audit struct {
	Path    string `json:"path"`
	Waiting int    `json:"waiting"` // lines that are not written yet
	Dropped uint64 `json:"dropped"` // lines that could not be, and that no gap tells of yet
	Error   string `json:"error,omitempty"`
}

// Traces is what becomes of the spans of calls' traces.
type Traces struct {
	Endpoint string `json:"endpoint"` // the collector that they are sent to
	Waiting  int64  `json:"waiting"`  // spans that are not sent yet
	Exported int64  `json:"exported"`
	Failed   int64  `json:"failed"`          // that the collector has not taken
	Dropped  int64  `json:"dropped"`         // for which there was no room
	Error    string `json:"error,omitempty"` // why the last batch failed
}

// Engine is the container engine in use.
type Engine struct {
	Name          string   `json:"name,omitempty"` // "podman" or "docker"; "" while none is reachable
	Version       string   `json:"version,omitempty"`
	APIVersion    string   `json:"api_version,omitempty"`
	Rootless      bool     `json:"rootless"`
	CgroupVersion string   `json:"cgroup_version,omitempty"`
	Endpoint      string   `json:"endpoint,omitempty"`
	Image         string   `json:"image"`
	Degraded      []string `json:"degraded,omitempty"` // limits set by other means than the engine's
	Error         string   `json:"error,omitempty"`    // why no engine is in use
}

// Pool is the pool of sandboxes.
type Pool struct {
	Target   int    `json:"target"`
	Max      int    `json:"max"`
	Limit    string `json:"limit"` // in words: how many there may be, and what setting says so
	Warm     int    `json:"warm"`
	Leased   int    `json:"leased"`
	Creating int    `json:"creating"`
	Failures int    `json:"failures"` // launches failed in a row
	Error    string `json:"error,omitempty"`
}

// Session is one agent's connection.
type Session struct {
	ID      string    `json:"id"` // first characters only: the whole is a secret
	Client  string    `json:"client,omitempty"`
	PID     int       `json:"pid"`
	Cwd     string    `json:"cwd"`
	Since   time.Time `json:"since"`
	Calls   int64     `json:"calls"`
	Running int       `json:"running"`
	Pythons []Python  `json:"pythons"`

	// Of its sandboxes, as far as they were sampled; null if none was.
	MemoryBytes *int64   `json:"memory_bytes"`
	CPUSeconds  *float64 `json:"cpu_seconds"`
}

// Python is one Python session of a connection.
type Python struct {
	Name         string    `json:"name"`              // "" is the default one
	State        string    `json:"state"`             // "none", "running", "idle" or "paused"
	Sandbox      string    `json:"sandbox,omitempty"` // its ID
	Since        time.Time `json:"since"`
	Used         time.Time `json:"used,omitzero"` // when a call last asked for it
	SandboxSince time.Time `json:"sandbox_since,omitzero"`
	Calls        int64     `json:"calls"`
	Running      int       `json:"running"`
	Lost         string    `json:"lost,omitempty"` // what the next call will tell of a loss
}

//go:embed status.schema.json
var statusSchema []byte

// Handler serves what status returns, and the error of ready while sessions
// can't start. Both are called for each request and must be safe for concurrent
// use.
func Handler(status func() Status, ready func() error) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, status())
	})
	mux.HandleFunc("GET /status.schema.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		// A client that hung up is the only way for this to go wrong.
		_, _ = w.Write(statusSchema)
	})
	return mux
}

// Serve answers on ln until ctx ends.
func Serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() }) // it only closes sockets
	defer stop()
	if err := srv.Serve(ln); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving operations: %w", err)
	}
	return nil
}

// Get asks the daemon behind a socket for its status.
func Get(ctx context.Context, socket string) (Status, error) {
	var s Status
	err := call(ctx, socket, http.MethodGet, "/status", nil, &s)
	return s, err
}
