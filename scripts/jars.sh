#!/usr/bin/env bash
# jars.sh GROUP:ARTIFACT:VERSION FOLDER puts a library of Java, of a pinned version, and what it
# runs with into .tools/FOLDER/lib, and jars.sh PATH/pom.xml FOLDER what a program runs with, by
# Maven as this machine has it set up. What is there already is left alone.
set -eu
cd "$(dirname "$0")/.."
library=$1
if [ -f "$library" ]; then
	library="$1 $(cksum <"$1")"
fi
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
to="$PWD/.tools/$2"

if [ "$(cat "$to/version" 2>/dev/null)" = "$library" ]; then
	exit 0
fi
if ! command -v mvn >/dev/null; then
	echo "jars: there is no mvn; hint: install Maven (apt-get install maven)" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -f "$1" ]; then
	cp "$1" "$work/pom.xml"
else
	IFS=: read -r group artifact version <<<"$library"
	cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.github.headgate</groupId>
  <artifactId>test-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>$group</groupId>
      <artifactId>$artifact</artifactId>
      <version>$version</version>
    </dependency>
  </dependencies>
</project>
POM
fi
mvn --batch-mode --quiet --file "$work/pom.xml" "$plugin:copy-dependencies" \
	-DincludeScope=runtime -DoutputDirectory="$work/lib" >&2
rm -rf "$to"
mkdir -p "$to"
mv "$work/lib" "$to/lib"
echo "$library" >"$to/version" # last: without it all of this is done again
