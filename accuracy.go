package headgate

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// AccuracySpan is the time up to now that AccuracyReport.Recent is of; its oldest part, a
// sixtieth, counts whole.
const AccuracySpan = time.Hour

const accuracyParts = 60

// AccuracyReport says how exact the decisions of the main limits of a rule were on this
// node, for the keys that are sampled (Options.AccuracySample). Quotas of tenants in
// their place are among them; candidates, and main limits in whose place a candidate is
// enforced, are not, nor limits that count denied hits, and that callers name.
type AccuracyReport struct {
	// Rule is the ID of the rule, Domain its domain.
	Rule, Domain string
	// AccuracyCounts are those since the rule was first in force with these limits.
	AccuracyCounts
	// Recent are those of AccuracySpan.
	Recent AccuracyCounts
	// Bound is the most Overshoot that the rule promises while the store answers, -1 where
	// that is not known: it depends on the number of nodes (Options.Nodes).
	Bound float64
	// BoundText is the promise in words.
	BoundText string
	// Reference is the algorithm that decisions are compared with: sliding_log for a
	// sliding_window with a quota of MaxReferenceLog at most, else that of the limit
	// itself, decided exactly in the store.
	Reference string
}

// AccuracyCounts are decisions of limits that were compared with those of a reference,
// which counts what they let pass.
type AccuracyCounts struct {
	// Decided are the decisions that were compared: what passed, and what no limit of
	// another rule or kind denied too.
	Decided int64
	// WrongAllowed are those that passed and the reference would have denied,
	// WrongDenied those that it would have let pass.
	WrongAllowed, WrongDenied int64
	// Missed are decisions of which the reference did not see what passed, since the
	// store did not answer.
	Missed int64
	// Overshoot is the most hits beyond a limit that the reference saw pass, as a share
	// of what the limit admits at one instant; up to 3 where the Reference is a
	// sliding_log, else up to 60 at least.
	Overshoot float64
}

// add adds what else was compared.
func (c *AccuracyCounts) add(o *AccuracyCounts) {
	c.Decided += o.Decided
	c.WrongAllowed += o.WrongAllowed
	c.WrongDenied += o.WrongDenied
	c.Missed += o.Missed
	c.Overshoot = max(c.Overshoot, o.Overshoot)
}

// Accuracy returns a report for each rule in force whose limits can be measured, in the
// order of the rules; none where Options.AccuracySample is 0.
func (l *Limiter) Accuracy() []AccuracyReport {
	if l.accuracy == nil {
		return nil
	}
	var reports []AccuracyReport
	inForce, now := l.inForce.Load(), limit.MicrosOf(l.now())
	for i, g := range inForce.gauges {
		if report, ok := l.accuracy.report(inForce.rules[i], g, now); ok {
			reports = append(reports, report)
		}
	}
	return reports
}

// accuracy is what a Limiter measures by; nil: it does not.
type accuracy struct {
	sample sample
	nodes  func() int // may be nil
	references
}

// newAccuracy returns nil where nothing is to be measured.
func newAccuracy(o *Options) (*accuracy, error) {
	switch share := o.AccuracySample; {
	case share == 0:
		return nil, nil
	case share > 0 && share <= 1:
		return &accuracy{sample: sampleOf(share), nodes: o.Nodes}, nil
	default:
		return nil, fmt.Errorf("new limiter: accuracy sample %v; hint: a share of keys from 0 to 1, such as 0.01", share)
	}
}

// report returns what is known at now of r, and false where nothing can be.
func (a *accuracy) report(r *rules.Rule, g *gauge, now limit.Micros) (AccuracyReport, bool) {
	report := AccuracyReport{Rule: r.ID, Domain: r.Domain}
	var last *reference
	report.AccuracyCounts, report.Recent, last = g.read(now)
	var measured []*reference
	for i := range r.Limits {
		if r.Limits[i].Role == rules.Main {
			measured = append(measured, a.of(r.Limits[i].Limit))
		}
	}
	measured = slices.DeleteFunc(append(measured, last), func(ref *reference) bool { return ref == nil })
	if len(measured) == 0 {
		return AccuracyReport{}, false
	}
	nodes := 0
	if a.nodes != nil {
		nodes = a.nodes()
	}
	report.Reference, report.BoundText = measured[0].exact.Algorithm.String(), r.Promise(nodes)
	var excess, approximate float64
	for _, ref := range measured {
		excess = max(excess, r.Mode.Excess(ref.limit, nodes))
		if ref.approximated() {
			approximate = 1 // limit x (1 + t / window) in any time t, so of t = window
		}
	}
	if approximate > 0 {
		report.BoundText += "; a sliding_window lets up to limit x (1 + t / window) pass in any time t"
	}
	if report.Bound = excess + approximate; math.IsInf(excess, 0) {
		report.Bound = -1
	}
	return report, true
}

// gauge is what one node has measured of the limits of a rule.
type gauge struct {
	mu    sync.Mutex
	total AccuracyCounts
	// parts are by their number, modulo. It is nil before anything was compared: of many
	// thousand rules, each of which would have 3 KB, few are.
	parts *[accuracyParts]accuracyPart
	// last is what was compared with last; nil: nothing was.
	last *reference
}

// accuracyPart is what was measured in a part of AccuracySpan, which has a number.
type accuracyPart struct {
	number int64
	counts AccuracyCounts
}

func accuracyPartAt(now limit.Micros) int64 {
	return max(int64(now), 0) / (AccuracySpan.Microseconds() / accuracyParts)
}

// add counts what was compared with ref.
func (g *gauge) add(counts *AccuracyCounts, ref *reference, now limit.Micros) {
	number := accuracyPartAt(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parts == nil {
		g.parts = new([accuracyParts]accuracyPart)
	}
	part := &g.parts[number%accuracyParts]
	if part.number != number {
		*part = accuracyPart{number: number}
	}
	part.counts.add(counts)
	g.total.add(counts)
	g.last = ref
}

// read returns all that is counted, what is counted of the span up to now, and what was
// compared with last.
func (g *gauge) read(now limit.Micros) (total, recent AccuracyCounts, last *reference) {
	number := accuracyPartAt(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parts == nil {
		return g.total, recent, g.last
	}
	for i := range g.parts {
		if part := &g.parts[i]; part.number > number-accuracyParts && part.number <= number {
			recent.add(&part.counts)
		}
	}
	return g.total, recent, g.last
}

// sameMeasure reports whether what was measured of rule a goes on with b.
func sameMeasure(a, b *rules.Rule) bool {
	return a.ID == b.ID && a.Domain == b.Domain && a.Mode == b.Mode && limitsText(a, rules.Main) == limitsText(b, rules.Main)
}

// gaugesOf returns the gauges of a list of rules by their index: those of the rules
// before that limit alike go on. before may be nil.
func gaugesOf(list []*rules.Rule, before *ruleset) []*gauge {
	old := make(map[string]int)
	if before != nil {
		for i, r := range before.rules {
			old[r.ID] = i
		}
	}
	gauges := make([]*gauge, len(list))
	for i, r := range list {
		if j, ok := old[r.ID]; ok && sameMeasure(before.rules[j], r) {
			gauges[i] = before.gauges[j]
		} else {
			gauges[i] = new(gauge)
		}
	}
	return gauges
}
