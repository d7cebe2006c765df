#!/usr/bin/env bash
# Installs TOON's specification, whose examples are tests, and the reference
# encoder and decoder, pinned.
#
#   install.sh DIR
#
# What is there already is kept, so a second run takes no time. Needs node and
# npm, and npm's registry.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
	echo "toon/install.sh: $*" >&2
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
want=$(sha256sum <"$here/package-lock.json")
[[ ! -e stamp || $(<stamp) != "$want" ]] || exit 0
rm -f stamp
cp "$here"/package.json "$here"/package-lock.json "$here"/.npmrc .
echo "installing TOON's specification and reference from npm" >&2
npm ci --loglevel=error --no-progress >&2
printf '%s\n' "$want" >stamp
