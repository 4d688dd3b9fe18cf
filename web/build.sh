#!/usr/bin/env bash
# Builds the page into a folder: web/build.sh [--notice] OUT. OUT.built is made when the page is as it should be.
set -euo pipefail

notice=
if [[ $1 == --notice ]]; then
    notice=1
    shift
fi
out=$(realpath --canonicalize-missing "$1")
cd "$(dirname "$0")"
rm -f "$out.built"

make_notice() {
    mkdir -p "$out"
    cp notice.html "$out/index.html"
    cp public/icon.svg "$out/icon.svg"
    : > "$out/app.js" # files without bytes are not served
    : > "$out/app.css"
}

if [[ $notice ]]; then
    make_notice
    touch "$out.built"
    exit
fi

# What is installed says in a file of its own what it was made from.
if ! cmp --silent package-lock.json node_modules/.installed.json; then
    if ! npm ci --silent; then
        echo "web: npm could not install the packages of web/package.json: the server's page is a notice for now" >&2
        make_notice
        exit
    fi
    cp package-lock.json node_modules/.installed.json
fi
npm run --silent build -- --logLevel warn --outDir "$out"
touch "$out.built"
