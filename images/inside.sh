#!/usr/bin/env bash
# Runs a command on a copy of a folder, inside a root file system, with no
# engine: for tests that want the sandbox's own Python.
#
#   inside.sh TAR FOLDER COMMAND...
#
# TAR is a root file system such as debian.sh makes. The command starts in the
# copy, in mount and pid namespaces of its own, and leaves nothing behind.
set -euo pipefail

if [[ $# -lt 3 || ! -r $1 ]]; then
	echo "usage: inside.sh TAR FOLDER COMMAND... (TAR comes from debian.sh)" >&2
	exit 2
fi
tar=$1 folder=$2
shift 2

root=$(mktemp -d)
# The mounts are gone with their namespace before this runs.
trap 'rm -rf --one-file-system "$root"' EXIT
tar -C "$root" --exclude='./dev/*' -xf "$tar"
mkdir "$root/inside"
cp -r "$folder/." "$root/inside"

spaces=(--mount --pid --fork --kill-child)
((EUID == 0)) || spaces+=(--user --map-root-user)
# shellcheck disable=SC2016 # expanded in the namespace
unshare "${spaces[@]}" bash -euc '
	mount -t proc proc "$0/proc"
	mount --rbind /dev "$0/dev"
	exec chroot "$0" sh -ec '\''cd /inside && exec "$@"'\'' sh "$@"
' "$root" "$@" </dev/null
