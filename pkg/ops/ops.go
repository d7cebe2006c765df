// Package ops tells people and machines how a daemon is.
//
// [Handler] serves, over HTTP on the daemon's operations socket:
//
//	GET /healthz   200 while the daemon runs
//	GET /readyz    200 while sessions can start, else 503 and the reason
//	GET /status    a [Status] as JSON
//
// [Get] is the client's side. The socket is the same user's alone; there is
// no other access control.
package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	Ready     bool      `json:"ready"`
	Reason    string    `json:"reason,omitempty"` // why it is not ready
	Engine    Engine    `json:"engine"`
	Pool      Pool      `json:"pool"`
	Sandboxes []Sandbox `json:"sandboxes"` // the oldest first, at most pool.max
	Sessions  []Session `json:"sessions"`
	Servers   []Server  `json:"servers"`
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

// Server is one upstream MCP server that is or was running.
type Server struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	Calls    int64     `json:"calls"`
	Errors   int64     `json:"errors"`
	Error    string    `json:"error,omitempty"` // the last one
}

// Handler serves what status returns, which is called for each request and
// must be safe for concurrent use.
func Handler(status func() Status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s := status()
		if !s.Ready {
			http.Error(w, s.Reason, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		// A client that hung up is the only way for this to go wrong.
		_ = e.Encode(status())
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
	var d net.Dialer
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://bridged/status", nil)
	if err != nil {
		return Status{}, fmt.Errorf("asking for the status: %w", err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return Status{}, fmt.Errorf("asking for the status at %s: %w", socket, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Status{}, fmt.Errorf("asking for the status at %s: %s", socket, resp.Status)
	}
	var s Status
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&s); err != nil {
		return Status{}, fmt.Errorf("reading the status: %w", err)
	}
	return s, nil
}
