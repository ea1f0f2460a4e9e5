package rulefile

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
)

// upper is a Namer whose names are the keys in capitals. Of a value that is in capitals
// already it is not known whether it is one.
type upper struct{}

func (upper) Names(e descriptor.Entry) []descriptor.Entry {
	if e.Key != "key" && e.Key != "api_key" {
		return nil
	}
	name := strings.ToUpper(e.Value)
	names := []descriptor.Entry{{Key: "api_key", Value: name + strings.Repeat("!", min(1, len(name)))}}
	if e.Value != "" && name == e.Value {
		names = append(names, descriptor.Entry{Key: "api_key", Value: e.Value})
	}
	return names
}

func TestSecretsAreMatchedByTheirNames(t *testing.T) {
	for _, compat := range []bool{false, true} {
		set, err := Load([]File{{Name: "rules.yaml", Data: []byte(`
domain: d
descriptors:
  - {key: key, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: api_key
    value: abc
    descriptors: [{key: op, value: abc, rate_limit: {unit: day, requests_per_unit: 2}}]
  - {key: api_key, value: NAME, rate_limit: {unit: day, requests_per_unit: 3}}
`)}}, Options{Compat: compat, Names: upper{}})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]int64{"api_key:XYZ!": 1, "api_key:ABC!,op:abc": 2, "api_key:NAME": 3, "api_key:NAME!": 3, "api_key:NAMES": 1, "api_key:ABC!": 0, "key:abc": 0} {
			entries, err := descriptor.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			var got int64
			for _, m := range set.Domain("d").AppendMatches(nil, entries, time.Now) {
				got = m.Rule.Limits[0].Limit.Quota
			}
			if got != want {
				t.Errorf("compat %t: %s is limited by %d, want %d", compat, text, got, want)
			}
		}
		for _, r := range set.Rules() {
			if strings.Contains(r.ID, "key_abc") {
				t.Errorf("the secret stands in the name of the rule %s", r.ID)
			}
		}
	}
}

func TestSecretsOfCandidates(t *testing.T) {
	set, err := Load([]File{{Name: "rules.yaml", Data: []byte(`
domain: d
descriptors:
  - key: api_key
    rate_limit: {unit: day, requests_per_unit: 9}
    candidate: {rate_limit: {unit: day, requests_per_unit: 1}, tenants: ["api_key:abc", "org:abc"]}
`)}}, Options{Names: upper{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := descriptor.Format(set.Rules()[0].Trial.Tenants); got != "api_key:ABC!,org:abc" {
		t.Errorf("enforced for %s", got)
	}
}

// TestPatternsOfSecretsAreRefused: they could never fit, and the limit would silently
// not be there.
func TestPatternsOfSecretsAreRefused(t *testing.T) {
	for _, value := range []string{"value: sk_*", "value_prefix: sk_", "value_regex: sk_.+", "value_cidr: 10.0.0.0/8"} {
		text := []byte("domain: d\ndescriptors:\n  - key: api_key\n    " + value + "\n    rate_limit: {unit: day, requests_per_unit: 1}\n")
		if _, err := Load([]File{{Name: "rules.yaml", Data: text}}, Options{}); err != nil {
			t.Errorf("%s without names: %v", value, err)
		}
		_, err := Load([]File{{Name: "rules.yaml", Data: text}}, Options{Names: upper{}})
		if err == nil || !strings.Contains(err.Error(), "rules.yaml:4:") || !strings.Contains(err.Error(), "hashed before they are matched") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
