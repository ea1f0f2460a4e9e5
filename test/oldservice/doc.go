// Package oldservice compares the answers of Headgate in compatibility mode with those of
// envoyproxy/ratelimit, the service whose place it takes.
//
// Each file in testdata is an archive of three parts: rules.yaml, requests with one
// RateLimitRequest in JSON on each line, and answers, which the old service has given to
// them, with the second in which it did. The replay asks Headgate the same at the same
// seconds, by a clock of its own. A line "next second" between requests is where the
// recorder waits, and "differs: REASON" before one that Headgate answers otherwise.
//
// Whoever has the old service's binary compares, or records, by
//
//	go test ./test/oldservice -args -ratelimit-binary /path/to/ratelimit [-record]
//
// which starts it beside a real Redis. It is src/service_cmd of the module
// github.com/envoyproxy/ratelimit; the answers in testdata are those of version
// v1.4.1-0.20260122083618-3fb702589d36.
package oldservice
