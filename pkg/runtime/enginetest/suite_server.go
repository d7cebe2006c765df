package enginetest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bridged/bridged/pkg/runtime"
)

var serverBehaviours = []behaviour{
	{"a server's container runs what it is told", testServer},
	{"a server's stdin ends with the first stream's", testServerStdin},
	{"a server's stdin ends when its stream is closed", testServerHangUp},
	{"a server's name is its own", testServerName},
	{"a server whose image is missing is told", testServerNoImage},
	{"a server's mount whose source is missing is told", testServerNoSource},
}

// server is a spec whose first process runs program.
func (l *lab) server(program string, args ...string) runtime.ServerSpec {
	return runtime.ServerSpec{
		Image: l.image, Entrypoint: []string{"python3", "-u", "-c"}, Args: append([]string{program}, args...),
		Network: runtime.NetworkNone, Labels: map[string]string{labelLab: l.label},
	}
}

// serve creates a server's container, attaches and starts.
func (l *lab) serve(spec runtime.ServerSpec) *running {
	l.Helper()
	id, err := l.e.CreateServer(l.ctx, spec)
	if err != nil {
		l.Fatalf("CreateServer: %v", err)
	}
	l.Cleanup(func() { l.removeLate(id) })
	r := l.attach(id)
	if err := l.e.Start(l.ctx, id); err != nil {
		l.Fatalf("Start: %v", err)
	}
	return r
}

func testServer(l *lab) {
	spec := l.server(`
import os, sys
print(sys.argv[1], os.environ["WORD"])
print("aside", file=sys.stderr)
for line in sys.stdin: print(line, end="")
`, "argument")
	spec.Env = map[string]string{"WORD": "a=b c"}
	r := l.serve(spec)
	same(l, "first line", r.line(), "argument a=b c")
	r.ask("hello")
	r.closeWrite()
	same(l, "stdout at the end", r.rest(), "")
	same(l, "stderr", r.stderr.String(), "aside\n")
	same(l, "exit", l.wait(r.id), runtime.Exit{})
}

func testServerStdin(l *lab) {
	r := l.serve(l.server("import sys; print(len(sys.stdin.read())); print('x' * 100_000); sys.exit(5)"))
	r.write("12345")
	r.closeWrite()
	same(l, "bytes read", r.line(), "5")
	same(l, "bytes after the end of stdin", len(r.rest()), 100_001)
	same(l, "exit", l.wait(r.id), runtime.Exit{Code: 5})
}

func testServerHangUp(l *lab) {
	r := l.serve(l.server("import sys; print('up'); sys.stdin.read(); sys.exit(6)"))
	same(l, "first line", r.line(), "up")
	r.close()
	same(l, "exit", l.wait(r.id), runtime.Exit{Code: 6})
}

func testServerName(l *lab) {
	spec := l.server("input()")
	spec.Name = "bridged-test-" + l.label
	r := l.serve(spec)
	rows := l.list(map[string]string{labelLab: l.label})
	if len(rows) != 1 || rows[0].ID != r.id || rows[0].Name != spec.Name {
		l.Errorf("List = %+v, want the container %s by the name of %s", rows, r.id, spec.Name)
	}
	if id, err := l.e.CreateServer(l.ctx, spec); !isRefusal(err) {
		l.Errorf("CreateServer with a name that is taken = %s, %v, want a refusal", id, err)
	}
}

func testServerNoImage(l *lab) {
	spec := l.server("")
	spec.Image = "localhost/bridged-enginetest:none"
	if id, err := l.e.CreateServer(l.ctx, spec); !errors.Is(err, runtime.ErrNoImage) {
		l.Errorf("CreateServer = %s, %v, want %v", id, err, runtime.ErrNoImage)
	}
}

func testServerNoSource(l *lab) {
	const path = "/nonexistent/data"
	spec := l.server("")
	spec.Mounts = []runtime.ServerMount{{Source: path, Target: "/data"}}
	id, err := l.e.CreateServer(l.ctx, spec)
	if err == nil {
		err = l.e.Start(l.ctx, id)
		l.remove(id)
	}
	if !isRefusal(err) || !strings.Contains(err.Error(), path) {
		l.Errorf("a source that is not there: %v, want a refusal that names it", err)
	}
}

// TestServers looks at a server's container from inside, as TestHardening does
// at a sandbox.
func TestServers(t *testing.T, e runtime.Engine, image, shared string) {
	info, err := e.Info(t.Context())
	if err != nil {
		t.Fatalf("Info: %v", err)
	}
	checks := []struct {
		name string // a sentence
		test func(*lab, runtime.Info)
	}{
		{"a server that asks for nothing is kept in", testServerKeptIn},
		{"a server that asks for more gets just that", testServerGranted},
		{"the host's network is the host's", testServerHostNetwork},
		{"mounts are as they are asked for", func(l *lab, _ runtime.Info) { testServerMounts(l, shared) }},
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, e, image)
			c.test(l, info)
			l.checkEmpty()
		})
	}
}

// mask is a set of capabilities as /proc writes it.
const (
	maskServer   = "00000000000000eb" // CHOWN DAC_OVERRIDE FOWNER KILL SETGID SETUID
	maskNetAdmin = "0000000000001000"
	maskNone     = "0000000000000000"
)

func testServerKeptIn(l *lab, info runtime.Info) {
	spec := l.server(probe, "/tmp")
	v := l.lookAt(l.serve(spec))
	same(l, "uids and gids", v.IDs, []int{0, 0, 0, 0, 0, 0})
	// Inheritable, permitted, effective, bounding and ambient.
	same(l, "permitted to bounding", v.Capabilities[1:4], []string{maskServer, maskServer, maskServer})
	same(l, "ambient", v.Capabilities[4], maskNone)
	same(l, "NoNewPrivs", v.NoNewPrivs, "1")
	same(l, "Seccomp", v.Seccomp, "2")
	same(l, "terminals", v.Terminal, []bool{false, false, false})
	same(l, "interfaces", v.Interfaces, []string{"lo"})
	same(l, "readable", v.Masked, []string{})
	same(l, "core", v.Core, []uint64{0, 0})
	same(l, "root is read-only", v.RootReadOnly, false)
	for name, link := range v.Namespaces {
		host, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			l.Fatalf("reading our own namespace: %v", err)
		}
		if link == host {
			l.Errorf("the %s namespace is the host's", name)
		}
	}
	if limited(info) && (v.Memory == nil || *v.Memory != runtime.ServerMemory || v.Pids == nil || *v.Pids != runtime.ServerPids) {
		l.Errorf("limits = %v, %v, want those of a server", v.Memory, v.Pids)
	}
}

func testServerGranted(l *lab, info runtime.Info) {
	spec := l.server(probe, "/scratch")
	spec.User, spec.Workdir, spec.Hostname = "12345:23456", "/scratch", "worker"
	spec.CapDrop, spec.CapAdd = []string{"ALL"}, []string{"NET_ADMIN"}
	spec.ReadOnly = true
	spec.Tmpfs = []runtime.Tmpfs{{Target: "/scratch", SizeBytes: 3 << 20, Mode: 0o1777}}
	spec.MemoryBytes, spec.Pids, spec.CPUs = 200<<20, 77, 0.5
	v := l.lookAt(l.serve(spec))
	same(l, "uids and gids", v.IDs, []int{12345, 12345, 12345, 23456, 23456, 23456})
	same(l, "bounding", v.Capabilities[3], maskNetAdmin)
	same(l, "hostname", v.Hostname, "worker")
	same(l, "working directory", v.Directory, "/scratch")
	same(l, "root is read-only", v.RootReadOnly, true)
	same(l, "/scratch can be written to", slices.Contains(v.Writable, "/scratch"), true)
	if !limited(info) {
		return
	}
	if v.Memory == nil || v.Pids == nil || v.CPUs == nil {
		l.Fatalf("limits = %v, %v, %v: one is missing", v.Memory, v.Pids, v.CPUs)
	}
	same(l, "memory limit", *v.Memory, spec.MemoryBytes)
	same(l, "pids limit", *v.Pids, spec.Pids)
	same(l, "cpus", *v.CPUs, spec.CPUs)
}

func testServerHostNetwork(l *lab, _ runtime.Info) {
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		l.Fatal(err)
	}
	spec := l.server("import os; print(os.readlink('/proc/self/ns/net'))")
	spec.Network = runtime.NetworkHost
	same(l, "network namespace", l.serve(spec).line(), host)
}

func testServerMounts(l *lab, shared string) {
	dir := filepath.Join(shared, "server-"+l.label)
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{"in", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			l.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			l.Fatal(err)
		}
	}
	spec := l.server(`
for path in ("/in/file", "/out/file", "/kept/file"):
    try: print(path, open(path, "w").write("x"))
    except OSError: print(path, "error")
`)
	spec.Mounts = []runtime.ServerMount{
		{Source: filepath.Join(dir, "in"), Target: "/in", ReadOnly: true},
		{Source: filepath.Join(dir, "out"), Target: "/out"},
		{Volume: true, Target: "/kept"},
	}
	same(l, "what could be written", l.serve(spec).rest(), "/in/file error\n/out/file 1\n/kept/file 1\n")
	if got, err := os.ReadFile(filepath.Join(dir, "out", "file")); err != nil || string(got) != "x" {
		l.Errorf("the file on the host is %q, %v, want what was written", got, err)
	}
}
