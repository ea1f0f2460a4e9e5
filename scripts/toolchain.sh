#!/usr/bin/env bash
# Says which Go is to build: what GOTOOLCHAIN is to be. go.mod names the oldest release
# whose standard library has no known fault in what Headgate uses of it. Where the Go of
# this machine is older, that one is fetched as a module, which the go command verifies.
# Where it cannot be had, the Go of this machine is named, with a warning; with "required"
# that is an error.
set -eu
cd "$(dirname "$0")/.."
want=$(sed -n 's/^toolchain go//p' go.mod)
have=$(GOTOOLCHAIN=local go env GOVERSION)
have=${have#go}

if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -1)" = "$want" ]; then
	echo local
elif GOTOOLCHAIN="go$want" timeout 300 go version >/dev/null 2>&1; then
	echo "go$want"
else
	echo "toolchain: Go $want or newer cannot be had here, and this is Go $have; hint: install it, or let the go command reach its module proxy" >&2
	[ "${1:-}" != required ] || exit 1
	echo local
fi
