package rulefile

import (
	"strings"
	"testing"
)

// What cannot hold over several regions is refused where the rules are read.
func TestRegionsThatCannotHold(t *testing.T) {
	for keys, want := range map[string]string{
		"regions: all":                                                                                         "regions 'all' is unknown",
		"regions: shared, consistency: synced":                                                                 "shared does not go with consistency: synced",
		"regions: shared, consistency: local":                                                                  "shared does not go with consistency: local",
		"regions: shared, sub_buckets: 4":                                                                      "shared does not go with sub_buckets",
		"regions: shared, store: home":                                                                         "counts in the store of each region, and store: home is another one",
		"regions: shared, concurrency: 5":                                                                      "not for one that is concurrency",
		"regions: shared, ban: {after: 9, within: 1m, for: 1m}":                                                "not for one that is ban",
		"regions: leased":                                                                                      "failure_mode: open would let more pass",
		"regions: leased, failure_mode: local":                                                                 "failure_mode: local would let more pass",
		"regions: leased, failure_mode: closed, consistency: synced":                                           "does not go with consistency: synced",
		"regions: leased, failure_mode: closed, consistency: local":                                            "does not go with consistency: local",
		"regions: leased, failure_mode: closed, sub_buckets: 4":                                                "does not go with sub_buckets",
		"regions: leased, failure_mode: closed, concurrency: 5":                                                "not for one that is concurrency",
		"regions: leased, failure_mode: closed, ban: {after: 9, within: 1m, for: 1m}":                          "not for one that is ban",
		"regions: leased, failure_mode: closed, raise_hot_keys: {by: 20, for: 10m, pause: 1h}":                 "does not go with raise_hot_keys",
		"regions: leased, failure_mode: closed, tenant: true":                                                  "not for quotas of tenants",
		"regions: leased, failure_mode: closed, candidate: {rate_limit: {unit: minute, requests_per_unit: 2}}": "not for one that is candidate",
		"regions: leased, failure_mode: closed, schedule: [{cron: '0 22 * * *', for: 8h, factor: 0.5}]":        "does not go with a schedule",
	} {
		_, err := Load([]File{{Name: "r.yaml", Data: []byte("domain: d\nmatch: path\ndescriptors:\n- {key: k, " + keys + ", rate_limit: {unit: minute, requests_per_unit: 100}}")}}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", keys, err, want)
		}
	}
}
