package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/systemd"
)

// listen returns the listeners for shims and for operators: those that systemd
// hands over, else new ones.
func listen(p paths) (shims, operators net.Listener, err error) {
	inherited, err := systemd.Inherited()
	if err != nil {
		return nil, nil, err
	}
	defer inherited.Close()
	if shims, err = listenAt(inherited, p.socket); err != nil {
		return nil, nil, err
	}
	if operators, err = listenAt(inherited, p.ops); err == nil {
		err = inherited.Unclaimed()
	}
	if err != nil {
		_ = shims.Close() // the error at hand says more
		if operators != nil {
			_ = operators.Close()
		}
		return nil, nil, err
	}
	return shims, operators, nil
}

// predecessorPatience is how long a daemon waits for the end of the one before,
// which may have to end servers that do not want to.
const predecessorPatience = 60 * time.Second

// listenSoon is listen, and waits for a daemon that is ending: it does not answer
// any more, and still has the sockets' locks.
func listenSoon(p paths) (shims, operators net.Listener, err error) {
	for deadline := time.Now().Add(predecessorPatience); ; time.Sleep(10 * time.Millisecond) {
		shims, operators, err = listen(p)
		if !errors.Is(err, bridge.ErrInUse) || answers(p.socket) || time.Now().After(deadline) {
			return shims, operators, err
		}
	}
}

// answers reports whether somebody listens on a socket.
func answers(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		_ = conn.Close() // it was only looked whether it can be opened
	}
	return err == nil
}

func listenAt(inherited *systemd.Sockets, path string) (net.Listener, error) {
	if ln := inherited.Take(path); ln != nil {
		return bridge.Adopt(ln)
	}
	return bridge.Listen(path)
}

// underSystemd tells systemd that the daemon answers, for as long as it does,
// and that it ends, until ctx ends. The daemon is alive if it can say how it is:
// for that it needs every lock that a call needs.
func (d *daemon) underSystemd(ctx context.Context) {
	report := func(err error) {
		if err != nil {
			d.log.Warn().Err(err).Msg("tell systemd")
		}
	}
	report(systemd.Ready("serving agents on " + d.paths.socket))
	systemd.Watch(ctx, func(ctx context.Context) error {
		_, err := ops.Get(ctx, d.paths.ops)
		return err
	}, report)
	<-ctx.Done()
	report(systemd.Stopping())
}
