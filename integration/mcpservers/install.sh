#!/usr/bin/env bash
# Installs the real MCP servers of the demo and the integration tests, pinned.
#
#   install.sh DIR [node|python|all]
#
# DIR/bin then holds mcp-server-everything, -filesystem, -memory and
# -sequential-thinking (node), -git and -time (python). What is there already
# is kept, so a second run takes no time. Needs node and npm, or python3 with
# its venv module, and their package registries.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
	echo "mcpservers/install.sh: $*" >&2
	exit 1
}

need() {
	command -v "$1" >/dev/null || die "$1 is not installed: apt-get install $2"
}

install_node() {
	need node nodejs
	need npm npm
	echo "installing the MCP servers from npm" >&2
	mkdir -p node
	cp "$here"/package.json "$here"/package-lock.json "$here"/.npmrc node
	(cd node && npm ci --loglevel=error --no-progress >&2)
	link ../node/node_modules/.bin everything filesystem memory sequential-thinking
}

install_python() {
	need python3 python3
	python3 -c "import venv, ensurepip" 2>/dev/null ||
		die "python3 has no venv module: apt-get install python3-venv"
	echo "installing the MCP servers from PyPI" >&2
	python3 -m venv --clear python
	python/bin/pip install --quiet --disable-pip-version-check --no-deps \
		--require-hashes --requirement "$here/requirements.txt" >&2
	link ../python/bin git time
}

# link puts the servers of the folder $1 into bin.
link() {
	local from=$1 name
	shift
	mkdir -p bin
	for name; do
		ln -sf "$from/mcp-server-$name" bin
		[[ -x bin/mcp-server-$name ]] || die "installing mcp-server-$name: $PWD/bin/$from/mcp-server-$name is missing"
	done
}

# once runs install_$1 unless it ran before with the same files and the same
# version of the interpreter $2.
once() {
	local want
	want=$(cat "$here"/{package-lock.json,requirements.txt,install.sh} - <<<"$("$2" --version 2>&1)" | sha256sum)
	[[ ! -e stamp-$1 || $(<"stamp-$1") != "$want" ]] || return 0
	rm -f "stamp-$1"
	"install_$1"
	printf '%s\n' "$want" >"stamp-$1"
}

[[ $# == 1 || $# == 2 ]] || die "usage: install.sh DIR [node|python|all]"
what=${2:-all}
case $what in node | python | all) ;; *) die "no part \"$what\": use node, python or all" ;; esac
mkdir -p "$1"
cd "$1"
# Another run's work is worth waiting for, and is then found done.
exec 9>lock
flock 9
[[ $what == python ]] || once node node
[[ $what == node ]] || once python python3
