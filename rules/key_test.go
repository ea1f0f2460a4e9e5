package rules_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
)

// keysOf returns the decoded keys of all limits that apply to a descriptor.
func keysOf(t *testing.T, set *rules.Set, text string) []string {
	t.Helper()
	entries := mustParse(t, text)
	var keys []string
	for _, m := range set.Domain("d").AppendMatches(nil, entries, time.Now) {
		for i := range m.Rule.Limits {
			keys = append(keys, keyText(t, m.AppendKey(nil, entries, i)))
		}
	}
	return keys
}

// keyText shows a key as DOMAIN [KEY=VALUE]... #ORDINAL, with ~ for a pattern.
func keyText(t *testing.T, key []byte) string {
	t.Helper()
	k, err := descriptor.DecodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString([]string{"", "rule ", "always ", "caller ", "tenant "}[k.Kind])
	b.WriteString(k.Domain.String())
	for _, e := range k.Entries {
		sign := "="
		if e.Pattern {
			sign = "~"
		}
		b.WriteString(" " + e.Key.String() + sign + e.Value.String())
	}
	b.WriteString(" #" + strconv.FormatUint(k.Ordinal, 10))
	return b.String()
}

func TestAppendKey(t *testing.T) {
	set := testrules.Load(t, `
domain: d
match: path
descriptors:
  - {always: true, name: all, limits: [{unit: second, requests_per_unit: 1}, {unit: hour, requests_per_unit: 1}]}
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1}
    limits: [{unit: hour, requests_per_unit: 1}]
    descriptors:
      - key: file
        value: "files/*"
        share_threshold: true
        descriptors:
          - {key: op, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: file, value: "own/*", rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: ip, value_cidr: 10.0.0.0/8, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: ip, value_prefix: "192.", rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: ip, value_prefix: "193.", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
      - {key: model, cost: {from: entry, name: tokens}, rate_limit: {unit: minute, requests_per_unit: 1}}
`)

	for request, want := range map[string]string{
		"user:u":                          "rule d user=u #0|rule d user=u #1",
		"user:u,file:files/a,op:x":        "rule d user=u #0|rule d user=u #1|rule d user=u file~value:files/* op=x #0",
		"user:u,file:own/a":               "rule d user=u #0|rule d user=u #1|rule d user=u file=own/a #0",
		"user:u,ip:10.1.1.1":              "rule d user=u #0|rule d user=u #1|rule d user=u ip~cidr:10.0.0.0/8 #0",
		"user:u,ip:192.168.1.1":           "rule d user=u #0|rule d user=u #1|rule d user=u ip=192.168.1.1 #0",
		"user:u,ip:193.1.1.1":             "rule d user=u #0|rule d user=u #1|rule d user=u ip~prefix:193. #0",
		"tokens:5,user:u,tokens:6,model:": "rule d user=u #0|rule d user=u #1|rule d user=u model= #0",
	} {
		if got := strings.Join(keysOf(t, set, request), "|"); got != want {
			t.Errorf("%s: keys\n%s, want\n%s", request, got, want)
		}
	}
	always := rules.Matched{Rule: set.Domain("d").Always[0]}
	if got := keyText(t, always.AppendKey(nil, mustParse(t, "user:u"), 1)); got != "always d all= #1" {
		t.Errorf("always: %s", got)
	}
	if got := keyText(t, rules.AppendOverrideKey(nil, "d", mustParse(t, "user:u"), 0)); got != "caller d user=u #0" {
		t.Errorf("override: %s", got)
	}
}

// A limit that changes keeps its counters.
func TestKeyDoesNotDependOnTheLimit(t *testing.T) {
	before := testrules.Load(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 1}}]")
	after := testrules.Load(t, "domain: d\nmatch: path\ndescriptors: [{key: k, name: new, rate_limit: {window: 5s, requests_per_unit: 9, algorithm: gcra}}]")
	if a, b := keysOf(t, before, "k:v"), keysOf(t, after, "k:v"); len(a) != 1 || a[0] != b[0] {
		t.Errorf("keys %v and %v", a, b)
	}
}

// The key of a tenant's quota names the entries up to the quota, whatever the rules
// below the tenant are; what stands before the tenant is named as by the rules.
func TestAppendTenantKey(t *testing.T) {
	set := testrules.Load(t, `
domain: d
match: path
descriptors:
  - key: region
    value: "eu*"
    share_threshold: true
    descriptors:
      - key: api_key
        tenant: true
        rate_limit: {unit: minute, requests_per_unit: 1}
        descriptors:
          - {key: op, value: "w*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: size, rate_limit: {unit: minute, requests_per_unit: 1}, cost: {from: entry, name: bytes}}
`)

	d := set.Domain("d")
	entries := mustParse(t, "bytes:7,region:eu-west,api_key:k,bytes:9,op:write,more:x")
	m, ok := d.Tenant(entries, time.Now)
	if !ok || m.Rule.ID != "d.region_eu*.api_key" || m.Depth != 3 {
		t.Fatalf("tenant: %+v, %t", m, ok)
	}
	for depth, want := range map[int]string{
		3: "tenant d region~value:eu* api_key=k #60",
		4: "tenant d region~value:eu* api_key=k #60",
		5: "tenant d region~value:eu* api_key=k op=write #60",
		6: "tenant d region~value:eu* api_key=k op=write more=x #60",
	} {
		if got := keyText(t, rules.Matched{m.Rule, depth}.AppendTenantKey(nil, entries, 60)); got != want {
			t.Errorf("depth %d: %s, want %s", depth, got, want)
		}
	}
	for _, text := range []string{"region:us,api_key:k", "region:eu-west", "api_key:k", ""} {
		if m, ok := d.Tenant(mustParse(t, text), time.Now); ok {
			t.Errorf("%q: tenant %+v", text, m)
		}
	}
}

func TestHoldEntriesTakeNoPartInMatching(t *testing.T) {
	set := testrules.Load(t, `
domain: d
match: path
descriptors:
- {key: user, concurrency: 20, descriptors: [{key: route, concurrency: {hold: id}}]}
- {key: model, cost: {from: entry, name: tokens}, concurrency: {hold: id}}
- {key: job, secondary_limits: [{concurrency: 5, over: 1m}]}
- {key: other, rate_limit: {unit: minute, requests_per_unit: 5}}
`)

	for i, want := range []string{"id", "id", "id", "id", ""} {
		if r := set.Rules()[i]; r.HoldEntry != want {
			t.Errorf("rule %s is held by %q, want %q", r.ID, r.HoldEntry, want)
		}
	}
	for request, want := range map[string]string{
		"user:u":                 "rule d user=u #16777216",
		"user:u,id:1":            "rule d user=u #16777216",
		"id:1,user:u,id:2":       "rule d user=u #16777216",
		"user:u,id:1,route:r":    "rule d user=u #16777216|rule d user=u route=r #16777216",
		"other:x,id:1":           "rule d other=x #0",
		"id:1":                   "",
		"model:m,tokens:5":       "rule d model=m #16777216",
		"tokens:7,model:m,id:42": "rule d model=m #16777216",
	} {
		if got := strings.Join(keysOf(t, set, request), "|"); got != want {
			t.Errorf("%s: keys %s, want %s", request, got, want)
		}
	}
	text := describe.Explain(set, "d", mustParse(t, "id:1,tokens:2,user:u"), time.Time{}).String()
	for _, want := range []string{
		"a rule of the domain names the request by this entry, so it takes no part in matching",
		"a rule of the domain takes its cost from this entry", "applies: d.user", "20 in flight, timeout 1m", "held by entry id", "counted for user:u\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the explanation lacks %q:\n%s", want, text)
		}
	}
}

// The keys of one role do not move when limits of another come and go, and no two
// limits of a rule share one.
func TestKeysCarryTheirRole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string, most int) int { return rapid.IntRange(0, most).Draw(t, label) }
		var secondary []string
		for i := range draw("secondary", 5) {
			secondary = append(secondary, rapid.SampledFrom([]string{
				"{unit: hour, requests_per_unit: 5}", fmt.Sprintf("{name: s%d, unit: hour, requests_per_unit: 5}", i), "{concurrency: 5, over: 1m}",
			}).Draw(t, "entry"))
		}
		keys := func(mains int, concurrency, ban bool) map[string]bool {
			file := "domain: d\nmatch: path\ndescriptors:\n- key: k\n  limits: [" + strings.Repeat("{unit: minute, requests_per_unit: 5},", mains) + "]\n  secondary_limits: [" + strings.Join(secondary, ",") + "]\n"
			if concurrency {
				file += "  concurrency: 5\n"
			}
			if ban {
				file += "  ban: {after: 5, within: 1m, for: 1m}\n"
			}
			set := testrules.Load(t, file)
			found := make(map[string]bool)
			entries := []descriptor.Entry{{Key: "k", Value: "v"}}
			for _, m := range set.Domain("d").AppendMatches(nil, entries, time.Now) {
				for i := range m.Rule.Limits {
					found[string(m.AppendKey(nil, entries, i))] = true
				}
				if len(found) != len(m.Rule.Limits) {
					t.Fatalf("%d keys of %d limits: %s", len(found), len(m.Rule.Limits), describe.Summary(m.Rule))
				}
			}
			return found
		}
		mains := 1 + draw("mains", 3)
		few, many := keys(mains, false, false), keys(mains+draw("more", 3), true, true)
		for key := range few {
			if !many[key] {
				t.Fatalf("the key %q has moved", key)
			}
		}
	})
}

// Buckets outlive restarts: these bytes are what stores have.
func TestRecordedKeys(t *testing.T) {
	set := testrules.Load(t, `
domain: d
match: path
descriptors:
- key: k
  limits: [{unit: minute, requests_per_unit: 5}, {unit: hour, requests_per_unit: 5}]
  concurrency: 5
  secondary_limits: [{unit: day, requests_per_unit: 5}, {concurrency: 1, over: 1m}, {unit: day, requests_per_unit: 6}]
  ban: {after: 5, within: 1m, for: 1m}
`)

	entries := mustParse(t, "k:v")
	m := set.Domain("d").AppendMatches(nil, entries, time.Now)[0]
	for i, want := range []string{"\x00", "\x01", "\x80\x80\x80\x08", "\x80\x80\x80\x10", "\x80\x80\x80\x18", "\x81\x80\x80\x10", "\x80\x80\x80\x20"} {
		if got := string(m.AppendKey(nil, entries, i)); got != "\x01\x01\x01d\x01\x01k\x01v\x00"+want {
			t.Errorf("limit %d, %v: key %q, want it to end in %q", i, m.Rule.Limits[i].Role, got, want)
		}
	}
}
