package telemetry

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// TestK1CountsFollowTheModel decides and swaps rules at random, and holds what is read against
// plain counting by ID.
func TestK1CountsFollowTheModel(t *testing.T) {
	var sets []*rules.Set
	for _, keys := range []string{"ab", "ba", "bc", "d", "abcd"} {
		var text strings.Builder
		text.WriteString("domain: d\ndescriptors:\n")
		for _, key := range keys {
			fmt.Fprintf(&text, "  - {key: %c, rate_limit: {unit: minute, requests_per_unit: 1}}\n", key)
		}
		sets = append(sets, load(t, text.String()))
	}
	rapid.Check(t, func(t *rapid.T) {
		m := New(Build{}, Options{EnvoyNames: true})
		model := map[string]uint64{}
		inForce, before := sets[0], sets[0]
		m.RulesInForce(inForce, time.Unix(0, 0))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 5).Draw(t, "step") == 0 {
				before, inForce = inForce, rapid.SampledFrom(sets).Draw(t, "set")
				m.RulesInForce(inForce, time.Unix(0, 0))
				kept := idsOf(inForce)
				for id := range model {
					if !kept[id] && id != callerRule && id != outdatedRule {
						delete(model, id)
					}
				}
				continue
			}
			from := rapid.SampledFrom([]*rules.Set{inForce, inForce, before, nil}).Draw(t, "from")
			id, v := callerRule, headgate.Verdict{}
			if from != nil {
				v.Rule = rapid.SampledFrom(from.Rules()).Draw(t, "rule")
				if id = v.Rule.ID; !idsOf(inForce)[id] {
					id = outdatedRule
				}
			}
			m.Decided(&headgate.Request{}, &headgate.Response{Verdicts: []headgate.Verdict{v}}, 0)
			model[id]++
		}
		total := m.stripes.total()
		for i := range total.rules {
			if id := total.gen.id(i); total.rules[i].outcomes[verdict.Denied] != model[id] {
				t.Fatalf("%s: %d, want %d", id, total.rules[i].outcomes[verdict.Denied], model[id])
			}
		}
	})
}

func idsOf(set *rules.Set) map[string]bool {
	ids := map[string]bool{}
	for _, r := range set.Rules() {
		ids[r.ID] = true
	}
	return ids
}

// With very many rules fewer stripes are in use, and nothing is lost when their number
// changes, whoever holds one.
func TestManyRulesTakeFewerStripes(t *testing.T) {
	m := New(Build{}, Options{})
	few := load(t, twoRules)
	m.RulesInForce(few, time.Now())
	if n := int(m.stripes.active.Load()); n != len(m.stripes.all) {
		t.Fatalf("%d stripes of %d are in use", n, len(m.stripes.all))
	}
	many := make([]*rules.Rule, maxRows/len(m.stripes.all)+1)
	copy(many, few.Rules())
	for i := len(few.Rules()); i < len(many); i++ {
		many[i] = &rules.Rule{ID: fmt.Sprint(i)}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			resp := response(few)
			for range 3000 {
				m.Decided(&headgate.Request{}, &resp, time.Microsecond)
			}
		})
	}
	for range 3 {
		m.stripes.set(many)
		if n := int(m.stripes.active.Load()); n >= len(m.stripes.all) {
			t.Errorf("%d stripes are in use for %d rules", n, len(many))
		}
		m.stripes.set(few.Rules())
	}
	all.Wait()
	total := m.stripes.total()
	if n := total.requests[verdict.Denied]; n != 12_000 {
		t.Errorf("%d requests, want 12000", n)
	}
	if n := total.rules[0].outcomes[verdict.Allowed]; n != 12_000 {
		t.Errorf("%d decisions of the first rule, want 12000", n)
	}
}

// Whoever decides, collects garbage, changes the number of processors or scrapes meanwhile: no
// decision is lost and none counts twice, and a scrape sees all that were counted before it.
func TestNothingIsLostOnAnyProcessor(t *testing.T) {
	m := New(Build{}, Options{})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Now())
	const goroutines, each = 8, 5_000
	var all sync.WaitGroup
	var counted atomic.Uint64
	for g := range goroutines {
		all.Go(func() {
			resp := usual(set)
			if g%4 == 0 {
				resp = response(set)
			}
			for n := range each {
				m.Decided(&headgate.Request{}, &resp, time.Duration(n%3-1))
				counted.Add(1)
			}
		})
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for looks := 0; counted.Load() < goroutines*each; looks++ {
		before := counted.Load()
		total := m.stripes.total()
		requests, _ := total.answered()
		if after := counted.Load(); requests < before || requests > after+goroutines {
			t.Fatalf("%d requests were seen, of %d to %d", requests, before, after)
		}
		runtime.GOMAXPROCS(1 + looks%6)
		runtime.GC()
	}
	all.Wait()
	total := m.stripes.total()
	if allowed, denied := total.requests[verdict.Allowed], total.requests[verdict.Denied]; allowed != goroutines/4*3*each || denied != goroutines/4*each {
		t.Errorf("%d allowed, %d denied", allowed, denied)
	}
	for i := range 2 {
		of := uint64(0)
		for _, n := range total.rules[i].outcomes {
			of += n
		}
		if of != goroutines*each {
			t.Errorf("rule %d: %d, want %d", i, of, goroutines*each)
		}
	}
}

// Limits of the usual kind are counted by a shortcut. Next to others, and where a request is
// one of those that are looked at, they count the same.
func TestUsualLimitsCountBesideOthers(t *testing.T) {
	m := New(Build{}, Options{})
	set := load(t, twoRules)
	m.RulesInForce(set, time.Now())
	const times = 4 * sampleEvery
	for range times {
		resp := usual(set)
		resp.Verdicts[1].Degraded, resp.Verdicts[1].By = store.Timeout, verdict.ByFailureMode
		decided(m, resp)
		trial := usual(set)
		trial.Verdicts[1].Effect = verdict.Trial
		decided(m, trial)
	}
	total := m.stripes.total()
	for what, n := range map[string][2]uint64{
		"allowed, first rule":   {total.rules[0].outcomes[verdict.Allowed], 2 * times},
		"allowed, second rule":  {total.rules[1].outcomes[verdict.Allowed], 0},
		"degraded, second rule": {total.rules[1].outcomes[verdict.DegradedAllowed], times},
		"requests degraded":     {total.requests[verdict.DegradedAllowed], times},
		"requests allowed":      {total.requests[verdict.Allowed], times},
		"failed open":           {total.failOpen, times},
		"errors":                {total.errors[reasonIndex(store.Timeout)], times},
	} {
		if n[0] != n[1] {
			t.Errorf("%s: %d, want %d", what, n[0], n[1])
		}
	}
}

func TestK1BurstsRetriesAndShares(t *testing.T) {
	m := New(Build{}, Options{})
	set := load(t, `domain: d
descriptors:
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 20}}
  - {key: window, rate_limit: {unit: minute, requests_per_unit: 10}}
`)
	m.RulesInForce(set, time.Now())
	bucket, window := set.Rules()[0], set.Rules()[1]
	denies := func(r *rules.Rule, d limit.Decision) {
		decided(m, headgate.Response{Verdicts: []headgate.Verdict{{Rule: r, Limit: r.Limits[0].Limit, Decision: d}}})
	}
	expect(t, m, map[string]float64{`headgate_burst_exhausted_total{rule="d.bucket"}`: 0})
	denies(bucket, limit.Decision{Limit: 20, RetryAfter: 50 * time.Millisecond})
	denies(bucket, limit.Decision{Limit: 20, Never: true})
	denies(window, limit.Decision{Limit: 10, RetryAfter: 30 * time.Second})
	for i := range 2 * sampleEvery * len(m.stripes.all) { // wherever they are counted, some are looked at
		decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
			{Rule: window, Limit: window.Limits[0].Limit, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: int64(i % 2)}},
		}})
	}
	expect(t, m, map[string]float64{
		`headgate_burst_exhausted_total{rule="d.bucket"}`: 1,
		"headgate_retry_after_seconds_count":              2,
		"headgate_retry_after_seconds_sum":                30.05,
		`headgate_retry_after_seconds_bucket{le="0.01"}`:  0,
		`headgate_retry_after_seconds_bucket{le="0.1"}`:   1,
		`headgate_retry_after_seconds_bucket{le="30"}`:    2,

		`headgate_rule_retry_after_seconds_count{rule="d.bucket"}`:          1,
		`headgate_rule_retry_after_seconds_sum{rule="d.bucket"}`:            0.05,
		`headgate_rule_retry_after_seconds_bucket{rule="d.bucket",le="1"}`:  1,
		`headgate_rule_retry_after_seconds_count{rule="d.window"}`:          1,
		`headgate_rule_retry_after_seconds_sum{rule="d.window"}`:            30,
		`headgate_rule_retry_after_seconds_bucket{rule="d.window",le="10"}`: 0,
		`headgate_rule_retry_after_seconds_bucket{rule="d.window",le="60"}`: 1,
	})
	series := scrape(t, m)
	if _, there := series[`headgate_burst_exhausted_total{rule="d.window"}`]; there {
		t.Error("a rule without a burst has a series of bursts")
	}
	if _, there := series[`headgate_rule_remaining_ratio_count{rule="d.bucket"}`]; there {
		t.Error("a rule whose limits were not looked at has a series of what is left")
	}
	looked := series["headgate_remaining_ratio_count"]
	if n := series[`headgate_rule_remaining_ratio_count{rule="d.window"}`]; n != looked || series[`headgate_rule_remaining_ratio_bucket{rule="d.window",le="0.1"}`] != n || series[`headgate_rule_remaining_ratio_sum{rule="d.window"}`] != series["headgate_remaining_ratio_sum"] {
		t.Errorf("by rule %v were looked at, of %v", n, looked)
	}
	if looked == 0 || looked > float64(2*len(m.stripes.all)) || series[`headgate_remaining_ratio_bucket{le="0.1"}`] != looked || series["headgate_remaining_ratio_sum"] > 0.1*looked+1e-9 {
		t.Errorf("%v looked at, of which %v had a tenth or less; sum %v", looked, series[`headgate_remaining_ratio_bucket{le="0.1"}`], series["headgate_remaining_ratio_sum"])
	}
}

// Keys that became hot are counted by their rules, as long as those are in force.
func TestHotKeysFollowTheRules(t *testing.T) {
	m := New(Build{}, Options{})
	m.RulesInForce(load(t, twoRules), time.Now())
	m.HotKey("d.a")
	m.HotKey("d.b")
	m.RulesInForce(load(t, strings.ReplaceAll(twoRules, "key: b", "key: c")), time.Now())
	m.HotKey("d.a")
	m.HotKey("d.b")
	expect(t, m, map[string]float64{`headgate_hot_keys_total{rule="d.a"}`: 2, `headgate_hot_keys_total{rule="(outdated)"}`: 1})
	for _, absent := range []string{`headgate_hot_keys_total{rule="d.b"}`, `headgate_hot_keys_total{rule="d.c"}`} {
		if _, there := scrape(t, m)[absent]; there {
			t.Errorf("there is %s", absent)
		}
	}
}

// TestRequestsInTurnAreAllSampled: of decisions of some kinds that come in turn, whatever their
// number is, all kinds are looked at, about one in sampleEvery of each.
func TestRequestsInTurnAreAllSampled(t *testing.T) {
	for kinds := 1; kinds <= 64; kinds++ {
		looked := make([]int, kinds)
		const each = 100 * sampleEvery
		s := stripe{decided: ^uint32(0)} // the first one begins a group
		for n := range kinds * each {
			if s.samples() {
				looked[n%kinds]++
			}
		}
		total := 0
		for kind, n := range looked {
			if total += n; n < 50 || n > 200 {
				t.Errorf("of %d kinds in turn, kind %d was looked at %d times in %d", kinds, kind, n, each)
			}
		}
		if total != kinds*each/sampleEvery {
			t.Errorf("%d of %d were looked at", total, kinds*each)
		}
	}
}
