package enginetest

import (
	_ "embed" // for probe.py
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/runtime"
)

//go:embed probe.py
var probe string

// A view is what probe.py sees from inside a sandbox.
type view struct {
	IDs          []int
	Groups       []int
	Capabilities []string
	NoNewPrivs   string `json:"no_new_privs"`
	Seccomp      string
	PID          int
	Processes    int
	Namespaces   map[string]string
	Cgroups      []string
	RootReadOnly bool `json:"root_read_only"`
	Writable     []string
	Mounts       map[string][]string
	Modes        map[string]uint32
	Fits         map[string]int64
	Executes     map[string]bool
	Interfaces   []string
	Network      bool
	Environ      map[string]string
	Devices      []string
	Hostname     string
	Nofile       []uint64
	Core         []uint64
	Terminal     []bool
	Directory    string
	Memory       *int64 // nil is no limit
	Pids         *int64
	CPUs         *float64
	Masked       []string // what should be and is not
	Sysctls      []string // what can be changed
}

// TestHardening looks at the hardening from inside a container of an engine on
// this machine that holds image, which has python3. Both the test and the
// engine can use shared, a folder. It is for real engines.
func TestHardening(t *testing.T, e runtime.Engine, image, shared string) {
	l := newLab(t, e, image)
	spec := l.hardened()
	v := l.look(spec)
	info, err := e.Info(l.ctx)
	if err != nil {
		t.Fatalf("Info: %v", err)
	}
	checks := []struct {
		name  string // a sentence
		check func(*testing.T)
	}{
		{"the user has no privilege", v.checkUser},
		{"namespaces are private", v.checkNamespaces},
		{"only the spec's folders can be written to", func(t *testing.T) { v.checkFolders(t, spec) }},
		{"folders have their size, mode and options", func(t *testing.T) { v.checkTmpfs(t, spec) }},
		{"there is no network", v.checkNetwork},
		{"nothing of the host is in the environment", v.checkEnvironment},
		{"only harmless devices are there", v.checkDevices},
		{"the kernel's secrets are masked and its settings fixed", v.checkKernel},
		{"rlimits are the spec's", func(t *testing.T) { v.checkRlimits(t, spec) }},
		{"cgroup limits are the spec's where the engine can set them", func(t *testing.T) { v.checkCgroup(t, spec, info) }},
		{"memory and pids are enforced where the engine can", func(t *testing.T) { testLimits(newLab(t, e, image), info) }},
		{"mounts can be read and not be written to", func(t *testing.T) { testMounts(newLab(t, e, image), shared) }},
		{"an image's volumes, entrypoint and health check don't count", func(t *testing.T) { testImageWishes(newLab(t, e, image)) }},
	}
	for _, c := range checks {
		t.Run(c.name, c.check)
	}
	l.checkEmpty()
}

// hardened is a spec whose every value differs from the defaults.
func (l *lab) hardened() runtime.Spec {
	spec := l.python(probe)
	spec.User = "12345:23456"
	spec.MemoryBytes = 200 << 20
	spec.Pids = 77
	spec.CPUs = 0.5
	spec.Nofile = 321
	spec.Workdir = "/probe-b"
	spec.Tmpfs = []runtime.Tmpfs{
		{Target: "/tmp", SizeBytes: 3 << 20, Mode: 0o1777},
		{Target: "/probe-a", SizeBytes: 5 << 20, Mode: 0o777, Exec: true},
		{Target: "/probe-b", SizeBytes: 2 << 20, Mode: 0o1777},
	}
	for _, m := range spec.Tmpfs {
		spec.Cmd = append(spec.Cmd, m.Target)
	}
	return spec
}

func (l *lab) look(spec runtime.Spec) *view {
	l.Helper()
	r := l.attach(l.create(spec))
	if err := l.e.Start(l.ctx, r.id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	return l.lookAt(r)
}

// lookAt reads what the probe prints in a container that runs it.
func (l *lab) lookAt(r *running) *view {
	l.Helper()
	text := r.rest()
	v := new(view)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		l.Fatalf("reading %q: %v; stderr: %s", text, err, r.stderr.String())
	}
	return v
}

func (v *view) checkUser(t *testing.T) {
	same(t, "uids and gids", v.IDs, []int{12345, 12345, 12345, 23456, 23456, 23456})
	for _, g := range v.Groups {
		if g != 23456 {
			t.Errorf("in group %d", g)
		}
	}
	none := "0000000000000000"
	same(t, "capabilities", v.Capabilities, []string{none, none, none, none, none})
	same(t, "NoNewPrivs", v.NoNewPrivs, "1")
	same(t, "Seccomp", v.Seccomp, "2")
	same(t, "terminals", v.Terminal, []bool{false, false, false})
}

func (v *view) checkNamespaces(t *testing.T) {
	same(t, "pid", v.PID, 1)
	same(t, "processes in /proc", v.Processes, 1)
	same(t, "paths in /proc/self/cgroup", v.Cgroups, []string{"/"})
	same(t, "hostname", v.Hostname, runtime.Hostname)
	for name, link := range v.Namespaces {
		host, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			t.Fatalf("reading our own namespace: %v", err)
		}
		if link == host {
			t.Errorf("the %s namespace is the host's", name)
		}
	}
}

func (v *view) checkFolders(t testing.TB, spec runtime.Spec) {
	want := []string{"/dev/shm"}
	for _, m := range spec.Tmpfs {
		want = append(want, m.Target)
	}
	for _, dir := range v.Writable {
		// The message queues' size is limited by the kernel.
		if !slices.Contains(want, dir) && dir != "/dev/mqueue" {
			t.Errorf("%s can be written to", dir)
		}
	}
	for _, dir := range want {
		if !slices.Contains(v.Writable, dir) {
			t.Errorf("%s can't be written to", dir)
		}
	}
	same(t, "root is read-only", v.RootReadOnly, true)
	same(t, "working directory", v.Directory, spec.Workdir)
}

func (v *view) checkTmpfs(t testing.TB, spec runtime.Spec) {
	all := append(slices.Clone(spec.Tmpfs), runtime.Tmpfs{Target: "/dev/shm", SizeBytes: runtime.ShmBytes})
	for _, m := range all {
		options := v.Mounts[m.Target]
		for _, o := range []string{"nosuid", "nodev"} {
			if !slices.Contains(options, o) {
				t.Errorf("%s is not %s: %v", m.Target, o, options)
			}
		}
		if got := slices.Contains(options, "noexec"); got == m.Exec {
			t.Errorf("%s is noexec: %v, want %v", m.Target, got, !m.Exec)
		}
		same(t, "what fits into "+m.Target, v.Fits[m.Target], m.SizeBytes)
	}
	for _, m := range spec.Tmpfs {
		// Docker makes the working directory itself, and old runcs let that
		// decide the mode; what counts is that the user can write to it.
		if m.Target != spec.Workdir {
			same(t, "mode of "+m.Target, v.Modes[m.Target], m.Mode)
		}
		same(t, "programs run in "+m.Target, v.Executes[m.Target], m.Exec)
	}
}

func (v *view) checkNetwork(t *testing.T) {
	same(t, "interfaces", v.Interfaces, []string{"lo"})
	same(t, "packets can leave", v.Network, false)
}

func (v *view) checkEnvironment(t *testing.T) {
	for name, value := range v.Environ {
		switch name {
		case "PATH", "HOME", "HOSTNAME", "TERM", "container", "LC_CTYPE":
		default:
			t.Errorf("%s=%s is in the environment", name, value)
		}
	}
}

func (v *view) checkDevices(t *testing.T) {
	harmless := strings.Fields("console core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero")
	for _, name := range v.Devices {
		if !slices.Contains(harmless, name) {
			t.Errorf("/dev/%s is there", name)
		}
	}
}

func (v *view) checkKernel(t *testing.T) {
	same(t, "readable", v.Masked, []string{})
	same(t, "changeable", v.Sysctls, []string{})
}

func (v *view) checkRlimits(t *testing.T, spec runtime.Spec) {
	same(t, "nofile", v.Nofile, []uint64{spec.Nofile, spec.Nofile})
	same(t, "core", v.Core, []uint64{0, 0})
}

// limited reports whether the engine can set cgroup limits at all.
func limited(info runtime.Info) bool {
	return !info.Rootless || info.CgroupVersion != "1"
}

func (v *view) checkCgroup(t *testing.T, spec runtime.Spec, info runtime.Info) {
	if !limited(info) {
		// The container runs all the same, and what it sees is the host's.
		if v.Memory != nil && *v.Memory == spec.MemoryBytes {
			t.Errorf("the memory limit is set, which the engine is thought unable to")
		}
		return
	}
	if v.Memory == nil || v.Pids == nil || v.CPUs == nil {
		t.Fatalf("limits = %v, %v, %v: one is missing", v.Memory, v.Pids, v.CPUs)
	}
	same(t, "memory limit", *v.Memory, spec.MemoryBytes)
	same(t, "pids limit", *v.Pids, spec.Pids)
	same(t, "cpus", *v.CPUs, spec.CPUs)
}

// hogProgram takes memory until it is killed.
const hogProgram = `
hog = []
while True: hog.append(b"x" * (1 << 20))
`

// forkProgram starts processes until it can't, and says how many it has.
const forkProgram = `
import os, time
n = 1
try:
    while n < 1000:
        if os.fork() == 0: time.sleep(60)
        n += 1
except BlockingIOError: pass
print(n)
`

func testLimits(l *lab, info runtime.Info) {
	if !limited(info) {
		return // and taking the host's memory would be rude
	}
	spec := l.python(hogProgram)
	spec.MemoryBytes = 64 << 20
	id := l.create(spec)
	if err := l.e.Start(l.ctx, id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	exit := l.wait(id)
	if info.Name == "podman" && info.CgroupVersion == "1" {
		exit.OOM = true // conmon 2.1.6 does not notice on cgroups v1
	}
	same(l, "exit of a hog", exit, runtime.Exit{Code: 137, OOM: true})

	spec = l.python(forkProgram)
	spec.Pids = 20
	r := l.attach(l.create(spec))
	if err := l.e.Start(l.ctx, r.id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	same(l, "processes", r.line(), fmt.Sprint(spec.Pids))
	l.checkEmpty()
}

// testImageWishes runs a container from an image that wants things.
func testImageWishes(l *lab) {
	const ref = "localhost/bridged-enginetest:wishes"
	recipe := "FROM " + l.image + `
VOLUME /wish/volume /tmp
ENTRYPOINT ["/bin/false"]
CMD ["nothing"]
HEALTHCHECK --interval=1s CMD touch /tmp/healthy
`
	if err := l.e.Build(l.ctx, ref, archive("Containerfile", recipe), nil); err != nil {
		l.Fatalf("Build: %v", err)
	}
	spec := l.hardened()
	spec.Image = ref
	v := l.look(spec)
	v.checkFolders(l, spec)
	v.checkTmpfs(l, spec)
	l.checkEmpty()
}

// same compares what was seen with what is wanted.
func same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
