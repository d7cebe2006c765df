// Package docker drives a Docker engine over its REST socket. It is the only
// importer of Docker's client library, and works with every engine that speaks
// API 1.41 (Docker 20.10) or later.
package docker

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/bridged/bridged/pkg/runtime"
)

// minAPI is the first version of Docker's API that has private cgroup
// namespaces and one-shot statistics.
const minAPI = "1.41"

// An Engine is a Docker engine. See [runtime.Engine] for its methods.
type Engine struct {
	client   *client.Client
	endpoint string
}

var _ runtime.Engine = (*Engine)(nil)

// Dial connects to the engine at endpoint, a unix:// or tcp:// URL, and
// settles on an API version with it. With tcp, DOCKER_TLS_VERIFY and
// DOCKER_CERT_PATH work as they do for Docker's own tools. The caller must
// Close the engine.
func Dial(ctx context.Context, endpoint string) (runtime.Engine, error) {
	c, err := newClient(endpoint)
	if err != nil {
		return nil, fmt.Errorf("dialling docker at %s: %w", endpoint, err)
	}
	ping, err := c.Ping(ctx)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("dialling docker at %s: %w", endpoint, engineError(ctx, "ping", err))
	}
	c.NegotiateAPIVersionPing(ping)
	if olderThan(c.ClientVersion(), minAPI) {
		_ = c.Close()
		return nil, fmt.Errorf("dialling docker at %s: the engine speaks API %s and %s is needed: use Docker 20.10 or later",
			endpoint, c.ClientVersion(), minAPI)
	}
	return &Engine{client: c, endpoint: endpoint}, nil
}

func newClient(endpoint string) (*client.Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	opts := []client.Opt{client.WithHost(endpoint)}
	switch u.Scheme {
	case "unix":
	case "tcp", "http", "https":
		// The order matters: the TLS settings are for the transport that
		// WithHost then finishes.
		opts = slices.Insert(opts, 0, client.WithTLSClientConfigFromEnv())
	default:
		return nil, fmt.Errorf("scheme %q is not supported: use unix:// or tcp://", u.Scheme)
	}
	return client.NewClientWithOpts(opts...)
}

// Info implements [runtime.Engine].
func (e *Engine) Info(ctx context.Context) (runtime.Info, error) {
	info, err := e.client.Info(ctx)
	if err != nil {
		return runtime.Info{}, engineError(ctx, "info", err)
	}
	return runtime.Info{
		Name:          "docker",
		Version:       info.ServerVersion,
		APIVersion:    e.client.ClientVersion(),
		Rootless:      slices.Contains(info.SecurityOptions, "name=rootless"),
		CgroupVersion: info.CgroupVersion,
		Endpoint:      e.endpoint,
		MemoryBytes:   info.MemTotal,
		StorageDriver: info.Driver,
		StorageDir:    info.DockerRootDir,
		Seccomp:       slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") }),
		Unlimited:     unlimited(info),
	}, nil
}

// unlimited lists the limits that the daemon says it can't set.
func unlimited(info system.Info) string {
	var list []string
	for _, limit := range []struct {
		name string
		can  bool
	}{{"memory", info.MemoryLimit}, {"swap", info.SwapLimit}, {"pids", info.PidsLimit}, {"cpu", info.CPUCfsQuota}} {
		if !limit.can {
			list = append(list, limit.name)
		}
	}
	return strings.Join(list, " ")
}

// Close implements [runtime.Engine].
func (e *Engine) Close() error { return e.client.Close() }
