#!/usr/bin/env bash
# Measures everything once, at the commit that is checked out, and writes the
# generated parts of bench/README.md, docs/capacity.md and README.md with its
# chart, bench/cost.svg. The pages change at the end and all together, or not at all. Knobs
# are those of run.sh; here SCALE is full and MAXKEYS 10000000 by default, which
# makes it about 25 minutes with two peers.
set -eu
set -o pipefail

cd "$(dirname "$0")"
if ! git diff --quiet HEAD; then
	echo "page.sh: there are changes that are not committed, and the page would name a commit that has not what was measured; hint: commit them, or put them away with git stash" >&2
	exit 1
fi
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
export SCALE="${SCALE:-full}" MAXKEYS="${MAXKEYS:-10000000}" FIGURES="$kept/figures"
./run.sh | tee "$kept/report"
go run ./cmd/benchpage -figures "$FIGURES" -report "$kept/report" -root ..
echo "page.sh: bench/README.md, docs/capacity.md, README.md and bench/cost.svg are made anew" >&2
