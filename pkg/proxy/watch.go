package proxy

import (
	"errors"
	"time"
)

// A ServerEventKind says what has become of a server.
type ServerEventKind string

// What becomes of servers.
const (
	ServerStarted ServerEventKind = "started"
	ServerStopped ServerEventKind = "stopped" // by us
	ServerFailed  ServerEventKind = "failed"  // it could not be started, or has ended by itself
)

// A ServerEvent is what [Options].Watch is told. It has nothing in it that the
// server wrote.
type ServerEvent struct {
	Kind    ServerEventKind
	Server  string // as in [ServerStatus]
	Took    time.Duration
	Restart bool  // it is not the first start
	Err     error // why it has failed
}

// tell passes on what has become of the server.
func (b *backend) tell(e ServerEvent) {
	if watch := b.proxy.opts.Watch; watch != nil {
		e.Server = b.name
		if died, ok := errors.AsType[*deathError](e.Err); ok {
			e.Err = errors.New(died.reason)
		}
		watch(e)
	}
}

// endOf is the end of a process. Took is how long it was there.
func endOf(u *upstream) ServerEvent {
	if errors.Is(u.cause, errStopped) {
		return ServerEvent{Kind: ServerStopped, Took: time.Since(u.since)}
	}
	return ServerEvent{Kind: ServerFailed, Took: time.Since(u.since), Err: u.cause}
}
