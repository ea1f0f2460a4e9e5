package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/verdict"
)

// maxTiers bounds the tiers that are told apart, those that are no longer in force among
// them; a set has 256 at most. All others are otherTiers.
const maxTiers = 512

// otherTiers stands for tiers beyond maxTiers. No name of a tier has a parenthesis.
const otherTiers = "(other)"

var (
	tierDecisions = prometheus.NewDesc("headgate_tier_decisions_total",
		"Quotas of tenants decided, by tier and outcome (allowed, denied).", []string{"tier", "outcome"}, nil)
	tierUsed = prometheus.NewDesc("headgate_tier_used_ratio",
		"Share of their quotas that tenants have used after a request, of one request in 16, by tier.", []string{"tier"}, nil)
)

// tierCounts is what the quotas of the tenants of one tier have said.
type tierCounts struct {
	allowed, denied uint64
	// looked are the decisions whose use was looked at, and used is the sum of the
	// shares.
	looked uint64
	used   float64
}

func (c *tierCounts) add(other *tierCounts) {
	c.allowed += other.allowed
	c.denied += other.denied
	c.looked += other.looked
	c.used += other.used
}

// share returns the mean share that was used since then, -1 where nothing was looked at.
func (c *tierCounts) share(then *tierCounts) float64 {
	if c.looked == then.looked {
		return -1
	}
	return (c.used - then.used) / float64(c.looked-then.looked)
}

// tierNumbers numbers tiers in the order in which they are seen; 0 is otherTiers.
type tierNumbers struct {
	byName atomic.Pointer[map[string]int]
	add    sync.Mutex
}

func (t *tierNumbers) open() { t.byName.Store(&map[string]int{otherTiers: 0}) }

// of returns the number of a tier.
func (t *tierNumbers) of(name string) int {
	known := *t.byName.Load()
	if n, ok := known[name]; ok || len(known) > maxTiers {
		return n
	}
	t.add.Lock()
	defer t.add.Unlock()
	known = *t.byName.Load()
	if n, ok := known[name]; ok || len(known) > maxTiers {
		return n
	}
	more := maps.Clone(known)
	more[name] = len(known)
	t.byName.Store(&more)
	return len(known)
}

// names returns the tiers by their numbers.
func (t *tierNumbers) names() []string {
	known := *t.byName.Load()
	names := make([]string, len(known))
	for name, n := range known {
		names[n] = name
	}
	return names
}

// countTier counts what the quota of a tenant has said, if it was counted for it.
func (s *stripe) countTier(o verdict.Outcome, v *headgate.Verdict, sampled bool) {
	if !v.Role.IsMain() || !v.Counted() || o != verdict.Allowed && o != verdict.Denied && o != verdict.LocalAllowed && o != verdict.LocalDenied {
		return
	}
	n := s.numbers.of(v.Tier)
	if n >= len(s.tiers) {
		s.tiers = append(s.tiers, make([]tierCounts, n+1-len(s.tiers))...)
	}
	c := &s.tiers[n]
	if v.OverLimit() {
		c.denied++
	} else {
		c.allowed++
	}
	if sampled && v.Decision.Limit > 0 && !v.Source.Beyond() {
		c.looked++
		c.used += 1 - float64(v.Decision.Remaining)/float64(v.Decision.Limit)
	}
}

// addTiers adds counts to those of total, which grows.
func addTiers(total, counts []tierCounts) []tierCounts {
	if len(counts) > len(total) {
		total = append(total, make([]tierCounts, len(counts)-len(total))...)
	}
	for i := range counts {
		total[i].add(&counts[i])
	}
	return total
}

// collectTiers makes the series of tiers that have counted something.
func collectTiers(ch chan<- prometheus.Metric, t *totals) {
	for i := range t.tiers {
		c, name := &t.tiers[i], t.tierNames[i]
		if c.allowed+c.denied == 0 {
			continue
		}
		ch <- total(tierDecisions, c.allowed, name, "allowed")
		ch <- total(tierDecisions, c.denied, name, "denied")
		ch <- prometheus.MustNewConstSummary(tierUsed, c.looked, c.used, nil, name)
	}
}

// tiersOf returns what operators see of tiers, by name. base is what they were elapsed
// seconds ago.
func tiersOf(t *totals, base []tierCounts, elapsed float64) []view.Tier {
	all := []view.Tier{}
	for i := range t.tiers {
		c, then := &t.tiers[i], tierCounts{}
		if i < len(base) {
			then = base[i]
		}
		if c.allowed+c.denied == 0 {
			continue
		}
		one := view.Tier{Tier: t.tierNames[i], Allowed: float64(c.allowed), Denied: float64(c.denied), Used: c.share(&then)}
		if elapsed > 0 {
			one.AllowedRate, one.DeniedRate = float64(c.allowed-then.allowed)/elapsed, float64(c.denied-then.denied)/elapsed
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b view.Tier) int { return cmp.Compare(a.Tier, b.Tier) })
	return all
}
