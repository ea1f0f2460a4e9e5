package headgate

import (
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/stopwatch"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/verdict"
)

// plan is the working memory of one call: what applies to its requests, and what they ask
// of the store. It is pooled so that a decision does not allocate.
type plan struct {
	matcher
	batch
	watch stopwatch.Watch
	// path says that all limits on the path count of the request that is added, and first
	// is its first take.
	path  bool
	first int
}

// reset makes p ready for another call.
func (p *plan) reset() {
	if p.isHuge() {
		p.batch = batch{}
	}
	p.matcher.reset()
	p.batch.empty()
	p.path, p.first = false, 0
}

// addRequests empties the responses, matches requests and appends their takes and verdicts.
func (p *plan) addRequests(requests []Request, responses []Response) {
	for i := range requests {
		responses[i].empty()
		p.addRequest(&requests[i], &responses[i])
	}
}

// addRequest matches one request and appends its takes and verdicts.
func (p *plan) addRequest(req *Request, resp *Response) {
	first := len(p.takes)
	from := len(p.verdictTake)
	domain := p.domain(req.Domain)
	resp.DomainKnown = domain != nil
	p.path, p.first = domain != nil && domain.Match == rules.Path, first

	p.find(domain, req)
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
	p.spans = append(p.spans, parts{})
	s := &p.spans[len(p.spans)-1]
	s.takes.from, s.takes.to = first, len(p.takes)
	s.verdicts.from, s.verdicts.to = from, len(p.verdictTake)
	s.hold = resp.Hold
}

func (p *plan) addCallerLimit(req *Request, resp *Response, i int) {
	d := &req.Descriptors[i]
	var a ask
	a.op, a.hits, a.cost, a.hold = d.Op, d.Hits, d.Hits, req.Hold
	role := rules.Main
	if d.Limit.Algorithm == limit.Concurrency {
		role = rules.InFlight
	}
	take := p.newTake()
	if !a.of(role, take) {
		return
	}
	if a.holds(role) {
		resp.Hold = a.hold
	}
	p.keys = rules.AppendOverrideKey(p.keys, req.Domain, d.Entries, overrideWindow(req.Domain, d.Limit))
	p.ends = append(p.ends, len(p.keys))
	effect := p.effect(p.callerLimits(d.Op) != switches.On)
	take.Limit, take.Shadow = d.Limit, effect != verdict.Enforced
	p.addTake(verdict.ByLocalWhole)
	v := p.addVerdict(resp, len(p.takes)-1)
	v.Descriptor, v.Limit, v.Role, v.Hits, v.Effect = i, d.Limit, role, take.Hits, effect
}

// overrideWindow returns by what window the bucket of a limit that the caller named is
// told from others of its descriptor. In CallerDomain the entries do that.
func overrideWindow(domain string, l *limit.Limit) time.Duration {
	if domain == CallerDomain {
		return 0
	}
	return l.Period
}

// addRule appends what rule m asks for: a take and a verdict for each limit, or
// a verdict alone where it frees the request. The quota of a tenant takes the place
// of the main limits, and of their absence.
func (p *plan) addRule(req *Request, resp *Response, m *match) {
	d := &req.Descriptors[m.descriptor]
	if m.Rule.Unlimited && m.quota == nil {
		if d.Op != store.Renew && d.Op != store.Release {
			p.addVerdictOn(resp, m)
		}
		return
	}
	if d.Op == store.Reset && !m.innermost {
		// Forgetting what one descriptor has used is no reason to forget what
		// all that share an outer limit have used.
		return
	}
	var a ask
	a.entries, a.op, a.hits, a.hold = d.Entries, d.Op, d.Hits, holdFor(m.Rule, req, m.descriptor)
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

// addVerdictOn appends a verdict on rule m, and on no take, that is filled in as far as all
// verdicts on that rule are alike.
func (p *plan) addVerdictOn(resp *Response, m *match) *Verdict {
	v := p.addVerdict(resp, -1)
	v.Descriptor, v.Rule, v.Effect = m.descriptor, m.Rule, m.effect
	v.Tenant, v.Depth, v.Tier = m.tenant, m.Depth, m.tier
	v.Decision.Allowed = true
	return v
}

// addLimit appends what a asks of limit i of rule m.
func (p *plan) addLimit(resp *Response, m *match, a *ask, i int) {
	named, take := &m.Rule.Limits[i], p.newTake()
	if !a.of(named.Role, take) || named.Role == rules.Candidate && m.stance == noCandidate {
		return
	}
	v := p.addVerdictOn(resp, m)
	v.Name, v.Role, v.Hits = named.Name, named.Role, take.Hits
	if m.onTrial(named.Role) {
		v.Effect = verdict.Trial
	}
	if p.replaced(m.replacedAs(i)) {
		v.By = verdict.ByReplacement
		return
	}
	v.Limit = p.limitFor(m, named)
	if a.holds(named.Role) && resp.Hold == 0 {
		resp.Hold = a.hold
	}
	if take.Op == store.Hit && take.Hits > 0 {
		p.hit.add(named.Role)
	}
	start := len(p.keys)
	if q := p.rules.quotas[m.Rule.Index()]; m.by != nil && named.Role == rules.Main && q != nil {
		p.keys = p.appendTenantKey(m, a.entries, q, i)
	} else {
		p.keys = m.AppendKey(p.keys, a.entries, i)
	}
	p.addBucket(m, v, take, start)
}

// addBucket adds take, on the bucket with the key p.keys[start:], for v, which was appended
// last. take has yet no limit and nothing of how it is decided.
func (p *plan) addBucket(m *match, v *Verdict, take *store.Take, start int) {
	if v.Role == rules.Main {
		v.Limit, v.Raised = p.raised(m, v.Limit, start)
	}
	take.Limit, take.Shadow = v.Limit, !v.Enforced() || m.Rule.Quota && v.Role == rules.Main
	take.Mode = p.rules.modes.Get(m.Rule, v.Role == rules.Main && v.Effect != verdict.Trial, m.store)
	p.verdictTake[len(p.verdictTake)-1] = p.takeOn(m, take, start)
}

// takeOn adds take, on the bucket with the key p.keys[start:] of rule m, and returns which
// take it is. Descriptors of one request that share the head of a path share its
// limit, and the request is charged there once.
func (p *plan) takeOn(m *match, take *store.Take, start int) int {
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
	p.addTake(partOf(m.Rule.Failure))
	return len(p.takes) - 1
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
	return r.Cost.Of(descriptor.ValueOf(facts, r.Cost.Name))
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

// valueOf returns the value of the entry with that key in descriptor i of r, or else in the
// first one that has one; "" where none has.
func (r *Request) valueOf(key string, i int) string {
	value := descriptor.ValueOf(r.Descriptors[i].Entries, key)
	for j := 0; value == "" && j < len(r.Descriptors); j++ {
		value = descriptor.ValueOf(r.Descriptors[j].Entries, key)
	}
	return value
}

// sustainedHoldFor is the HoldFor of a request whose time in flight counts but
// which holds no slot: so late may its time be charged. It is the default timeout
// of a slot.
const sustainedHoldFor = time.Minute

// Turn makes r, which Check has let pass, the request that renews or releases what
// it holds: op is store.Renew or store.Release. inFlight is the time since r was
// admitted or last renewed, and counts in milliseconds, rounded up; negative is 0.
// The Hold and the entries stay as they are: by them the slots are found.
func (r *Request) Turn(op store.Op, inFlight time.Duration) {
	ms := int64((max(inFlight, 0) + time.Millisecond - 1) / time.Millisecond)
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		d.Op, d.Hits = op, min(ms, limit.MaxQuota)
	}
}

// ask is what a descriptor asks of the limits of one rule.
type ask struct {
	entries []descriptor.Entry
	op      store.Op
	// hits are those of the descriptor, cost what they are worth to the rule.
	hits, cost int64
	hold       limit.Hold
}

// of makes of take, which is unused, the one that a makes on a limit with that role, but for its
// key and how it is decided. It reports false when such a limit takes no part in the operation.
func (a *ask) of(role rules.Role, take *store.Take) (takesPart bool) {
	inFlight := a.op == store.Renew || a.op == store.Release
	take.Op, take.Hits = a.op, a.cost
	switch {
	case a.op == store.Reset:
	case a.op == store.Charge:
		return countsHits(role)
	case role == rules.InFlight:
		// A request has one slot, whatever it costs.
		take.Hold, take.Hits = a.hold, 1
		if a.op == store.Hit {
			take.Hits = min(a.hits, 1)
			return true
		}
		return a.hold != 0
	case role == rules.Sustained && inFlight:
		take.Op, take.Hits = store.Charge, a.hits
	case role == rules.Sustained:
		take.Hits = min(a.hits, 1)
	case role == rules.Banning:
		take.Hits = min(a.hits, max(a.cost, 1)) // what costs nothing is banned too
		return a.op == store.Hit
	default:
		return !inFlight
	}
	return true
}

// countsHits reports whether limits with that role count what requests cost: not
// slots, time in flight or denials.
func countsHits(role rules.Role) bool {
	return role != rules.InFlight && role != rules.Sustained && role != rules.Banning
}

// holds reports whether a asks for what has to be renewed and released.
func (a *ask) holds(role rules.Role) bool {
	return a.hold != 0 && (a.op == store.Renew || a.op == store.Hit && a.hits > 0) &&
		(role == rules.InFlight || role == rules.Sustained)
}

// holdFor returns who descriptor i of req is towards limits on concurrency of r.
func holdFor(r *rules.Rule, req *Request, i int) limit.Hold {
	if req.Hold != 0 || r.HoldEntry == "" {
		return req.Hold
	}
	if r.Always {
		return limit.HoldOf(req.valueOf(r.HoldEntry, i))
	}
	return limit.HoldOf(descriptor.ValueOf(req.Descriptors[i].Entries, r.HoldEntry))
}

// sameHolder reports whether two descriptors of one request speak for one holder:
// one that names nobody goes with any.
func sameHolder(a, b limit.Hold) bool { return a == b || a == 0 || b == 0 }
