#!/usr/bin/env bash
# Prepares a Debian 12 machine for the tests on real container engines.
#
#   setup.sh [slim|full|engines|all]
#
# It installs Debian's packages, makes an ordinary user for rootless Podman,
# and fills a cache folder with the engines' configurations, the root file
# systems of the sandbox images, and a Debian 13 system that holds a newer
# Podman. It starts nothing, and changes nothing in /etc/containers or
# /etc/docker. What is there already is kept: a second run takes a second.
#
#   slim     the packages and slim.tar: Python alone
#   full     the packages and full.tar: Python, numpy, pandas, ...
#   engines  what the engine tests need: slim, the user, the Debian 13 system
#   all      everything (the default)
#
# Environment:
#   BRIDGED_TEST_CACHE   the cache folder (default /var/cache/bridged-test)
#
# It needs root, and takes it with sudo.
set -euo pipefail

cache=${BRIDGED_TEST_CACHE:-/var/cache/bridged-test}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
user=bridgedtest

packages=(podman runc crun conmon uidmap slirp4netns fuse-overlayfs docker.io
	mmdebstrap debian-archive-keyring util-linux systemd lintian)
trixie_packages=podman,runc,crun,conmon,netavark,passt,uidmap,ca-certificates

say() { printf '[%3ds] %s\n' "$SECONDS" "$*" >&2; }

die() {
	echo "setup.sh: $*" >&2
	exit 1
}

check_system() {
	[[ -r /etc/os-release ]] || die "this is not Linux; run the unit tests alone: make test-short"
	# shellcheck source=/dev/null
	. /etc/os-release
	[[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]] ||
		die "this is ${PRETTY_NAME:-an unknown system}, and the engine tests know Debian 12 only." \
			"On others run make test-short, or install: ${packages[*]}"
}

# installed reports whether dpkg has all of its arguments.
installed() {
	local n
	n=$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null | grep -cx installed || true)
	((n == $#))
}

install_packages() {
	! installed "${packages[@]}" || return 0
	say "installing packages: ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	# A machine that has just been started may be upgrading itself.
	apt-get -q update >&2
	apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${packages[@]}" >&2
}

# make_user makes the user that rootless Podman runs as, with the ranges of
# ids that its containers' users are mapped to.
make_user() {
	if ! id "$user" >/dev/null 2>&1; then
		say "making the user $user"
		useradd --create-home --shell /usr/sbin/nologin "$user"
	fi
	grep -q "^$user:" /etc/subuid || usermod --add-subuids 1000000-1065535 "$user"
	grep -q "^$user:" /etc/subgid || usermod --add-subgids 1000000-1065535 "$user"
}

# put writes stdin to the file $1 unless it holds that already.
put() {
	local text
	text=$(cat)
	[[ -e $1 && $(<"$1") == "$text" ]] || printf '%s\n' "$text" >"$1"
}

# write_configs writes what CONTAINERS_CONF and dockerd's --config-file point
# to. The engines' folders are flags of theirs.
write_configs() {
	mkdir -p "$cache/etc"
	touch "$cache"/{rootless,rootful,docker,trixie}.lock
	# Runc, since crun refuses cgroups in hybrid mode; cgroupfs and a file of
	# events, since a test machine may have no systemd; locks in files, since
	# those in shared memory are shared with the machine's own Podman.
	put "$cache/etc/containers.conf" <<-'CONF'
		[containers]
		default_ulimits = ["nofile=4096:4096"]

		[engine]
		runtime = "runc"
		cgroup_manager = "cgroupfs"
		events_logger = "file"
		lock_type = "file"
	CONF
	put "$cache/etc/docker.json" <<-'CONF'
		{
		  "bridge": "none",
		  "iptables": false,
		  "ip6tables": false,
		  "userland-proxy": false,
		  "storage-driver": "overlay2"
		}
	CONF
}

# make_image builds the root file system $1, which images/debian.sh knows, unless
# it is there; $2 is how long that takes.
make_image() {
	say "the $1 image: about $2 if it must be built"
	"$here/../images/debian.sh" --if-changed "$cache/$1.tar" "$1" >&2
}

# make_trixie makes a Debian 13 root with Podman 5. It appears complete or not
# at all, so that an interrupted run leaves nothing half made.
make_trixie() {
	local root=$cache/trixie
	[[ ! -e $root/usr/bin/podman ]] || return 0
	say "making a Debian 13 system with Podman 5: about a minute"
	rm -rf --one-file-system "$root" "$root.new"
	mmdebstrap --quiet --variant=minbase --include="$trixie_packages" trixie "$root.new" >&2
	mv "$root.new" "$root"
}

main() {
	local what=${1:-all}
	case $what in slim | full | engines | all) ;; *) die "no part \"$what\": use slim, full, engines or all" ;; esac
	check_system
	mkdir -p "$cache"
	# Another run's work is worth waiting for, and is then found done.
	exec 9>"$cache/setup.lock"
	flock 9
	install_packages
	write_configs
	[[ $what == full ]] || make_image slim "20 seconds"
	case $what in engines | all) make_user && make_trixie ;; esac
	case $what in full | all) make_image full "90 seconds" ;; esac
	say "ready: $cache"
}

if ((EUID != 0)); then
	command -v sudo >/dev/null || die "root is needed and sudo is not installed: run this as root"
	exec sudo --preserve-env=BRIDGED_TEST_CACHE,BRIDGED_DEBIAN_SUITE,BRIDGED_DEBIAN_MIRROR "${BASH_SOURCE[0]}" "$@"
fi
main "$@"
