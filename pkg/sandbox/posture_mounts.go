package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bridged/bridged/pkg/runtime"
)

// A Mount is one row of /proc/self/mountinfo.
type Mount struct {
	Target  string   `json:"target"`
	Root    string   `json:"root"` // the folder or file of its file system that is shown
	Type    string   `json:"type"`
	Options []string `json:"options"`
	Size    int64    `json:"size"` // of its file system, bytes
	Dir     bool     `json:"dir"`
}

// ReadOnly reports whether nothing can be written through the mount.
func (m Mount) ReadOnly() bool { return slices.Contains(m.Options, "ro") }

// sizeSlack allows for a tmpfs being rounded up to whole pages.
const sizeSlack = 1 << 16

// own are the mounts that every container has, and their types. The kernel
// guards what is in them, or they are the container's alone.
var own = map[string][]string{
	"/proc":       {"proc"},
	"/dev":        {"tmpfs"},
	"/dev/pts":    {"devpts"},
	"/dev/mqueue": {"mqueue"},
	"/dev/shm":    {"tmpfs"},
	// A tmpfs holds the cgroups of version 1, one mount each. Both are root's.
	"/sys/fs/cgroup": {"tmpfs", "cgroup2"},
}

// ownReadOnly are those that must not be written to.
var ownReadOnly = map[string][]string{"/sys": {"sysfs"}}

// devices are what engines put into /dev by mounting the machine's where they
// may not make them.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "console"}

// gifts are folders of the machine that Red Hat's Podman shows to every
// container, read-only: subscriptions, and the settings of a machine in FIPS
// mode. They are told of, since refusing them would refuse such machines.
var gifts = []string{"/run/secrets", "/etc/crypto-policies/back-ends"}

func badMounts(p *Posture, spec runtime.Spec) []string {
	var bad []string
	root := p.mount("/")
	if root == nil || !root.ReadOnly() {
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
	bad = append(bad, badData(p, spec)...)
	for i := range p.Mounts {
		if why := unasked(&p.Mounts[i], spec); why != "" {
			bad = append(bad, why)
		}
	}
	return bad
}

// badData names the mounts of data that the sandbox could write to.
func badData(p *Posture, spec runtime.Spec) []string {
	var bad []string
	for _, d := range spec.Mounts {
		m := p.mount(d.Target)
		switch {
		case m == nil:
			bad = append(bad, fmt.Sprintf("%s is not mounted", d.Target))
		case !m.ReadOnly():
			bad = append(bad, fmt.Sprintf("%s is writable", d.Target))
		}
	}
	return bad
}

// unasked says what is wrong with a mount that the Spec has not asked for; ""
// for one that every container has, or that the engine makes read-only to tell
// a container of itself, such as /etc/hosts.
func unasked(m *Mount, spec runtime.Spec) string {
	readOnly := m.ReadOnly()
	switch {
	case m.Target == "/" || slices.ContainsFunc(spec.Tmpfs, func(t runtime.Tmpfs) bool { return t.Target == m.Target }):
		return "" // looked at above
	case slices.ContainsFunc(spec.Mounts, func(d runtime.Mount) bool { return d.Target == m.Target }):
		return "" // likewise
	case m.Target == "/dev/shm" && m.Size > runtime.ShmBytes+sizeSlack:
		return fmt.Sprintf("/dev/shm holds %d bytes, want at most %d", m.Size, runtime.ShmBytes)
	case slices.Contains(own[m.Target], m.Type):
		return ""
	case readOnly && slices.Contains(ownReadOnly[m.Target], m.Type):
		return ""
	case path.Dir(m.Target) == "/dev" && slices.Contains(devices, path.Base(m.Target)) && !m.Dir:
		return ""
	case !readOnly:
		return fmt.Sprintf("%s (%s) is mounted writable and was not asked for; %s", m.Target, m.Type, engineSettings)
	case within(m.Target, "/etc", "/run") && !m.Dir, slices.Contains(gifts, m.Target):
		return ""
	}
	return fmt.Sprintf("%s (%s) is mounted and was not asked for; %s", m.Target, m.Type, engineSettings)
}

// engineSettings is advice: an engine mounts what its own settings say.
const engineSettings = "look for it in the engine's own settings, such as volumes in containers.conf"

// within reports whether target is inside one of the folders.
func within(target string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(target, f+"/") })
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
