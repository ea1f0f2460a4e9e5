#!/usr/bin/env bash
# Builds what is published into a directory, which is emptied first. VERSION is the tag
# that the program says, the tag of the commit unless it is given; what is given after
# the directory goes to tools/release.
set -eu
out=$(realpath -m "${1:?release: name a directory to write to}")
shift
cd "$(dirname "$0")/.."
version=${VERSION:-$(git describe --tags --always --dirty)}
rm -rf "$out"
cd tools/release
go run . -root ../.. -out "$out" -version "$version" -time "$(git log -1 --format=%ct)" "$@"
ls -l "$out"
