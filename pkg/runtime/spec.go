package runtime

import (
	"fmt"
	"maps"
	"time"
)

// Labels that every container and image of ours carries.
const (
	LabelManaged  = "io.bridged.managed"  // "true" on every container of ours
	LabelInstance = "io.bridged.instance" // which daemon made it
	LabelSandbox  = "io.bridged.sandbox"  // the sandbox's own ID
	LabelVersion  = "io.bridged.version"  // of the daemon that made it
	LabelServer   = "io.bridged.server"   // on a server's container: the name of its definition
	LabelImage    = "io.bridged.image"    // "true" on sandbox images
)

// A Spec says how one sandbox container is made. What hardens it is not
// optional and has no field: on every engine a container made from a Spec has
// no network, a read-only root file system, no capability, no-new-privileges,
// the engine's default seccomp profile, private ipc, pid, uts and cgroup
// namespaces, the engine's masked paths, no device, no variable of the host's
// environment, no core dump, no log, and a stdin without a terminal.
type Spec struct {
	Image  string
	Cmd    []string          // replaces the image's entrypoint and command
	Env    map[string]string // added to the image's own
	Labels map[string]string
	User   string // "uid:gid"

	// Limits. Zero means the value of [DefaultSpec].
	MemoryBytes int64   // memory and swap together
	Pids        int64   // processes and threads
	CPUs        float64 // cores
	Nofile      uint64  // open files per process

	Tmpfs   []Tmpfs // writable folders
	Mounts  []Mount // what the sandbox may read besides
	Workdir string
}

// A Mount shows a file or folder of the engine's machine in the sandbox. It is
// read-only, and nosuid and nodev where the engine can be told so: Docker can't,
// and there no-new-privileges and the engine's list of devices have to do. What
// is mounted below Source stays outside.
type Mount struct {
	Source string // absolute; the engine refuses one that is not there
	Target string // absolute
}

// A Tmpfs is a writable folder in memory: nosuid, nodev, and noexec unless
// Exec is set. Pages in it count as the container's memory. Where the image has
// the folder already, runc before 1.2 gives it the image's mode instead of
// Mode; an image should lack it, or give it the same mode.
type Tmpfs struct {
	Target    string
	SizeBytes int64
	Mode      uint32 // permission bits, such as 0o1777
	Exec      bool
}

const (
	mib = 1 << 20

	// DefaultUser is the uid and gid of nobody.
	DefaultUser = "65534:65534"

	// Hostname is every sandbox's host name, which tells nothing of the host.
	Hostname = "sandbox"

	// ShmBytes is the size of /dev/shm, where Python's multiprocessing keeps
	// its semaphores. Pages in it count as the container's memory.
	ShmBytes = 16 * mib

	// Nproc is the rlimit on processes and threads of the sandboxes' user on
	// the whole host, so it leaves room for many sandboxes; [Spec.Pids] is
	// each sandbox's own limit. It is set because Podman 4 otherwise sets one
	// that may be above what the host allows, and then can't start anything.
	Nproc = 8192

	// CPUPeriod is the period over which [Spec.CPUs] is enforced.
	CPUPeriod = 100 * time.Millisecond

	// StopGrace is how long an engine waits for a container's first process
	// before it kills it. A sandbox has nothing to save, so it is short.
	StopGrace = time.Second
)

// DefaultSpec returns the Spec of a sandbox: 512 MiB of memory, 128 pids, one
// core, and 64 MiB each for /tmp and /workspace.
func DefaultSpec(image string) Spec {
	return Spec{
		Image:       image,
		User:        DefaultUser,
		MemoryBytes: 512 * mib,
		Pids:        128,
		CPUs:        1,
		Nofile:      4096,
		Workdir:     "/workspace",
		Tmpfs: []Tmpfs{
			{Target: "/tmp", SizeBytes: 64 * mib, Mode: 0o1777},
			{Target: "/workspace", SizeBytes: 64 * mib, Mode: 0o1777},
			{Target: "/projects", SizeBytes: 16 * mib, Mode: 0o1777},
		},
	}
}

// Options returns the mount options of t, the same on every engine.
func (t Tmpfs) Options() []string {
	exec := "noexec"
	if t.Exec {
		exec = "exec"
	}
	return []string{
		"rw", "nosuid", "nodev", exec,
		fmt.Sprintf("size=%d", t.SizeBytes), fmt.Sprintf("mode=%o", t.Mode),
	}
}

// CPUQuota is how much of each [CPUPeriod] the container may use, all cores
// together, in microseconds.
func (s Spec) CPUQuota() int64 {
	return int64(s.CPUs * float64(CPUPeriod.Microseconds()))
}

// WithDefaults fills the limits that the caller left at zero.
func (s Spec) WithDefaults() Spec {
	d := DefaultSpec(s.Image)
	if s.User == "" {
		s.User = d.User
	}
	if s.MemoryBytes == 0 {
		s.MemoryBytes = d.MemoryBytes
	}
	if s.Pids == 0 {
		s.Pids = d.Pids
	}
	if s.CPUs == 0 {
		s.CPUs = d.CPUs
	}
	if s.Nofile == 0 {
		s.Nofile = d.Nofile
	}
	s.Env = maps.Clone(s.Env)
	s.Labels = maps.Clone(s.Labels)
	return s
}
