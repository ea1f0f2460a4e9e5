#!/usr/bin/env bash
# Measures Headgate beside its peers and prints one report. Knobs, all of them
# environment variables:
#   MAXKEYS            largest table in process (default 1000000; 10000000 takes
#                      some minutes more and 3 GB of memory)
#   BENCHTIME          time for each row in process (default 300ms)
#   REPEAT             how often whole decisions, takes of one key and middleware
#                      are measured (default 5) in turn; the least of each row counts
#   ROUNDS, MEASURE    how often and how long each row with a server is measured
#                      (default 2 and 2s)
#   RATELIMIT_BINARY, GUBERNATOR_BINARY, LIMITADOR_BINARY
#                      binaries of envoyproxy/ratelimit, gubernator and
#                      limitador-server to measure in the same run
#   SCALE              few (default), full or none: how many sizes are measured in
#                      the tables of costs against size
#   FIGURES            a file that gets all figures, one line of JSON for each row
# What cannot be measured says so in its place, and the rest goes on.
set -eu
set -o pipefail

cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
figures=${FIGURES:-$work/figures}
: >"$figures"
rounds=(-rounds "${ROUNDS:-2}" -measure "${MEASURE:-2s}" -figures "$figures")

# commit prints the commit's id and date.
commit() {
	git log -1 --abbrev=12 --format='%h of %cI' 2>/dev/null || { echo unknown; return; }
	git diff --quiet HEAD 2>/dev/null || echo "with changes that are not committed"
}

# version prints the name and version of a program written in Go, else its file.
version() {
	go version -m "$1" 2>/dev/null | awk '$1 == "mod" { print $2, $3; found = 1 } END { exit !found }' || basename "$1"
}

# peers prints what is compared with.
peers() {
	go list -m -f '{{.Path}} {{.Version}}' golang.org/x/time github.com/sethvargo/go-limiter github.com/throttled/throttled/v2 \
		github.com/go-chi/httprate github.com/ulule/limiter/v3 google.golang.org/grpc
	for binary in "${RATELIMIT_BINARY:-}" "${GUBERNATOR_BINARY:-}" "${LIMITADOR_BINARY:-}"; do
		[ -z "$binary" ] || version "$binary"
	done
}

# section begins a section; try runs what measures it.
section() { printf '\n## %s\n' "$1"; }
try() {
	"$@" || {
		status=$?
		printf '\nnot measured: %s ended with status %s\n' "$(basename "$1")" "$status"
	}
}
aims() { "$work/benchpage" -figures "$figures" -aims "$1"; }
table() { "$work/benchtable" -section "$1" -figures "$figures"; }

echo "# Headgate beside its peers"
echo
echo "date       $(date -u +%Y-%m-%dT%H:%MZ)"
echo "commit     $(commit | paste -sd ',' | sed 's/,/, /')"
echo "go         $(go version | cut -d' ' -f3,4)"
echo "redis      $(redis-server --version 2>/dev/null | cut -d' ' -f3 || echo missing)"
echo "machine    $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(awk '/MemTotal/ {printf "%.0f GB", $2 / 1e6}' /proc/meminfo), Linux $(uname -r)"
echo "load       $(cut -d' ' -f1-3 /proc/loadavg) when it began (1, 5 and 15 minutes)"
echo "peers      $(peers | paste -sd ',' | sed 's/,/, /g')"

go build -o "$work/" ./cmd/benchtable ./cmd/benchpage ./cmd/storeload ./cmd/rlsload ./proxy
(cd .. && CGO_ENABLED=0 go build -trimpath -tags disable_pgv,grpcnotrace -ldflags '-s -w' -o "$work/headgate" ./cmd/headgate)
go test -c -o "$work/inprocess" ./inprocess
go test -c -o "$work/middleware" ./middleware
bench=(-test.run '^$' -test.benchtime "${BENCHTIME:-300ms}")

# repeated runs a command REPEAT times, one after the other, so that a busy moment of the
# machine does not meet all measurements of one row.
repeated() { for ((i = 0; i < ${REPEAT:-5}; i++)); do "$@" || return; done; }

section "In process: ns per decision, the clock included; ratios are to peers in this run, on 1 processor"
decisions() { repeated "$work/inprocess" "${bench[@]}" -test.bench 'Check|Observe|Take/keys=1$' -test.cpu 1,2 | table process; }
try decisions
take() { "$work/inprocess" "${bench[@]}" -test.bench 'Take/keys=1.+' -test.cpu 1,2 -maxkeys "${MAXKEYS:-1000000}" | table process; }
try take
heap() { "$work/inprocess" "${bench[@]}" -test.bench Heap -test.cpu 1 -test.benchtime 1x -maxkeys "${MAXKEYS:-1000000}" | table process; }
try heap
aims process

section "HTTP middleware: ns per request without a network; the row bare is part of all others"
wrapped() { repeated "$work/middleware" "${bench[@]}" -test.bench . -test.cpu 1,2 | table middleware; }
try wrapped
aims middleware

section "Decisions in Redis, asked by one process: CPU microseconds for each request, of the process and of Redis"
try "$work/storeload" "${rounds[@]}"
aims redis

section "gRPC: CPU microseconds for each request, and latencies at set rates; client, server and Redis share the machine"
try "$work/rlsload" -headgate "$work/headgate" "${rounds[@]}"
aims grpc
aims latency

section "The check API: CPU microseconds for each check, beside gRPC with as many checks under way"
try "$work/rlsload" -check -headgate "$work/headgate" "${rounds[@]}" -rounds 1
aims check

section "Reverse proxy: CPU microseconds of the proxy for each request, beside httputil.ReverseProxy; load and backend share the machine"
try "$work/proxy" -headgate "$work/headgate" "${rounds[@]}"
aims proxy

if [ "${SCALE:-few}" != none ]; then
	section "Costs against size"
	size=(-rounds 1 -measure "${MEASURE:-2s}" -figures "$figures")
	[ "${SCALE:-few}" != full ] || size+=(-full)
	for axis in keys limits callers; do
		printf '\nagainst %s\n' "$axis"
		try "$work/storeload" -scale "$axis" "${size[@]}"
	done
	for axis in nodes connections; do
		try "$work/rlsload" -scale "$axis" -headgate "$work/headgate" "${size[@]}"
	done
fi
