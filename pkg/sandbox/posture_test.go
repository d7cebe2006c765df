package sandbox

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/runtime"
)

// hardened is what a sandbox made from spec reports.
func hardened(spec runtime.Spec) *Posture {
	memory, swap, pids := spec.MemoryBytes, int64(0), spec.Pids
	p := &Posture{
		Status: map[string][]string{
			"Uid": {"65534", "65534", "65534", "65534"}, "Gid": {"65534", "65534", "65534", "65534"},
			"CapEff": {"0000000000000000"}, "CapPrm": {"0000000000000000"}, "CapBnd": {"0000000000000000"},
			"CapAmb": {"0000000000000000"}, "NoNewPrivs": {"1"}, "Seccomp": {"2"}, "Seccomp_filters": {"2"},
		},
		EngineSeccomp: "2",
		Mounts:        []Mount{{Target: "/", Type: "overlay", Options: []string{"ro", "relatime"}}},
		Interfaces:    []string{"lo"},
		Memory:        &memory, Swap: &swap, Pids: &pids,
		Nofile: int64(spec.Nofile),
	}
	for _, m := range spec.Tmpfs {
		options := []string{"rw", "nosuid", "nodev"}
		if !m.Exec {
			options = append(options, "noexec")
		}
		p.Mounts = append(p.Mounts, Mount{Target: m.Target, Type: "tmpfs", Options: options, Size: m.SizeBytes, Dir: true})
	}
	p.Mounts = append(p.Mounts, everywhere...)
	return p
}

// everywhere are mounts that the four engines of the integration tests make.
var everywhere = []Mount{
	{Target: "/proc", Type: "proc", Options: []string{"rw"}, Dir: true},
	{Target: "/sys", Type: "sysfs", Options: []string{"ro"}, Dir: true},
	{Target: "/dev", Type: "tmpfs", Options: []string{"rw", "nosuid"}, Dir: true},
	{Target: "/dev/pts", Type: "devpts", Options: []string{"rw"}, Dir: true},
	{Target: "/dev/mqueue", Type: "mqueue", Options: []string{"rw"}, Dir: true},
	{Target: "/dev/shm", Type: "tmpfs", Options: []string{"rw"}, Size: runtime.ShmBytes, Dir: true},
	{Target: "/sys/fs/cgroup", Type: "tmpfs", Options: []string{"rw"}, Dir: true},
	{Target: "/dev/null", Type: "devtmpfs", Root: "/null", Options: []string{"rw"}},
	{Target: "/etc/hosts", Type: "ext4", Root: "/run/x/hosts", Options: []string{"ro"}},
	{Target: "/etc/resolv.conf", Type: "ext4", Root: "/run/x/resolv.conf", Options: []string{"ro"}},
	{Target: "/run/.containerenv", Type: "ext4", Root: "/run/x/.containerenv", Options: []string{"ro"}},
}

func TestAttest(t *testing.T) {
	spec := runtime.DefaultSpec("image").WithDefaults()
	above := func(n int64) *int64 { n++; return &n }
	status := func(key string, values ...string) func(p *Posture) {
		return func(p *Posture) { p.Status[key] = values }
	}
	tmp := func(change func(m *Mount)) func(p *Posture) {
		return func(p *Posture) { change(&p.Mounts[1]) }
	}
	tests := []struct {
		name     string
		change   func(p *Posture)
		want     string // part of the error, "" for none
		degraded []string
	}{
		{"all as asked", func(*Posture) {}, "", nil},
		{"another user", status("Uid", "0", "0", "0", "0"), "Uid 0, want 65534", nil},
		{"a saved uid of root's", status("Uid", "65534", "65534", "0", "65534"), "Uid 0, want 65534", nil},
		{"no uid", status("Uid"), "Uid is not reported", nil},
		{"another group", status("Gid", "0", "0", "0", "0"), "Gid 0, want 65534", nil},
		{"no group", status("Gid"), "Gid is not reported", nil},
		{"an effective capability", status("CapEff", "0000000000000400"), "CapEff 0000000000000400, want none", nil},
		{"a permitted capability", status("CapPrm", "1"), "CapPrm 1, want none", nil},
		{"a capability to be had", status("CapBnd", "1"), "CapBnd 1, want none", nil},
		{"an ambient capability", status("CapAmb", "1"), "CapAmb 1, want none", nil},
		{"capabilities that cannot be read", status("CapEff", "none"), "CapEff none, want none", nil},
		{"no capabilities reported", status("CapBnd"), "CapBnd , want none", nil},
		{"new privileges", status("NoNewPrivs", "0"), `NoNewPrivs "0", want 1`, nil},
		{"no seccomp", status("Seccomp", "0"), `Seccomp "0", want 2`, nil},
		{"no seccomp of the engine's", func(p *Posture) { p.EngineSeccomp = "0" }, `the engine's Seccomp "0", want 2`, nil},
		{"a filter of its own that is not there", status("Seccomp_filters", "1"), "1 seccomp filters, want the engine's and", nil},
		{"a kernel that does not count filters", status("Seccomp_filters"), "", nil},
		{"several filters of the engine's", status("Seccomp_filters", "5"), "", nil},
		{"no filter of its own", func(p *Posture) {
			p.Unfiltered, p.Open = "ImportError: no ctypes", "ImportError: no ctypes"
			p.Status["Seccomp_filters"] = []string{"1"}
		}, "", []string{"the engine's seccomp profile alone: the sandbox can't set its own filter: ImportError: no ctypes"}},
		{"a first process that can be looked into", func(p *Posture) { p.Open = "OSError: no" }, "",
			[]string{"process 1 can be looked into: OSError: no"}},
		{"strict seccomp, which is not ours", status("Seccomp", "1"), `Seccomp "1", want 2`, nil},
		{"a network", func(p *Posture) { p.Interfaces = append(p.Interfaces, "eth0") }, "network interface eth0", nil},
		{"no loopback is no fault", func(p *Posture) { p.Interfaces = nil }, "", nil},
		{"a writable root", func(p *Posture) { p.Mounts[0].Options = []string{"rw"} }, "the root file system is writable", nil},
		{"a root that is not reported", func(p *Posture) { p.Mounts = p.Mounts[1:] }, "the root file system is writable", nil},
		{"a root mounted over", func(p *Posture) { p.Mounts = append(p.Mounts, Mount{Target: "/", Options: []string{"rw"}}) },
			"the root file system is writable", nil},
		{"a folder that is no tmpfs", tmp(func(m *Mount) { m.Type = "ext4" }), "/tmp is no tmpfs", nil},
		{"a folder that is not there", tmp(func(m *Mount) { m.Target = "/elsewhere" }), "/tmp is no tmpfs", nil},
		{"a folder with suid", tmp(func(m *Mount) { m.Options = []string{"nodev", "noexec"} }), "/tmp is not nosuid", nil},
		{"a folder with devices", tmp(func(m *Mount) { m.Options = []string{"nosuid", "noexec"} }), "/tmp is not nodev", nil},
		{"a folder with programs", tmp(func(m *Mount) { m.Options = []string{"nosuid", "nodev"} }), "/tmp is not noexec", nil},
		{"a folder that is too large", tmp(func(m *Mount) { m.Size *= 2 }), "bytes, want at most", nil},
		{"a folder rounded up to pages", tmp(func(m *Mount) { m.Size += 4096 }), "", nil},
		{"core dumps", func(p *Posture) { p.Core = 1 }, "core dumps are on", nil},
		{"core dumps without limit", func(p *Posture) { p.Core = -1 }, "core dumps are on", nil},
		{"too many files", func(p *Posture) { p.Nofile++ }, "open files: limit", nil},
		{"files without limit", func(p *Posture) { p.Nofile = -1 }, "open files: limit -1", nil},
		{"files up to any number", func(p *Posture) { p.Nofile = math.MaxInt64 }, "open files: limit", nil},
		{"no memory limit", func(p *Posture) { p.Memory = nil }, "", []string{degradedMemory}},
		{"a memory limit that is too high", func(p *Posture) { p.Memory = above(spec.MemoryBytes) }, "", []string{degradedMemory}},
		{"swap without limit", func(p *Posture) { p.Swap = nil }, "", []string{degradedSwap}},
		{"some swap", func(p *Posture) { p.Swap = above(0) }, "", []string{degradedSwap}},
		{"neither memory nor swap limited", func(p *Posture) { p.Memory, p.Swap = nil, nil }, "", []string{degradedMemory}},
		{"no pids limit", func(p *Posture) { p.Pids = nil }, "", []string{degradedPids}},
		{"a pids limit that is too high", func(p *Posture) { p.Pids = above(spec.Pids) }, "", []string{degradedPids}},
		{"neither limit", func(p *Posture) { p.Memory, p.Pids = nil, nil }, "", []string{degradedMemory, degradedPids}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := hardened(spec)
			tt.change(p)
			expectAttested(t, p, spec, tt.want, tt.degraded)
		})
	}
}

// expectAttested attests p and wants an error with that text in it, "" for none,
// and those limits to be told as weak.
func expectAttested(t *testing.T, p *Posture, spec runtime.Spec, want string, weak []string) {
	t.Helper()
	degraded, err := attest(p, spec)
	if (err != nil) != (want != "") {
		t.Fatalf("got error %v, want one with %q", err, want)
	}
	if err != nil {
		expectContains(t, "error", err.Error(), want)
	}
	if diff := cmp.Diff(weak, degraded); diff != "" {
		t.Errorf("degraded (-want +got):\n%s", diff)
	}
}

func TestAttestRefusesMountsThatWereNotAskedFor(t *testing.T) {
	spec := runtime.DefaultSpec("image").WithDefaults()
	ro, rw := []string{"ro", "nosuid"}, []string{"rw", "nosuid"}
	tests := []struct {
		name     string
		mount    Mount
		want     string // part of the error, "" for none
		degraded []string
	}{
		{"a folder of the host's", Mount{Target: "/host", Type: "ext4", Options: rw, Dir: true}, "/host (ext4) is mounted writable", nil},
		{"a read-only folder of the host's", Mount{Target: "/host", Type: "ext4", Options: ro, Dir: true}, "/host (ext4) is mounted and was not", nil},
		{"a folder of the host's in /run", Mount{Target: "/run/x", Type: "ext4", Options: ro, Dir: true}, "/run/x (ext4) is mounted and", nil},
		{"a writable file in /etc", Mount{Target: "/etc/hosts", Type: "ext4", Options: rw}, "/etc/hosts (ext4) is mounted writable", nil},
		{"a read-only file in /etc", Mount{Target: "/etc/engine.conf", Type: "ext4", Options: ro}, "", nil},
		{"an engine's socket", Mount{Target: "/var/run/docker.sock", Type: "tmpfs", Options: ro}, "docker.sock (tmpfs) is mounted and", nil},
		{"a tmpfs of nobody's", Mount{Target: "/run", Type: "tmpfs", Options: rw, Dir: true}, "/run (tmpfs) is mounted writable", nil},
		{"a name that only looks like /etc", Mount{Target: "/etcetera", Type: "ext4", Options: ro}, "/etcetera (ext4) is mounted and", nil},
		{"a harmless device", Mount{Target: "/dev/urandom", Type: "devtmpfs", Options: rw}, "", nil},
		{"a device", Mount{Target: "/dev/kvm", Type: "devtmpfs", Options: rw}, "/dev/kvm (devtmpfs) is mounted writable", nil},
		{"a folder with a device's name", Mount{Target: "/dev/null", Type: "ext4", Options: rw, Dir: true}, "/dev/null (ext4)", nil},
		{"the host's devices", Mount{Target: "/dev", Type: "devtmpfs", Options: rw, Dir: true}, "/dev (devtmpfs) is mounted writable", nil},
		{"a writable sysfs", Mount{Target: "/sys", Type: "sysfs", Options: rw, Dir: true}, "/sys (sysfs) is mounted writable", nil},
		{"writable cgroups", Mount{Target: "/sys/fs/cgroup", Type: "cgroup2", Options: rw, Dir: true}, "",
			[]string{"nothing but their owner keeps code from writing to cgroups"}},
		{"writable cgroups of version 1", Mount{Target: "/sys/fs/cgroup/memory", Type: "cgroup", Options: rw, Dir: true}, "/sys/fs/cgroup/memory (cgroup) is", nil},
		{"cgroups elsewhere", Mount{Target: "/mnt", Type: "cgroup2", Options: rw, Dir: true}, "/mnt (cgroup2) is mounted writable", nil},
		{"read-only cgroups", Mount{Target: "/sys/fs/cgroup", Type: "cgroup2", Options: ro, Dir: true}, "", nil},
		{"writable settings of the kernel's", Mount{Target: "/proc/sys", Type: "proc", Options: rw, Dir: true}, "/proc/sys (proc) is mounted", nil},
		{"another proc", Mount{Target: "/mnt", Type: "proc", Options: rw, Dir: true}, "/mnt (proc) is mounted writable", nil},
		{"shared memory that is too large", Mount{Target: "/dev/shm", Type: "tmpfs", Options: rw, Size: 1 << 30}, "/dev/shm holds", nil},
		{"subscriptions of Red Hat's", Mount{Target: "/run/secrets", Type: "tmpfs", Options: ro, Dir: true}, "",
			[]string{"the engine shows /run/secrets of its machine to sandboxes"}},
		{"subscriptions that can be written to", Mount{Target: "/run/secrets", Type: "tmpfs", Options: rw, Dir: true}, "/run/secrets (tmpfs)", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := hardened(spec)
			p.Mounts = append(p.Mounts, tt.mount)
			expectAttested(t, p, spec, tt.want, tt.degraded)
		})
	}
}

func TestAttestLooksAtMountsOfData(t *testing.T) {
	spec := runtime.DefaultSpec("image").WithDefaults()
	spec.Mounts = []runtime.Mount{{Source: "/srv/a", Target: "/data"}}
	ro, rw := Mount{Target: "/data", Type: "ext4", Options: []string{"ro"}, Dir: true}, Mount{Target: "/data", Type: "ext4", Options: []string{"rw"}, Dir: true}
	for _, tt := range []struct {
		name   string
		mounts []Mount
		want   string // in the error; "" for none
	}{
		{"read-only", []Mount{ro}, ""},
		{"missing", nil, "/data is not mounted"},
		{"writable", []Mount{rw}, "/data is writable"},
		{"mounted over", []Mount{ro, rw}, "/data is writable"},
		{"with something below it", []Mount{ro, {Target: "/data/x", Type: "ext4", Options: []string{"ro"}, Dir: true}}, "/data/x (ext4) is mounted and"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := hardened(spec)
			p.Mounts = append(p.Mounts, tt.mounts...)
			_, err := attest(p, spec)
			if (err != nil) != (tt.want != "") {
				t.Fatalf("got error %v, want one with %q", err, tt.want)
			}
			if err != nil {
				expectContains(t, "error", err.Error(), tt.want)
			}
		})
	}
}

func TestAttestNamesAllThatFallsShort(t *testing.T) {
	spec := runtime.DefaultSpec("image").WithDefaults()
	_, err := attest(&Posture{}, spec)
	if err == nil {
		t.Fatal("an empty posture was accepted")
	}
	for _, want := range []string{"Uid", "Gid", "CapEff", "NoNewPrivs", "Seccomp", "root file system", "/tmp"} {
		expectContains(t, "error", err.Error(), want)
	}
}
