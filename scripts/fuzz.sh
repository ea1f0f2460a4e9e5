#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME, one after the other. The
# first one that finds something ends the run with an error; its input is then
# in testdata/fuzz of its package, to be kept as a test.
set -eu
cd "$(dirname "$0")/.."
time="${FUZZTIME:-30s}"

found=0
while IFS=: read -r file name; do
	found=$((found + 1))
	echo "fuzz $(dirname "$file") $name for $time"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$(dirname "$file")"
done < <(grep -rHo --include='*_test.go' --exclude-dir=bench '^func Fuzz[A-Za-z0-9_]*' . |
	sed -e 's|^\./||' -e 's|:func |:|' | sort)
echo "$found fuzz targets, nothing found"
