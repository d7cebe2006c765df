package bridge

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

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
	// Waiting says what servers the code waits for now that are starting, and how
	// far they are. It answers at once.
	Waiting() []string
	// Forget says that the interpreter is gone, and with it what it has read.
	Forget()
	// Close gives up the session's servers.
	Close()
}

// A runner is the part of [sandbox.Session] that a workspace uses.
type runner interface {
	Run(ctx context.Context, req sandbox.Request, onOutput func(sandbox.Output)) (sandbox.Result, error)
	Unfinished() []sandbox.Unfinished
	Resume(ctx context.Context, req sandbox.Request, onOutput func(sandbox.Output)) (sandbox.Result, error)
	Ack(key string)
	Reset(ctx context.Context) error
	Status() sandbox.SessionStatus
	Files() []sandbox.File
	CopyFile(ctx context.Context, w io.Writer, uri string, most int64) (sandbox.File, error)
	Watch(changed func())
	Close()
}

// A Keeper saves files where the user finds them. Its methods may be called from
// several goroutines.
type Keeper interface {
	// Keep saves a file under its name, or one like it. It calls write, which
	// writes at most most bytes, and returns the file's path.
	Keep(name string, write func(w io.Writer, most int64) error) (path string, err error)
}

// keepTimeout bounds the saving of what one run has published. It goes on when
// the agent has given up the call: the files are the user's.
const keepTimeout = time.Minute

// NewWorkspace joins a session of the sandbox and its servers. The workspace
// owns both. What the code publishes goes to keeper too, which may be nil.
func NewWorkspace(code *sandbox.Session, servers Upstreams, keeper Keeper) Workspace {
	return &workspace{runner: code, Upstreams: servers, keeper: keeper}
}

type workspace struct {
	runner           // Files, CopyFile and others are its own
	Upstreams        // Load and Servers are its own
	keeper    Keeper // nil saves nothing

	once sync.Once
}

// Run tells the sandbox what is reachable by now, then runs the code.
func (w *workspace) Run(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error) {
	req.Servers = w.Loaded()
	res, err := w.runner.Run(ctx, req, output)
	return w.keepAll(ctx, res), err
}

// Resume waits for a run that an earlier daemon has begun.
func (w *workspace) Resume(ctx context.Context, key string, output func(sandbox.Output)) (sandbox.Result, error) {
	res, err := w.runner.Resume(ctx, sandbox.Request{Key: key}, output)
	return w.keepAll(ctx, res), err
}

// keepAll saves what a run has published, and has the result say so.
func (w *workspace) keepAll(ctx context.Context, res sandbox.Result) sandbox.Result {
	if w.keeper != nil && len(res.Files) > 0 {
		res.Notices = append(w.keep(ctx, res.Files), res.Notices...)
	}
	return res
}

// Reset gives the session a fresh interpreter.
func (w *workspace) Reset(ctx context.Context) error {
	if err := w.runner.Reset(ctx); err != nil {
		return err
	}
	w.Forget()
	return nil
}

// keep saves what a run has published, and says where it is.
func (w *workspace) keep(ctx context.Context, files []sandbox.File) (notices []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	var saved []string
	for _, f := range files {
		path, err := w.keeper.Keep(f.Name, func(to io.Writer, most int64) error {
			_, err := w.CopyFile(ctx, to, f.URI, most)
			return err
		})
		if err != nil {
			notices = append(notices, fmt.Sprintf("%s was not saved: %v", f.Name, err))
			continue
		}
		saved = append(saved, path)
	}
	if len(saved) > 0 {
		notices = append([]string{"saved on the user's machine: " + strings.Join(saved, ", ")}, notices...)
	}
	return notices
}

// Close ends the code first, so that it makes no call of servers that are gone.
func (w *workspace) Close() {
	w.once.Do(func() {
		w.runner.Close()
		w.Upstreams.Close()
	})
}
