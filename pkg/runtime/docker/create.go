package docker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/bridged/bridged/pkg/runtime"
)

// Create implements [runtime.Engine].
func (e *Engine) Create(ctx context.Context, spec runtime.Spec) (runtime.ID, error) {
	spec = spec.WithDefaults()
	volumes, err := e.volumes(ctx, spec.Image)
	if err != nil {
		return "", err
	}
	c, err := e.client.ContainerCreate(ctx, config(spec), hostConfig(spec, volumes), nil, nil, "")
	if err != nil {
		return "", engineError(ctx, "create", err)
	}
	return runtime.ID(c.ID), nil
}

// volumes lists the folders for which the image asks a volume. Docker would
// make each a writable folder on the host's disk, however read-only the rest.
func (e *Engine) volumes(ctx context.Context, ref string) ([]string, error) {
	img, err := e.client.ImageInspect(ctx, ref)
	if err != nil {
		return nil, engineError(ctx, "create", err)
	}
	if img.Config == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(img.Config.Volumes)), nil
}

func config(spec runtime.Spec) *container.Config {
	grace := int(runtime.StopGrace.Seconds())
	return &container.Config{
		Image:        spec.Image,
		Hostname:     runtime.Hostname,
		User:         spec.User,
		WorkingDir:   spec.Workdir,
		Env:          environment(spec.Env),
		Labels:       spec.Labels,
		OpenStdin:    true,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		StopTimeout:  &grace,
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
		// As an entrypoint the whole of argv also replaces the image's
		// command, and an entrypoint that is empty would not.
		Entrypoint: spec.Cmd,
	}
}

func hostConfig(spec runtime.Spec, volumes []string) *container.HostConfig {
	return &container.HostConfig{
		NetworkMode:    "none",
		IpcMode:        "private",
		CgroupnsMode:   "private",
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges:true"},
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		ShmSize:        runtime.ShmBytes,
		Tmpfs:          tmpfs(spec),
		Mounts:         append(covers(spec, volumes), binds(spec)...),
		Resources:      resources(spec),
	}
}

func resources(spec runtime.Spec) container.Resources {
	pids := spec.Pids
	return container.Resources{
		Memory:     spec.MemoryBytes,
		MemorySwap: spec.MemoryBytes, // memory and swap together
		PidsLimit:  &pids,
		CPUPeriod:  runtime.CPUPeriod.Microseconds(),
		CPUQuota:   spec.CPUQuota(),
		Ulimits: []*container.Ulimit{
			{Name: "nofile", Soft: int64(spec.Nofile), Hard: int64(spec.Nofile)},
			{Name: "nproc", Soft: runtime.Nproc, Hard: runtime.Nproc},
			{Name: "core", Soft: 0, Hard: 0},
		},
	}
}

// tmpfs makes the spec's user the owner of each folder. Docker makes a folder
// for the working directory before it mounts, and then runc before 1.2 gives
// the mount that folder's mode, which lets only its owner write.
func tmpfs(spec runtime.Spec) map[string]string {
	owner := ownerOptions(spec.User)
	m := make(map[string]string, len(spec.Tmpfs))
	for _, t := range spec.Tmpfs {
		m[t.Target] = strings.Join(append(t.Options(), owner...), ",")
	}
	return m
}

// ownerOptions are none for a user that is not two numbers: only the engine
// can look up a name, in the image.
func ownerOptions(user string) []string {
	uid, gid, _ := strings.Cut(user, ":")
	for _, id := range []string{uid, gid} {
		if _, err := strconv.ParseUint(id, 10, 32); err != nil {
			return nil
		}
	}
	return []string{"uid=" + uid, "gid=" + gid}
}

// covers puts an empty read-only folder over each volume of the image that the
// spec mounts nothing over.
func covers(spec runtime.Spec, volumes []string) []mount.Mount {
	var mounts []mount.Mount
	for _, v := range volumes {
		writable := slices.ContainsFunc(spec.Tmpfs, func(t runtime.Tmpfs) bool { return t.Target == v })
		mounted := slices.ContainsFunc(spec.Mounts, func(m runtime.Mount) bool { return m.Target == v })
		if writable || mounted {
			continue
		}
		mounts = append(mounts, mount.Mount{Type: mount.TypeTmpfs, Target: v, ReadOnly: true})
	}
	return mounts
}

func binds(spec runtime.Spec) []mount.Mount {
	var mounts []mount.Mount
	for _, m := range spec.Mounts {
		mounts = append(mounts, mount.Mount{
			Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: true,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationPrivate, NonRecursive: true},
		})
	}
	return mounts
}

func environment(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}
