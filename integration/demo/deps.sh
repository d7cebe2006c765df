#!/usr/bin/env bash
# Installs what the demo needs and lacks: Podman with a runtime, mmdebstrap for
# the sandbox image, and Node for two real MCP servers.
#
#   deps.sh
#
# On Debian and its kin it uses apt-get, with sudo when you are not root. On
# other systems it installs nothing and says what to install.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${BRIDGED_TEST_CACHE:-$HOME/.cache/bridged-test}

have() { command -v "$1" >/dev/null || [[ -x /usr/sbin/$1 ]]; }

# missing prints the packages that are missing, as Debian names them.
missing() {
	if [[ -z ${MCP_BRIDGE_RUNTIME:-} && ! -w /var/run/docker.sock ]]; then
		have podman || echo podman slirp4netns fuse-overlayfs
		have runc || have crun || echo runc
		have newuidmap || echo uidmap
	fi
	have mmdebstrap || echo mmdebstrap
	[[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || echo debian-archive-keyring
	have node || echo nodejs
	have npm || echo npm
}

by_hand() {
	cat >&2 <<-'TEXT'
		This system has no apt-get, so please install these yourself:
		  - Podman or Docker, running (Podman machine and Docker Desktop will do)
		  - Node 18 or later, with npm
		and run `make demo` again.
	TEXT
	exit 1
}

# elsewhere checks a system where the sandbox image comes from a registry.
elsewhere() {
	have podman || have docker || by_hand
	have node && have npm || by_hand
}

install() {
	local sudo=()
	if ((EUID != 0)); then
		sudo=(sudo)
		have sudo || {
			echo "Please run this as root: apt-get install $*" >&2
			exit 1
		}
	fi
	echo "installing $*" >&2
	"${sudo[@]}" apt-get -q update >&2
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@" >&2
}

if have apt-get; then
	mapfile -t packages < <(missing | tr ' ' '\n')
	((${#packages[@]} == 0)) || install "${packages[@]}"
else
	elsewhere
fi
"$here/../mcpservers/install.sh" "$cache/mcpservers" node
