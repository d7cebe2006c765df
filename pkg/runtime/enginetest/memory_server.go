package enginetest

import (
	"context"
	"os"
	"slices"

	"github.com/bridged/bridged/pkg/runtime"
)

// CreateServer implements [runtime.Engine]. Images have no command of their
// own here, so that spec must name one. The process sees this machine's files
// and network.
func (m *Memory) CreateServer(ctx context.Context, spec runtime.ServerSpec) (runtime.ID, error) {
	if err := m.enter(ctx, "create"); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.images[spec.Image]; !ok {
		return "", noImage("create", spec.Image)
	}
	for _, mount := range spec.Mounts {
		if _, err := os.Stat(mount.Source); err != nil && !mount.Volume {
			return "", refusal("create", 400, "mount source %s: %v", mount.Source, err)
		}
	}
	for _, other := range m.containers {
		if spec.Name != "" && other.name == spec.Name {
			return "", refusal("create", 409, "the name %s is in use by container %s", spec.Name, other.id)
		}
	}
	spec = spec.WithDefaults()
	c := newContainer(m, runtime.Spec{
		Image: spec.Image, Cmd: slices.Concat(spec.Entrypoint, spec.Args), Env: spec.Env, Labels: spec.Labels,
	}, true)
	c.server = spec
	if spec.Name != "" {
		c.name = spec.Name
	}
	return m.addLocked(c), nil
}

// Servers returns what the servers' containers of this moment were made from.
func (m *Memory) Servers() []runtime.ServerSpec {
	m.mu.Lock()
	defer m.mu.Unlock()
	var specs []runtime.ServerSpec
	for _, c := range m.containers {
		if c.server.Image != "" {
			specs = append(specs, c.server)
		}
	}
	return specs
}
