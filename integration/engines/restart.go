//go:build integration

package engines

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
)

// Crash kills the engine's service the hard way. Its containers run on where
// the engine lets them: under Podman, each has a monitor of its own.
func (r *Running) Crash(ctx context.Context) error {
	if err := signal(ctx, -r.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the engine %s: %w", r.Name, err)
	}
	select {
	case <-r.exited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Restart starts the service of an engine that has crashed, on the same socket
// and the same storage.
func (r *Running) Restart(ctx context.Context) error {
	// Docker's containerd died with it; while it is a zombie, its pid file
	// would make the new Docker wait for it.
	containerd := filepath.Join(r.layout.run, "root", "containerd", "containerd.pid")
	if err := asRoot(ctx, "rm", "-f", r.layout.socket, containerd); err != nil {
		return err
	}
	r.exited = make(chan struct{})
	if err := r.launch(); err != nil {
		return err
	}
	return r.dial(ctx)
}
