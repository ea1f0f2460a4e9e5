#!/usr/bin/env bash
# Measures Headgate beside its peers and prints one report. Knobs, all of them
# environment variables:
#   MAXKEYS           largest table in process (default 1000000; 10000000 takes
#                     some minutes more and 3 GB of memory)
#   BENCHTIME         time for each row in process (default 500ms)
#   ROUNDS, MEASURE   how often and how long each row with a server is measured
#                     (default 2 and 3s)
#   RATELIMIT_BINARY  a binary of envoyproxy/ratelimit to measure beside Headgate
set -eu
set -o pipefail

cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

commit() {
	git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown
}

echo "# Headgate beside its peers"
echo
echo "date       $(date -u +%Y-%m-%dT%H:%MZ)"
echo "commit     $(commit)"
echo "go         $(go version | cut -d' ' -f3,4)"
echo "redis      $(redis-server --version 2>/dev/null | cut -d' ' -f3 || echo missing)"
echo "machine    $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(awk '/MemTotal/ {printf "%.0f GB", $2 / 1e6}' /proc/meminfo), Linux $(uname -r)"
echo "peers      $(go list -m -f '{{.Path}} {{.Version}}' golang.org/x/time github.com/sethvargo/go-limiter github.com/throttled/throttled/v2 github.com/go-chi/httprate github.com/ulule/limiter/v3 google.golang.org/grpc | paste -sd ',' | sed 's/,/, /g')"

echo
echo "## In process: ns per decision, the clock included; ratios are to peers in this run, on 1 processor"
go test -c -o "$work/inprocess" ./inprocess
go build -o "$work/benchtable" ./cmd/benchtable
"$work/inprocess" -test.run '^$' -test.bench 'Take|Check|Observe' -test.cpu 1,2 \
	-test.benchtime "${BENCHTIME:-500ms}" -maxkeys "${MAXKEYS:-1000000}" >"$work/take"
"$work/benchtable" <"$work/take"

echo
echo "## HTTP middleware: ns per request without a network; the row bare is part of all others"
go test -c -o "$work/middleware" ./middleware
"$work/middleware" -test.run '^$' -test.bench . -test.cpu 1,2 -test.benchtime "${BENCHTIME:-500ms}" >"$work/wrapped"
"$work/benchtable" <"$work/wrapped"

echo
echo "## In process: live heap"
"$work/inprocess" -test.run '^$' -test.bench Heap -test.cpu 1 \
	-test.benchtime 1x -maxkeys "${MAXKEYS:-1000000}" >"$work/heap"
"$work/benchtable" <"$work/heap"

echo
echo "## Decisions in Redis, asked by one process: CPU microseconds for each request, of the process and of Redis"
go build -o "$work/storeload" ./cmd/storeload
"$work/storeload" -rounds "${ROUNDS:-2}" -measure "${MEASURE:-3s}"

echo
echo "## gRPC: CPU microseconds for each request; client, server and Redis share the machine"
(cd .. && CGO_ENABLED=0 go build -trimpath -tags disable_pgv,grpcnotrace -ldflags '-s -w' -o "$work/headgate" ./cmd/headgate)
go build -o "$work/rlsload" ./cmd/rlsload
"$work/rlsload" -headgate "$work/headgate" -ratelimit "${RATELIMIT_BINARY:-}" \
	-rounds "${ROUNDS:-2}" -measure "${MEASURE:-3s}"

echo
echo "## Reverse proxy: CPU microseconds of the proxy for each request, beside httputil.ReverseProxy; load and backend share the machine"
go run ./proxy -headgate "$work/headgate" -rounds "${ROUNDS:-2}" -measure "${MEASURE:-3s}"
