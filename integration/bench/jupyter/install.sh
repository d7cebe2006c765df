#!/usr/bin/env bash
# Makes what the benchmarks compare with: a Jupyter kernel, pinned, in a copy of
# the sandbox image's root file system, so that both run the same Python with
# the same packages.
#
#   install.sh DIR TAR
#
# DIR/root then holds the system, and DIR/root/opt/jupyter the kernel and its
# client. TAR is full.tar, which integration/setup.sh builds. What is there
# already is kept, so a second run takes no time. Needs root, python3 with pip,
# and PyPI.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
	echo "jupyter/install.sh: $*" >&2
	exit 1
}

install() {
	echo "installing a Jupyter kernel from PyPI" >&2
	rm -rf --one-file-system root venv
	mkdir root
	tar -C root --exclude='./dev/*' -xf "$tar"
	python3 -c "import venv, ensurepip" 2>/dev/null ||
		die "python3 has no venv module: apt-get install python3-venv"
	python3 -m venv venv # for its pip, which installs for another Python
	venv/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		--only-binary=:all: --python-version 3.13 --target root/opt/jupyter \
		--requirement "$here/requirements.txt" >&2
}

[[ $# == 2 && -r $2 ]] || die "usage: install.sh DIR TAR (TAR comes from integration/setup.sh)"
if ((EUID != 0)); then
	command -v sudo >/dev/null || die "root is needed and sudo is not installed: run this as root"
	exec sudo "$here/install.sh" "$@"
fi
tar=$(realpath "$2")
mkdir -p "$1"
cd "$1"
# Another run's work is worth waiting for, and is then found done.
exec 9>lock
flock 9
want=$(stat -c '%s %Y' "$tar"; sha256sum <"$here/requirements.txt"; sha256sum <"$here/install.sh")
[[ ! -e stamp || $(<stamp) != "$want" ]] || exit 0
rm -f stamp
install
printf '%s\n' "$want" >stamp
