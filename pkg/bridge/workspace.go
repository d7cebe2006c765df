package bridge

import (
	"context"
	"io"

	"github.com/bridged/bridged/pkg/sandbox"
)

// A Workspace is where one session's code runs.
type Workspace interface {
	// Run runs code and reports what it came to, whatever that is. An error
	// means that nothing ran, and its text tells an agent why and what to do.
	// Output is reported while the code runs, from one goroutine, and never
	// after Run has returned. Several calls may be made at once; they run one
	// after the other. When ctx ends the code is interrupted.
	Run(ctx context.Context, req sandbox.Request, output func(sandbox.Output)) (sandbox.Result, error)
	// Unfinished returns the runs that an earlier daemon has begun and whose
	// results nobody has acknowledged, the oldest first. It answers at once.
	Unfinished() []sandbox.Unfinished
	// Resume is Run for one of these: it waits for its end and runs nothing.
	Resume(ctx context.Context, key string, output func(sandbox.Output)) (sandbox.Result, error)
	// Ack says that the agent has the result of the run with a key. It never
	// blocks.
	Ack(key string)
	// Reset ends the interpreter with all that it holds; the next Run has a
	// fresh one. It waits for a Run under way.
	Reset(ctx context.Context) error
	// Load makes servers reachable from the next Run on. The error's text
	// tells an agent which could not be loaded and what to do.
	Load(ctx context.Context, names []string) error
	// Servers returns the names of the servers that Load would accept, sorted.
	// It answers at once with what is known.
	Servers() []string
	// Waiting says what servers the code waits for now that are starting, and how
	// far they are. It answers at once.
	Waiting() []string
	// Status says how the sandbox is. It answers at once.
	Status() sandbox.SessionStatus
	// Files returns the files that the code has published and that can be read.
	// It answers at once.
	Files() []sandbox.File
	// CopyFile writes the file at an address to w, unless it has more than
	// most bytes. It is that of [sandbox.Session], with the same errors.
	CopyFile(ctx context.Context, w io.Writer, uri string, most int64) (sandbox.File, error)
	// Watch has changed called when Files may return something else, from any
	// goroutine. It is called once, before Run. changed does not block.
	Watch(changed func())
	// Close ends what still runs and frees everything. It may be called once.
	Close()
}

// An Opener makes a Python session's [Workspace] when a shim has said hello.
// What runs there may ask agent, which lasts as long as the connection. It should
// be quick: it delays the session's first call, though not its initialize. After
// an error it is asked again at the next call.
type Opener func(ctx context.Context, hello Hello, agent *Agent) (Workspace, error)
