package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// healthyRootless is a user's machine on which Podman works without root.
func healthyRootless() rootlessFacts {
	return rootlessFacts{
		uid: 1000, user: "jo", subuid: "ann:100000:65536\njo:165536:65536\n", subgid: "jo:165536:65536\n",
		mappers:       map[string]mapper{"newuidmap": {"/usr/bin/newuidmap", true}, "newgidmap": {"/usr/bin/newgidmap", true}},
		install:       "sudo apt-get install -y uidmap",
		maxNamespaces: "28633", cloneAllowed: "1", runtimeDir: "/run/user/1000", usualDir: true, dirMode: 0o700, dirOwner: 1000,
		systemd: true, lingers: true, service: true,
		reached: true, engineLocal: true, info: runtime.Info{Name: "podman", Rootless: true, StorageDriver: "overlay"},
	}
}

func TestRootlessFaults(t *testing.T) {
	with := func(edit func(*rootlessFacts)) func() outcome {
		f := healthyRootless()
		edit(&f)
		return f.judge
	}
	testFaults(t, []fault{
		{"all is well", healthyRootless().judge, "", "", "", ""},
		{"by number", with(func(f *rootlessFacts) { f.subuid = "1000:165536:65536" }), "", "", "", ""},
		{"in two parts", with(func(f *rootlessFacts) { f.subuid = "jo:165536:32768\njo:265536:32768" }), "", "", "", ""},
		{"no subuid", with(func(f *rootlessFacts) { f.subuid = "ann:100000:65536\n" }), "rootless.ids", "/etc/subuid gives you no ids",
			"sudo usermod --add-subuids 165536-231071 jo && podman system migrate", ""},
		{"few subgids", with(func(f *rootlessFacts) { f.subgid = "jo:100000:1000" }), "rootless.ids", "gives you 1000 ids",
			"sudo usermod --add-subgids 101000-166535 jo && podman system migrate", ""},
		{"no newuidmap", with(func(f *rootlessFacts) { f.mappers["newuidmap"] = mapper{} }), "rootless.mapper", "newuidmap is not on PATH", "sudo apt-get install -y uidmap", ""},
		{"newgidmap is not setuid", with(func(f *rootlessFacts) { f.mappers["newgidmap"] = mapper{path: "/usr/bin/newgidmap"} }), "rootless.mapper", "neither setuid root",
			"sudo chmod u+s /usr/bin/newgidmap", ""},
		{"no user namespaces", with(func(f *rootlessFacts) { f.maxNamespaces = "0" }), "rootless.namespaces", "max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=28633", ""},
		{"Debian's switch", with(func(f *rootlessFacts) { f.cloneAllowed = "0" }), "rootless.namespaces", "root alone", "sudo sysctl -w kernel.unprivileged_userns_clone=1", ""},
		{"AppArmor, and no engine", with(func(f *rootlessFacts) { f.restricted, f.reached = "1", false }), "rootless.apparmor", "AppArmor", "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0", ""},
		{"AppArmor, and an engine that works", with(func(f *rootlessFacts) { f.restricted = "1" }), "", "", "", ""},
		{"vfs", with(func(f *rootlessFacts) { f.info.StorageDriver = "vfs" }), "rootless.storage", "copies the whole image",
			`mkdir -p ~/.config/containers && printf '[storage]\ndriver = "overlay"\n' >~/.config/containers/storage.conf && podman system reset`, ""},
		{"no linger", with(func(f *rootlessFacts) { f.lingers = false }), "rootless.linger", "last login", "loginctl enable-linger jo", ""},
		{"no linger, and no service", with(func(f *rootlessFacts) { f.lingers, f.service = false, false }), "", "", "", ""},
		{"the variable is not set", with(func(f *rootlessFacts) { f.runtimeDir = "" }), "rootless.runtimedir", "not set", "export XDG_RUNTIME_DIR=/run/user/1000", ""},
		{"nobody is logged in", with(func(f *rootlessFacts) { f.runtimeDir, f.usualDir = "", false }), "rootless.runtimedir", "no login", "sudo loginctl enable-linger jo", ""},
		{"the folder is not there", with(func(f *rootlessFacts) { f.dirErr = fs.ErrNotExist }), "rootless.runtimedir", "not there", "unset XDG_RUNTIME_DIR", ""},
		{"the folder can't be used", with(func(f *rootlessFacts) { f.dirErr = fs.ErrPermission }), "rootless.runtimedir", "permission", "unset XDG_RUNTIME_DIR", ""},
		{"after su", with(func(f *rootlessFacts) { f.dirOwner = 0 }), "rootless.runtimedir", "belongs to uid 0", "unset XDG_RUNTIME_DIR", ""},
		{"open to others", with(func(f *rootlessFacts) { f.dirMode = 0o755 }), "rootless.runtimedir", "0755", "chmod 700 /run/user/1000", ""},
		{"root needs none of it", with(func(f *rootlessFacts) { *f = rootlessFacts{uid: 0, user: "root"} }), "", "", "", ""},
		{"an engine with root needs none of it", with(func(f *rootlessFacts) { f.info.Rootless, f.subuid = false, "" }), "", "", "", ""},
	})
}

func TestPodmansServiceListensWhereItIsLookedFor(t *testing.T) {
	const alone = "podman system service --time=0 &"
	for want, got := range map[string][]string{
		alone: {serviceAlone(0, "", false), serviceAlone(7, "/run/user/7", false), serviceAlone(7, "", true)},
		"export XDG_RUNTIME_DIR=/tmp/run-7; mkdir -p -m 700 /tmp/run-7; " + alone: {serviceAlone(7, "", false)},
	} {
		for _, line := range got {
			checkLine(t, line)
			if line != want {
				t.Errorf("got %q, want %q", line, want)
			}
		}
	}
}

func TestLimitFaults(t *testing.T) {
	version2 := unifiedCgroups(func(name string) bool { return name == "update-grub" })
	checkLine(t, unifiedCgroups(func(name string) bool { return name == "grubby" }))
	number := func(n int64) *int64 { return &n }
	healthy := func() limitFacts {
		return limitFacts{reached: true, local: true, uid: 1000, systemd: true, spec: runtime.DefaultSpec("x"), info: runtime.Info{Name: "podman", CgroupVersion: "2", Rootless: true},
			kernelArgument: version2, posture: &sandbox.Posture{Memory: number(512 << 20), Swap: number(0), Pids: number(128), Nofile: 4096}, file: "/c/config.toml", line: 7}
	}
	with := func(edit func(*limitFacts)) func() outcome {
		f := healthy()
		edit(&f)
		return f.judge
	}
	const delegate = `sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\nDelegate=cpu cpuset io memory pids\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload`
	testFaults(t, []fault{
		{"all is well", healthy().judge, "", "", "", ""},
		{"rootless on version 1", with(func(f *limitFacts) {
			f.info.CgroupVersion, f.degraded = "1", []string{"memory limit by rlimit", "pids limit by rlimit"}
		}), "cgroups.v1", "memory and processes", version2, ""},
		{"no delegation", with(func(f *limitFacts) { f.degraded = []string{"memory limit by rlimit"} }), "cgroups.delegation", "the memory of a sandbox", delegate, ""},
		{"no delegation, by the engine's word", with(func(f *limitFacts) { f.posture, f.info.Unlimited = nil, "memory pids cpu" }), "cgroups.delegation", "memory and processes", delegate, ""},
		{"the sandbox knows better than the engine", with(func(f *limitFacts) { f.info.Unlimited = "memory pids" }), "", "", "", ""},
		{"no cores", with(func(f *limitFacts) { f.info.Unlimited = "cpu" }), "cgroups.cpu", "cores", delegate, ""},
		{"swap", with(func(f *limitFacts) {
			f.degraded = []string{"swap is not limited: turn on the kernel's swap accounting, or swap off"}
		}), "cgroups.swap", "swap", "sudo swapoff -a", ""},
		{"writable cgroups", with(func(f *limitFacts) {
			f.degraded = []string{"nothing but their owner keeps code from writing to cgroups"}
		}), "cgroups.writable", "owner", "", ""},
		{"too little memory", with(func(f *limitFacts) { f.memory = 100 << 20 }), "cgroups.room", "512 MiB", "${EDITOR:-vi} +7 /c/config.toml", ""},
	})
	if got, want := healthy().judge().summary, "cgroups v2; a sandbox has memory 512 MiB, processes 128, 4096 open files"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The words of a sandbox that is degraded are those that the check looks for.
func TestDegradedWordsAreKnown(t *testing.T) {
	for _, d := range []string{"memory limit by rlimit", "pids limit by rlimit", "swap is not limited: x", "nothing but their owner keeps code from writing to cgroups"} {
		if !isLimit(d) {
			t.Errorf("%q is no limit", d)
		}
	}
}

func TestSeccompFaults(t *testing.T) {
	filtered := &sandbox.Posture{Status: map[string][]string{"Seccomp_filters": {"2"}}}
	bare := &sandbox.Posture{Unfiltered: "prctl: EINVAL"}
	testFaults(t, []fault{
		{"all is well", seccompFacts{kernel: true, engine: true, reached: true, posture: filtered}.judge, "", "", "", ""},
		{"not in the kernel", seccompFacts{}.judge, "seccomp.kernel", "CONFIG_SECCOMP_FILTER", "", ""},
		{"not in podman", seccompFacts{kernel: true, reached: true, product: "podman"}.judge, "seccomp.engine", "no filter", "${EDITOR:-vi} /etc/containers/containers.conf", ""},
		{"not in docker", seccompFacts{kernel: true, reached: true, product: "docker"}.judge, "seccomp.engine", "no filter", "sudoedit /etc/docker/daemon.json", ""},
		{"not in the sandbox", seccompFacts{kernel: true, engine: true, reached: true, posture: bare}.judge, "seccomp.own", "EINVAL", "", ""},
	})
}

func TestImageFaults(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	ours := map[string]string{runtime.LabelImage: "true"}
	facts := func(ref string, age time.Duration, labels map[string]string) imageFacts {
		return imageFacts{ref: ref, now: now, built: now.Add(-24 * time.Hour), image: runtime.Image{Size: 1e6, Created: now.Add(-age), Labels: labels}}
	}
	const day = 24 * time.Hour
	testFaults(t, []fault{
		{"all is well", facts(defaultImage, 2*day, ours).judge, "", "", "", ""},
		{"missing", imageFacts{ref: defaultImage, err: &runtime.EngineError{Op: "image", Err: runtime.ErrNoImage}}.judge, "image.missing", defaultImage, "bridged image build", repairImage},
		{"somebody else's is missing", imageFacts{ref: "docker.io/library/python:3.13-slim", err: runtime.ErrNoImage}.judge, "image.missing", "python:3.13-slim", "bridged image pull docker.io/library/python:3.13-slim", repairImage},
		{"no answer", imageFacts{ref: defaultImage, err: runtime.ErrUnreachable}.judge, "image.unknown", "unreachable", "bridged doctor --check engine", ""},
		{"old", facts("python:3.13", 200*day, nil).judge, "image.old", "200 days", "bridged image pull python:3.13", ""},
		{"older than the program", facts(defaultImage, 40*day, ours).judge, "image.stale", "39 days", "bridged image build", ""},
		{"not ours", facts(defaultImage, day, nil).judge, "image.foreign", runtime.LabelImage, "bridged image build", ""},
		{"a reproducible one says nothing of its age", imageFacts{ref: "x", now: now, image: runtime.Image{Created: time.Unix(0, 0)}}.judge, "", "", "", ""},
	})
}

func TestSandboxFaults(t *testing.T) {
	failed := func(text string) func() outcome {
		return launchFacts{image: "img", err: errors.New("launching sandbox: " + text)}.judge
	}
	testFaults(t, []fault{
		{"all is well", launchFacts{python: "3.13.5", took: time.Second}.judge, "", "", "", ""},
		{"no image is the image's fault", launchFacts{err: fmt.Errorf("launching sandbox: %w", runtime.ErrNoImage)}.judge, "", "", "", ""},
		{"limits are told elsewhere", launchFacts{degraded: []string{"memory limit by rlimit", "the engine's seccomp profile alone: x"}}.judge, "", "", "", ""},
		{"disk full", failed("engine create: write: no space left on device (500)"), "sandbox.failed", "disk is full", "podman system prune", ""},
		{"crun and hybrid cgroups", failed("crun: cgroups in hybrid mode not supported (500)"), "sandbox.failed", "runc does", dropIn("engine", `runtime = "runc"`), ""},
		{"open files", failed("setrlimit RLIMIT_NOFILE: Operation not permitted"), "sandbox.failed", "open files", dropIn("containers", `default_ulimits = ["nofile=4096:4096"]`), ""},
		{"ids", failed("potentially insufficient UIDs or GIDs available in user namespace"), "sandbox.failed", "ids can't be mapped", "bridged doctor --check rootless", ""},
		{"no python", failed("image img has no python3 on its PATH"), "sandbox.failed", "no Python", "bridged image build", ""},
		{"unknown", failed("engine start: oops (500)"), "sandbox.failed", "oops", "bridged image build", ""},
		{"too slow", launchFacts{err: fmt.Errorf("launching sandbox: %w", context.DeadlineExceeded)}.judge, "sandbox.slow", "1m0s", "bridged doctor --check disk --check engine", ""},
		{"volumes of the engine's own settings", failed("sandbox is not hardened as asked: /home (ext4) is mounted; look for it in the engine's own settings, such as volumes in containers.conf"),
			"sandbox.refused", "/home", "${EDITOR:-vi} ~/.config/containers/containers.conf", ""},
		{"root", failed("sandbox is not hardened as asked: Uid 0, want 65534"), "sandbox.refused", "Uid 0", "", ""},
		{"a gift", launchFacts{degraded: []string{"the engine shows /run/secrets of its machine to sandboxes"}}.judge, "sandbox.weaker", "/run/secrets", "", ""},
		{"it stays", launchFacts{left: true}.judge, "sandbox.left", "did not remove", "bridged doctor --check state --fix", ""},
	})
}

func TestDiskFaults(t *testing.T) {
	facts := func(edit func(*diskFacts)) func() outcome {
		d := diskFacts{what: "the state folder", path: "/s/bridged", at: "/s", free: 10 * giga, inodes: 1000, total: 2000, low: 200 * mega, out: 10 * mega, command: "du -xh /s | sort -h | tail"}
		edit(&d)
		return func() outcome { return judgeDisks([]diskFacts{d}) }
	}
	testFaults(t, []fault{
		{"all is well", facts(func(*diskFacts) {}), "", "", "", ""},
		{"full", facts(func(d *diskFacts) { d.free = mega }), "disk.full", "room for 1 MiB, which is not enough", "du -xh /s | sort -h | tail", ""},
		{"low", facts(func(d *diskFacts) { d.free = 100 * mega }), "disk.low", "100 MiB", "du -xh /s | sort -h | tail", ""},
		{"no inodes", facts(func(d *diskFacts) { d.inodes = 3 }), "disk.inodes", "3 more files", "du -xh /s | sort -h | tail", ""},
		{"a file system that has no inodes", facts(func(d *diskFacts) { d.inodes, d.total = 0, 0 }), "", "", "", ""},
		{"read-only", facts(func(d *diskFacts) { d.denied, d.at = unix.EROFS, "/" }), "disk.readonly", "read-only", "sudo mount -o remount,rw /", ""},
		{"somebody else's", facts(func(d *diskFacts) { d.denied = unix.EACCES }), "disk.denied", "may not write", fmt.Sprintf("sudo chown -R %d /s", os.Getuid()), ""},
		{"gone", facts(func(d *diskFacts) { d.err = unix.EIO }), "disk.unknown", "input/output error", "mount | grep /s", ""},
	})
	d := diskFacts{path: filepath.Join(t.TempDir(), "a", "b")}
	if d.look(true); d.err != nil || d.denied != nil || d.free == 0 || exists(d.path) {
		t.Errorf("%+v", d)
	}
}

func TestClockFaults(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	with := func(edit func(*clockFacts)) func() outcome {
		f := clockFacts{now: now, elapsed: time.Second, wall: time.Second, engine: answer{date: now, at: now}, where: "unix:///e"}
		edit(&f)
		return f.judge
	}
	testFaults(t, []fault{
		{"all is well", with(func(*clockFacts) {}), "", "", "", ""},
		{"no engine", with(func(f *clockFacts) { f.engine = answer{} }), "", "", "", ""},
		{"a second is no skew", with(func(f *clockFacts) { f.engine.date = now.Add(-time.Second) }), "", "", "", ""},
		{"a slow answer is no skew", with(func(f *clockFacts) { f.engine.date, f.engine.roundTrip = now.Add(-9*time.Second), 10*time.Second }), "", "", "", ""},
		{"1970", with(func(f *clockFacts) { f.now, f.engine = time.Unix(0, 0).UTC(), answer{} }), "clock.wrong", "1970-01-01", setClock, ""},
		{"the engine is behind", with(func(f *clockFacts) { f.engine.date = now.Add(-time.Minute) }), "clock.skew", "1m0s behind ours", setClock, ""},
		{"a virtual machine is ahead", with(func(f *clockFacts) { f.engine.date, f.virtual = now.Add(time.Hour), "colima restart" }), "clock.skew", "1h0m0s ahead of ours", "colima restart", ""},
		{"set while looking", with(func(f *clockFacts) { f.wall = time.Hour }), "clock.jump", "59m59s", setClock, ""},
		{"files of tomorrow", with(func(f *clockFacts) { f.future, f.ahead = "/s/pins.json", 24*time.Hour }), "clock.future", "24h0m0s newer", setClock, ""},
		{"no such zone", with(func(f *clockFacts) { f.zone, f.zoneErr = "Mars/Olympus", errors.New("unknown") }), "clock.zone", "Mars/Olympus", "unset TZ", ""},
		{"no zone file", with(func(f *clockFacts) { f.local = errors.New("/etc/localtime leads to /x, which is not there") }), "clock.zone", "/x", "sudo timedatectl set-timezone UTC", ""},
	})
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, now, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got, ahead := newest(dir, now); got != path || ahead != time.Hour {
		t.Errorf("got %s, %s", got, ahead)
	}
	for _, rule := range []string{"CET-1CEST", "<+03>-3", ":/etc/localtime", "UTC0"} {
		if !zoneRule.MatchString(rule) {
			t.Errorf("TZ=%s would be taken for a name", rule)
		}
	}
}
