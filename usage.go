package headgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

const (
	// MaxUsageSubjects bounds the subjects of one Usage.
	MaxUsageSubjects = 100
	// MaxUsageQuotas bounds the quotas of one Usage, those of all its subjects
	// together; each subject has an equal share of it.
	MaxUsageQuotas = 10_000
)

// ErrNoQuota says that nothing counts what was named: the subject has no quota for the
// descriptor, and no rule is there for it.
var ErrNoQuota = errors.New("no quota counts that")

// TenantUsage is what one tenant has used.
type TenantUsage struct {
	Subject tenant.Subject
	// At is the instant for which it is told, by the clock of this process.
	At time.Time
	// Tier is the name of its tier, "" where there are no tiers.
	Tier string
	// Limits are those of its quotas, by domain and within one that of tenant.Default
	// first, then those of other descriptors in order; the limits of one quota follow
	// each other.
	Limits []LimitUsage
	// Beyond is what the tenant may use where its quotas deny, in all domains together:
	// its burst pool, then its top-ups by descriptor. The Source tells which; the Name
	// of a top-up is its ID, and its window is its term.
	Beyond []LimitUsage
	// Cut says that there are more quotas than were looked at.
	Cut bool
}

// LimitUsage is what was used of one limit of one quota.
type LimitUsage struct {
	Domain string
	// Descriptor is the canonical text of what the quota is for; see
	// tenant.ParseDescriptor.
	Descriptor string
	// Rule is the ID of the rule that stands there, or that names the tenant.
	Rule string
	// Name is the name of the limit, "" if it has none.
	Name string
	// Source says where the quota comes from.
	Source tenant.Source
	// Limit is nil where the quota is unlimited; then what follows is zero.
	Limit *limit.Limit
	// Used are the hits that count at this instant, Quota those that may, and Remaining
	// those that are left. A bucket that owes more than its quota has used all of it.
	Used, Quota, Remaining int64
	// Start and End bound the window that is counted: of a fixed window the one that
	// it is now, aligned or of its calendar, by the clock of this process; of all
	// others the Period that ends now.
	Start, End time.Time
	// ResetAfter is the time until the limit is as if unused, 0 when it is; a top-up
	// never is.
	ResetAfter time.Duration
	// Degraded says why the store did not tell; then there are no counts, unless Local
	// says that they are those of this node.
	Degraded store.Reason
	Local    bool
}

// Unlimited reports whether everything passes without counting.
func (u *LimitUsage) Unlimited() bool { return u.Limit == nil }

// Counted reports whether u has counts.
func (u *LimitUsage) Counted() bool {
	return u.Limit != nil && (u.Degraded == store.NoReason || u.Local)
}

// ownQuota is what a subject has for the entries that follow it in a descriptor, or
// beyond that.
type ownQuota struct {
	match
	entries []descriptor.Entry // the subject first
	text    string             // of those that follow it
	// pool or grant is there for what is beyond quotas.
	pool  *tenant.Pool
	grant *tenant.Grant
}

// Usage tells what subjects have used, without charging anything and without telling
// the observer. It looks in each domain where a rule with `tenant: true` stands at the
// top with the key of the subject, and there at the default quota, and at every
// descriptor for which an override in force, the tier or a rule below with fixed values
// says something. All are asked of the store in one batch.
//
// The error says that there are more than MaxUsageSubjects. A store that does not
// answer is none; see LimitUsage.Degraded.
func (l *Limiter) Usage(ctx context.Context, subjects []tenant.Subject) ([]TenantUsage, error) {
	if len(subjects) > MaxUsageSubjects {
		return nil, fmt.Errorf("usage: %d subjects; hint: at most %d", len(subjects), MaxUsageSubjects)
	}
	s := l.survey()
	usage := make([]TenantUsage, len(subjects))
	var quotas []ownQuota
	ends := make([]int, len(subjects))
	for i, subject := range subjects {
		has := s.standing(subject)
		usage[i].Subject, usage[i].At, usage[i].Tier = subject, s.now, has.Tier()
		own := append(s.beyond(subject, has), s.quotas(subject, has)...)
		if most := MaxUsageQuotas / len(subjects); len(own) > most {
			own, usage[i].Cut = own[:most], true
		}
		quotas = append(quotas, own...)
		ends[i] = len(quotas)
	}
	responses := s.ask(ctx, quotas, store.Hit)
	next := 0
	for i, end := range ends {
		for ; next < end; next++ {
			into := &usage[i].Limits
			if quotas[next].Rule == nil {
				into = &usage[i].Beyond
			}
			*into = s.appendUsage(*into, &quotas[next], &responses[next])
		}
	}
	return usage, nil
}

// ResetUsage forgets what a subject has used of its quotas for descriptors, or of all
// that Usage tells of where none is named, and lifts their bans; what is counted beside
// the main limits of those rules is forgotten too. With a domain it is for that alone.
// Descriptors are canonical texts.
//
// The error wraps ErrNoQuota when nothing counts one of the descriptors, and nothing
// was forgotten then; or it is that of a store which did not answer, and what was
// forgotten is not known: to ask again does no harm.
func (l *Limiter) ResetUsage(ctx context.Context, domain string, subject tenant.Subject, descriptors ...string) error {
	s := l.survey()
	has := s.standing(subject)
	var quotas []ownQuota
	for _, text := range descriptors {
		found := s.quotasFor(domain, subject, has, text)
		if len(found) == 0 {
			return fmt.Errorf("reset %s: %w", tenant.DescriptorText(text), ErrNoQuota)
		}
		quotas = append(quotas, found...)
	}
	if len(descriptors) == 0 {
		for _, q := range s.quotas(subject, has) {
			if domain == "" || q.Rule.Domain == domain {
				quotas = append(quotas, q)
			}
		}
		if len(quotas) == 0 {
			return fmt.Errorf("reset: %w", ErrNoQuota)
		}
	}
	return failureOf("reset", s.ask(ctx, quotas, store.Reset))
}

// RefundUsage gives hits back that a subject was charged for a descriptor, in one
// domain: to all limits that a request with it would charge, as Check does. The errors
// are as those of ResetUsage, but that to ask again gives them back again.
func (l *Limiter) RefundUsage(ctx context.Context, domain string, subject tenant.Subject, text string, hits int64) error {
	s := l.survey()
	if len(s.quotasFor(domain, subject, s.standing(subject), text)) == 0 {
		return fmt.Errorf("refund %s: %w", tenant.DescriptorText(text), ErrNoQuota)
	}
	entries, _ := entriesOf(subject, text) // could be read above
	requests := []Request{{Domain: domain, Descriptors: []Descriptor{{Entries: entries, Hits: hits, Op: store.Refund}}}}
	responses := make([]Response, 1)
	if err := l.Check(ctx, requests, responses); err != nil {
		return fmt.Errorf("refund: %w", err)
	}
	return failureOf("refund", responses)
}

// UsageDomains returns the domains in which subjects with that key have quotas, sorted.
func (l *Limiter) UsageDomains(key string) []string {
	s := l.survey()
	var names []string
	for _, d := range s.domains() {
		if _, ok := s.tenantRule(d, tenant.Subject{Key: key, Value: "x"}); ok {
			names = append(names, d.Name)
		}
	}
	return names
}

// failureOf returns why the store did not answer, nil when it did.
func failureOf(op string, responses []Response) error {
	for i := range responses {
		if reason := responses[i].Degraded(); reason != store.NoReason {
			return fmt.Errorf("%s: the store did not answer: %v", op, reason)
		}
	}
	return nil
}

// survey is what quotas are looked up by: one state of rules and tenants at one
// instant.
type survey struct {
	limiter *Limiter
	rules   *ruleset
	tenants *tenant.Snapshot
	now     time.Time
}

func (l *Limiter) survey() *survey {
	return &survey{l, l.inForce.Load(), l.tenants.Load(), l.now()}
}

func (s *survey) instant() time.Time { return s.now }

func (s *survey) standing(subject tenant.Subject) tenant.Standing {
	return s.tenants.Standing(subject, limit.MicrosOf(s.now))
}

// domains are those with rules of tenants.
func (s *survey) domains() (list []*rules.Domain) {
	if s.rules.set == nil {
		return nil
	}
	for _, name := range s.rules.set.Domains() {
		if d := s.rules.set.Domain(name); d.HasTenants() {
			list = append(list, d)
		}
	}
	return list
}

// tenantRule returns the rule at the top of a domain that names a subject.
func (s *survey) tenantRule(d *rules.Domain, subject tenant.Subject) (rules.Matched, bool) {
	by, ok := d.Tenant([]descriptor.Entry{subject}, s.instant)
	return by, ok && by.Depth == 1
}

// quotas returns all quotas of a subject that are known by name.
func (s *survey) quotas(subject tenant.Subject, has tenant.Standing) (list []ownQuota) {
	for _, d := range s.domains() {
		by, ok := s.tenantRule(d, subject)
		if !ok {
			continue
		}
		seen := map[string]bool{}
		add := func(text string) {
			if seen[text] || len(list) > MaxUsageQuotas {
				return
			}
			seen[text] = true
			if q, ok := s.find(d, by, subject, has, text); ok {
				list = append(list, q)
			}
		}
		add(tenant.Default)
		for _, text := range has.Descriptors() {
			add(text)
		}
		for rule, rest := range by.Rule.Fixed() {
			if rule.Unlimited || hasMain(rule) {
				add(descriptor.Format(rest))
			}
		}
	}
	return list
}

// beyond returns what a subject has where its quotas deny.
func (s *survey) beyond(subject tenant.Subject, has tenant.Standing) (list []ownQuota) {
	entries := []descriptor.Entry{subject}
	if pool := has.Pool(); pool != nil {
		list = append(list, ownQuota{entries: entries, pool: pool})
	}
	for _, g := range s.tenants.Grants(subject, limit.MicrosOf(s.now)) {
		list = append(list, ownQuota{entries: entries, text: g.Descriptor(), grant: g})
	}
	return list
}

// quotasFor returns what a subject has for one descriptor, in one domain or with ""
// in all.
func (s *survey) quotasFor(domain string, subject tenant.Subject, has tenant.Standing, text string) (list []ownQuota) {
	for _, d := range s.domains() {
		if domain != "" && d.Name != domain {
			continue
		}
		if by, ok := s.tenantRule(d, subject); ok {
			if q, ok := s.find(d, by, subject, has, text); ok {
				list = append(list, q)
			}
		}
	}
	return list
}

// find returns what a subject has for a descriptor in a domain: its quota, or the rule
// that stands there.
func (s *survey) find(d *rules.Domain, by rules.Matched, subject tenant.Subject, has tenant.Standing, text string) (q ownQuota, ok bool) {
	entries, err := entriesOf(subject, text)
	if err != nil {
		return q, false
	}
	for i := range entries {
		if d.Aside(entries[i].Key) {
			return q, false // no request is limited on it
		}
	}
	var rule *rules.Matched
	matched := d.AppendMatches(nil, entries, s.instant)
	if last := len(matched) - 1; last >= 0 && matched[last].Depth == len(entries) {
		rule = &matched[last]
	}
	t := tenancy{Matched: by, entries: entries, has: has}
	q = ownQuota{match: t.grantOf(entries[1:], len(entries), rule), entries: entries, text: text}
	q.innermost = true
	return q, q.quota != nil || rule != nil && (rule.Rule.Unlimited || len(rule.Rule.Limits) > 0)
}

// entriesOf returns the entries of a request of a subject that a descriptor is for.
func entriesOf(subject tenant.Subject, text string) ([]descriptor.Entry, error) {
	entries := []descriptor.Entry{subject}
	if text == tenant.Default {
		return entries, nil
	}
	rest, err := descriptor.Parse(text)
	return append(entries, rest...), err
}

// ask peeks at the main limits of quotas, or with store.Reset forgets all that counts
// there. It returns a response for each.
func (s *survey) ask(ctx context.Context, quotas []ownQuota, op store.Op) []Response {
	responses := make([]Response, len(quotas))
	p := &plan{limiter: s.limiter, rules: s.rules, tenants: s.tenants}
	defer func() {
		if cause := recover(); cause != nil {
			s.limiter.answerPanic(responses, cause)
		}
	}()
	for i := range quotas {
		takes, verdicts := len(p.takes), len(p.verdictTake)
		p.addOwn(&responses[i], &quotas[i], op)
		p.spans = append(p.spans, parts{takes: span{takes, len(p.takes)}, verdicts: span{verdicts, len(p.verdictTake)}})
	}
	p.bindKeys()
	s.limiter.take(ctx, s.limiter.store, p.takes, p.results)
	s.limiter.fallBack(ctx, p)
	for i := range responses {
		p.answer(&responses[i], p.spans[i].verdicts)
	}
	return responses
}

// addOwn appends what op asks of q.
func (p *plan) addOwn(resp *Response, q *ownQuota, op store.Op) {
	if q.Rule == nil {
		p.addBeyond(resp, q)
		return
	}
	a := ask{entries: q.entries, op: op}
	if q.quota != nil {
		p.addQuota(resp, &q.match, &a)
	} else if q.Rule.Unlimited && op != store.Reset {
		p.addVerdict(resp, p.verdictOf(&q.match), -1)
	}
	if q.alone {
		return
	}
	for i := range q.Rule.Limits {
		main := q.Rule.Limits[i].Role == rules.Main
		if main && q.quota == nil || !main && op == store.Reset {
			p.addLimit(resp, &q.match, &a, i)
		}
	}
}

// addBeyond appends a peek at what q has beyond quotas.
func (p *plan) addBeyond(resp *Response, q *ownQuota) {
	var take store.Take
	v := Verdict{Source: tenant.FromPool}
	if q.pool != nil {
		v.Name, v.Limit = q.pool.Name, q.pool.Limit.Limit
		take.Limit = v.Limit
		p.keys = appendPoolKey(p.keys, q.entries[0])
	} else {
		v.Source, v.Name, v.Limit = tenant.FromTopUp, q.grant.ID, q.grant.Shown
		take.Limit = q.grant.Ask
		p.keys = appendTopUpKey(p.keys, q.entries[0], q.grant.ID)
	}
	p.ends = append(p.ends, len(p.keys))
	p.addTake(take, verdict.ByStore)
	p.addVerdict(resp, v, len(p.takes)-1)
}

// appendUsage appends what the verdicts on q say.
func (s *survey) appendUsage(dst []LimitUsage, q *ownQuota, resp *Response) []LimitUsage {
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		u := LimitUsage{Descriptor: q.text, Name: v.Name, Source: v.Source, Limit: v.Limit}
		if q.Rule != nil {
			u.Domain, u.Rule = q.Rule.Domain, q.Rule.ID
		}
		if u.Limit != nil {
			d := &v.Decision
			u.Degraded, u.Local, u.Quota = v.Degraded, v.By == verdict.ByLocalShare, d.Limit
			u.Start, u.End = windowOf(u.Limit, s.now)
			if u.Counted() {
				u.Remaining, u.Used, u.ResetAfter = d.Remaining, max(d.Limit-d.Remaining, 0), d.ResetAfter
			}
			if q.grant != nil {
				term := q.grant.Term()
				u.Start, u.End, u.ResetAfter = term.From, term.Until, 0
			}
		}
		dst = append(dst, u)
	}
	return dst
}

// windowOf returns the window of l that is counted at now; see LimitUsage.Start.
func windowOf(l *limit.Limit, now time.Time) (start, end time.Time) {
	switch {
	case l.Calendar != nil:
		from, until := l.Calendar.Window(limit.MicrosOf(now))
		return from.Time(), until.Time()
	case l.Algorithm == limit.FixedWindow:
		at, period := limit.MicrosOf(now), limit.Micros(l.PeriodMicros())
		from := at - at%period
		return from.Time(), (from + period).Time()
	}
	end = limit.MicrosOf(now).Time()
	return end.Add(-l.Period), end
}
