// Package podman drives a Podman engine over its REST socket. It is the only
// importer of Podman's bindings, and works with services of Podman 4.3 or
// later, rootless or not.
package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/system"
	"github.com/sirupsen/logrus"

	"github.com/bridged/bridged/pkg/runtime"
)

const (
	// idleConns is how many connections to the service are kept for reuse: a
	// pool that refills makes a few calls at a time.
	idleConns = 8
	// idleTime is how long they are kept. A socket-activated service exits
	// when it has been idle for as long as it likes, and idle connections do
	// not keep it.
	idleTime = 30 * time.Second
)

// quiet keeps the bindings' global logger from writing to our stderr. What
// matters of it comes back as errors.
var quiet = sync.OnceFunc(func() { logrus.SetOutput(io.Discard) })

// An Engine is a Podman engine. See [runtime.Engine] for its methods.
type Engine struct {
	// conn carries the bindings' connection as a context value, which is how
	// they take it. Only its values are used: see with.
	conn      context.Context
	client    *bindings.Connection
	transport *http.Transport // the client's own, under the guard
	endpoint  string
}

var _ runtime.Engine = (*Engine)(nil)

// Dial connects to the service at endpoint, a unix://, tcp:// or ssh:// URL.
// The caller must Close the engine.
func Dial(ctx context.Context, endpoint string) (runtime.Engine, error) {
	quiet()
	if endpoint == "" {
		// The bindings would take CONTAINER_HOST, behind the caller's back.
		return nil, errors.New("dialling podman: no endpoint given")
	}
	conn, err := bindings.NewConnection(ctx, endpoint)
	if err != nil {
		return nil, fmt.Errorf("dialling podman at %s: %w", endpoint, engineError(ctx, "ping", err))
	}
	client, err := bindings.GetClient(conn)
	if err != nil {
		return nil, fmt.Errorf("dialling podman at %s: %w", endpoint, err)
	}
	transport, ok := client.Client.Transport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("dialling podman at %s: the bindings' transport is a %T", endpoint, client.Client.Transport)
	}
	transport.MaxIdleConnsPerHost = idleConns
	transport.IdleConnTimeout = idleTime
	client.Client.Transport = guard{transport}
	return &Engine{conn: conn, client: client, transport: transport, endpoint: endpoint}, nil
}

// Info implements [runtime.Engine].
func (e *Engine) Info(ctx context.Context) (runtime.Info, error) {
	info, err := system.Info(e.with(ctx), nil)
	if err != nil {
		return runtime.Info{}, engineError(ctx, "info", err)
	}
	out := runtime.Info{
		Name:       "podman",
		Version:    info.Version.Version,
		APIVersion: info.Version.APIVersion,
		Endpoint:   e.endpoint,
		StdinOnce:  true,
	}
	if info.Host != nil {
		out.Rootless = info.Host.Security.Rootless
		out.CgroupVersion = cgroupVersion(info.Host.CgroupsVersion)
		out.MemoryBytes = info.Host.MemTotal
		out.Seccomp = info.Host.Security.SECCOMPEnabled
		out.Unlimited = unlimited(out, info.Host.CgroupControllers)
	}
	if info.Store != nil {
		out.StorageDriver, out.StorageDir = info.Store.GraphDriverName, info.Store.GraphRoot
	}
	return out, nil
}

// unlimited lists the limits that need a cgroup controller which is not among
// those that the service may use. Without root, version 1 gives it none.
func unlimited(info runtime.Info, controllers []string) string {
	var list []string
	for _, name := range []string{"memory", "pids", "cpu"} {
		if info.CgroupVersion == "1" && info.Rootless || info.CgroupVersion == "2" && !slices.Contains(controllers, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

func cgroupVersion(s string) string {
	if len(s) == 2 && s[0] == 'v' {
		return s[1:]
	}
	return s
}

// Close implements [runtime.Engine].
func (e *Engine) Close() error {
	e.transport.CloseIdleConnections()
	return nil
}

// with returns ctx for a call of the bindings: ctx itself, plus the
// connection that they look for in its values.
func (e *Engine) with(ctx context.Context) context.Context {
	return call{Context: ctx, conn: e.conn, sent: new(sent)}
}

// A call is the context of one call of the bindings.
type call struct {
	context.Context
	conn context.Context
	sent *sent
}

func (c call) Value(key any) any {
	if key == (sentKey{}) {
		return c.sent
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.conn.Value(key)
}
