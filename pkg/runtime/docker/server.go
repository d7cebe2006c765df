package docker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
	oci "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/bridged/bridged/pkg/runtime"
)

// CreateServer implements [runtime.Engine].
func (e *Engine) CreateServer(ctx context.Context, spec runtime.ServerSpec) (runtime.ID, error) {
	spec = spec.WithDefaults()
	c, err := e.client.ContainerCreate(ctx, serverConfig(spec), serverHost(spec), serverNetwork(spec), platform(spec), spec.Name)
	if err != nil {
		return "", engineError(ctx, "create", err)
	}
	return runtime.ID(c.ID), nil
}

func serverConfig(spec runtime.ServerSpec) *container.Config {
	c := attachable(spec.Image, spec.Env, runtime.ServerStopGrace)
	c.StdinOnce = true
	c.Hostname = spec.Hostname
	c.User = spec.User
	c.WorkingDir = spec.Workdir
	c.Labels = spec.Labels
	c.Entrypoint = spec.Entrypoint
	c.Cmd = spec.Args
	return c
}

func serverHost(spec runtime.ServerSpec) *container.HostConfig {
	h := hardened()
	h.NetworkMode = container.NetworkMode(networkMode(spec))
	h.ReadonlyRootfs = spec.ReadOnly
	h.CapAdd = spec.Capabilities()
	h.ShmSize = spec.ShmBytes
	h.DNS = spec.DNS
	h.ExtraHosts = spec.ExtraHosts
	h.Resources = resources(spec.MemoryBytes, spec.Pids, spec.CPUQuota(), spec.Nofile())
	h.Tmpfs = tmpfs(spec.Tmpfs, spec.User)
	h.PortBindings = nat.PortMap{}
	if spec.Init {
		h.Init = &spec.Init
	}
	for _, p := range spec.Published() {
		port := nat.Port(fmt.Sprintf("%d/%s", p.Container, p.Protocol))
		h.PortBindings[port] = append(h.PortBindings[port], nat.PortBinding{HostIP: p.Address, HostPort: hostPort(p)})
	}
	for _, m := range spec.Mounts {
		if m.Relabel != "" { // a mount can't say so
			h.Binds = append(h.Binds, bind(m))
			continue
		}
		h.Mounts = append(h.Mounts, serverMount(m))
	}
	return h
}

// hostPort is empty for any port that is free.
func hostPort(p runtime.Port) string {
	if p.Host == 0 {
		return ""
	}
	return strconv.Itoa(int(p.Host))
}

// networkMode is bridge's name in the engine's words: "default" also works
// where the engine has none, and means none then.
func networkMode(spec runtime.ServerSpec) string {
	if spec.Network == runtime.NetworkBridge {
		return network.NetworkDefault
	}
	return spec.Network
}

// serverNetwork joins a network of the user's.
func serverNetwork(spec runtime.ServerSpec) *network.NetworkingConfig {
	switch spec.Network {
	case runtime.NetworkNone, runtime.NetworkHost, runtime.NetworkBridge:
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{spec.Network: {}}}
}

func serverMount(m runtime.ServerMount) mount.Mount {
	out := mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
	if m.Volume {
		out.Type = mount.TypeVolume
	}
	return out
}

func bind(m runtime.ServerMount) string {
	options := m.Relabel
	if m.ReadOnly {
		options += ",ro"
	}
	return m.Source + ":" + m.Target + ":" + options
}

func platform(spec runtime.ServerSpec) *oci.Platform {
	if spec.Platform == "" {
		return nil
	}
	system, arch, variant := spec.PlatformParts()
	return &oci.Platform{OS: system, Architecture: arch, Variant: variant}
}
