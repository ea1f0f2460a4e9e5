#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME, one after the other; where that is a
# count of inputs (1000x), as many at a time as there are processors. What finds something
# ends the run with an error; its input is then in testdata/fuzz of its package, to be kept
# as a test.
set -eu
cd "$(dirname "$0")/.."
export time="${FUZZTIME:-30s}"
workers=$(getconf _NPROCESSORS_ONLN) together=1
case $time in *x) together=$workers workers=1 ;; esac
export workers

# fuzz FILE NAME runs one target; 255 has xargs start no other.
fuzz() {
	echo "fuzz $(dirname "$1") $2 for $time"
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -parallel "$workers" "./$(dirname "$1")" || exit 255
}
export -f fuzz

targets=$(grep -rHo --include='*_test.go' --exclude-dir=bench '^func Fuzz[A-Za-z0-9_]*' . |
	sed -e 's|^\./||' -e 's|:func | |' | sort)
xargs -P "$together" -L 1 bash -c 'fuzz "$@"' fuzz <<<"$targets"
echo "$(wc -l <<<"$targets") fuzz targets, nothing found"
