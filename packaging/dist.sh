#!/usr/bin/env bash
# Makes what is released: an archive for each platform, a Debian package for each
# that is Linux, and their SHA256SUMS.
#
#   dist.sh DIR OS/ARCH...
#
# The same commit and the same Go make the same bytes, in any folder, on any day,
# whoever runs it. bin/bridged must have been built: it writes man pages, shell
# completions and units. `make dist` sees to that and to the environment:
#
#   VERSION             what git describe says
#   LDFLAGS             how programs are linked
#   SOURCE_DATE_EPOCH   the time of all files, in seconds; that of the commit
set -euo pipefail
umask 022
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH

die() {
	echo "dist.sh: $*" >&2
	exit 1
}

# debian_version turns v1.2.0, v1.2.0-rc.1, v1.2.0-3-gabc1234 and abc1234 into
# versions that dpkg sorts in that order. A commit without a release is 0.
debian_version() {
	local v=$1
	if [[ $v =~ ^v?[0-9]+\.[0-9] ]]; then
		sed -E 's/^v//; s/-dirty$/+dirty/; s/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/; s/-/~/g' <<<"$v"
	else
		echo "0~$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).${v//-/+}"
	fi
}

# licences prints what the modules in our programs, and Go, want to be told with
# them. Their files are named in many ways, and each has one.
licences() {
	local module version dir file
	echo "bridged and bridge-shim are built with these, each under its own licence."
	{
		echo "Go $(go env GOVERSION) $(go env GOROOT)"
		go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/bridged ./cmd/bridge-shim | sort -u
	} | while read -r module version dir; do
		mapfile -t files < <(find "$dir" -maxdepth 1 -type f -iregex '.*/\(licen[cs]e\|copying\|notice\|copyright\|patents\|unlicen[cs]e\)[^/]*' | sort)
		((${#files[@]})) || die "$module $version has no licence file"
		printf '\n\n==== %s %s\n' "$module" "$version"
		for file in "${files[@]}"; do
			printf '\n---- %s\n\n' "${file##*/}"
			cat "$file"
		done
	done
}

# stage fills the folder $1 with what is installed below /.
stage() {
	local root=$1 doc=$1/usr/share/doc/bridged
	bin/bridged install --prefix /usr --destdir "$root" >/dev/null
	# For this machine, make build has linked the very same already.
	[[ $GOOS/$GOARCH == "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" ]] || for program in bridged bridge-shim; do
		go build -trimpath -ldflags "$LDFLAGS" -o "$root/usr/bin/$program" "./cmd/$program"
	done
	mkdir -p "$doc/docs"
	install -m 644 README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE "$doc"
	install -m 644 docs/*.md "$doc/docs"
	licences >"$doc/THIRD_PARTY_LICENSES"
}

# archive packs the staged folder $1 as $2.tar.gz; it holds one folder.
archive() {
	local root=$1 name=$2 top
	top=$(mktemp -d)/$name
	cp -R "$root/usr" "$top"
	mv "$top"/share/doc/bridged/* "$top"
	rm -r "$top/share/doc"
	# systemd is Linux's.
	[[ $GOOS == linux ]] || rm -r "$top/lib"
	tar -C "${top%/*}" --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
		--owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
	rm -r "${top%/*}"
}

# package makes a Debian package of the staged folder $1.
package() {
	local root=$1 debian
	debian=$(debian_version "$VERSION")
	gzip -9n "$root"/usr/share/man/man1/*.1
	rm "$root/usr/share/doc/bridged/LICENSE" # copyright says it
	gzip -9n "$root/usr/share/doc/bridged/THIRD_PARTY_LICENSES"
	# Debian's own format: what apt-listchanges reads.
	gzip -9n >"$root/usr/share/doc/bridged/changelog.gz" <<-CHANGES
		bridged ($debian) unstable; urgency=medium

		  * See CHANGELOG.md.

		 -- bridged maintainers <$maintainer>  $(date -R -d "@$SOURCE_DATE_EPOCH")
	CHANGES
	mkdir -p "$root/usr/share/lintian/overrides"
	install -m 644 packaging/lintian-overrides "$root/usr/share/lintian/overrides/bridged"
	install -m 644 packaging/copyright "$root/usr/share/doc/bridged/copyright"
	find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
	STAGE=$root DEB_VERSION=$debian DEB_ARCH=$GOARCH MAINTAINER="bridged maintainers <$maintainer>" \
		"$nfpm" package --config packaging/nfpm.yaml --packager deb --target "$out/bridged_${debian}_$GOARCH.deb" >/dev/null
}

(($# >= 2)) || die "usage: dist.sh DIR OS/ARCH..."
for v in VERSION LDFLAGS SOURCE_DATE_EPOCH; do
	[[ -n ${!v:-} ]] || die "$v is not set: use make dist"
done
maintainer=bridged@users.noreply.github.com
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -f "$out"/bridged_*.tar.gz "$out"/bridged_*.deb "$out"/SHA256SUMS
# A tool of this step alone: the product's go.mod does not know it.
nfpm=$work/nfpm
go build -modfile=packaging/tools.mod -o "$nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
for platform; do
	export GOOS=${platform%/*} GOARCH=${platform#*/}
	root=$work/$GOOS-$GOARCH
	stage "$root"
	archive "$root" "bridged_${VERSION#v}_${GOOS}_$GOARCH"
	[[ $GOOS != linux ]] || package "$root"
	rm -r "$root"
done
cd "$out"
sha256sum bridged_* >SHA256SUMS
cat SHA256SUMS
