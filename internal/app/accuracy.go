package app

import (
	"math"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/store/accuracy"
)

// accuracy says how exact decisions were, for each rule in force that can be measured.
func (w *watching) accuracy() view.Accuracy {
	p := w.process
	a := view.Accuracy{Share: p.settings.AccuracySample, Rules: []view.RuleAccuracy{}}
	set := p.limiter.Rules()
	if p.stack.accuracy == nil || set == nil {
		return a
	}
	nodes := p.stack.fleet.Live()
	for _, r := range set.Rules() {
		if one, ok := ruleAccuracy(r, p.stack.accuracy, p.stack.accuracy.Report(r.ID), nodes); ok {
			a.Rules = append(a.Rules, one)
		}
	}
	return a
}

// ruleAccuracy puts what by has measured of r beside what it promises, which may depend on
// the number of nodes; 0: not known. It returns false where nothing can be measured.
func ruleAccuracy(r *rules.Rule, by *accuracy.Store, measured accuracy.Report, nodes int) (view.RuleAccuracy, bool) {
	one := view.RuleAccuracy{
		Rule: r.ID, Decided: measured.Decided, WrongAllowed: measured.WrongAllowed, WrongDenied: measured.WrongDenied,
		Overshoot: measured.Recent.Overshoot, BoundText: describe.Promise(r, nodes),
	}
	var excess, approximate float64
	var added string
	add := func(l *limit.Limit) {
		reference := by.ReferenceOf(l)
		if reference == nil {
			return
		}
		if one.Reference == "" {
			one.Reference = reference.Algorithm.String()
		}
		excess = max(excess, describe.Excess(&r.Mode, l, nodes))
		if adds := accuracy.Approximation(l, reference); adds > approximate {
			approximate, added = adds, approximationText(l)
		}
	}
	for i := range r.Limits {
		if r.Limits[i].Role == rules.Main {
			add(r.Limits[i].Limit)
		}
	}
	if measured.Last != nil {
		add(measured.Last)
	}
	one.BoundText += added
	// (1 + excess) (1 + approximate) - 1: each of the nodes that exceed decides by the algorithm.
	if one.Bound = excess + approximate + excess*approximate; math.IsInf(excess, 0) {
		one.Bound = -1
	}
	return one, one.Reference != ""
}

// approximationText says what an algorithm that approximates adds to the excess that a mode promises.
func approximationText(l *limit.Limit) string {
	const beside = "; to this the bound adds what the algorithm itself lets pass beyond the limit: "
	if l.Algorithm == limit.SlidingWindow {
		return beside + "a sliding_window up to limit x (1 + t / window) in any time t"
	}
	return beside + "sub_windows up to twice the limit in any period"
}

// limitsAlike returns which rules of next limit as they did before, so that what was
// measured of them goes on. before may be nil.
func limitsAlike(before, next *rules.Set) func(rule string) bool {
	old, alike := map[string]*rules.Rule{}, map[string]bool{}
	if before != nil {
		for _, r := range before.Rules() {
			old[r.ID] = r
		}
	}
	for _, r := range next.Rules() {
		was := old[r.ID]
		alike[r.ID] = was != nil && was.Domain == r.Domain && was.Mode == r.Mode && mainText(was) == mainText(r)
	}
	return func(rule string) bool { return alike[rule] }
}

// mainText returns the main limits of r, joined.
func mainText(r *rules.Rule) (text string) {
	for i := range r.Limits {
		if r.Limits[i].Role == rules.Main {
			text += rules.LimitText(r.Limits[i].Limit) + "\n"
		}
	}
	return text
}
