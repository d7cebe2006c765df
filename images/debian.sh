#!/usr/bin/env bash
# Builds a sandbox image's root file system from Debian packages, for places
# where no container registry can be reached.
#
#   debian.sh [--if-changed] OUT [slim|full]
#
# OUT is the tar to write (default variant: full). It appears complete or not
# at all. Import it with `bridged image import --file OUT`. With --if-changed
# an OUT that this very script has made is kept; OUT.recipe tells.
#
#   slim  Python and its standard library
#   full  slim, and numpy pandas scipy scikit-learn matplotlib pillow openpyxl
#
# Needs mmdebstrap and debian-archive-keyring. Root is not needed: as an
# ordinary user mmdebstrap takes a user namespace (uidmap, and a range in
# /etc/subuid) or fakechroot, whichever works.
#
# Environment:
#   BRIDGED_DEBIAN_SUITE   Debian release to take (default trixie)
#   BRIDGED_DEBIAN_MIRROR  mirror to take it from (default: mmdebstrap's own)
#   TMPDIR                 scratch space, 1.5 GB for full
set -euo pipefail

suite=${BRIDGED_DEBIAN_SUITE:-trixie}
mirror=${BRIDGED_DEBIAN_MIRROR:-}

die() {
	echo "debian.sh: $*" >&2
	exit 1
}

usage() {
	echo "usage: debian.sh [--if-changed] OUT [slim|full]" >&2
	exit 2
}

packages() {
	case $1 in
	slim) echo python3 ;;
	full)
		# pyarrow is not in Debian; the Containerfile has it.
		# jinja2 and tabulate are for pandas' Styler and to_markdown.
		echo python3 python3-numpy python3-pandas python3-scipy \
			python3-sklearn python3-matplotlib python3-pil python3-openpyxl \
			python3-jinja2 python3-tabulate
		;;
	*) die "building the image: no variant \"$1\": use slim or full" ;;
	esac
}

# excluded lists what dpkg leaves out while unpacking: what no program reads.
# Licences stay, as Debian's packages require of their copies.
excluded() {
	cat <<-'LIST'
		path-exclude=/usr/share/doc/*
		path-include=/usr/share/doc/*/copyright
		path-exclude=/usr/share/man/*
		path-exclude=/usr/share/info/*
		path-exclude=/usr/share/locale/*
		path-exclude=/usr/share/lintian/*
		path-exclude=/usr/share/javascript/*
		path-exclude=/usr/share/unicode/*
		path-exclude=/usr/share/bash-completion/*
		path-exclude=/usr/share/zoneinfo/posix/*
		path-exclude=/usr/share/zoneinfo/right/*
		path-exclude=/usr/include/*
		path-exclude=/usr/lib/*.a
	LIST
}

# progress turns mmdebstrap's verbose output (stdin) into percentages on
# stderr and keeps the whole of it in the file $1. mmdebstrap runs apt twice,
# for the essential packages and for the rest; apt says how many packages each
# run has, so the share inside a phase is counted and not guessed. Only the
# phases' own widths are estimates, from the time they took in a full build.
progress() {
	local line phase=starting base=0 width=0 total=0 seen=0
	while IFS= read -r line; do
		printf '%s\n' "$line" >&3
		case $line in
		"I: running apt-get update"*) phase="reading package lists" base=0 width=3 total=0 ;;
		"I: downloading packages"*) phase="downloading the base system" base=3 width=7 total=0 seen=0 ;;
		"I: extracting archives"*) phase="extracting the base system" base=10 width=2 total=0 ;;
		"I: installing essential"*) phase="installing the base system" base=12 width=10 seen=0 total=$((total0 * 2)) ;;
		"I: installing remaining"*) phase="downloading Python" base=22 width=13 total=0 seen=0 ;;
		"I: running --customize-hook"*) phase="trimming" base=85 width=2 total=0 seen=0 ;;
		"I: cleaning package lists"*) phase="trimming" base=87 width=1 total=0 seen=0 ;;
		"I: creating tarball"*) phase="writing the tar" base=88 width=12 total=0 seen=0 ;;
		"I: success"*) phase="done" base=100 width=0 total=0 seen=0 ;;
		*" newly installed, "*)
			total=${line#*upgraded, } total=${total%% newly*} total0=$total seen=0
			;;
		"Get:"*) ((total == 0)) || seen=$((seen + 1)) ;;
		"Fetched "*)
			# The second apt run goes on to install what it fetched.
			((base == 22)) || continue
			phase="installing Python" base=35 width=50 seen=0 total=$((total0 * 2))
			;;
		"Unpacking "* | "Setting up "*) seen=$((seen + 1)) ;;
		*) continue ;;
		esac
		show "$phase" "$base" "$width" "$seen" "$total"
	done
}

# show prints one progress line: all of them over each other on a terminal,
# and elsewhere one per phase and per ten percent.
show() {
	local phase=$1 percent=$2
	if (($5 > 0)); then
		percent=$(($2 + $3 * ($4 > $5 ? $5 : $4) / $5))
	fi
	if [[ -t 2 ]]; then
		printf '\r\033[K[%3d%%] %s' "$percent" "$phase" >&2
		if ((percent == 100)); then echo >&2; fi
		return
	fi
	if [[ $phase != "$shown_phase" ]] || ((percent / 10 > shown / 10)); then
		printf '[%3d%%] %s\n' "$percent" "$phase" >&2
		shown=$percent shown_phase=$phase
	fi
}

build() {
	local tar=$1 variant=$2 log=$3 opts=() rule
	while IFS= read -r rule; do
		opts+=(--dpkgopt="$rule")
	done < <(excluded)
	# Names of this machine have no place in an image; /workspace and
	# /projects are mount points on a root that is read-only later.
	# shellcheck disable=SC2016 # $1 is the hook's, not ours
	opts+=(--customize-hook='rm -rf "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/var/cache/* "$1"/var/log/*'
		--customize-hook='mkdir -p "$1"/workspace "$1"/projects && chmod 1777 "$1"/workspace "$1"/projects')
	if [[ $variant == full ]]; then
		# Tests go only now: packages' byte-compilation trips over folders
		# that dpkg did not unpack. numpy's stay: numpy.testing imports them.
		# shellcheck disable=SC2016
		opts+=(--customize-hook='find "$1"/usr/lib/python3/dist-packages -depth -type d -name tests ! -path "*/numpy/*" -exec rm -rf {} +'
			--customize-hook='sed -i "s/^#\?backend *:.*/backend: agg/" "$1"/etc/matplotlibrc'
			# The list of fonts, which each sandbox would make for itself otherwise.
			--customize-hook='chroot "$1" env MPLCONFIGDIR=/usr/share/bridged/matplotlib python3 -B -c "import matplotlib.font_manager"')
	fi
	mmdebstrap --verbose --format=tar --variant=essential \
		--include="$(packages "$variant" | tr ' ' ,)" "${opts[@]}" \
		"$suite" "$tar" ${mirror:+"$mirror"} 2>&1 </dev/null | progress 3>"$log"
}

keep=""
if [[ ${1:-} == --if-changed ]]; then
	keep=1
	shift
fi
[[ $# -ge 1 && $# -le 2 && $1 != -* ]] || usage
out=$1 variant=${2:-full}
packages "$variant" >/dev/null
recipe="$variant $suite $(sha256sum <"${BASH_SOURCE[0]}")"
if [[ -n $keep && -s $out && -e $out.recipe && $(<"$out.recipe") == "$recipe" ]]; then
	exit
fi
command -v mmdebstrap >/dev/null ||
	die "mmdebstrap is not installed: apt-get install mmdebstrap debian-archive-keyring uidmap"
[[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] ||
	die "Debian's signing keys are not installed: apt-get install debian-archive-keyring"
mkdir -p "$(dirname "$out")"
tmp=$out.tmp.$$ log=$out.log
trap 'rm -f "$tmp"' EXIT
shown=-10 shown_phase="" total0=0
if ! build "$tmp" "$variant" "$log"; then
	[[ ! -t 2 ]] || echo >&2
	tail -n 15 "$log" >&2
	die "building the $variant image: mmdebstrap stopped; its whole output is in $log"
fi
rm -f "$out.recipe"
mv "$tmp" "$out"
echo "$recipe" >"$out.recipe"
rm -f "$log"
