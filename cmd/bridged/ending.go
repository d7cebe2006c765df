package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/ops"
)

const (
	// leavePatience bounds the wait for calls of servers that are under way when
	// the daemon leaves its sessions to another.
	leavePatience = 5 * time.Second

	// leaveTimeout bounds the end of the servers then: a successor waits for it.
	leaveTimeout = 8 * time.Second

	// stopPatience is how long `bridged stop` waits for the daemon's end.
	stopPatience = 60 * time.Second
)

// errTold means that the daemon was told to end with all its sessions.
var errTold = errors.New("told to stop")

// endSignals returns the signals that end the daemon.
func endSignals() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	return signals, func() { signal.Stop(signals) }
}

// obey ends the daemon, with the cause that says what becomes of its sessions,
// when it is told to: by a signal, by `bridged stop`, by a successor that takes
// its sockets over, or by ctx. It returns then, or when running ends.
func (d *daemon) obey(ctx, running context.Context, signals <-chan os.Signal, end context.CancelCauseFunc) {
	select {
	case <-running.Done():
	case <-ctx.Done():
		end(errTold)
	case <-d.stops:
		end(errTold)
	case <-d.replaced:
		d.leave(end)
	case s := <-signals:
		if s != syscall.SIGTERM {
			end(errTold)
			return
		}
		d.leave(end)
	}
}

// leave ends the daemon and lets go of the sandboxes of sessions, so that they
// live on, unless they are to end with it (run.adopt_grace).
func (d *daemon) leave(end context.CancelCauseFunc) {
	if d.legacy.grace <= 0 {
		end(errTold)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
	defer cancel()
	d.log.Info().Msg("leave sessions to another daemon")
	d.pool.Leave(ctx)
	end(bridge.ErrLeave)
}

// stop has the daemon end with all that it has. It returns at once.
func (d *daemon) stop() {
	select {
	case d.stops <- struct{}{}:
	default: // it was told before
	}
}

func stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "End the daemon with all its sessions",
		Long: "Ends the daemon at once, with all sessions, their sandboxes and servers, and returns when nothing of it is left.\n" +
			"An agent that goes on starts a new daemon. To have another one go on with the sessions, end it with SIGTERM,\n" +
			"or start it with `bridged serve --replace`.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := findPaths(os.Getenv)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), stopPatience)
			defer cancel()
			if err := ops.Stop(ctx, p.ops); err != nil {
				return noDaemon(err, p.ops)
			}
			lock, err := waitForLock(lockPath(sessionFolder(p.socket)), stopPatience)
			if err != nil {
				return fmt.Errorf("the daemon was told to stop and has not ended within %v; its log says why", stopPatience)
			}
			_ = lock.Close()
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "stopped")
			return err
		},
	}
}
