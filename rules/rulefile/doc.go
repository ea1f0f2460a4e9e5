// Package rulefile reads rules as people write them, YAML files and rows of a
// database, and compiles them into a rules.Set.
//
// The language is a superset of that of envoyproxy/ratelimit: its files load
// unchanged and match the same. Descriptors form a tree, one level for each
// entry of a request:
//
//	domain: api
//	descriptors:
//	  - key: api_key                  # any value, each counted apart
//	    rate_limit: {unit: minute, requests_per_unit: 100}
//	    descriptors:
//	      - key: endpoint
//	        value: POST /orders       # or value_prefix, value_regex, value_cidr, or '*' in value
//	        rate_limit: {unit: minute, requests_per_unit: 20}
//
// An entry finds the descriptor with its key and value, else the first pattern
// in the order of the file, else the descriptor with its key alone; there is no
// way back from a choice. Which limits count is said by `match`: that of the
// last entry's descriptor, or all on the way.
//
// A rule may also bound the requests in flight (concurrency), guard against abuse
// that stays within its limits (secondary_limits, ban), and act before they are
// reached (soft_limit): see rules.Role and rules.Soft. Its limits may depend on the time (schedule),
// and others may be tried out beside them (candidate): see rules.Shift and rules.Trial.
//
// Load reports every error of every file with its place and a hint. Package lint finds
// what is valid but hardly meant, package describe says why a request is matched as it
// is, package diff compares two sets, and package ruletest holds unit tests for rules.
//
// What an existing file of envoyproxy/ratelimit relies on is kept: keys in the
// wrong place, keys that stand twice and further documents are ignored with a
// warning. In files that use a key of Headgate the latter two are errors.
//
// The package reads no clock and, but for the time zone database, no file.
package rulefile
