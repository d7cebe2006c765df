#!/usr/bin/env bash
# Installs what looks at the web page: Debian's Chromium with a font, and from
# npm what drives it, pinned.
#
#   install.sh DIR
#
# What is there already is kept, so a second run takes no time. Needs what
# npm.sh does, and root, which it takes with sudo.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packages=(chromium fonts-dejavu-core)

if [[ $# != 1 ]]; then
	echo "web/install.sh: usage: install.sh DIR" >&2
	exit 1
fi
mkdir -p "$1"
# Another run's work is worth waiting for, and is then found done.
exec 8>"$1/lock-packages"
flock 8
installed=$(dpkg-query -W -f '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -cx installed || true)
if ((installed != ${#packages[@]})); then
	sudo=()
	((EUID == 0)) || sudo=(sudo)
	echo "installing ${packages[*]}" >&2
	"${sudo[@]}" apt-get -q update >&2
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${packages[@]}" >&2
fi
exec "$here/../npm.sh" "$here" "$1"
