package podman

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/bridged/bridged/pkg/runtime"
)

// waitInterval is how often it is looked whether a container has ended: by the
// service, once it has been started.
const waitInterval = 50 * time.Millisecond

// Start implements [runtime.Engine].
func (e *Engine) Start(ctx context.Context, id runtime.ID) error {
	return engineError(ctx, "start", containers.Start(e.with(ctx), string(id), nil))
}

// Kill implements [runtime.Engine].
func (e *Engine) Kill(ctx context.Context, id runtime.ID, signal string) error {
	err := containers.Kill(e.with(ctx), string(id), new(containers.KillOptions).WithSignal(signal))
	return engineError(ctx, "kill", err)
}

// Pause implements [runtime.Engine].
func (e *Engine) Pause(ctx context.Context, id runtime.ID) error {
	return engineError(ctx, "pause", containers.Pause(e.with(ctx), string(id), nil))
}

// Unpause implements [runtime.Engine].
func (e *Engine) Unpause(ctx context.Context, id runtime.ID) error {
	return engineError(ctx, "unpause", containers.Unpause(e.with(ctx), string(id), nil))
}

// Wait implements [runtime.Engine].
func (e *Engine) Wait(ctx context.Context, id runtime.ID) (runtime.Exit, error) {
	// The bindings try three times with pauses between, even when ctx has
	// ended; the caller need not wait for that.
	type result struct {
		code int32
		err  error
	}
	done := make(chan result, 1)
	// It ends soon after ctx, and at the latest with the container.
	go func() {
		if err := e.waitStarted(ctx, id); err != nil {
			done <- result{err: err}
			return
		}
		opts := new(containers.WaitOptions).WithInterval(waitInterval.String()).WithConditions([]string{"stopped", "exited"})
		code, err := containers.Wait(e.with(ctx), string(id), opts)
		done <- result{code, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return runtime.Exit{}, engineError(ctx, "wait", r.err)
		}
		return e.exit(ctx, id, int(r.code))
	case <-ctx.Done():
		return runtime.Exit{}, engineError(ctx, "wait", ctx.Err())
	}
}

// waitStarted waits while the container has not been started. Podman 4 takes
// one for ended.
func (e *Engine) waitStarted(ctx context.Context, id runtime.ID) error {
	for {
		c, err := containers.Inspect(e.with(ctx), string(id), nil)
		if err != nil {
			return err
		}
		if c.State == nil || c.State.Status != "created" && c.State.Status != "configured" && c.State.Status != "initialized" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitInterval):
		}
	}
}

func (e *Engine) exit(ctx context.Context, id runtime.ID, code int) (runtime.Exit, error) {
	c, err := containers.Inspect(e.with(ctx), string(id), nil)
	if err != nil {
		return runtime.Exit{}, engineError(ctx, "wait", err)
	}
	if c.State == nil {
		return runtime.Exit{}, &runtime.EngineError{Op: "wait", Msg: "the engine tells no state"}
	}
	return runtime.Exit{Code: code, OOM: c.State.OOMKilled}, nil
}

// Stats implements [runtime.Engine]. A rootless service on cgroups v1 has no
// statistics and refuses.
func (e *Engine) Stats(ctx context.Context, id runtime.ID) (runtime.Stats, error) {
	reports, err := containers.Stats(e.with(ctx), []string{string(id)}, new(containers.StatsOptions).WithStream(false))
	if err != nil {
		return runtime.Stats{}, e.noStats(ctx, id, err)
	}
	// One report always comes, be it an error: without it the bindings'
	// goroutine would not end.
	r := <-reports
	if r.Error != nil || len(r.Stats) != 1 {
		return runtime.Stats{}, e.noStats(ctx, id, nil)
	}
	s := r.Stats[0]
	return runtime.Stats{
		MemoryBytes: int64(s.MemUsage),
		CPU:         time.Duration(s.CPUNano),
		Pids:        int64(s.PIDs),
	}, nil
}

// noStats says why there are no statistics, where the service said cause or
// nothing: its reason may come as an empty object, which the bindings can't
// read.
func (e *Engine) noStats(ctx context.Context, id runtime.ID, cause error) error {
	c, err := containers.Inspect(e.with(ctx), string(id), nil)
	if err != nil {
		return engineError(ctx, "stats", err)
	}
	if cause != nil {
		return engineError(ctx, "stats", cause)
	}
	msg := "the engine can't read the container's cgroups"
	if c.State == nil || !c.State.Running {
		msg = "the container is not running"
	}
	return &runtime.EngineError{Op: "stats", Status: http.StatusConflict, Msg: msg}
}

// List implements [runtime.Engine].
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]runtime.Container, error) {
	opts := new(containers.ListOptions).WithAll(true).WithFilters(labelled(labels))
	list, err := containers.List(e.with(ctx), opts)
	if err != nil {
		return nil, engineError(ctx, "list", err)
	}
	rows := make([]runtime.Container, 0, len(list))
	for _, c := range list {
		rows = append(rows, runtime.Container{
			ID:      runtime.ID(c.ID),
			Name:    strings.Join(c.Names, ","),
			State:   c.State,
			Labels:  c.Labels,
			Created: c.Created,
		})
	}
	return rows, nil
}

func labelled(labels map[string]string) map[string][]string {
	f := make(map[string][]string)
	for k, v := range labels {
		f["label"] = append(f["label"], k+"="+v)
	}
	return f
}

const (
	// removeTries bounds how often a removal is tried that met the container
	// between two states: it ended by itself just then.
	removeTries = 10
	removePause = 50 * time.Millisecond
)

// Remove implements [runtime.Engine].
func (e *Engine) Remove(ctx context.Context, id runtime.ID) error {
	for try := 1; ; try++ {
		err := e.remove(ctx, id)
		if err == nil || gone(err) {
			return nil
		}
		if try == removeTries || !betweenStates(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(removePause):
		}
	}
}

func (e *Engine) remove(ctx context.Context, id runtime.ID) error {
	opts := new(containers.RemoveOptions).WithForce(true).WithVolumes(true).WithTimeout(0)
	reports, err := containers.Remove(e.with(ctx), string(id), opts)
	for _, r := range reports {
		err = errors.Join(err, r.Err)
	}
	return engineError(ctx, "remove", err)
}

// betweenStates reports whether the service refused because the container was
// just changing its state.
func betweenStates(err error) bool {
	return strings.Contains(err.Error(), "container state improper") ||
		strings.Contains(err.Error(), "could not be stopped")
}
