package telemetry

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/verdict"
)

// lookEvery is how often the counters are looked at for rates and latencies.
const lookEvery = time.Second

// history is what the counters were of late. It holds 36 bytes for each rule and second
// of view.RateSpan, and 2 KiB for each second of view.LatencySpan.
type history struct {
	mu        sync.Mutex
	rates     past[ratesThen]
	latencies past[cellCounts]
	calls     past[shardCalls] // of the servers of stores
}

// ratesThen is what rates are differences from.
type ratesThen struct {
	requests [verdict.Outcomes]uint64
	gen      *generation
	rules    [][verdict.OfLimits]uint32 // by row of gen; the numbers wrap around
	tiers    []tierCounts               // by the numbers of tiers
}

// past is values of the last span, the oldest first, and one that is older.
type past[T any] []then[T]

// then is a value, and when it was one.
type then[T any] struct {
	at    time.Time
	value T
}

// note adds the value at now, and forgets what is no more needed to look back by span.
func (p *past[T]) note(now time.Time, value T, span time.Duration) {
	*p = append(*p, then[T]{now, value})
	needless := 0
	for needless+1 < len(*p) && (now.Sub((*p)[needless+1].at) >= span || len(*p)-needless > int(span/lookEvery)+2) {
		needless++
	}
	*p = slices.Delete(*p, 0, needless)
}

// before returns the value that is span old at now, or the oldest there is; nil if there
// is none.
func (p past[T]) before(now time.Time, span time.Duration) *then[T] {
	var found *then[T]
	for i := range p {
		if found == nil || now.Sub(p[i].at) >= span {
			found = &p[i]
		}
	}
	return found
}

// Run looks at the counters once a second, which the rates and latencies of Overview
// come from, until ctx ends.
func (m *Metrics) Run(ctx context.Context) {
	m.look(time.Now())
	for range sleep.Every(ctx, lookEvery) {
		m.look(time.Now())
	}
}

// look notes what the counters are at now.
func (m *Metrics) look(now time.Time) {
	t := m.stripes.total()
	rates := ratesThen{requests: t.requests, gen: t.gen, tiers: t.tiers, rules: make([][verdict.OfLimits]uint32, len(t.rules))}
	for i := range t.rules {
		for o, n := range t.rules[i].outcomes {
			rates.rules[i][o] = uint32(n)
		}
	}
	var calls shardCalls
	if m.shards != nil {
		calls = callsOf(m.shards())
	}
	m.history.mu.Lock()
	defer m.history.mu.Unlock()
	m.history.rates.note(now, rates, view.RateSpan)
	m.history.latencies.note(now, t.cells, view.LatencySpan)
	if m.shards != nil {
		m.history.calls.note(now, calls, view.LatencySpan)
	}
}

// Overview fills in Requests, Rates, Latency, Tiers, and Rules, of which there are maxRules at
// most; RulesMore says how many more there would be. Rates and latencies are 0 until Run
// has begun.
func (m *Metrics) Overview(o *view.Overview, maxRules int) { m.overview(o, maxRules, time.Now()) }

func (m *Metrics) overview(o *view.Overview, maxRules int, now time.Time) {
	m.history.mu.Lock()
	defer m.history.mu.Unlock()
	t := m.stripes.total() // with the lock held: what is remembered is no later
	o.Requests = requestsOf(func(i verdict.Outcome) float64 { return float64(t.requests[i]) })
	var perSecond func(row int) view.Outcomes
	var tiers []tierCounts
	elapsed := 0.0
	if base := m.history.rates.before(now, view.RateSpan); base != nil {
		elapsed = max(now.Sub(base.at), lookEvery).Seconds()
		tiers = base.value.tiers
		o.Rates = requestsOf(func(i verdict.Outcome) float64 { return float64(t.requests[i]-base.value.requests[i]) / elapsed })
		perSecond = func(row int) view.Outcomes {
			was := base.value.of(t.gen, row)
			return outcomesOf(func(o verdict.Outcome) float64 { return float64(uint32(t.rules[row].outcomes[o])-was[o]) / elapsed })
		}
	}
	o.Rules, o.RulesMore = busiest(t, maxRules, perSecond)
	o.Tiers = tiersOf(t, tiers, elapsed)
	if base := m.history.latencies.before(now, view.LatencySpan); base != nil {
		o.Latency = latencyOf(&t.cells, &base.value)
	}
}

// of returns what a row of gen was then: of the rule with the same ID, nothing where
// there was none.
func (r *ratesThen) of(gen *generation, row int) (was [verdict.OfLimits]uint32) {
	if r.gen == gen {
		return r.rules[row]
	}
	switch row {
	case gen.caller():
		return r.rules[r.gen.caller()]
	case gen.outdated():
		return r.rules[r.gen.outdated()]
	}
	if then, known := r.gen.byID[gen.rules[row].ID]; known {
		return r.rules[then]
	}
	return was
}

// busiest returns the rules with the most decisions per second, of equals those with the
// most since start, and how many are left out. What stands for no rule is among them
// where it has counted something. perSecond is nil while there are no rates.
func busiest(t *totals, most int, perSecond func(row int) view.Outcomes) (all []view.Rule, more int) {
	all = make([]view.Rule, 0, len(t.rules))
	for row := range t.rules {
		one := view.Rule{ID: t.gen.id(row), Outcomes: outcomesOf(func(o verdict.Outcome) float64 { return float64(t.rules[row].outcomes[o]) })}
		if row >= len(t.gen.rules) && decisions(&one.Outcomes) == 0 {
			continue
		}
		if perSecond != nil {
			one.Rates = perSecond(row)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b view.Rule) int {
		return cmp.Or(cmp.Compare(decisions(&b.Rates), decisions(&a.Rates)), cmp.Compare(decisions(&b.Outcomes), decisions(&a.Outcomes)), cmp.Compare(a.ID, b.ID))
	})
	shown := min(len(all), max(most, 0))
	return slices.Clip(all[:shown]), len(all) - shown
}

func decisions(o *view.Outcomes) float64 {
	return o.Allowed + o.Denied + o.ShadowDenied + o.Replaced + o.DegradedAllowed + o.DegradedDenied + o.LocalAllowed + o.LocalDenied + o.OpenDenied + o.Skipped
}

// latencyOf returns the quantiles of what was counted since base.
func latencyOf(now, base *cellCounts) view.Latency {
	var of cellCounts
	count := uint64(0)
	for i := range of {
		of[i] = now[i] - base[i]
		count += of[i]
	}
	return view.Latency{P50: of.quantile(0.5), P90: of.quantile(0.9), P99: of.quantile(0.99), Count: count}
}

func requestsOf(value func(verdict.Outcome) float64) view.Requests {
	return view.Requests{
		Allowed: value(verdict.Allowed), Denied: value(verdict.Denied),
		DegradedAllowed: value(verdict.DegradedAllowed), DegradedDenied: value(verdict.DegradedDenied),
		Unmatched: value(verdict.Unmatched), UnknownDomain: value(verdict.UnknownDomain),
	}
}

func outcomesOf(value func(verdict.Outcome) float64) view.Outcomes {
	return view.Outcomes{
		Allowed: value(verdict.Allowed), Denied: value(verdict.Denied), ShadowDenied: value(verdict.ShadowDenied), Replaced: value(verdict.Replaced),
		DegradedAllowed: value(verdict.DegradedAllowed), DegradedDenied: value(verdict.DegradedDenied),
		LocalAllowed: value(verdict.LocalAllowed), LocalDenied: value(verdict.LocalDenied), OpenDenied: value(verdict.OpenDenied), Skipped: value(verdict.Skipped),
	}
}
