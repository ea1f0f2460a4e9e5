#!/usr/bin/env bash
# Puts Apache Kafka, for the tests that talk to a real one, into .tools/kafka/lib: its
# jars and those that it runs with, of pinned versions, by Maven as this machine has it
# set up. What is there already is left alone.
set -eu
cd "$(dirname "$0")/.."
kafka=org.apache.kafka:kafka_2.13:4.1.0
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
to="$PWD/.tools/kafka"

if [ "$(cat "$to/version" 2>/dev/null)" = "$kafka" ]; then
	exit 0
fi
if ! command -v mvn >/dev/null; then
	echo "kafka-jars: there is no mvn; hint: install Maven (apt-get install maven)" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
IFS=: read -r group artifact version <<<"$kafka"
cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.github.headgate</groupId>
  <artifactId>test-kafka</artifactId>
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
mvn --batch-mode --quiet --file "$work/pom.xml" "$plugin:copy-dependencies" \
	-DincludeScope=runtime -DoutputDirectory="$work/lib" >&2
rm -rf "$to"
mkdir -p "$to"
mv "$work/lib" "$to/lib"
echo "$kafka" >"$to/version" # last: without it all of this is done again
