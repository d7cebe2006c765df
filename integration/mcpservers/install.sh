#!/usr/bin/env bash
# Installs the real MCP servers of the demo and the integration tests, pinned.
#
#   install.sh DIR
#
# DIR/bin then holds mcp-server-everything, -filesystem, -memory,
# -sequential-thinking (Node), -git and -time (Python). What is there already
# is kept, so a second run takes no time. Needs node and npm, python3 with its
# venv module, and their package registries.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
	echo "mcpservers/install.sh: $*" >&2
	exit 1
}

need() {
	command -v "$1" >/dev/null || die "$1 is not installed: apt-get install $2"
}

# recipe prints what an installation depends on, this script included.
recipe() {
	cat "$here"/package-lock.json "$here"/requirements.txt "$here"/install.sh
	node --version
	python3 --version
}

install_node() {
	echo "installing the MCP servers from npm" >&2
	mkdir -p node
	cp "$here"/package.json "$here"/package-lock.json "$here"/.npmrc node
	(cd node && npm ci --loglevel=error --no-progress >&2)
}

install_python() {
	echo "installing the MCP servers from PyPI" >&2
	python3 -m venv --clear python
	python/bin/pip install --quiet --disable-pip-version-check --no-deps \
		--require-hashes --requirement "$here/requirements.txt" >&2
}

link() {
	local name
	mkdir -p bin
	for name in everything filesystem memory sequential-thinking; do
		ln -sf "../node/node_modules/.bin/mcp-server-$name" bin
	done
	for name in git time; do
		ln -sf "../python/bin/mcp-server-$name" bin
	done
	for name in bin/*; do
		[[ -x $name ]] || die "installing the MCP servers: $PWD/$name is missing"
	done
}

[[ $# == 1 ]] || die "usage: install.sh DIR"
need node nodejs
need npm npm
need python3 python3
mkdir -p "$1"
cd "$1"
# Another run's work is worth waiting for, and is then found done.
exec 9>lock
flock 9
want=$(recipe | sha256sum)
[[ ! -e stamp || $(<stamp) != "$want" ]] || exit 0
rm -f stamp
python3 -c "import venv, ensurepip" 2>/dev/null || die "python3 has no venv module: apt-get install python3-venv"
install_node
install_python
link
printf '%s\n' "$want" >stamp
