package headgate

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
)

// CandidateReport says how the candidate limits of a rule compare with its main ones on
// this node. Requests count that the rule alone decided: neither another rule nor a
// limit of another kind denied them, as far as these were looked at, and the store did
// not fail.
type CandidateReport struct {
	// Rule is the ID of the rule, Domain its domain.
	Rule, Domain string
	// Limits are the main limits and Candidate the candidate ones, as people read them.
	Limits, Candidate string
	// Percent and Tenants say for whom the candidate is enforced in place of the main
	// limits; the caller must not change Tenants.
	Percent int
	Tenants []descriptor.Entry
	// Over is the span of time up to now that the counts are of; the oldest part of
	// it, a sixtieth, counts whole.
	Over time.Duration
	// Decided are the requests in that time, Denied those that the main limits deny
	// and CandidateDenied those that the candidate denies, whichever is enforced.
	Decided, Denied, CandidateDenied int64
	// Added are those that the candidate alone denies, Avoided those that the main
	// limits alone do.
	Added, Avoided int64
	// AddedPercent is Added as a share of Decided, 0 when there is none.
	AddedPercent float64
	// RolledBack is when this node stopped enforcing the candidate by itself; zero if
	// it did not.
	RolledBack time.Time
}

// Candidates returns a report for each rule in force that has candidate limits, in the
// order of the rules.
func (l *Limiter) Candidates() []CandidateReport {
	var reports []CandidateReport
	inForce, now := l.inForce.Load(), limit.MicrosOf(l.now())
	for i, t := range inForce.trials {
		if t != nil {
			reports = append(reports, t.report(inForce.rules[i], now))
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

// stanceOf returns what the candidate limits of m are to the request being planned.
func (p *plan) stanceOf(m *match) stance {
	t := p.rules.trials[m.Rule.Index()]
	if t == nil || m.quota != nil {
		return noCandidate
	}
	asked := p.askedFor(m)
	state, switched := p.switches.OfCandidate(asked)
	switch {
	case switched && state == switches.Off:
		return noCandidate
	case switched && state == switches.Shadow, t.rolledBack.Load() != 0 && !switched:
		return watches
	}
	trial := m.Rule.Trial
	if asked.Share < trial.Percent || slices.ContainsFunc(p.request.Descriptors[m.descriptor].Entries, func(e descriptor.Entry) bool {
		return slices.Contains(trial.Tenants, e)
	}) {
		return stands
	}
	return watches
}

// watched reports whether a limit of m with that role only counts what it would do.
func (m *match) watched(role rules.Role) bool {
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

// trialParts is how many parts the span of a trial has.
const trialParts = 60

// trial is what one node has counted for the candidate of a rule.
type trial struct {
	// rolledBack is the limit.Micros at which the candidate was taken back, 0 if it
	// was not.
	rolledBack atomic.Int64

	mu    sync.Mutex
	parts [trialParts]tally // by the number of the part, modulo
	sum   tally
	part  int64 // the number of the latest part
	begun bool
}

// tally is what requests in a trial came to.
type tally struct{ decided, denied, candidateDenied, added, avoided int64 }

// add adds n times o.
func (t *tally) add(o tally, n int64) {
	t.decided += n * o.decided
	t.denied += n * o.denied
	t.candidateDenied += n * o.candidateDenied
	t.added += n * o.added
	t.avoided += n * o.avoided
}

// outcome returns the tally of one request.
func outcome(denied, candidateDenied bool) tally {
	t := tally{decided: 1}
	switch {
	case denied && candidateDenied:
		t.denied, t.candidateDenied = 1, 1
	case denied:
		t.denied, t.avoided = 1, 1
	case candidateDenied:
		t.candidateDenied, t.added = 1, 1
	}
	return t
}

// countedLocked returns what is counted in the span up to now. A clock that steps back
// counts into the latest part; one that steps back by a span or more begins anew.
func (t *trial) countedLocked(now limit.Micros, over time.Duration) *tally {
	part := int64(now) / max(over.Microseconds()/trialParts, 1)
	if gone := part - t.part; !t.begun || gone >= trialParts || gone <= -trialParts {
		t.parts, t.sum, t.begun, t.part = [trialParts]tally{}, tally{}, true, part
	}
	for ; t.part < part; t.part++ {
		oldest := &t.parts[(t.part+1)%trialParts]
		t.sum.add(*oldest, -1)
		*oldest = tally{}
	}
	return &t.sum
}

// count counts a request, and reports whether the candidate is taken back by it.
func (t *trial) count(one tally, r *rules.Rule, now limit.Micros) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.countedLocked(now, r.Trial.Over())
	sum.add(one, 1)
	t.parts[t.part%trialParts].add(one, 1)
	back := r.Trial.RollBack
	if back == nil || r.Trial.Watches() || sum.decided < back.MinRequests || t.rolledBack.Load() != 0 ||
		float64(sum.added)*percentScale <= float64(back.Above)*float64(sum.decided) {
		return false
	}
	t.rolledBack.Store(int64(now))
	return true
}

// percentScale is what a share is multiplied by to be in thousandths of a percent.
const percentScale = 100 * 1000

// report returns what is known at now of the candidate of r.
func (t *trial) report(r *rules.Rule, now limit.Micros) CandidateReport {
	t.mu.Lock()
	sum := *t.countedLocked(now, r.Trial.Over())
	t.mu.Unlock()
	c := CandidateReport{
		Rule: r.ID, Domain: r.Domain, Limits: limitsText(r, rules.Main), Candidate: limitsText(r, rules.Candidate),
		Percent: r.Trial.Percent, Tenants: r.Trial.Tenants, Over: r.Trial.Over(),
		Decided: sum.decided, Denied: sum.denied, CandidateDenied: sum.candidateDenied, Added: sum.added, Avoided: sum.avoided,
	}
	if sum.decided > 0 {
		c.AddedPercent = 100 * float64(sum.added) / float64(sum.decided)
	}
	if at := t.rolledBack.Load(); at != 0 {
		c.RolledBack = limit.Micros(at).Time()
	}
	return c
}

// limitsText returns the limits of r with a role, joined.
func limitsText(r *rules.Rule, role rules.Role) string {
	var texts []string
	for i := range r.Limits {
		if r.Limits[i].Role == role {
			texts = append(texts, rules.LimitText(r.Limits[i].Limit))
		}
	}
	return strings.Join(texts, " and ")
}

// sameTrial reports whether two rules try the same out.
func sameTrial(a, b *rules.Rule) bool {
	return a.ID == b.ID && a.Domain == b.Domain && reflect.DeepEqual(a.Trial, b.Trial) &&
		limitsText(a, rules.Main) == limitsText(b, rules.Main) && limitsText(a, rules.Candidate) == limitsText(b, rules.Candidate)
}

// trialsOf returns the trials of a list of rules, by their index, nil for those without
// candidates: those of the rules before that try the same out go on.
func trialsOf(list []*rules.Rule, before *ruleset) []*trial {
	trials := make([]*trial, len(list))
	var old map[string]int
	for i, r := range list {
		if r.Trial == nil {
			continue
		}
		if old == nil {
			old = before.trialsByRule()
		}
		if j, ok := old[r.ID]; ok && sameTrial(before.rules[j], r) {
			trials[i] = before.trials[j]
		} else {
			trials[i] = new(trial)
		}
	}
	return trials
}

// trialsByRule returns the index of each rule with a trial by its ID. r may be nil.
func (r *ruleset) trialsByRule() map[string]int {
	byRule := make(map[string]int)
	if r != nil {
		for i, t := range r.trials {
			if t != nil {
				byRule[r.rules[i].ID] = i
			}
		}
	}
	return byRule
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

// addRetries appends, for a request that the main limits of a rule alone denied, or the
// candidate in their place, a hit on those that watch: of a group that is all or nothing
// they were not charged, though by them it would have passed.
func (p *plan) addRetries(resp *Response, s span) {
	for i, next := 0, 0; i < len(resp.Verdicts); i = next {
		next = resp.sameRule(i)
		if !p.tries(resp.Verdicts[i].Rule) || !resp.decidedBy(span{i, next}) || deniedToo(resp.Verdicts[i:next]) {
			continue
		}
		for j := i; j < next; j++ {
			t := p.verdictTake[s.from+j]
			if !resp.Verdicts[j].Watched || t < 0 || slices.Contains(p.againOf, t) {
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
	return slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Watched && v.Counted() && !v.Decision.Allowed })
}

// retryGroup is above the groups of requests.
const retryGroup = 1 << 31

// tries reports whether a rule, which may be nil, tries candidates out.
func (p *plan) tries(r *rules.Rule) bool { return r != nil && p.rules.trials[r.Index()] != nil }

// retold takes over what was answered to retries.
func (p *plan) retold() {
	for i, t := range p.againOf {
		if r := &p.againResults[i]; p.again[i].Op == store.Hit && p.again[i].Hits > 0 && r.Err == nil {
			p.results[t] = *r
		}
	}
}

// compare counts what the request came to for each rule that tries candidates out, and
// tells verdicts of limits that watch what these answered in the end.
func (p *plan) compare(resp *Response, s span) {
	for i, next := 0, 0; i < len(resp.Verdicts); i = next {
		next = resp.sameRule(i)
		r := resp.Verdicts[i].Rule
		if !p.tries(r) {
			continue
		}
		one, ok := p.contest(resp, s, span{i, next})
		if !ok || !resp.decidedBy(span{i, next}) {
			continue
		}
		t := p.rules.trials[r.Index()]
		if now := p.instant(); t.count(one, r, now) && p.limiter.onRollBack != nil {
			p.limiter.onRollBack(t.report(r, now))
		}
	}
}

// contest returns what the verdicts on a rule, which are own, come to, and false when
// they are no hits, were not all counted, or are those of a descriptor before.
func (p *plan) contest(resp *Response, s span, own span) (one tally, ok bool) {
	var denied, candidateDenied bool
	for i := own.from; i < own.to; i++ {
		v, t := &resp.Verdicts[i], p.verdictTake[s.from+i]
		if !v.Role.IsMain() {
			continue
		}
		if t < 0 || p.takes[t].Op != store.Hit || p.takes[t].Hits == 0 || slices.Contains(p.verdictTake[s.from:s.from+own.from], t) {
			return tally{}, false
		}
		if v.Watched && p.results[t].Err == nil {
			v.Decision, v.Skipped = p.results[t].Decision, p.results[t].Skipped
		}
		if !v.Counted() || v.Degraded != store.NoReason {
			return tally{}, false
		}
		if v.Role == rules.Candidate {
			ok, candidateDenied = true, candidateDenied || !v.Decision.Allowed
		} else {
			denied = denied || !v.Decision.Allowed
		}
	}
	return outcome(denied, candidateDenied), ok
}
