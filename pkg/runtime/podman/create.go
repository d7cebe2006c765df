package podman

import (
	"context"
	"slices"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/specgen"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	"go.podman.io/image/v5/manifest"

	"github.com/bridged/bridged/pkg/runtime"
)

// Create implements [runtime.Engine].
func (e *Engine) Create(ctx context.Context, spec runtime.Spec) (runtime.ID, error) {
	c, err := containers.CreateWithSpec(e.with(ctx), generator(spec.WithDefaults()), nil)
	if err != nil {
		return "", engineError(ctx, "create", err)
	}
	return runtime.ID(c.ID), nil
}

// generator is the spec in Podman's words. Every choice is spelled out, since
// the user's containers.conf changes the defaults.
func generator(spec runtime.Spec) *specgen.SpecGenerator {
	g := specgen.NewSpecGenerator(spec.Image, false)
	basics(g, spec)
	isolation(g, spec)
	storage(g, spec)
	g.ResourceLimits = limits(spec)
	g.Rlimits = []oci.POSIXRlimit{
		// Podman 4.3 puts RLIMIT_ before the type by itself.
		{Type: "nofile", Soft: spec.Nofile, Hard: spec.Nofile},
		{Type: "nproc", Soft: runtime.Nproc, Hard: runtime.Nproc},
		{Type: "core", Soft: 0, Hard: 0},
	}
	return g
}

func basics(g *specgen.SpecGenerator, spec runtime.Spec) {
	grace := uint(runtime.StopGrace.Seconds())
	// As an entrypoint the whole of argv also replaces the image's command,
	// and an entrypoint that is empty would not.
	g.Entrypoint = spec.Cmd
	g.Env = spec.Env
	g.EnvHost = new(false)
	g.HTTPProxy = new(false)
	g.Labels = spec.Labels
	g.Stdin = new(true)
	g.Terminal = new(false)
	g.StopTimeout = &grace
	g.RestartPolicy = "no"
	g.Systemd = "false"
	g.SdNotifyMode = "ignore"
	g.WorkDir = spec.Workdir
	g.LogConfiguration = &specgen.LogConfig{Driver: "none"}
	g.HealthConfig = &manifest.Schema2HealthConfig{Test: []string{"NONE"}}
}

func isolation(g *specgen.SpecGenerator, spec runtime.Spec) {
	g.User = spec.User
	g.Privileged = new(false)
	g.CapDrop = []string{"ALL"}
	g.NoNewPrivileges = new(true)
	g.PidNS = specgen.Namespace{NSMode: specgen.Private}
	g.IpcNS = specgen.Namespace{NSMode: specgen.Private}
	g.UtsNS = specgen.Namespace{NSMode: specgen.Private}
	g.CgroupNS = specgen.Namespace{NSMode: specgen.Private}
	g.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	g.Hostname = runtime.Hostname
	// The host's own hosts and resolv.conf say things about the host.
	g.BaseHostsFile = "none"
	g.UseImageResolvConf = new(true)
}

func storage(g *specgen.SpecGenerator, spec runtime.Spec) {
	g.ReadOnlyFilesystem = new(true)
	// Otherwise /tmp, /run and others are writable and without a size.
	// Podman 5 then makes /dev/shm read-only too, unless it is a mount of
	// the caller's.
	g.ReadWriteTmpfs = new(false)
	shm := runtime.Tmpfs{Target: "/dev/shm", SizeBytes: runtime.ShmBytes, Mode: 0o1777}
	// An image's volumes would be writable folders on the host's disk.
	g.ImageVolumeMode = "ignore"
	for _, t := range append(slices.Clone(spec.Tmpfs), shm) {
		g.Mounts = append(g.Mounts, oci.Mount{
			Type: "tmpfs", Source: "tmpfs", Destination: t.Target,
			// What the image has in the folder is not copied into it.
			Options: append(t.Options(), "notmpcopyup"),
		})
	}
	for _, m := range spec.Mounts {
		g.Mounts = append(g.Mounts, oci.Mount{
			Type: "bind", Source: m.Source, Destination: m.Target,
			// Podman makes it recursive unless it says bind.
			Options: []string{"bind", "ro", "nosuid", "nodev", "private"},
		})
	}
}

func limits(spec runtime.Spec) *oci.LinuxResources {
	memory := spec.MemoryBytes
	quota := spec.CPUQuota()
	period := uint64(runtime.CPUPeriod.Microseconds())
	return &oci.LinuxResources{
		Memory: &oci.LinuxMemory{Limit: &memory, Swap: &memory}, // memory and swap together
		CPU:    &oci.LinuxCPU{Quota: &quota, Period: &period},
		Pids:   &oci.LinuxPids{Limit: spec.Pids},
	}
}
