package sandbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bridged/bridged/pkg/runtime"
)

// A Posture is what the kernel really enforces in a sandbox, as its harness
// read it from /proc and /sys before any other code ran.
type Posture struct {
	Status     map[string][]string `json:"status"` // lines of /proc/self/status
	Mounts     []Mount             `json:"mounts"`
	Interfaces []string            `json:"interfaces"`
	Memory     *int64              `json:"memory"` // bytes; nil: no limit
	Swap       *int64              `json:"swap"`
	Pids       *int64              `json:"pids"`
	Nofile     int64               `json:"nofile"` // hard limit
	Core       int64               `json:"core"`   // hard limit, bytes
}

// A Mount is one row of /proc/self/mountinfo.
type Mount struct {
	Target  string   `json:"target"`
	Type    string   `json:"type"`
	Options []string `json:"options"`
	Size    int64    `json:"size"` // of its file system, bytes
}

// sizeSlack allows for a tmpfs being rounded up to whole pages.
const sizeSlack = 1 << 16

// attest compares a posture with what spec promises. It returns the limits
// that have to be set otherwise, and an error that names all that falls short.
func attest(p *Posture, spec runtime.Spec) (degraded []string, err error) {
	var bad []string
	bad = append(bad, badIdentity(p, spec)...)
	bad = append(bad, badMounts(p, spec)...)
	for _, name := range p.Interfaces {
		if name != "lo" {
			bad = append(bad, fmt.Sprintf("network interface %s", name))
		}
	}
	if p.Core != 0 {
		bad = append(bad, "core dumps are on")
	}
	if p.Nofile < 0 || uint64(p.Nofile) > spec.Nofile {
		bad = append(bad, fmt.Sprintf("open files: limit %d, want at most %d", p.Nofile, spec.Nofile))
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("sandbox is not hardened as asked: %s", strings.Join(bad, "; "))
	}
	if p.Memory == nil || *p.Memory > spec.MemoryBytes {
		degraded = append(degraded, degradedMemory)
	}
	if p.Pids == nil || *p.Pids > spec.Pids {
		degraded = append(degraded, degradedPids)
	}
	return degraded, nil
}

// What status says of limits that the engine did not set.
const (
	degradedMemory = "memory limit by rlimit"
	degradedPids   = "pids limit by rlimit"
)

func badIdentity(p *Posture, spec runtime.Spec) []string {
	var bad []string
	uid, gid, _ := strings.Cut(spec.User, ":")
	for _, row := range [][2]string{{"Uid", uid}, {"Gid", gid}} {
		if len(p.Status[row[0]]) == 0 {
			bad = append(bad, row[0]+" is not reported")
		}
		for _, got := range p.Status[row[0]] {
			if got != row[1] {
				bad = append(bad, fmt.Sprintf("%s %s, want %s", row[0], got, row[1]))
				break
			}
		}
	}
	for _, name := range []string{"CapEff", "CapPrm", "CapBnd", "CapAmb"} {
		if v, err := strconv.ParseUint(p.first(name), 16, 64); err != nil || v != 0 {
			bad = append(bad, fmt.Sprintf("%s %s, want none", name, p.first(name)))
		}
	}
	if got := p.first("NoNewPrivs"); got != "1" {
		bad = append(bad, fmt.Sprintf("NoNewPrivs %q, want 1", got))
	}
	if got := p.first("Seccomp"); got != "2" {
		bad = append(bad, fmt.Sprintf("Seccomp %q, want 2 (a filter)", got))
	}
	return bad
}

func badMounts(p *Posture, spec runtime.Spec) []string {
	var bad []string
	root := p.mount("/")
	if root == nil || !slices.Contains(root.Options, "ro") {
		bad = append(bad, "the root file system is writable")
	}
	for _, t := range spec.Tmpfs {
		m := p.mount(t.Target)
		if m == nil || m.Type != "tmpfs" {
			bad = append(bad, fmt.Sprintf("%s is no tmpfs", t.Target))
			continue
		}
		want := []string{"nosuid", "nodev"}
		if !t.Exec {
			want = append(want, "noexec")
		}
		for _, o := range want {
			if !slices.Contains(m.Options, o) {
				bad = append(bad, fmt.Sprintf("%s is not %s", t.Target, o))
			}
		}
		if m.Size > t.SizeBytes+sizeSlack {
			bad = append(bad, fmt.Sprintf("%s holds %d bytes, want at most %d", t.Target, m.Size, t.SizeBytes))
		}
	}
	return bad
}

// first returns the first value of a status line, "" if there is none.
func (p *Posture) first(key string) string {
	if v := p.Status[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// mount returns the topmost mount at target, nil if nothing is mounted there.
func (p *Posture) mount(target string) *Mount {
	for i := len(p.Mounts) - 1; i >= 0; i-- {
		if p.Mounts[i].Target == target {
			return &p.Mounts[i]
		}
	}
	return nil
}
