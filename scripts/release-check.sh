#!/usr/bin/env bash
# Builds a release of this commit for this machine twice, in two places whose names differ
# in length, with caches of their own for what is compiled, compares every byte, and runs
# what was built; the clients in other languages are installed into empty projects and
# tested against the program that was built. It takes some minutes, and is therefore no part of `make test`.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
tools=$PWD/.tools/clients
trap 'rm -rf "$work"' EXIT
version=v0.0.0-check
commit=$(git rev-parse HEAD)
at=$(git log -1 --format=%ct "$commit")
target=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
for place in a another/place; do
	mkdir -p "$work/$place/tree"
	git archive "$commit" | tar -x -C "$work/$place/tree"
	(cd "$work/$place/tree/tools/release" &&
		GOCACHE="$work/$place/cache" go run . -root ../.. -out "$work/$place/out" -version "$version" -time "$at" -only "$target,typescript,python" -tools "$tools")
done
diff -r "$work/a/out" "$work/another/place/out"
echo "release-check: two builds are alike, byte by byte"
(cd tools/release && go test -count=1 -run '^TestPublished$' -v . -args -published "$work/a/out")
mkdir "$work/program"
tar -x -z --strip-components=1 -C "$work/program" -f "$work/a/out/headgate_${version#v}_${target/\//_}.tar.gz"
HEADGATE_TEST_BINARY=$work/program/headgate go test -count=1 -run '^(TestTypeScript|TestPython)$' -v ./clients -args -published "$work/a/out"
