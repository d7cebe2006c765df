package bridge

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// listPatience bounds how long a tools/list waits for the workspace, which
// knows the servers' names. The list is of use without them.
const listPatience = 2 * time.Second

// A desk holds a session's workspace and opens it when it is first wanted. Its
// methods may be called from several goroutines.
type desk struct {
	ctx   context.Context // the session's
	open  func(context.Context) (Workspace, error)
	files func() // told when the workspace's files have changed; must not block

	turn   chan struct{} // holds one token; its holder may use closed and set ws
	closed bool
	ws     atomic.Pointer[Workspace] // nil while there is none
}

func newDesk(ctx context.Context, open func(context.Context) (Workspace, error), files func()) *desk {
	return &desk{ctx: ctx, open: open, files: files, turn: make(chan struct{}, 1)}
}

// prepare opens the workspace ahead of its first use.
func (d *desk) prepare(log zerolog.Logger) {
	if _, err := d.get(d.ctx); err != nil {
		log.Warn().Err(err).Msg("open workspace")
	}
}

// get returns the workspace, which stays the desk's. It is opened on the
// session's context: a caller that gives up spoils it for nobody.
func (d *desk) get(ctx context.Context) (Workspace, error) {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-d.turn }()
	if d.closed {
		return nil, errClientGone
	}
	if ws := d.opened(); ws != nil {
		return ws, nil
	}
	ws, err := d.open(d.ctx)
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	ws.Watch(d.files)
	d.ws.Store(&ws)
	return ws, nil
}

// opened returns the workspace if there is one by now.
func (d *desk) opened() Workspace {
	if ws := d.ws.Load(); ws != nil {
		return *ws
	}
	return nil
}

// servers returns the names of the servers that can be loaded, as far as they
// are known soon.
func (d *desk) servers(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	ws, err := d.get(ctx)
	if err != nil {
		return nil // the first call tells why
	}
	return ws.Servers()
}

// close closes the workspace. The session's context must have ended.
func (d *desk) close() {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	d.closed = true
	if ws := d.ws.Swap(nil); ws != nil {
		(*ws).Close()
	}
}
