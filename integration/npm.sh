#!/usr/bin/env bash
# Installs from npm what a folder's package-lock.json pins.
#
#   npm.sh FOLDER DIR
#
# DIR then holds node_modules. No package's own scripts are run. What is there
# already is kept, so a second run takes no time. Needs node and npm, and npm's
# registry.
set -euo pipefail

die() {
	echo "npm.sh: $*" >&2
	exit 1
}

[[ $# == 2 && -r $1/package-lock.json ]] || die "usage: npm.sh FOLDER DIR (FOLDER has a package-lock.json)"
for command in node npm; do
	command -v "$command" >/dev/null || die "$command is not installed: apt-get install nodejs npm"
done
from=$(realpath "$1")
mkdir -p "$2"
cd "$2"
# Another run's work is worth waiting for, and is then found done.
exec 9>lock
flock 9
want=$(sha256sum <"$from/package-lock.json")
[[ ! -e stamp || $(<stamp) != "$want" ]] || exit 0
rm -f stamp
cp "$from"/package.json "$from"/package-lock.json "$from"/.npmrc .
echo "installing $(basename "$from")'s packages from npm" >&2
npm ci --ignore-scripts --loglevel=error --no-progress >&2
printf '%s\n' "$want" >stamp
