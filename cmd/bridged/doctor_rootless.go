package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/systemd"
)

// systemdTimeout bounds a few questions to the user's systemd.
const systemdTimeout = 5 * time.Second

const podmanUnit = "podman.socket"

// podmanAdvice finds out how Podman's socket gets started here: a command that
// installs Podman if it is not there, one that starts its socket, and whether
// --fix can do the latter.
func (p *patient) podmanAdvice(ctx context.Context) (install, start string, mend repair) {
	if goruntime.GOOS == "darwin" {
		if !onPath("podman") {
			install = installPackage(onPath, map[string]string{"": "podman"})
		}
		return install, "podman machine start", repair{}
	}
	if !onPath("podman") {
		install = installPackage(onPath, map[string]string{"": "podman"})
	}
	ctx, cancel := context.WithTimeout(ctx, systemdTimeout)
	defer cancel()
	m, err := systemd.User(ctx, p.getenv("XDG_RUNTIME_DIR"))
	if err == nil {
		defer m.Close()
		if _, loaded, err := m.State(ctx, podmanUnit); err == nil && loaded {
			return "", "systemctl --user enable --now " + podmanUnit, repair{deed: repairUnit, path: podmanUnit}
		}
	}
	switch {
	case exists("/run/systemd/system") && p.uid == 0:
		return install, "systemctl enable --now " + podmanUnit, repair{}
	case exists("/run/systemd/system"):
		return install, "systemctl --user enable --now " + podmanUnit, repair{}
	}
	return install, serviceAlone(p.uid, p.getenv("XDG_RUNTIME_DIR"), exists(fmt.Sprintf("/run/user/%d", p.uid))), repair{}
}

// serviceAlone is the command that starts Podman's service where no systemd does.
// Without a runtime folder it would listen where nobody looks.
func serviceAlone(uid int, runtimeDir string, usual bool) string {
	const service = "podman system service --time=0 &"
	if uid == 0 || runtimeDir != "" || usual {
		return service
	}
	return fmt.Sprintf("export XDG_RUNTIME_DIR=/tmp/run-%d; mkdir -p -m 700 /tmp/run-%d; ", uid, uid) + service
}

// rootlessFacts are what an engine without root needs of the machine.
type rootlessFacts struct {
	uid  int
	user string

	subuid, subgid string            // the texts of the files
	mappers        map[string]mapper // newuidmap, newgidmap
	install        string            // the command that installs those

	maxNamespaces string // of /proc/sys/user/max_user_namespaces
	cloneAllowed  string // of /proc/sys/kernel/unprivileged_userns_clone
	restricted    string // of /proc/sys/kernel/apparmor_restrict_unprivileged_userns

	runtimeDir  string // XDG_RUNTIME_DIR
	usualDir    bool   // /run/user/UID is there
	dirMode     fs.FileMode
	dirOwner    int
	dirErr      error
	systemd     bool // the machine is run by systemd
	lingers     bool
	service     bool // our units are enabled
	info        runtime.Info
	reached     bool // info is an engine's
	engineLocal bool
}

// A mapper is a program that maps ids for a user.
type mapper struct {
	path    string // "" if it is not there
	allowed bool   // it is setuid root, or has a capability
}

func checkRootless(_ context.Context, p *patient) outcome {
	if goruntime.GOOS != "linux" {
		return outcome{skipped: "the engine runs in a virtual machine of its own"}
	}
	e := p.engine()
	f := p.rootlessFacts()
	f.info, f.reached, f.engineLocal = e.info, e.engine != nil, e.local()
	return f.judge()
}

func (p *patient) rootlessFacts() rootlessFacts {
	f := rootlessFacts{
		uid: p.uid, user: p.user, mappers: map[string]mapper{},
		install:       installPackage(onPath, map[string]string{"": "shadow-utils", "apt-get": "uidmap", "pacman": "shadow", "zypper": "shadow", "apk": "shadow-uidmap", "brew": ""}),
		maxNamespaces: readLine("/proc/sys/user/max_user_namespaces"),
		cloneAllowed:  readLine("/proc/sys/kernel/unprivileged_userns_clone"),
		restricted:    readLine("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		runtimeDir:    p.getenv("XDG_RUNTIME_DIR"),
		usualDir:      exists(fmt.Sprintf("/run/user/%d", p.uid)),
		systemd:       exists("/run/systemd/system"),
		lingers:       exists(filepath.Join("/var/lib/systemd/linger", p.user)),
		service:       exists(filepath.Join(p.home, ".config/systemd/user/sockets.target.wants", systemd.SocketUnit)),
	}
	for name, into := range map[string]*string{"/etc/subuid": &f.subuid, "/etc/subgid": &f.subgid} {
		data, err := os.ReadFile(name)
		if err == nil { // else nobody has any
			*into = string(data)
		}
	}
	for _, name := range []string{"newuidmap", "newgidmap"} {
		f.mappers[name] = findMapper(name)
	}
	if f.runtimeDir != "" {
		info, err := os.Stat(f.runtimeDir)
		if f.dirErr = err; err == nil {
			f.dirMode, f.dirOwner = info.Mode().Perm(), ownerOf(info)
		}
	}
	return f
}

func findMapper(name string) mapper {
	path := pathOf(name)
	if path == "" {
		return mapper{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return mapper{}
	}
	capability := make([]byte, 64)
	n, _ := unix.Getxattr(path, "security.capability", capability) // none is an error too
	return mapper{path: path, allowed: info.Mode()&fs.ModeSetuid != 0 && ownerOf(info) == 0 || n > 0}
}

// needed says why a set-up without root is of no interest; "" if it is.
func (f rootlessFacts) needed() string {
	switch {
	case f.reached && !f.engineLocal:
		return "the engine is on another machine"
	case f.reached && !f.info.Rootless:
		return "the engine runs as root"
	case f.uid == 0:
		return "you are root"
	}
	return ""
}

func (f rootlessFacts) judge() outcome {
	o := outcome{findings: f.judgeDir()}
	if f.service && f.systemd && !f.lingers {
		o.findings = append(o.findings, found("rootless.linger", f.user, "systemd ends your services with your last login, bridged and its sandboxes among them",
			shellLine("loginctl", "enable-linger", f.user)))
	}
	if why := f.needed(); why != "" {
		o.summary = "not needed: " + why
		return o
	}
	o.summary = "subordinate ids, newuidmap and user namespaces are there"
	o.findings = append(o.findings, f.judgeIDs()...)
	o.findings = append(o.findings, f.judgeNamespaces()...)
	if f.info.StorageDriver == "vfs" {
		o.findings = append(o.findings, found("rootless.storage", "vfs", "the engine's storage driver is vfs, which copies the whole image for each sandbox",
			`mkdir -p ~/.config/containers && printf '[storage]\ndriver = "overlay"\n' >~/.config/containers/storage.conf && podman system reset`))
	}
	if len(o.findings) > 0 {
		o.summary = ""
	}
	return o
}

// judgeDir looks at the runtime folder, where engines and we put sockets.
func (f rootlessFacts) judgeDir() []finding {
	usual := fmt.Sprintf("/run/user/%d", f.uid)
	switch {
	case f.runtimeDir == "" && f.usualDir:
		return []finding{found("rootless.runtimedir", "XDG_RUNTIME_DIR", "XDG_RUNTIME_DIR is not set, so that agents and the daemon may look for each other at different places",
			shellLine("export", "XDG_RUNTIME_DIR="+usual))}
	case f.runtimeDir == "" && f.systemd && f.uid != 0:
		return []finding{found("rootless.runtimedir", "XDG_RUNTIME_DIR", "XDG_RUNTIME_DIR is not set, and "+usual+" is not there: no login of yours is known to systemd",
			shellLine("sudo", "loginctl", "enable-linger", f.user))}
	case f.runtimeDir == "":
		return nil
	case errors.Is(f.dirErr, fs.ErrNotExist):
		return []finding{found("rootless.runtimedir", f.runtimeDir, "XDG_RUNTIME_DIR names "+f.runtimeDir+", which is not there", "unset XDG_RUNTIME_DIR")}
	case f.dirErr != nil:
		return []finding{found("rootless.runtimedir", f.runtimeDir, "XDG_RUNTIME_DIR can't be used: "+f.dirErr.Error(), "unset XDG_RUNTIME_DIR")}
	case f.dirOwner != f.uid:
		return []finding{found("rootless.runtimedir", f.runtimeDir, fmt.Sprintf("XDG_RUNTIME_DIR names %s, which belongs to uid %d and not to you (%d), as after su or sudo", f.runtimeDir, f.dirOwner, f.uid), "unset XDG_RUNTIME_DIR")}
	case f.dirMode&0o077 != 0:
		return []finding{found("rootless.runtimedir", f.runtimeDir, fmt.Sprintf("others may look into %s (mode %04o)", f.runtimeDir, f.dirMode), shellLine("chmod", "700", f.runtimeDir))}
	}
	return nil
}

// minSubordinate is how many ids a user needs: an image's go up to nobody's.
const minSubordinate = 65536

func (f rootlessFacts) judgeIDs() []finding {
	var list []finding
	for _, file := range []struct{ path, text, flag string }{
		{"/etc/subuid", f.subuid, "--add-subuids"}, {"/etc/subgid", f.subgid, "--add-subgids"},
	} {
		n := subordinates(file.text, f.user, f.uid)
		if n >= minSubordinate {
			continue
		}
		text := fmt.Sprintf("%s gives you no ids, which a container without root needs", file.path)
		if n > 0 {
			text = fmt.Sprintf("%s gives you %d ids; a container needs %d", file.path, n, minSubordinate)
		}
		list = append(list, found("rootless.ids", file.path, text,
			shellLine("sudo", "usermod", file.flag, freeRange(file.text), f.user)+" && podman system migrate"))
	}
	for _, name := range []string{"newuidmap", "newgidmap"} {
		switch m := f.mappers[name]; {
		case m.path == "":
			list = append(list, found("rootless.mapper", name, name+" is not on PATH: it gives containers their ids", f.install))
		case !m.allowed:
			list = append(list, found("rootless.mapper", name, m.path+" is neither setuid root nor has the capability to map ids", shellLine("sudo", "chmod", "u+s", m.path)))
		}
	}
	return list
}

// subordinates counts the ids that a file such as /etc/subuid gives to a user,
// see subuid(5).
func subordinates(text, user string, uid int) int {
	n := 0
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), ":")
		if len(parts) != 3 || parts[0] != user && parts[0] != strconv.Itoa(uid) {
			continue
		}
		if count, err := strconv.Atoi(parts[2]); err == nil && count > 0 {
			n += count
		}
	}
	return n
}

// freeRange is a range of ids behind all that a file gives away.
func freeRange(text string) string {
	next := 100000 // where useradd begins
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), ":")
		if len(parts) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(parts[1])
		count, err2 := strconv.Atoi(parts[2])
		if err1 == nil && err2 == nil {
			next = max(next, first+count)
		}
	}
	return fmt.Sprintf("%d-%d", next, next+minSubordinate-1)
}

func (f rootlessFacts) judgeNamespaces() []finding {
	setting := func(name, value string) string { return shellLine("sudo", "sysctl", "-w", name+"="+value) }
	switch {
	case f.maxNamespaces == "0":
		return []finding{found("rootless.namespaces", "user.max_user_namespaces", "the kernel allows no user namespaces (user.max_user_namespaces is 0)", setting("user.max_user_namespaces", "28633"))}
	case f.cloneAllowed == "0":
		return []finding{found("rootless.namespaces", "kernel.unprivileged_userns_clone", "the kernel allows user namespaces to root alone (kernel.unprivileged_userns_clone is 0)", setting("kernel.unprivileged_userns_clone", "1"))}
	case f.restricted == "1" && !f.reached:
		return []finding{found("rootless.apparmor", "kernel.apparmor_restrict_unprivileged_userns", "AppArmor allows user namespaces only to programs that have a profile for it; Podman's package brings one", setting("kernel.apparmor_restrict_unprivileged_userns", "0"))}
	}
	return nil
}
