package bridge

import (
	"context"
	"sync"

	"github.com/bridged/bridged/pkg/sandbox"
)

// Upstreams are the MCP servers of one session.
type Upstreams interface {
	// Load makes servers reachable for the session's code. The error's text
	// tells an agent which could not be loaded and what to do.
	Load(ctx context.Context, names []string) error
	// Loaded returns what Load has made reachable so far.
	Loaded() []sandbox.Server
	// Servers returns the names that Load would accept, sorted, at once.
	Servers() []string
	// Close gives up the session's servers.
	Close()
}

// A runner is the part of [sandbox.Session] that a workspace uses.
type runner interface {
	Run(ctx context.Context, req sandbox.Request, onOutput func(sandbox.Output)) (sandbox.Result, error)
	Reset(ctx context.Context) error
	Status() sandbox.SessionStatus
	Close()
}

// NewWorkspace joins a session of the sandbox and its servers. The workspace
// owns both.
func NewWorkspace(code *sandbox.Session, servers Upstreams) Workspace {
	return &workspace{runner: code, Upstreams: servers}
}

type workspace struct {
	runner    runner
	Upstreams // Load and Servers are its own

	once sync.Once
}

// Run tells the sandbox what is reachable by now, then runs the code.
func (w *workspace) Run(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
	req.Servers = w.Loaded()
	return w.runner.Run(ctx, req, output)
}

// Reset gives the next run a fresh interpreter. The servers stay loaded.
func (w *workspace) Reset(ctx context.Context) error { return w.runner.Reset(ctx) }

// Status says how the sandbox is.
func (w *workspace) Status() sandbox.SessionStatus { return w.runner.Status() }

// Close ends the code first, so that it makes no call of servers that are gone.
func (w *workspace) Close() {
	w.once.Do(func() {
		w.runner.Close()
		w.Upstreams.Close()
	})
}
