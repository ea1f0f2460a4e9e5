package rules

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
)

// keysOf returns the decoded keys of all limits that apply to a descriptor.
func keysOf(t *testing.T, set *Set, text string) []string {
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
	set := mustLoad(t, `
domain: d
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
`, Options{})
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
	always := Matched{Rule: set.Domain("d").Always()[0]}
	if got := keyText(t, always.AppendKey(nil, mustParse(t, "user:u"), 1)); got != "always d all= #1" {
		t.Errorf("always: %s", got)
	}
	if got := keyText(t, AppendOverrideKey(nil, "d", mustParse(t, "user:u"))); got != "caller d user=u #0" {
		t.Errorf("override: %s", got)
	}
}

// A limit that changes keeps its counters.
func TestKeyDoesNotDependOnTheLimit(t *testing.T) {
	before := mustLoad(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 1}}]", Options{})
	after := mustLoad(t, "domain: d\ndescriptors: [{key: k, name: new, rate_limit: {window: 5s, requests_per_unit: 9, algorithm: gcra}}]", Options{})
	if a, b := keysOf(t, before, "k:v"), keysOf(t, after, "k:v"); len(a) != 1 || a[0] != b[0] {
		t.Errorf("keys %v and %v", a, b)
	}
}

// The key of a tenant's quota names the entries up to the quota, whatever the rules
// below the tenant are; what stands before the tenant is named as by the rules.
func TestAppendTenantKey(t *testing.T) {
	set := mustLoad(t, `
domain: d
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
`, Options{})
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
		if got := keyText(t, Matched{m.Rule, depth}.AppendTenantKey(nil, entries, 60)); got != want {
			t.Errorf("depth %d: %s, want %s", depth, got, want)
		}
	}
	for _, text := range []string{"region:us,api_key:k", "region:eu-west", "api_key:k", ""} {
		if m, ok := d.Tenant(mustParse(t, text), time.Now); ok {
			t.Errorf("%q: tenant %+v", text, m)
		}
	}
}
