package rules_test

import (
	"testing"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
)

func TestCostOf(t *testing.T) {
	c := rules.Cost{Source: rules.CostAttribute, Name: "content_length", Max: 100}
	for value, want := range map[string]int64{
		"0": 0, "7": 7, "100": 100, "101": 100, "007": 7,
		"99999999999999999999999999": 100, "18446744073709551615": 100,
		"": 1, "-1": 1, "-99999999999999999999999999": 1, "1.5": 1, "seven": 1, " 7": 1, "0x10": 1,
	} {
		if got := c.Of(value); got != want {
			t.Errorf("cost of %q is %d, want %d", value, got, want)
		}
	}
}

func TestCostSources(t *testing.T) {
	for text, want := range map[string]string{
		"{from: hits}":                            "hits",
		"{from: entry, name: tokens, max: 5}":     "entry:tokens, at most 5",
		"{from: content_length}":                  "content_length",
		"{from: header, name: X-Cost}":            "header:x-cost",
		"{from: claim, name: Plan, max: 9999999}": "claim:Plan, at most 9999999",
	} {
		set := testrules.Load(t, "domain: d\ndescriptors: [{key: k, cost: "+text+", rate_limit: {unit: minute, requests_per_unit: 1}}]")
		if got := set.Rules()[0].Cost.String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
