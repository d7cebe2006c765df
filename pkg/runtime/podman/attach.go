package podman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/bridged/bridged/pkg/runtime"
)

// Attach implements [runtime.Engine]. The end of the first attached stream
// closes the container's stdin for good: conmon does that.
func (e *Engine) Attach(ctx context.Context, id runtime.ID, stderr io.Writer) (runtime.Stream, error) {
	if err := e.attachable(ctx, id); err != nil {
		return nil, err
	}
	query := url.Values{
		// Present and empty turns the detach keys off; absent does not.
		"detachKeys": {""},
		"stdin":      {"true"}, "stdout": {"true"}, "stderr": {"true"}, "stream": {"true"},
	}
	conn, err := e.upgrade(ctx, "/containers/%s/attach", query, nil, string(id))
	if err != nil {
		return nil, engineError(ctx, "attach", err)
	}
	return runtime.NewStream(conn, stderr), nil
}

// attachable refuses a container that has ended: the service would set it up
// for a second run.
func (e *Engine) attachable(ctx context.Context, id runtime.ID) error {
	c, err := containers.Inspect(e.with(ctx), string(id), nil)
	if err != nil {
		return engineError(ctx, "attach", err)
	}
	if c.State == nil || c.State.Status == "exited" || c.State.Status == "stopped" {
		return &runtime.EngineError{Op: "attach", Status: http.StatusConflict, Msg: "the container has ended"}
	}
	return nil
}

// execDetachKeys would detach from an exec session. The service takes none at
// all for its default, Ctrl-P Ctrl-Q, so these are keys that nobody sends: each
// would have to come alone in a read, one after the other. The price is that a
// DEL that is written alone waits for the next write.
const execDetachKeys = "DEL,ctrl-_,DEL,ctrl-_,DEL,ctrl-_,DEL,ctrl-_"

// Exec implements [runtime.Engine].
func (e *Engine) Exec(ctx context.Context, id runtime.ID, cmd runtime.Command, stderr io.Writer) (runtime.Stream, error) {
	config := map[string]any{
		"Cmd": cmd.Argv, "User": cmd.User, "AttachStdin": true, "AttachStdout": true, "AttachStderr": true,
		"DetachKeys": execDetachKeys,
	}
	session, err := e.newExec(ctx, id, config)
	if err != nil {
		return nil, engineError(ctx, "exec", err)
	}
	body, err := json.Marshal(map[string]any{"Detach": false, "Tty": false})
	if err != nil {
		return nil, fmt.Errorf("engine exec: %w", err)
	}
	conn, err := e.upgrade(ctx, "/exec/%s/start", nil, body, session)
	if err != nil {
		return nil, engineError(ctx, "exec", err)
	}
	return runtime.NewStream(conn, stderr), nil
}

// newExec makes an exec session.
func (e *Engine) newExec(ctx context.Context, id runtime.ID, config map[string]any) (string, error) {
	body, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	headers := http.Header{"Content-Type": {"application/json"}}
	resp, err := e.client.DoRequest(e.with(ctx), bytes.NewReader(body), http.MethodPost, "/containers/%s/exec", nil, headers, string(id))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	if err := resp.Process(&made); err != nil {
		return "", err
	}
	return made.ID, nil
}

// upgrade posts a request for which the service hands over its connection.
//
// The bindings' Attach and ExecStartAndAttach do that too, but they block, copy
// through goroutines that outlive them, and swap the transport of the shared
// client for each call, which races with every other call. So each stream gets
// a client of its own here, on one connection, with no goroutine at all.
func (e *Engine) upgrade(ctx context.Context, path string, query url.Values, body []byte, id string) (runtime.StreamConn, error) {
	transport := &http.Transport{
		DialContext:        e.transport.DialContext,
		TLSClientConfig:    e.transport.TLSClientConfig,
		DisableCompression: true,
	}
	// What is handed over is not the transport's any more; a connection on
	// which the service refused must not stay idle in it.
	defer transport.CloseIdleConnections()
	own := *e.client
	own.Client = &http.Client{Transport: guard{transport}}
	headers := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"tcp"}}
	if body != nil {
		headers.Set("Content-Type", "application/json")
	}
	resp, err := own.DoRequest(e.with(ctx), reader(body), http.MethodPost, path, query, headers, id)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, notUpgraded(resp)
	}
	conn, ok := resp.Body.(runtime.StreamConn)
	if !ok {
		return nil, errors.Join(errors.New("the connection can't be half-closed"), resp.Body.Close())
	}
	return conn, nil
}

// notUpgraded is the service's reason not to hand over its connection.
func notUpgraded(resp *bindings.APIResponse) error {
	defer resp.Body.Close()
	if err := resp.Process(nil); err != nil {
		return err
	}
	return fmt.Errorf("the service answered %s and not with its connection", resp.Status)
}

// reader is nil for no body; a nil *bytes.Reader would be a body.
func reader(body []byte) io.Reader {
	if body == nil {
		return nil
	}
	return bytes.NewReader(body)
}
