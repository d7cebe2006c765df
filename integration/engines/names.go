//go:build integration

package engines

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A Name names one of the engines.
type Name string

// The engines.
const (
	Rootless Name = "rootless" // Debian 12's Podman, as an ordinary user
	Rootful  Name = "rootful"  // Debian 12's Podman, as root
	Docker   Name = "docker"   // Debian 12's Docker
	Trixie   Name = "trixie"   // Debian 13's Podman, as root
)

// All lists the engines.
var All = []Name{Rootless, Rootful, Docker, Trixie}

const (
	// user is who rootless Podman runs as; setup.sh makes it.
	user = "bridgedtest"
	// runBase holds the sockets. Their paths must stay under 108 bytes.
	runBase = "/run/bridged-test"
	// ownStorage holds the storage that can't be in the cache folder: that
	// of rootless Podman, whose user may not look into a developer's home,
	// and that of the Debian 13 Podman, which is inside its root folder.
	ownStorage = "/var/lib/bridged-test"

	path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// canary is a variable of the engines' that no container may have: by
	// default Podman hands on its own proxies.
	canary = "HTTP_PROXY=http://canary.invalid:1"
)

// Cache returns the folder that setup.sh filled.
func Cache() string {
	if dir := os.Getenv("BRIDGED_TEST_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/bridged-test"
}

// A layout says where one engine keeps its things.
type layout struct {
	name    Name
	run     string // what goes with a restart of the machine
	storage string // as the engine sees it
	socket  string
	log     string
	lock    string
}

func newLayout(name Name) (layout, error) {
	if !slices.Contains(All, name) {
		return layout{}, fmt.Errorf("no engine %q: use one of %v", name, All)
	}
	instance := string(name)
	if suffix := os.Getenv("BRIDGED_TEST_INSTANCE"); suffix != "" {
		instance += "-" + suffix
	}
	l := layout{
		name:    name,
		run:     filepath.Join(runBase, instance),
		storage: filepath.Join(Cache(), "storage", instance),
		lock:    filepath.Join(Cache(), instance+".lock"),
	}
	if name == Rootless || name == Trixie {
		l.storage = filepath.Join(ownStorage, instance)
	}
	l.socket = filepath.Join(l.run, "engine.sock")
	l.log = filepath.Join(l.run, "engine.log")
	return l, nil
}

// owner is the user whose folders they are.
func (l layout) owner() string {
	if l.name == Rootless {
		return user
	}
	return "root"
}

// folders are those to make before the engine starts.
func (l layout) folders() []string {
	return []string{l.run, l.hostStorage()}
}

// hostStorage is the storage folder as this machine sees it.
func (l layout) hostStorage() string {
	if l.name == Trixie {
		return filepath.Join(Cache(), "trixie", l.storage)
	}
	return l.storage
}

// command is the engine's command line, to be run by root.
func (l layout) command() []string {
	switch l.name {
	case Rootless:
		return slices.Concat(
			[]string{"setpriv", "--reuid=" + user, "--regid=" + user, "--init-groups"},
			[]string{"env", "-i", "-C", l.run, path, canary, "HOME=" + l.run, "XDG_RUNTIME_DIR=" + l.run},
			l.podman(),
		)
	case Rootful:
		return slices.Concat([]string{"env", "-i", "-C", "/", path, canary, "HOME=/root"}, l.podman())
	case Trixie:
		return slices.Concat(
			[]string{"unshare", "--mount", "--propagation", "private", "sh", "-ec", enterRoot, "sh"},
			[]string{filepath.Join(Cache(), "trixie"), runBase},
			[]string{"env", "-i", path, canary, "HOME=/root", "PODMAN_IGNORE_CGROUPSV1_WARNING=1"},
			l.podman(),
		)
	}
	return l.dockerd()
}

// enterRoot runs the rest of its arguments in the root folder $1. The mounts are
// in a namespace of their own and end with the last process in it. The folder
// becomes the namespace's root, and not just the process's: an exec joins a
// container's namespace and would come out in the machine's root otherwise.
const enterRoot = `
root=$1 run=$2
shift 2
mount --bind "$root" "$root"
for dir in proc sys dev; do mount --rbind "/$dir" "$root/$dir"; done
mkdir -p "$root$run" "$root/old"
mount --bind "$run" "$root$run"
cd "$root"
pivot_root . old
exec chroot . sh -ec 'umount --lazy /old; exec "$@"' sh "$@"
`

// podman is the service's command line, to be continued from an env(1).
func (l layout) podman() []string {
	return []string{
		"CONTAINERS_CONF=" + filepath.Join(l.run, "containers.conf"),
		"podman",
		"--root", filepath.Join(l.storage, "root"),
		"--runroot", filepath.Join(l.run, "root"),
		"--tmpdir", filepath.Join(l.run, "tmp"),
		"--storage-driver", "overlay",
		"system", "service", "--time=0", "unix://" + l.socket,
	}
}

func (l layout) dockerd() []string {
	return []string{
		"env", "-i", "-C", "/", path, canary, "HOME=/root",
		"dockerd",
		"--config-file", filepath.Join(Cache(), "etc", "docker.json"),
		"--data-root", filepath.Join(l.storage, "root"),
		"--exec-root", filepath.Join(l.run, "root"),
		"--pidfile", filepath.Join(l.run, "docker.pid"),
		"--host", "unix://" + l.socket,
	}
}
