package rulefile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules"
)

// envoyNested is a file of envoyproxy/ratelimit with limits below one another. FILE, NODE
// and LIMIT are where keys of Headgate may come.
const envoyNested = `FILE
domain: d
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 100}
  descriptors:
  - key: op
    descriptors:
    - key: item
      NODE
      rate_limit: {unit: minute, requests_per_unit: 3, LIMIT}
`

func withKeys(file, node, limit string) string {
	return strings.NewReplacer("FILE", file, "NODE", node, ", LIMIT", limit).Replace(envoyNested)
}

// aboutWhatCounts are the keys of Headgate that say what is matched or how it is counted.
// Every other key changes nothing of that.
var aboutWhatCounts = map[string]bool{
	"match": true, "consumption": true, // of the domain
	"value_prefix": true, "value_cidr": true, "value_regex": true, "always": true, // whom a descriptor is for
	"limits": true, "window": true, "algorithm": true, "sub_windows": true, "mode": true, // what stands in place of the limit
	"burst": true, "max_delay": true, "max_queue": true, "time_zone": true, "count_denied": true,
}

// otherKeys are all other keys of Headgate at the three places where they meet those of
// envoyproxy/ratelimit, with values that go with the file.
var otherKeys = map[place]map[string]string{
	inFile: {"answer": "{body: flat}", "store": "home"},
	inDescriptor: {
		"answer": "{body: flat}", "ban": "{after: 9, within: 1m, for: 1m}", "candidate": "{rate_limit: {unit: minute, requests_per_unit: 2}}",
		"concurrency": "5", "consistency": "exact", "cost": "{from: content_length}", "failure_mode": "open", "hot_keys": "coalesce",
		"lease_ttl": "1s", "local_share": "share", "max_debt": "5", "on_change": "carry", "priority": "p1",
		"raise_hot_keys": "{by: 20, for: 10m, pause: 1h}", "remember_denials": "false",
		"schedule": `[{cron: "0 22 * * *", for: 8h, factor: 3}]`, "secondary_limits": "[{unit: second, requests_per_unit: 1}]",
		"regions": "each", "sensitive": "true", "soft_limit": "{at: 50%}", "store": "home", "sub_buckets": "2", "sync_interval": "200ms", "tenant": "true",
		"valid_from": "2020-01-01T00:00:00Z", "valid_until": "2099-01-01T00:00:00Z",
	},
	inRateLimit: {},
}

// beside is what a key only goes with.
var beside = map[string]string{"lease_ttl": "consistency: leased", "sync_interval": "consistency: synced", "local_share": "consistency: local"}

// A key that is not about matching or counting never changes which limits count, nor how.
func TestNoKeyChangesHowAFileIsRead(t *testing.T) {
	for mode, options := range modes {
		want := reading(t, withKeys("", "", ""), options)
		for key, info := range keys() {
			if info.envoy || aboutWhatCounts[key] || options.Compat && key == "sub_buckets" { // which is refused there, aloud
				continue
			}
			for _, p := range []place{inFile, inDescriptor, inRateLimit} {
				if !info.belongs(p) {
					continue
				}
				value, known := otherKeys[p][key]
				if !known {
					t.Fatalf("the key %s in %s is new: does it change what counts?", key, places[p].name)
				}
				text := key + ": " + value
				file := withKeys(text, "", "")
				if p == inDescriptor {
					file = withKeys("", text+"\n      "+beside[key], "")
				}
				if got := reading(t, file, options); got != want {
					t.Errorf("%s, with %s: read as\n%s\nwant\n%s", mode, text, got, want)
				}
			}
		}
	}
}

// reading says which main limits count for requests to the domain d, and how.
func reading(t *testing.T, file string, o Options) string {
	t.Helper()
	set := mustLoad(t, file, o)
	var text strings.Builder
	d := set.Domain("d")
	fmt.Fprintln(&text, d.Match, d.Consumption)
	for _, request := range []string{"user:a", "user:a,op:b", "user:a,op:b,item:c", "user:a,op:b,item:c,more:d", "item:c"} {
		fmt.Fprintln(&text, request, matchText(t, set, "d", request))
	}
	for _, r := range set.Rules() {
		for i := range r.Limits {
			if r.Limits[i].Role == rules.Main {
				fmt.Fprintln(&text, r.ID, r.Limits[i].String())
			}
		}
	}
	return text.String()
}

// Whoever uses keys of Headgate and does not say match is told what that means.
func TestUnwrittenMatchIsSaid(t *testing.T) {
	const (
		nested = "9:7: warning: without 'match' it is leaf: a request for user.op.item is limited by what stands on line 9 and not by what stands on line 4 too"
		flat   = "3:15: warning: without 'match' it is leaf: what limits user on line 3 counts for requests that end there, and for none with further entries"
		own    = "failure_mode: open"
	)
	const flatFile = "\ndomain: d\ndescriptors: [{key: user, failure_mode: open, rate_limit: {unit: minute, requests_per_unit: 3}}]"
	above := []rules.Row{{ID: 7, Scope: "user", Active: true, LimitCount: 3, WindowMS: 60000}}
	for name, test := range map[string]struct {
		file    string
		options Options
		want    string // "" for nothing
	}{
		"keys of Envoy alone":       {withKeys("", "", ""), Options{}, ""},
		"a key on a descriptor":     {withKeys("", own, ""), Options{}, nested},
		"a key at the top":          {withKeys("answer: {body: flat}", "", ""), Options{}, nested},
		"a key in a limit":          {withKeys("", "", ", algorithm: gcra"), Options{}, nested},
		"no limit below another":    {flatFile, Options{}, flat},
		"leaf is written":           {withKeys("match: leaf", own, ""), Options{}, ""},
		"path is written":           {withKeys("match: path", own, ""), Options{}, ""},
		"read as Envoy's":           {withKeys("", own, ""), Options{Compat: true}, ""},
		"nothing is limited":        {"domain: d\nanswer: {body: flat}\ndescriptors: [{key: user}]", Options{}, ""},
		"a row joins a file":        {"domain: d\ndescriptors: [{key: user, descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 3}}]}]", Options{Rows: above, RowsDomain: "d"}, "2:41: warning: without 'match' it is leaf: a request for user.op is limited by what stands on line 2 and not by what stands on row 7 too"},
		"a row joins a written one": {"domain: d\nmatch: leaf\ndescriptors: [{key: ip, rate_limit: {unit: minute, requests_per_unit: 3}}]", Options{Rows: above, RowsDomain: "d"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			for _, w := range mustLoad(t, test.file, test.options).Warnings() {
				if strings.Contains(w.Message, "without 'match'") {
					told = append(told, w.String())
				}
			}
			switch {
			case test.want == "" && len(told) > 0 || len(told) > 1:
				t.Errorf("told %q", told)
			case test.want != "" && (len(told) == 0 || !strings.Contains(told[0], test.want)):
				t.Errorf("told %q, want %q", told, test.want)
			}
		})
	}
}
