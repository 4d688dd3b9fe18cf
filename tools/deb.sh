#!/usr/bin/env bash
# Makes the Debian packages of what a build folder has, in BUILD/deb/, and has lintian look at them: deb.sh BUILD VERSION.
set -euo pipefail

build=$(realpath "${1:?usage: tools/deb.sh BUILD VERSION}")
version=${2:?usage: tools/deb.sh BUILD VERSION}
source=$(realpath "$(dirname "$0")/..")
out=$build/deb

rm -rf "$out"
mkdir -p "$out/source"
cp -r "$source/packaging/debian" "$out/source/debian"
date=$(git -C "$source" log -1 --format=%cD 2> /dev/null || date -R)
# Debian's format; what has changed is in CHANGELOG.md.
cat > "$out/source/debian/changelog" << END
tandem ($version) unstable; urgency=medium

  * Version $version.

 -- Tandem maintainers <maintainers@tandem.invalid>  $date
END
cd "$out/source"
BUILD=$build dpkg-buildpackage --build=binary --no-sign --no-pre-clean > "$out/log.txt" 2>&1 || {
    tail -n 40 "$out/log.txt" >&2
    exit 1
}
cd "$out"
rm -rf source
lintian --fail-on error,warning --allow-root ./*.deb
ls -1 ./*.deb
