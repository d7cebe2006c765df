package docker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

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
	c := attachable(spec.Image, spec.Env, runtime.StopGrace)
	c.Hostname = runtime.Hostname
	c.User = spec.User
	c.WorkingDir = spec.Workdir
	c.Labels = spec.Labels
	// As an entrypoint the whole of argv also replaces the image's command,
	// and an entrypoint that is empty would not.
	c.Entrypoint = spec.Cmd
	return c
}

// attachable is what holds for every container of ours.
func attachable(image string, env map[string]string, grace time.Duration) *container.Config {
	seconds := int(grace.Seconds())
	return &container.Config{
		Image:        image,
		Env:          environment(env),
		OpenStdin:    true,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		StopTimeout:  &seconds,
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
	}
}

func hostConfig(spec runtime.Spec, volumes []string) *container.HostConfig {
	h := hardened()
	h.NetworkMode = "none"
	h.ReadonlyRootfs = true
	h.ShmSize = runtime.ShmBytes
	h.Tmpfs = tmpfs(spec.Tmpfs, spec.User)
	h.Mounts = append(covers(spec, volumes), binds(spec)...)
	h.Resources = resources(spec.MemoryBytes, spec.Pids, spec.CPUQuota(), spec.Nofile)
	return h
}

// hardened is what holds for every container of ours.
func hardened() *container.HostConfig {
	return &container.HostConfig{
		IpcMode:       "private",
		CgroupnsMode:  "private",
		CapDrop:       []string{"ALL"},
		SecurityOpt:   []string{"no-new-privileges:true"},
		LogConfig:     container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
	}
}

// resources sets those limits that are above 0.
func resources(memory, pids, quota int64, nofile uint64) container.Resources {
	r := container.Resources{Ulimits: []*container.Ulimit{
		{Name: "nofile", Soft: int64(nofile), Hard: int64(nofile)},
		{Name: "nproc", Soft: runtime.Nproc, Hard: runtime.Nproc},
		{Name: "core", Soft: 0, Hard: 0},
	}}
	if memory > 0 {
		r.Memory, r.MemorySwap = memory, memory // memory and swap together
	}
	if pids > 0 {
		r.PidsLimit = &pids
	}
	if quota > 0 {
		r.CPUPeriod, r.CPUQuota = runtime.CPUPeriod.Microseconds(), quota
	}
	return r
}

// tmpfs makes the user of the container the owner of each folder. Docker makes a folder
// for the working directory before it mounts, and then runc before 1.2 gives
// the mount that folder's mode, which lets only its owner write.
func tmpfs(list []runtime.Tmpfs, user string) map[string]string {
	owner := ownerOptions(user)
	m := make(map[string]string, len(list))
	for _, t := range list {
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
