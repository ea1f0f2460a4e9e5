package headgate

import (
	"bytes"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// plan is the working memory of one Check: what is asked of the store, and
// which verdict each answer belongs to. It is pooled so that a decision does
// not allocate.
type plan struct {
	stopwatch stopwatch
	limiter   *Limiter
	rules     *ruleset
	tenants   *tenant.Snapshot
	// switches are what operators have switched; nil: nothing.
	switches *switches.Set
	// now is the instant for which tenants and switches are looked up, one for the
	// whole batch; 0 until it is needed.
	now limit.Micros
	// rest are the entries after the tenant that name a quota.
	rest []descriptor.Entry

	// request, path and first are those of the request being planned: whether all
	// limits on the path count, and its first take.
	request *Request
	path    bool
	first   int
	// asked is what switches are asked about descriptor askedOf-1 of the request.
	asked   switches.Asked
	askedOf int

	takes   []store.Take
	results []store.Result
	// locally[i] says by which part of its limit the fallback decides takes[i] when the
	// store does not, and after fallBack by which part it did; ByStore is for none.
	locally []verdict.Decider
	// again and againResults are what the fallback is asked, and againOf which
	// takes those are.
	again        []store.Take
	againResults []store.Result
	againOf      []int
	// keys holds the bytes of all bucket keys; ends[i] is the end of the key of
	// takes[i]. The slices are bound once keys has stopped growing.
	keys []byte
	ends []int

	matches []match
	matched []rules.Matched
	// anyReplaces says that a rule in matches takes the place of others.
	anyReplaces bool
	// mayBan says that a request makes hits on a rule with a ban, mayTry that it counts
	// for a candidate, and fellBack that the fallback was asked.
	mayBan, mayTry, fellBack bool
	// verdictTake[i] is the take of the i-th verdict of the batch, or -1.
	verdictTake []int
	// spans[i] are the parts of request i.
	spans []parts
	coverage
	// reserves says that a reservation is made, and settles that one is settled:
	// booked is then what was asked for, and charges what was charged for it.
	reserves, settles bool
	// dryRun says that nothing is charged.
	dryRun  bool
	booked  booked
	charges []reservation.Charge
}

// parts are the ranges of one request in takes and in verdictTake, and what it asked
// to hold by.
type parts struct {
	takes, verdicts span
	hold            limit.Hold
}

type span struct{ from, to int }

// match is a rule that applies to a descriptor of the request being planned.
type match struct {
	rules.Matched
	descriptor int
	// innermost says that no rule further in applies to the descriptor.
	innermost bool
	effect    verdict.Effect
	stance    stance
	grant
}

// maxPooledKeys and maxPooledTakes keep one huge request from staying in the
// pool for ever.
const (
	maxPooledKeys  = 64 << 10
	maxPooledTakes = 1024
)

func (p *plan) reset() {
	if cap(p.keys) > maxPooledKeys || cap(p.takes) > maxPooledTakes {
		*p = plan{stopwatch: p.stopwatch}
		return
	}
	clear(p.takes)
	clear(p.results)
	clear(p.again)
	clear(p.againResults)
	clear(p.matches)
	clear(p.matched)
	clear(p.rest)
	p.booked.clear()
	*p = plan{
		stopwatch: p.stopwatch,
		takes:     p.takes[:0], results: p.results[:0], keys: p.keys[:0], ends: p.ends[:0],
		locally: p.locally[:0], again: p.again[:0], againResults: p.againResults[:0], againOf: p.againOf[:0],
		matches: p.matches[:0], matched: p.matched[:0], rest: p.rest[:0],
		verdictTake: p.verdictTake[:0], spans: p.spans[:0], coverage: p.coverage.emptied(),
		booked: p.booked, charges: p.charges[:0],
	}
}

// addRequest matches one request and appends its takes and verdicts.
func (p *plan) addRequest(req *Request, resp *Response) {
	first := len(p.takes)
	from := len(p.verdictTake)
	domain := p.domain(req.Domain)
	resp.DomainKnown = domain != nil
	p.askedOf = 0
	p.request, p.path, p.first = req, domain != nil && domain.Match == rules.Path, first

	p.match(domain, req)
	next := 0
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		if d.Limit != nil && (domain != nil || req.Domain == CallerDomain) && p.callerLimits(d.Op) != switches.Off {
			p.addCallerLimit(req, resp, i)
		}
		for ; next < len(p.matches) && p.matches[next].descriptor == i; next++ {
			p.addRule(req, resp, &p.matches[next])
		}
	}
	if domain == nil || domain.Consumption == rules.AllOrNothing {
		p.groupSince(first)
	}
	p.spans = append(p.spans, parts{span{first, len(p.takes)}, span{from, len(p.verdictTake)}, resp.Hold})
}

func (p *plan) domain(name string) *rules.Domain {
	if p.rules.set == nil {
		return nil
	}
	return p.rules.set.Domain(name)
}

// match collects the rules that apply to each descriptor of req, in the order of
// the descriptors; the rules that always apply come first and speak for
// descriptor 0.
func (p *plan) match(domain *rules.Domain, req *Request) {
	p.matches, p.anyReplaces = p.matches[:0], false
	if domain == nil {
		return
	}
	for _, rule := range domain.Always {
		if rule.InForce(p.limiter.now) {
			p.addMatch(match{Matched: rules.Matched{Rule: rule}})
		}
	}
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		if d.Limit != nil {
			continue
		}
		p.matched = domain.AppendMatches(p.matched[:0], d.Entries, p.limiter.now)
		if p.matchTenant(domain, i, d.Entries) {
			continue
		}
		for j, m := range p.matched {
			p.addMatch(match{Matched: m, descriptor: i, innermost: j == len(p.matched)-1})
		}
	}
}

// instant is the one for which the whole batch is decided, as far as no store says
// another.
func (p *plan) instant() limit.Micros {
	if p.now == 0 {
		p.now = limit.MicrosOf(p.limiter.now())
	}
	return p.now
}

// addMatch adds m, unless it is switched off.
func (p *plan) addMatch(m match) {
	shadow := m.Rule.Shadow
	if p.switches != nil {
		if state, ok := p.switches.Of(p.askedFor(&m)); ok {
			if state == switches.Off && charges(p.request.Descriptors[m.descriptor].Op) {
				return
			}
			shadow = state != switches.On
		}
	}
	m.effect = p.effect(shadow)
	m.stance = p.stanceOf(&m)
	p.anyReplaces = p.anyReplaces || len(m.Rule.Replaces) > 0
	p.matches = append(p.matches, m)
}

// effect returns how a limit counts, given whether its rule is in shadow mode.
func (p *plan) effect(shadow bool) verdict.Effect {
	switch {
	case shadow:
		return verdict.RuleShadow
	case p.limiter.shadow:
		return verdict.AllShadow
	}
	return verdict.Enforced
}

// replaced reports whether a rule that matched the same request takes the place
// of the limits called name.
func (p *plan) replaced(name string) bool {
	if name == "" || !p.anyReplaces {
		return false
	}
	for i := range p.matches {
		for _, r := range p.matches[i].Rule.Replaces {
			if r == name {
				return true
			}
		}
	}
	return false
}

func (p *plan) addCallerLimit(req *Request, resp *Response, i int) {
	d := &req.Descriptors[i]
	a, role := ask{op: d.Op, hits: d.Hits, cost: d.Hits, hold: req.Hold}, rules.Main
	if d.Limit.Algorithm == limit.Concurrency {
		role = rules.InFlight
	}
	take, takesPart := a.of(role)
	if !takesPart {
		return
	}
	if a.holds(role) {
		resp.Hold = a.hold
	}
	p.keys = rules.AppendOverrideKey(p.keys, req.Domain, d.Entries)
	p.ends = append(p.ends, len(p.keys))
	effect := p.effect(p.callerLimits(d.Op) != switches.On)
	take.Limit, take.Shadow = d.Limit, effect != verdict.Enforced
	p.addTake(take, verdict.ByLocalWhole)
	p.addVerdict(resp, Verdict{Descriptor: i, Limit: d.Limit, Role: role, Hits: take.Hits, Effect: effect}, len(p.takes)-1)
}

// addRule appends what rule m asks for: a take and a verdict for each limit, or
// a verdict alone where it frees the request. The quota of a tenant takes the place
// of the main limits, and of their absence.
func (p *plan) addRule(req *Request, resp *Response, m *match) {
	d := &req.Descriptors[m.descriptor]
	if m.Rule.Unlimited && m.quota == nil {
		if d.Op != store.Renew && d.Op != store.Release {
			p.addVerdict(resp, p.verdictOf(m), -1)
		}
		return
	}
	if d.Op == store.Reset && !m.innermost {
		// Forgetting what one descriptor has used is no reason to forget what
		// all that share an outer limit have used.
		return
	}
	a := ask{entries: d.Entries, op: d.Op, hits: d.Hits, hold: holdFor(m.Rule, req, m.descriptor)}
	if m.Rule.Always {
		a.hits = alwaysHits(req)
	}
	a.cost = cost(m.Rule, req, m.descriptor, a.hits)
	if m.quota != nil {
		p.addQuota(resp, m, &a)
	}
	if m.alone {
		return
	}
	for i := range m.Rule.Limits {
		if m.quota == nil || !m.Rule.Limits[i].Role.IsMain() {
			p.addLimit(resp, m, &a, i)
		}
	}
}

// verdictOf returns what all verdicts on rule m have in common.
func (p *plan) verdictOf(m *match) Verdict {
	v := Verdict{
		Descriptor: m.descriptor, Rule: m.Rule,
		Effect: m.effect, Tenant: m.tenant, Depth: m.Depth, Tier: m.tier,
	}
	v.Decision.Allowed = true
	return v
}

// addLimit appends what a asks of limit i of rule m.
func (p *plan) addLimit(resp *Response, m *match, a *ask, i int) {
	named := &m.Rule.Limits[i]
	take, takesPart := a.of(named.Role)
	if !takesPart || p.settles && !countsHits(named.Role) || named.Role == rules.Candidate && m.stance == noCandidate {
		return
	}
	v := p.verdictOf(m)
	v.Name, v.Role, v.Hits = named.Name, named.Role, take.Hits
	if m.onTrial(named.Role) {
		v.Effect = verdict.Trial
	}
	if p.replaced(m.replacedAs(i)) {
		v.By = verdict.ByReplacement
		p.addVerdict(resp, v, -1)
		return
	}
	v.Limit = p.limitFor(m, named)
	if a.holds(named.Role) && resp.Hold == 0 {
		resp.Hold = a.hold
	}
	p.mayBan = p.mayBan || named.Role == rules.Banning && take.Hits > 0
	p.mayTry = p.mayTry || named.Role == rules.Candidate && take.Op == store.Hit && take.Hits > 0
	start := len(p.keys)
	if q := p.rules.quotas[m.Rule.Index()]; m.by != nil && named.Role == rules.Main && q != nil {
		p.keys = p.appendTenantKey(m, a.entries, q, i)
	} else {
		p.keys = m.AppendKey(p.keys, a.entries, i)
	}
	p.addBucket(resp, m, v, take, start)
}

// addBucket appends a take on the bucket with the key p.keys[start:], and its verdict
// v. take has yet no limit and nothing of how it is decided.
func (p *plan) addBucket(resp *Response, m *match, v Verdict, take store.Take, start int) {
	take.Limit, take.Shadow = v.Limit, !v.Enforced() || m.Rule.Quota && v.Role == rules.Main
	take.Mode = p.rules.mode(m.Rule, v.Role == rules.Main && v.Effect != verdict.Trial)
	p.addVerdict(resp, v, p.takeOn(m, take, start))
}

// takeOn appends take, on the bucket with the key p.keys[start:] of rule m, and returns which take it is. Descriptors of one request that share the head of
// a path share its limit, and the request is charged there once.
func (p *plan) takeOn(m *match, take store.Take, start int) int {
	if p.path {
		if t := p.sameBucket(p.first, start); t >= 0 && p.takes[t].Op == take.Op && sameHolder(p.takes[t].Hold, take.Hold) {
			p.keys = p.keys[:start]
			shared := &p.takes[t]
			shared.Hits, shared.Hold = max(shared.Hits, take.Hits), max(shared.Hold, take.Hold)
			shared.Shadow = shared.Shadow && take.Shadow
			return t
		}
	}
	p.ends = append(p.ends, len(p.keys))
	p.addTake(take, partOf(m.Rule.Failure))
	return len(p.takes) - 1
}

// sameBucket returns the take since first whose key is p.keys[start:], or -1.
func (p *plan) sameBucket(first, start int) int {
	from := 0
	if first > 0 {
		from = p.ends[first-1]
	}
	for t := first; t < len(p.ends); t++ {
		if bytes.Equal(p.keys[from:p.ends[t]], p.keys[start:]) {
			return t
		}
		from = p.ends[t]
	}
	return -1
}

func (p *plan) addTake(t store.Take, part verdict.Decider) {
	p.takes = append(p.takes, t)
	p.locally = append(p.locally, part)
}

func (p *plan) addVerdict(resp *Response, v Verdict, take int) {
	resp.Verdicts = append(resp.Verdicts, v)
	p.verdictTake = append(p.verdictTake, take)
}

// groupSince makes the takes since first all or nothing. A take alone needs no
// group.
func (p *plan) groupSince(first int) {
	if len(p.takes)-first < 2 {
		return
	}
	for i := first; i < len(p.takes); i++ {
		p.takes[i].Group = uint32(len(p.spans) + 1)
	}
}

// bindKeys points each take to its key and makes room for the results.
func (p *plan) bindKeys() {
	from := 0
	for i, end := range p.ends {
		p.takes[i].Key = p.keys[from:end:end]
		from = end
	}
	if cap(p.results) < len(p.takes) {
		p.results = make([]store.Result, len(p.takes))
	}
	p.results = p.results[:len(p.takes)]
}

// answer fills the verdicts of resp from the results of the store.
func (p *plan) answer(resp *Response, s span) {
	for i := range resp.Verdicts {
		t := p.verdictTake[s.from+i]
		if t < 0 {
			continue
		}
		v, r, op := &resp.Verdicts[i], &p.results[t], p.takes[t].Op
		switch {
		case r.Err == nil:
			v.decide(settled(r.Decision, op), verdict.ByStore, r.Skipped)
		case p.locally[t] != verdict.ByStore:
			v.failLocally(r, op, p.locally[t])
		default:
			v.fail(op, store.ReasonOf(r.Err))
		}
	}
	resp.settle()
	p.settleHold(resp, s)
}

// decide fills in what by has decided; skipped says that it did not look.
func (v *Verdict) decide(d limit.Decision, by verdict.Decider, skipped bool) {
	if v.Decision, v.By = d, by; skipped {
		v.By = verdict.BySkipping
	}
}

// settled turns the answer of a store into a verdict on what was asked: giving
// hits back is always allowed, even where a request would still be denied.
func settled(d limit.Decision, op store.Op) limit.Decision {
	if op != store.Hit {
		d.Allowed, d.Never, d.RetryAfter = true, false, 0
	}
	return d
}

// cost returns what hits of descriptor i are worth to a rule. A peek stays one.
func cost(r *rules.Rule, req *Request, i int, hits int64) int64 {
	if r.Cost.Source == rules.CostHits || hits == 0 {
		return hits
	}
	facts := req.Attributes
	if r.Cost.Source == rules.CostEntry {
		facts = req.Descriptors[i].Entries
	}
	return r.Cost.Of(factNamed(facts, r.Cost.Name))
}

// alwaysHits is what a request costs a rule that no descriptor reaches: as much
// as its dearest descriptor.
func alwaysHits(req *Request) int64 {
	var most int64
	for i := range req.Descriptors {
		most = max(most, req.Descriptors[i].Hits)
	}
	return most
}

// factNamed returns the value of the entry with that key, "" if there is none.
func factNamed(facts []descriptor.Entry, name string) string {
	for i := range facts {
		if facts[i].Key == name {
			return facts[i].Value
		}
	}
	return ""
}
