package podman

import (
	"context"
	"slices"
	"time"

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

// generator is the spec in Podman's words.
func generator(spec runtime.Spec) *specgen.SpecGenerator {
	g := hardened(spec.Image, runtime.StopGrace)
	// As an entrypoint the whole of argv also replaces the image's command,
	// and an entrypoint that is empty would not.
	g.Entrypoint = spec.Cmd
	g.Env = spec.Env
	g.Labels = spec.Labels
	g.WorkDir = spec.Workdir
	g.User = spec.User
	g.CapDrop = []string{"ALL"}
	g.Hostname = runtime.Hostname
	g.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	g.UseImageResolvConf = new(true) // the host's own says things about the host
	storage(g, spec)
	g.ResourceLimits = limits(spec.MemoryBytes, spec.Pids, spec.CPUQuota())
	g.Rlimits = rlimits(spec.Nofile)
	return g
}

// hardened is what holds for every container of ours. Every choice is spelled
// out, since the user's containers.conf changes the defaults.
func hardened(image string, grace time.Duration) *specgen.SpecGenerator {
	g := specgen.NewSpecGenerator(image, false)
	seconds := uint(grace.Seconds())
	private := specgen.Namespace{NSMode: specgen.Private}
	g.EnvHost = new(false)
	g.HTTPProxy = new(false)
	g.Stdin = new(true)
	g.Terminal = new(false)
	g.StopTimeout = &seconds
	g.RestartPolicy = "no"
	g.Systemd = "false"
	g.SdNotifyMode = "ignore"
	g.LogConfiguration = &specgen.LogConfig{Driver: "none"}
	g.HealthConfig = &manifest.Schema2HealthConfig{Test: []string{"NONE"}}
	g.Privileged = new(false)
	g.NoNewPrivileges = new(true)
	g.PidNS, g.IpcNS, g.UtsNS, g.CgroupNS = private, private, private, private
	g.BaseHostsFile = "none" // the host's own says things about the host
	// Otherwise /tmp, /run and others are writable and without a size.
	// Podman 5 then makes /dev/shm read-only too, unless it is a mount of
	// the caller's.
	g.ReadWriteTmpfs = new(false)
	return g
}

func storage(g *specgen.SpecGenerator, spec runtime.Spec) {
	g.ReadOnlyFilesystem = new(true)
	// An image's volumes would be writable folders on the host's disk.
	g.ImageVolumeMode = "ignore"
	g.Mounts = folders(spec.Tmpfs, runtime.ShmBytes)
	for _, m := range spec.Mounts {
		g.Mounts = append(g.Mounts, oci.Mount{
			Type: "bind", Source: m.Source, Destination: m.Target,
			// Podman makes it recursive unless it says bind.
			Options: []string{"bind", "ro", "nosuid", "nodev", "private"},
		})
	}
}

// folders are writable folders in memory, with /dev/shm among them.
func folders(list []runtime.Tmpfs, shmBytes int64) []oci.Mount {
	var mounts []oci.Mount
	shm := runtime.Tmpfs{Target: "/dev/shm", SizeBytes: shmBytes, Mode: 0o1777}
	for _, t := range append(slices.Clone(list), shm) {
		mounts = append(mounts, oci.Mount{
			Type: "tmpfs", Source: "tmpfs", Destination: t.Target,
			// What the image has in the folder is not copied into it.
			Options: append(t.Options(), "notmpcopyup"),
		})
	}
	return mounts
}

// limits sets those that are above 0.
func limits(memory, pids, quota int64) *oci.LinuxResources {
	r := &oci.LinuxResources{}
	if memory > 0 {
		r.Memory = &oci.LinuxMemory{Limit: &memory, Swap: &memory} // memory and swap together
	}
	if pids > 0 {
		r.Pids = &oci.LinuxPids{Limit: pids}
	}
	if quota > 0 {
		period := uint64(runtime.CPUPeriod.Microseconds())
		r.CPU = &oci.LinuxCPU{Quota: &quota, Period: &period}
	}
	return r
}

// rlimits are each process's. Podman 4.3 puts RLIMIT_ before the type by itself.
func rlimits(nofile uint64) []oci.POSIXRlimit {
	return []oci.POSIXRlimit{
		{Type: "nofile", Soft: nofile, Hard: nofile},
		{Type: "nproc", Soft: runtime.Nproc, Hard: runtime.Nproc},
		{Type: "core", Soft: 0, Hard: 0},
	}
}
