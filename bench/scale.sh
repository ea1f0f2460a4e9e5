#!/usr/bin/env bash
# Measures costs against one size and prints a table:
#   ./scale.sh keys          10^3 to 10^7 keys in memory, to 10^6 in Redis
#   ./scale.sh limits        1 to 16 limits for each request
#   ./scale.sh callers       1 to 100,000 callers at once
#   ./scale.sh nodes         1 to 8 processes on one Redis, and a cluster of 3 shards
#   ./scale.sh connections   1 to 10,000 connections
# MEASURE is how long each row is measured (default 2s).
set -eu

cd "$(dirname "$0")"
axis=${1:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
size=(-scale "$axis" -full -rounds 1 -measure "${MEASURE:-2s}")
case $axis in
keys | limits | callers)
	go run ./cmd/storeload "${size[@]}"
	;;
nodes | connections)
	(cd .. && CGO_ENABLED=0 go build -trimpath -tags disable_pgv,grpcnotrace -ldflags '-s -w' -o "$work/headgate" ./cmd/headgate)
	go run ./cmd/rlsload -headgate "$work/headgate" "${size[@]}"
	;;
*)
	echo "scale.sh: which size? hint: keys, limits, callers, nodes or connections" >&2
	exit 2
	;;
esac
