//go:build integration

package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
)

// What a fault may take.
type scope int

const (
	nothing scope = iota // every session lives
	own                  // the victim's session and no other
	maybe                // any, if the agent is told
)

// A fault is something that goes wrong.
type fault struct {
	name string
	// takes is which sessions it may take on an engine.
	takes func(w *world) scope
	// strike makes it happen and mends it. Victim is the agent it is for. It
	// reports whether it happened: a container may just have gone.
	strike func(ctx context.Context, w *world, b blow) (bool, error)
}

func takes(s scope) func(*world) scope { return func(*world) scope { return s } }

// withEngine is what goes with the engine's service: Docker's containers.
func withEngine(w *world) scope {
	if w.engine.Kind == runtime.Docker {
		return maybe
	}
	return nothing // sandboxes wait for it
}

// faults is all that goes wrong, and what it may take.
var faults = []fault{
	{"the daemon is killed", takes(nothing), func(ctx context.Context, w *world, b blow) (bool, error) {
		return true, w.restart(ctx, syscall.SIGKILL, b.hold)
	}},
	{"the daemon is restarted", takes(nothing), func(ctx context.Context, w *world, _ blow) (bool, error) {
		return true, w.restart(ctx, syscall.SIGTERM, 0)
	}},
	{"the daemon is paused", takes(nothing), func(ctx context.Context, w *world, b blow) (bool, error) {
		return true, freeze(ctx, w.pid(), b.hold)
	}},
	{"the engine is killed", withEngine, func(ctx context.Context, w *world, b blow) (bool, error) {
		return true, w.restartEngine(ctx, w.engine.Crash, b.hold)
	}},
	{"the engine is restarted", withEngine, func(ctx context.Context, w *world, b blow) (bool, error) {
		return true, w.restartEngine(ctx, w.engine.End, b.hold)
	}},
	{"the engine hangs", takes(nothing), func(ctx context.Context, w *world, b blow) (bool, error) {
		if err := w.engine.Freeze(ctx); err != nil {
			return false, err
		}
		sleep(ctx, b.hold)
		return true, w.engine.Thaw(context.WithoutCancel(ctx))
	}},
	{"a container is killed", takes(own), func(ctx context.Context, w *world, b blow) (bool, error) {
		return w.withContainer(ctx, b, func(id runtime.ID) error { return w.engine.Engine.Kill(ctx, id, "SIGKILL") })
	}},
	{"a container is removed", takes(own), func(ctx context.Context, w *world, b blow) (bool, error) {
		return w.withContainer(ctx, b, func(id runtime.ID) error { return w.engine.Engine.Remove(ctx, id) })
	}},
	{"a container is paused", takes(nothing), func(ctx context.Context, w *world, b blow) (bool, error) {
		if w.engine.Name == engines.Rootless {
			return false, nil // on cgroups v1 it can't be
		}
		return w.withContainer(ctx, b, func(id runtime.ID) error {
			if err := w.engine.Pause(ctx, id); err != nil {
				return err
			}
			sleep(ctx, b.hold)
			_ = w.engine.Engine.Unpause(ctx, id) // the daemon may have, or the session has ended
			return nil
		})
	}},
	{"a shim is killed", takes(nothing), func(_ context.Context, w *world, b blow) (bool, error) {
		return true, syscall.Kill(w.agents[b.victim].doom(), syscall.SIGKILL)
	}},
	{"a shim is paused", takes(nothing), func(ctx context.Context, w *world, b blow) (bool, error) {
		return true, freeze(ctx, w.agents[b.victim].pid(), b.hold)
	}},
	{"the server is killed", takes(nothing), func(_ context.Context, w *world, _ blow) (bool, error) {
		return w.eachServer(func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) })
	}},
	{"the server is paused", takes(nothing), func(ctx context.Context, w *world, b blow) (bool, error) {
		return w.eachServer(func(pid int) error { return freeze(ctx, pid, b.hold) })
	}},
	{"the disk is full", takes(nothing), func(ctx context.Context, w *world, b blow) (bool, error) {
		return true, w.fill(ctx, b.hold)
	}},
}

// find returns the fault of that name.
func find(name string) fault {
	for _, f := range faults {
		if f.name == name {
			return f
		}
	}
	panic("no fault is called " + name)
}

// freeze stops a process from running for a while.
func freeze(ctx context.Context, pid int, hold time.Duration) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pausing process %d: %w", pid, err)
	}
	sleep(ctx, hold)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("resuming process %d: %w", pid, err)
	}
	return nil
}

func (w *world) restart(ctx context.Context, sig syscall.Signal, hold time.Duration) error {
	if err := w.end(ctx, sig); err != nil {
		return err
	}
	sleep(ctx, hold/4)
	return w.start(ctx)
}

func (w *world) restartEngine(ctx context.Context, end func(context.Context) error, hold time.Duration) error {
	if err := end(ctx); err != nil {
		return err
	}
	sleep(ctx, hold)
	return w.engine.Restart(ctx)
}

// withContainer does something to the victim's container.
func (w *world) withContainer(ctx context.Context, b blow, do func(runtime.ID) error) (bool, error) {
	pid := w.agents[b.victim].pid()
	for _, s := range w.status(ctx).Sessions {
		if s.PID != pid || len(s.Pythons) != 1 || s.Pythons[0].Sandbox == "" {
			continue
		}
		list, err := w.engine.Engine.List(ctx, map[string]string{runtime.LabelSandbox: s.Pythons[0].Sandbox})
		if err != nil {
			return false, err
		}
		if len(list) == 1 {
			return true, do(list[0].ID)
		}
	}
	return false, nil
}

func (w *world) eachServer(do func(pid int) error) (bool, error) {
	struck := false
	for pid := range w.processes("calc.py") {
		if err := do(pid); err == nil { // it may have ended
			struck = true
		}
	}
	return struck, nil
}

// fill leaves no room on the disk with the home, for a while.
func (w *world) fill(ctx context.Context, hold time.Duration) error {
	junk := filepath.Join(w.dir, "junk")
	f, err := os.Create(junk)
	if err != nil {
		return err
	}
	for block := make([]byte, 4096); err == nil; _, err = f.Write(block) {
	}
	sleep(ctx, hold)
	_ = f.Close() // the disk is full
	return os.Remove(junk)
}
