#!/usr/bin/env bash
# Installs what looks at the web page: Debian's Chromium with a font, and from
# npm what drives it, pinned.
#
#   install.sh DIR
#
# What is there already is kept, so a second run takes no time. Needs node and
# npm with npm's registry, and root, which it takes with sudo.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packages=(chromium fonts-dejavu-core)

die() {
	echo "web/install.sh: $*" >&2
	exit 1
}

[[ $# == 1 ]] || die "usage: install.sh DIR"
for command in node npm; do
	command -v "$command" >/dev/null || die "$command is not installed: apt-get install nodejs npm"
done
mkdir -p "$1"
cd "$1"
# Another run's work is worth waiting for, and is then found done.
exec 9>lock
flock 9

installed=$(dpkg-query -W -f '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep -cx installed || true)
if ((installed != ${#packages[@]})); then
	sudo=()
	((EUID == 0)) || sudo=(sudo)
	echo "installing ${packages[*]}" >&2
	"${sudo[@]}" apt-get -q update >&2
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${packages[@]}" >&2
fi

want=$(sha256sum <"$here/package-lock.json")
[[ ! -e stamp || $(<stamp) != "$want" ]] || exit 0
rm -f stamp
cp "$here"/package.json "$here"/package-lock.json "$here"/.npmrc .
echo "installing playwright-core and axe-core from npm" >&2
npm ci --ignore-scripts --loglevel=error --no-progress >&2
printf '%s\n' "$want" >stamp
