#!/usr/bin/env bash
# Prints the folders of the packages with tests in which nothing runs side by side: neither a
# test of theirs, nor anything of ours that they import, starts a goroutine, a server or a
# process. The race detector can find nothing there. With -v it prints the other packages
# with tests.
set -euo pipefail
cd "$(dirname "$0")/.."
starts='^[[:space:]]*(defer )?go (func|[a-zA-Z])|\.Go\(|AfterFunc\('
tests="$starts"'|\.Parallel\(|RunParallel|httptest|net\.Listen|\.Serve\(|synctest|testserver|exec\.Command'
module=$(go list -m)

# holding prints the packages of the files on standard input in which $1 stands.
holding() {
	grep -lE "$1" $(cat) | xargs -n1 dirname | sort -u | sed -e "s|^\.|$module|"
}

files=$(find . -name '*.go' -not -path '*/testdata/*')
{
	grep -v '_test\.go$' <<<"$files" | holding "$starts" | sed 's/^/starts /'
	grep '_test\.go$' <<<"$files" | holding "$tests" | sed 's/^/starts-in-test /'
	go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | sed -nE 's/^([^ ]*)\.test /package \1 /p'
} | awk -v module="$module" -v other="${1:-}" '
	$1 == "starts" { starts[$2]; next }
	$1 == "starts-in-test" { startsInTest[$2]; next }
	{
		serial = !($2 in startsInTest)
		for (i = 2; i <= NF; i++) if ($i in starts) serial = 0
		if (serial == (other != "-v")) print "." substr($2, length(module) + 1)
	}'
