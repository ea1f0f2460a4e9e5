package headgate

import (
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trial"
	"github.com/headgate/headgate/verdict"
)

// Candidates returns a report for each rule in force that has candidate limits, in the
// order of the rules.
func (l *Limiter) Candidates() []trial.Report {
	var reports []trial.Report
	now := limit.MicrosOf(l.now())
	for _, t := range l.inForce.Load().trials {
		if t != nil {
			reports = append(reports, t.Report(now))
		}
	}
	return reports
}

// stance says what the candidate limits of a rule are to one request.
type stance uint8

const (
	// noCandidate: there are none, or they do not take part.
	noCandidate stance = iota
	// watches: they count, and the main limits are enforced.
	watches
	// stands: they are enforced, and the main limits count.
	stands
)

// onTrial reports whether a limit of m with that role only counts what it would do.
func (m *match) onTrial(role rules.Role) bool {
	return role == rules.Candidate && m.stance == watches || role == rules.Main && m.stance == stands
}

// replacedAs returns the name by which limit i of m is replaced: candidates go with the
// first main limit.
func (m *match) replacedAs(i int) string {
	if m.Rule.Limits[i].Role == rules.Candidate {
		i = 0
	}
	return m.Rule.Limits[i].Name
}

// sameRule returns the end of the verdicts from i on that are on one rule for one
// descriptor.
func (r *Response) sameRule(i int) int {
	first := &r.Verdicts[i]
	for i++; i < len(r.Verdicts) && r.Verdicts[i].Rule == first.Rule && r.Verdicts[i].Descriptor == first.Descriptor; i++ {
	}
	return i
}

// decidedBy reports whether no enforced verdict denies but those on main limits, or on
// candidates in their place, among own.
func (r *Response) decidedBy(own span) bool {
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; v.OverLimit() && (i < own.from || i >= own.to || !v.Role.IsMain()) {
			return false
		}
	}
	return true
}

// addRetries appends, for requests that the main limits of a rule alone denied, or the
// candidate in their place, a hit on those that watch: of a group that is all or nothing
// they were not charged, though by them it would have passed.
func (p *plan) addRetries(responses []Response) {
	for i := range responses {
		if !responses[i].Allowed {
			p.addRetriesOf(&responses[i], p.spans[i].verdicts)
		}
	}
}

func (p *plan) addRetriesOf(resp *Response, s span) {
	for i, next := 0, 0; i < len(resp.Verdicts); i = next {
		next = resp.sameRule(i)
		if !p.tries(resp.Verdicts[i].Rule) || !resp.decidedBy(span{i, next}) || deniedToo(resp.Verdicts[i:next]) {
			continue
		}
		for j := i; j < next; j++ {
			t := p.verdictTake[s.from+j]
			if resp.Verdicts[j].Effect != verdict.Trial || t < 0 || slices.Contains(p.againOf, t) {
				continue
			}
			if take := p.takes[t]; take.Op == store.Hit && take.Hits > 0 && take.Shadow && take.Group != 0 && p.results[t].Err == nil {
				take.Group, take.Shadow = retryGroup+uint32(i), false
				p.addAgain(t, take)
			}
		}
	}
}

// deniedToo reports whether limits that watch are known to deny.
func deniedToo(verdicts []Verdict) bool {
	return slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Effect == verdict.Trial && v.Counted() && !v.Decision.Allowed })
}

// retryGroup is above the groups of requests.
const retryGroup = 1 << 31

// tries reports whether a rule, which may be nil, tries candidates out.
func (x *matcher) tries(r *rules.Rule) bool { return r != nil && x.rules.trials[r.Index()] != nil }

// retold takes over what was answered to retries.
func (b *batch) retold() {
	for i, t := range b.againOf {
		if r := &b.againResults[i]; b.again[i].Op == store.Hit && b.again[i].Hits > 0 && r.Err == nil {
			b.results[t] = *r
		}
	}
}

// compare counts what the request came to for each rule that tries candidates out, and
// tells verdicts of limits that watch what these answered in the end.
func (l *Limiter) compare(p *plan, resp *Response, s span) {
	for i, next := 0, 0; i < len(resp.Verdicts); i = next {
		next = resp.sameRule(i)
		r := resp.Verdicts[i].Rule
		if !p.tries(r) {
			continue
		}
		denied, candidateDenied, ok := p.contest(resp, s, span{i, next})
		if !ok || !resp.decidedBy(span{i, next}) {
			continue
		}
		t := p.rules.trials[r.Index()]
		if now := p.instant(); t.Count(denied, candidateDenied, now) && l.onRollBack != nil {
			l.onRollBack(t.Report(now))
		}
	}
}

// contest returns what the main limits of a rule and its candidate say by the verdicts on
// it, which are own. It is not ok when these are no hits, were not all counted, or are
// those of a descriptor before.
func (b *batch) contest(resp *Response, s span, own span) (denied, candidateDenied, ok bool) {
	for i := own.from; i < own.to; i++ {
		v, t := &resp.Verdicts[i], b.verdictTake[s.from+i]
		if !v.Role.IsMain() {
			continue
		}
		if t < 0 || b.takes[t].Op != store.Hit || b.takes[t].Hits == 0 || slices.Contains(b.verdictTake[s.from:s.from+own.from], t) {
			return false, false, false
		}
		if v.Effect == verdict.Trial && b.results[t].Err == nil {
			v.decide(&b.results[t].Decision, verdict.ByStore, b.results[t].Skipped)
		}
		if !v.Counted() || v.Degraded != store.NoReason {
			return false, false, false
		}
		if v.Role == rules.Candidate {
			ok, candidateDenied = true, candidateDenied || !v.Decision.Allowed
		} else {
			denied = denied || !v.Decision.Allowed
		}
	}
	return denied, candidateDenied, ok
}
