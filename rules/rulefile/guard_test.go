package rulefile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/diff"
	"github.com/headgate/headgate/rules/lint"
)

// guarded loads one rule with the keys given.
func guarded(t *testing.T, keys string) *rules.Rule {
	t.Helper()
	return mustLoad(t, "domain: d\ndescriptors:\n- {key: k, "+keys+"}", Options{}).Rules()[0]
}

func TestGuardLimits(t *testing.T) {
	const main = "rate_limit: {unit: minute, requests_per_unit: 100}, limits: [{unit: day, requests_per_unit: 1000}]"
	r := guarded(t, "ban: {after: 20, within: 1m, for: 15m}, secondary_limits: ["+
		"{name: sustained, concurrency: 10, over: 10m}, {name: pacing, unit: hour, requests_per_unit: 2000}], concurrency: {limit: 8, timeout: 30s, hold: id}, "+main)
	for i, want := range []struct {
		role rules.Role
		name string
		spec limit.Spec
		text string
	}{
		{rules.Main, "", limit.Spec{Quota: 100, Period: time.Minute}, "100 per 1m sliding_window"},
		{rules.Main, "", limit.Spec{Quota: 1000, Period: 24 * time.Hour}, "1000 per 1d sliding_window"},
		{rules.InFlight, "", limit.Spec{Algorithm: limit.Concurrency, Quota: 8, Period: 30 * time.Second}, "8 in flight, timeout 30s"},
		{rules.Sustained, "sustained", limit.Spec{Quota: 10 * 600_000, Period: 10 * time.Minute}, "secondary sustained: 10 in flight on average over 10m"},
		{rules.Secondary, "pacing", limit.Spec{Quota: 2000, Period: time.Hour}, "secondary pacing: 2000 per 1h sliding_window"},
		{rules.Banning, "", limit.Spec{Algorithm: limit.Ban, Quota: 20, Period: time.Minute, BanFor: 15 * time.Minute}, "ban for 15m after 20 denials within 1m"},
	} {
		if i >= len(r.Limits) {
			t.Fatalf("%d limits: %s", len(r.Limits), describe.Summary(r))
		}
		n := &r.Limits[i]
		if n.Role != want.role || n.Name != want.name || n.Spec != want.spec || n.String() != want.text {
			t.Errorf("limit %d is %v %q %+v %q, want %+v", i, n.Role, n.Name, n.Spec, n, want)
		}
		if !strings.Contains(describe.Summary(r), want.text+"; ") {
			t.Errorf("the summary lacks %q: %s", want.text, describe.Summary(r))
		}
	}
	if len(r.Limits) != 6 || r.HoldEntry != "id" || !strings.Contains(describe.Summary(r), "; held by entry id") {
		t.Errorf("%d limits, hold entry %q: %s", len(r.Limits), r.HoldEntry, describe.Summary(r))
	}
}

func TestConcurrencyDefaults(t *testing.T) {
	for keys, want := range map[string]string{
		"concurrency: 5":                               "5 in flight, timeout 1m",
		"concurrency: {}":                              "20 in flight, timeout 1m",
		"concurrency: {limit: 4096}":                   "4096 in flight, timeout 1m",
		"concurrency: {limit: , timeout: 24h, hold: }": "20 in flight, timeout 1d",
		"concurrency: , rate_limit: {unit: day, requests_per_unit: 1}":  "1 per 1d sliding_window",
		"ban: , secondary_limits: [{unit: day, requests_per_unit: 1}]":  "secondary: 1 per 1d sliding_window",
		"secondary_limits: [{concurrency: 3, over: 1d, name: }], ban: ": "secondary: 3 in flight on average over 1d",
	} {
		r := guarded(t, keys)
		if len(r.Limits) != 1 || r.Limits[0].String() != want || r.HoldEntry != "" {
			t.Errorf("%s: %s, want %s", keys, describe.Summary(r), want)
		}
	}
}

// In compatibility mode secondary limits count as all do.
func TestGuardsKeepTheDefaultsOfCompat(t *testing.T) {
	for _, keys := range []string{
		"concurrency: 5", "secondary_limits: [{unit: day, requests_per_unit: 1}]", "ban: {after: 1, within: 1m, for: 1m}",
		"soft_limit: {at: 80%}", "answer: {body: flat}", "priority: p1",
	} {
		file := "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 9}, " + keys + "}]"
		r := mustLoad(t, file, Options{Compat: true}).Rules()[0]
		if r.Match() != rules.Leaf || r.Limits[0].Algorithm != limit.FixedWindow {
			t.Errorf("%s with compat: %s", keys, describe.Summary(r))
		}
		if secondary := r.LimitOf(rules.Secondary); secondary != nil && (secondary.Algorithm != limit.FixedWindow || !secondary.CountDenied) {
			t.Errorf("%s with compat: %s", keys, describe.Summary(r))
		}
	}
}

func TestIDsDoNotDependOnGuards(t *testing.T) {
	for keys, want := range map[string]string{
		"rate_limit: {name: n, unit: day, requests_per_unit: 1}":                                                                    "n",
		"rate_limit: {name: n, unit: day, requests_per_unit: 1}, concurrency: 1, ban: {after: 1, within: 1m, for: 1m}":              "n",
		"rate_limit: {name: n, unit: day, requests_per_unit: 1}, secondary_limits: [{name: s, unit: second, requests_per_unit: 1}]": "n",
		"secondary_limits: [{name: s, unit: second, requests_per_unit: 1}]":                                                         "d.k",
		"name: all, concurrency: 1": "all",
	} {
		if r := guarded(t, keys); r.ID != want {
			t.Errorf("%s: ID %s, want %s", keys, r.ID, want)
		}
	}
}

func TestPromiseOfGuards(t *testing.T) {
	for _, tt := range []struct {
		keys  string
		nodes int
		want  string
	}{
		{"concurrency: 20", 0, "exact: every decision is made in the shared store, so excess 0; a slot that is not renewed is free after 1m"},
		{"consistency: local, concurrency: 20", 3, "; with 3 nodes: 6 of 20 on each, excess <= 0; a slot that is not renewed is free after 1m"},
		{"consistency: local, local_share: whole, concurrency: 20", 3, "with 3 nodes: excess <= 40; a slot that is not renewed is free after 1m"},
		{"consistency: local, rate_limit: {unit: day, requests_per_unit: 9}, ban: {after: 2, within: 1m, for: 1m}", 3, "with 3 nodes: 3 of 9 on each, excess <= 0; each node bans for the denials that it has seen"},
		{"consistency: local, secondary_limits: [{concurrency: 2, over: 1m}]", 3, "a busy node denies early"},
	} {
		if got := describe.Promise(guarded(t, tt.keys), tt.nodes); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: %q, want %q at its end", tt.keys, got, tt.want)
		}
	}
}

func TestDiffShowsGuards(t *testing.T) {
	const file = "domain: d\nmatch: path\n%sdescriptors: [{key: k, %s}]"
	const limits = "rate_limit: {unit: minute, requests_per_unit: 5}, "
	from := mustLoad(t, fmt.Sprintf(file, "", limits+"concurrency: 5, secondary_limits: [{name: s, unit: day, requests_per_unit: 5}], soft_limit: {at: 80%}, priority: p0"), Options{})
	to := mustLoad(t, fmt.Sprintf(file, "answer: {body: flat}\n", limits+"concurrency: {limit: 6, hold: id}, secondary_limits: [{name: s, concurrency: 2, over: 1m}], "+
		"ban: {after: 1, within: 1m, for: 1h}, soft_limit: {at: 90%, action: delay, delay: 1s}, priority: test"), Options{})
	var lines []string
	for _, c := range diff.Sets(from, to) {
		lines = append(lines, c.String())
	}
	want := `~ d.k: answer: none -> body flat
~ d.k: ban: none -> ban for 1h after 1 denial within 1m
~ d.k: concurrency: 5 in flight, timeout 1m -> 6 in flight, timeout 1m
~ d.k: concurrency.hold: none -> id
~ d.k: priority: p0 -> p3
~ d.k: secondary_limits: secondary s: 5 per 1d sliding_window -> secondary s: 2 in flight on average over 1m
~ d.k: soft_limit: from 80%: warn -> from 90%: delay 1s`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	added := diff.Sets(mustLoad(t, "domain: d\nmatch: path", Options{}), to)
	if len(added) != 1 || !strings.HasSuffix(added[0].String(), " and 6 in flight, timeout 1m and secondary s: 2 in flight on average over 1m and ban for 1h after 1 denial within 1m") {
		t.Errorf("%v", added)
	}
}

func TestLintGuards(t *testing.T) {
	const ban = "ban: {after: 5, within: 1m, for: 1m}"
	for _, test := range []struct {
		rules string
		want  []string
	}{
		{"- {key: user, LIMIT, " + ban + "}", nil},
		{"- {key: route, value: /x, LIMIT, descriptors: [{key: remote_address, LIMIT, " + ban + "}]}", nil},
		{"- {key: route, value: /x, LIMIT, " + ban + "}", []string{"4:3: warning: the ban of rule d.route_/x is for all requests that reach it, so that denials of one client ban every other"}},
		{"- {key: net, value: a*, share_threshold: true, LIMIT, " + ban + "}", []string{"the ban of rule d.net_a* is for all requests"}},
		{"- {always: true, name: all, concurrency: 5, " + ban + "}", []string{"4:1: warning: the ban of rule all is for all requests"}},
		{"- {key: user, concurrency: 20, secondary_limits: [{concurrency: 19, over: 1m}]}", nil},
		{"- {key: user, concurrency: 20, secondary_limits: [{name: s, concurrency: 20, over: 1m}]}", []string{"a limit of rule d.user is never reached: secondary s: 20 in flight on average over 1m, when no more than 20 are at any time"}},
		{"- {key: user, soft_limit: {at: 80%}, rate_limit: {unit: minute, requests_per_unit: 5}}", nil},
		{"- {key: user, soft_limit: {at: 80%}, rate_limit: {unit: minute, requests_per_unit: 4}}", []string{"the soft limit of rule d.user is reached only by the last of 4 hits"}},
		{"- {key: user, soft_limit: {at: 99%}, rate_limit: {unit: minute, requests_per_unit: 100}}", nil},
		{"- {key: user, soft_limit: {at: 99%}, rate_limit: {unit: minute, requests_per_unit: 99}}", []string{"the last of 99 hits"}},
		{"- {key: user, soft_limit: {at: 10%}, rate_limit: {unit: minute, requests_per_unit: 1000, algorithm: token_bucket, burst: 1}}", []string{"the last of 1 hit,"}},
		{"- {key: user, soft_limit: {at: 10%}, rate_limit: {unit: minute, requests_per_unit: 1000, algorithm: leaky_queue}}", nil},
	} {
		file := "domain: d\nmatch: path\ndescriptors:\n" + strings.ReplaceAll(test.rules, "LIMIT", limitText)
		got := lint.Check(mustLoad(t, file, Options{}))
		checkDiagnostics(t, got, test.want)
		for _, d := range got {
			if d.Hint == "" || d.Line == 0 || d.Column == 0 {
				t.Errorf("incomplete: %+v", d)
			}
		}
	}
}
