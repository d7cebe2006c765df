package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/bridged/bridged/pkg/runtime"
)

// maxStats bounds one statistics report, a few kilobytes in practice.
const maxStats = 1 << 20

// Attach implements [runtime.Engine]. Several streams may be attached to one
// container; each gets all output, and a sandbox's stdin stays open when one
// closes.
func (e *Engine) Attach(ctx context.Context, id runtime.ID, stderr io.Writer) (runtime.Stream, error) {
	once, err := e.attachable(ctx, id)
	if err != nil {
		return nil, err
	}
	// Detach keys work only with a terminal, which our containers never have.
	h, err := e.client.ContainerAttach(ctx, string(id), container.AttachOptions{
		Stream: true, Stdin: true, Stdout: true, Stderr: true,
	})
	if err != nil {
		return nil, engineError(ctx, "attach", err)
	}
	if once {
		return runtime.NewStream(conn{Conn: h.Conn, h: h}, stderr), nil
	}
	return runtime.NewStream(&attached{conn: conn{Conn: h.Conn, h: h}}, stderr), nil
}

// attachable refuses a container that has ended: the engine would let us wait
// for its next start, which never comes. Once says that the container's stdin
// ends with the first stream.
func (e *Engine) attachable(ctx context.Context, id runtime.ID) (once bool, err error) {
	c, err := e.client.ContainerInspect(ctx, string(id))
	if err != nil {
		return false, engineError(ctx, "attach", err)
	}
	if c.State == nil || c.State.Status == "exited" || c.State.Status == "dead" {
		return false, &runtime.EngineError{Op: "attach", Status: 409, Msg: "the container has ended"}
	}
	return c.Config != nil && c.Config.StdinOnce, nil
}

// Start implements [runtime.Engine].
func (e *Engine) Start(ctx context.Context, id runtime.ID) error {
	err := e.client.ContainerStart(ctx, string(id), container.StartOptions{})
	return engineError(ctx, "start", e.startError(ctx, id, err))
}

// startError tells a missing command, which the engine reports as not found
// too, from a missing container.
func (e *Engine) startError(ctx context.Context, id runtime.ID, err error) error {
	if !cerrdefs.IsNotFound(err) {
		return err
	}
	if _, gone := e.client.ContainerInspect(ctx, string(id)); gone != nil {
		return err
	}
	return fmt.Errorf("%w: %s", cerrdefs.ErrInvalidArgument, message(err))
}

// Exec implements [runtime.Engine].
func (e *Engine) Exec(ctx context.Context, id runtime.ID, cmd runtime.Command, stderr io.Writer) (runtime.Stream, error) {
	x, err := e.client.ContainerExecCreate(ctx, string(id), container.ExecOptions{
		Cmd: cmd.Argv, User: cmd.User, AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, engineError(ctx, "exec", err)
	}
	h, err := e.client.ContainerExecAttach(ctx, x.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, engineError(ctx, "exec", err)
	}
	return runtime.NewStream(conn{Conn: h.Conn, h: h}, stderr), nil
}

// A conn is a connection that the engine has handed over. It reads through the
// buffer that the client library may have filled.
type conn struct {
	net.Conn
	h types.HijackedResponse
}

func (c conn) Read(b []byte) (int, error) { return c.h.Reader.Read(b) }

func (c conn) CloseWrite() error { return c.h.CloseWrite() }

// An attached is a conn to a container whose stdin stays open for others. The
// engine takes a half-close of such a connection for the end of the client and
// stops sending output, so it is not told.
type attached struct {
	conn
	halfClosed atomic.Bool
}

func (a *attached) Write(b []byte) (int, error) {
	if a.halfClosed.Load() {
		return 0, net.ErrClosed
	}
	return a.conn.Write(b)
}

func (a *attached) CloseWrite() error {
	a.halfClosed.Store(true)
	return nil
}

// Kill implements [runtime.Engine].
func (e *Engine) Kill(ctx context.Context, id runtime.ID, signal string) error {
	return engineError(ctx, "kill", e.client.ContainerKill(ctx, string(id), signal))
}

// Pause implements [runtime.Engine].
func (e *Engine) Pause(ctx context.Context, id runtime.ID) error {
	return engineError(ctx, "pause", e.client.ContainerPause(ctx, string(id)))
}

// Unpause implements [runtime.Engine].
func (e *Engine) Unpause(ctx context.Context, id runtime.ID) error {
	return engineError(ctx, "unpause", e.client.ContainerUnpause(ctx, string(id)))
}

// Wait implements [runtime.Engine].
func (e *Engine) Wait(ctx context.Context, id runtime.ID) (runtime.Exit, error) {
	// Cancelling is what ends the client library's goroutine, so both
	// channels are waited for and ctx only through them.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The wait is registered before the look at the state, so an end between
	// the two is not missed. "Not running" would hold for a container that
	// has not been started yet.
	results, errs := e.client.ContainerWait(ctx, string(id), container.WaitConditionNextExit)
	if exit, over, err := e.exit(ctx, id); over || err != nil {
		cancel()
		drainWait(results, errs)
		return exit, err
	}
	select {
	case err := <-errs:
		return runtime.Exit{}, engineError(ctx, "wait", err)
	case r := <-results:
		return e.ended(ctx, id, r)
	}
}

// drainWait lets the client library's goroutine end.
func drainWait(results <-chan container.WaitResponse, errs <-chan error) {
	select {
	case <-results:
	case err := <-errs:
		_ = err // says that we cancelled
	}
}

func (e *Engine) ended(ctx context.Context, id runtime.ID, r container.WaitResponse) (runtime.Exit, error) {
	if r.Error != nil && r.Error.Message != "" {
		return runtime.Exit{}, &runtime.EngineError{Op: "wait", Msg: r.Error.Message}
	}
	exit, _, err := e.exit(ctx, id)
	if err != nil {
		return runtime.Exit{}, err
	}
	exit.Code = int(r.StatusCode)
	return exit, nil
}

// exit reports how the container ended, and whether it has.
func (e *Engine) exit(ctx context.Context, id runtime.ID) (runtime.Exit, bool, error) {
	c, err := e.client.ContainerInspect(ctx, string(id))
	if err != nil {
		return runtime.Exit{}, false, engineError(ctx, "wait", err)
	}
	if c.State == nil {
		return runtime.Exit{}, false, &runtime.EngineError{Op: "wait", Msg: "the engine tells no state"}
	}
	over := c.State.Status == "exited" || c.State.Status == "dead"
	return runtime.Exit{Code: c.State.ExitCode, OOM: c.State.OOMKilled}, over, nil
}

// Stats implements [runtime.Engine].
func (e *Engine) Stats(ctx context.Context, id runtime.ID) (runtime.Stats, error) {
	r, err := e.client.ContainerStatsOneShot(ctx, string(id))
	if err != nil {
		return runtime.Stats{}, engineError(ctx, "stats", err)
	}
	defer r.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(r.Body, maxStats)).Decode(&s); err != nil {
		return runtime.Stats{}, engineError(ctx, "stats", err)
	}
	if s.PidsStats.Current == 0 && s.MemoryStats.Usage == 0 {
		return runtime.Stats{}, &runtime.EngineError{Op: "stats", Status: 409, Msg: "the container is not running"}
	}
	return runtime.Stats{
		MemoryBytes: int64(s.MemoryStats.Usage),
		CPU:         time.Duration(s.CPUStats.CPUUsage.TotalUsage),
		Pids:        int64(s.PidsStats.Current),
	}, nil
}

// List implements [runtime.Engine].
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]runtime.Container, error) {
	list, err := e.client.ContainerList(ctx, container.ListOptions{All: true, Filters: labelled(labels)})
	if err != nil {
		return nil, engineError(ctx, "list", err)
	}
	rows := make([]runtime.Container, 0, len(list))
	for _, c := range list {
		rows = append(rows, runtime.Container{
			ID:      runtime.ID(c.ID),
			Name:    strings.TrimPrefix(strings.Join(c.Names, ","), "/"),
			State:   c.State,
			Labels:  c.Labels,
			Created: time.Unix(c.Created, 0),
		})
	}
	return rows, nil
}

func labelled(labels map[string]string) filters.Args {
	f := filters.NewArgs()
	for k, v := range labels {
		f.Add("label", k+"="+v)
	}
	return f
}

// removalPoll is how often a removal that another client has begun is looked
// at again.
const removalPoll = 50 * time.Millisecond

// Remove implements [runtime.Engine].
func (e *Engine) Remove(ctx context.Context, id runtime.ID) error {
	for {
		err := e.client.ContainerRemove(ctx, string(id), container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case cerrdefs.IsNotFound(err):
			return nil
		case !removing(err):
			return engineError(ctx, "remove", err)
		}
		select {
		case <-ctx.Done():
			return engineError(ctx, "remove", ctx.Err())
		case <-time.After(removalPoll):
		}
	}
}

// removing reports whether err says that somebody else removes the container.
func removing(err error) bool {
	return cerrdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress")
}
