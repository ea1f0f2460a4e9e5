#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME, one after the other; where that is a
# count of inputs (1000x), as many at a time as there are processors, and without looking
# which code an input reaches: so few are led nowhere by that, and to build every package
# once more for it takes longer than to try them. What finds something ends the run with an
# error; its input is then in testdata/fuzz of its package, to be kept as a test.
set -eu
cd "$(dirname "$0")/.."
export time="${FUZZTIME:-30s}"
workers=$(getconf _NPROCESSORS_ONLN) together=1 guided='-fuzz=.'
case $time in *x) together=$workers workers=1 guided='' ;; esac
export workers guided

binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
cache=$(go env GOCACHE)/fuzz
export binaries cache

# fuzz FOLDER NAME... runs the targets of one package by one binary; 255 has xargs start no other.
fuzz() {
	local folder=$1 package binary
	shift
	package=$(go list "./$folder")
	binary=$binaries/${folder//\//-}.test
	go test -c $guided -vet=off -ldflags="-s -w" -o "$binary" "./$folder" || exit 255
	for target; do
		echo "fuzz $folder $target for $time"
		(cd "$folder" && "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" \
			-test.parallel "$workers" -test.fuzzcachedir "$cache/$package") || exit 255
	done
	rm "$binary"
}
export -f fuzz

targets=$(grep -rHo --include='*_test.go' --exclude-dir=bench '^func Fuzz[A-Za-z0-9_]*' . |
	sed -e 's|^\./||' -e 's|/[^/]*:func | |' -e 's|^[^/ ]*:func |. |' | sort)
awk '{ of[$1] = of[$1] " " $2 } END { for (folder in of) print folder of[folder] }' <<<"$targets" | sort |
	xargs -P "$together" -L 1 bash -c 'fuzz "$@"' fuzz
echo "$(wc -l <<<"$targets") fuzz targets, nothing found"
