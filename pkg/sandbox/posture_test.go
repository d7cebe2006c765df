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
			"CapAmb": {"0000000000000000"}, "NoNewPrivs": {"1"}, "Seccomp": {"2"},
		},
		Mounts:     []Mount{{Target: "/", Type: "overlay", Options: []string{"ro", "relatime"}}},
		Interfaces: []string{"lo"},
		Memory:     &memory, Swap: &swap, Pids: &pids,
		Nofile: int64(spec.Nofile),
	}
	for _, m := range spec.Tmpfs {
		options := []string{"rw", "nosuid", "nodev"}
		if !m.Exec {
			options = append(options, "noexec")
		}
		p.Mounts = append(p.Mounts, Mount{Target: m.Target, Type: "tmpfs", Options: options, Size: m.SizeBytes})
	}
	return p
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
		{"no pids limit", func(p *Posture) { p.Pids = nil }, "", []string{degradedPids}},
		{"a pids limit that is too high", func(p *Posture) { p.Pids = above(spec.Pids) }, "", []string{degradedPids}},
		{"neither limit", func(p *Posture) { p.Memory, p.Pids = nil, nil }, "", []string{degradedMemory, degradedPids}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := hardened(spec)
			tt.change(p)
			degraded, err := attest(p, spec)
			if (err != nil) != (tt.want != "") {
				t.Fatalf("got error %v, want one with %q", err, tt.want)
			}
			if err != nil {
				expectContains(t, "error", err.Error(), tt.want)
			}
			if diff := cmp.Diff(tt.degraded, degraded); diff != "" {
				t.Errorf("degraded (-want +got):\n%s", diff)
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
