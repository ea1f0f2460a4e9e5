// Package tenantusage tells what tenants have used of their quotas, and forgets it or gives it
// back. It stands over a Limiter: it looks up which quotas a tenant has, and asks the
// limiter about them by peeks.
package tenantusage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

const (
	// MaxSubjects bounds the subjects of one call of Usage.
	MaxSubjects = 100
	// MaxQuotas bounds the quotas of one call of Usage, those of all its subjects
	// together; each subject has an equal share of it.
	MaxQuotas = 10_000
	// askedAtOnce bounds the quotas that are asked in one batch.
	askedAtOnce = 1000
)

// ErrNoQuota says that nothing counts what was named: the subject has no quota for the
// descriptor, and no rule is there for it.
var ErrNoQuota = errors.New("no quota counts that")

// Tenant is what one tenant has used.
type Tenant struct {
	Subject tenant.Subject
	// At is the instant for which it is told, by the clock of this process.
	At time.Time
	// Tier is the name of its tier, "" where there are no tiers.
	Tier string
	// Limits are those of its quotas, by domain and within one that of tenant.Default
	// first, then those of other descriptors in order; the limits of one quota follow
	// each other.
	Limits []Limit
	// Beyond is what the tenant may use where its quotas deny, in all domains together:
	// its burst pool, then its top-ups by descriptor. The Source tells which; the Name
	// of a top-up is its ID, and its window is its term.
	Beyond []Limit
	// Cut says that there are more quotas than were looked at.
	Cut bool
	// Stale is 0 where the stores themselves have told all of it. Where replicas have told
	// some of it, it is for how long at most one of them had not heard of its primary.
	Stale time.Duration
}

// Limit is what was used of one limit of one quota.
type Limit struct {
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
func (l *Limit) Unlimited() bool { return l.Limit == nil }

// Counted reports whether l has counts.
func (l *Limit) Counted() bool {
	return l.Limit != nil && (l.Degraded == store.NoReason || l.Local)
}

// Options configures a Reader.
type Options struct {
	// Limiter has the rules and the tenants in force; required.
	Limiter *headgate.Limiter
	// Store is that of the Limiter; required. What tenants have beyond their quotas is
	// read there.
	Store store.Store
	// Peeks is where Look reads: a store with the buckets of Store as they were a moment ago,
	// which calls store.TellStale. nil means Store.
	Peeks store.Store
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Reader tells what tenants have used. It is safe for concurrent use. Make one with New.
type Reader struct {
	limiter *headgate.Limiter
	store   store.Store
	peeks   store.Store // nil: store
	now     func() time.Time
}

// New returns a Reader.
func New(o Options) *Reader {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reader{o.Limiter, o.Store, o.Peeks, o.Now}
}

// Usage tells what subjects have used, without charging anything and without telling
// observers. It looks in each domain where a rule with `tenant: true` stands at the
// top with the key of the subject, and there at the default quota, and at every
// descriptor for which an override in force, the tier or a rule below with fixed values
// says something.
//
// The error says that there are more than MaxSubjects. A store that does not answer is
// none; see Limit.Degraded.
func (r *Reader) Usage(ctx context.Context, subjects []tenant.Subject) ([]Tenant, error) {
	return r.usage(ctx, subjects, r.store, r.limiter.Peek)
}

// Look is Usage as it was a moment ago, read from Options.Peeks; see Tenant.Stale.
func (r *Reader) Look(ctx context.Context, subjects []tenant.Subject) ([]Tenant, error) {
	if r.peeks == nil {
		return r.Usage(ctx, subjects)
	}
	var longest staleness
	list, err := r.usage(store.OnStale(ctx, longest.note), subjects, r.peeks, func(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
		return r.limiter.PeekIn(ctx, r.peeks, requests, responses)
	})
	for i := range list {
		list[i].Stale = longest.heard()
	}
	return list, err
}

// staleness is the longest of what it has noted, in nanoseconds.
type staleness struct{ longest atomic.Int64 }

func (s *staleness) note(heard time.Duration) {
	for {
		known := s.longest.Load()
		if int64(heard) <= known || s.longest.CompareAndSwap(known, int64(heard)) {
			return
		}
	}
}

func (s *staleness) heard() time.Duration { return time.Duration(s.longest.Load()) }

// usage is Usage of what in has, where quotas are asked about by ask.
func (r *Reader) usage(ctx context.Context, subjects []tenant.Subject, in store.Store, ask asker) ([]Tenant, error) {
	if len(subjects) > MaxSubjects {
		return nil, fmt.Errorf("usage: %d subjects; hint: at most %d", len(subjects), MaxSubjects)
	}
	s := r.survey()
	usage := make([]Tenant, len(subjects))
	var quotas []quota
	var others []beyond
	var of, othersOf []int // the subject of each
	for i, subject := range subjects {
		has := s.standing(subject)
		usage[i] = Tenant{Subject: subject, At: s.now, Tier: has.Tier()}
		other, own := s.beyond(subject, has), s.quotas(subject, has)
		if most := MaxQuotas / len(subjects); len(other)+len(own) > most {
			usage[i].Cut = true
			other = other[:min(len(other), most)]
			own = own[:min(len(own), most-len(other))]
		}
		quotas, of = append(quotas, own...), append(of, slices.Repeat([]int{i}, len(own))...)
		others, othersOf = append(others, other...), append(othersOf, slices.Repeat([]int{i}, len(other))...)
	}
	if len(others) > 0 {
		s.peek(ctx, in, others)
	}
	for i := range others {
		u := &usage[othersOf[i]]
		u.Beyond = append(u.Beyond, others[i].Limit)
	}
	for some := range slices.Chunk(quotas, askedAtOnce) {
		responses, err := s.ask(ctx, some, ask)
		if err != nil {
			return nil, fmt.Errorf("usage: %w", err)
		}
		for i := range some {
			u := &usage[of[i]]
			u.Limits = s.appendUsage(u.Limits, &some[i], &responses[i])
		}
		of = of[len(some):]
	}
	return usage, nil
}

// Reset forgets what a subject has used of its quotas for descriptors, or of all that
// Usage tells of where none is named, and lifts their bans; what is counted beside the
// main limits of those rules is forgotten too. With a domain it is for that alone.
// Descriptors are canonical texts. No observer is told: nothing was decided.
//
// The error wraps ErrNoQuota when nothing counts one of the descriptors, and nothing
// was forgotten then; or it is that of a store which did not answer, and what was
// forgotten is not known: to ask again does no harm.
func (r *Reader) Reset(ctx context.Context, domain string, subject tenant.Subject, descriptors ...string) error {
	s := r.survey()
	has := s.standing(subject)
	var quotas []quota
	for _, text := range descriptors {
		found := s.quotasFor(domain, subject, has, text)
		if len(found) == 0 {
			return fmt.Errorf("reset %s: %w", tenant.DescriptorText(text), ErrNoQuota)
		}
		quotas = append(quotas, found...)
	}
	if len(descriptors) == 0 {
		for _, q := range s.quotas(subject, has) {
			if domain == "" || q.domain == domain {
				quotas = append(quotas, q)
			}
		}
		if len(quotas) == 0 {
			return fmt.Errorf("reset: %w", ErrNoQuota)
		}
	}
	var failed error
	for some := range slices.Chunk(quotas, askedAtOnce) {
		responses, err := s.ask(ctx, some, r.limiter.Forget)
		if err != nil {
			return fmt.Errorf("reset: %w", err)
		}
		failed = errors.Join(failed, failureOf("reset", responses))
	}
	return failed
}

// Refund gives hits back that a subject was charged for a descriptor, in one domain: to
// all limits that a request with it would charge, as Check does. The errors are as those
// of Reset, but that to ask again gives them back again.
func (r *Reader) Refund(ctx context.Context, domain string, subject tenant.Subject, text string, hits int64) error {
	s := r.survey()
	found := s.quotasFor(domain, subject, s.standing(subject), text)
	if len(found) == 0 {
		return fmt.Errorf("refund %s: %w", tenant.DescriptorText(text), ErrNoQuota)
	}
	requests := []headgate.Request{{Domain: domain, Descriptors: []headgate.Descriptor{{Entries: found[0].entries, Hits: hits, Op: store.Refund}}}}
	responses := make([]headgate.Response, 1)
	if err := r.limiter.Check(ctx, requests, responses); err != nil {
		return fmt.Errorf("refund: %w", err)
	}
	return failureOf("refund", responses)
}

// Domains returns the domains in which subjects with that key have quotas, sorted.
func (r *Reader) Domains(key string) []string {
	s := r.survey()
	var names []string
	for _, d := range s.domains() {
		if _, ok := s.tenantRule(d, tenant.Subject{Key: key, Value: "x"}); ok {
			names = append(names, d.Name)
		}
	}
	return names
}

// failureOf returns why the store did not answer, nil when it did.
func failureOf(op string, responses []headgate.Response) error {
	for i := range responses {
		if reason := responses[i].Degraded(); reason != store.NoReason {
			return fmt.Errorf("%s: the store did not answer: %v", op, reason)
		}
	}
	return nil
}

// asker is Limiter.Peek, Limiter.PeekIn of a store, or Limiter.Forget.
type asker func(context.Context, []headgate.Request, []headgate.Response) error

// ask asks about each quota, and returns a response for each.
func (s *survey) ask(ctx context.Context, quotas []quota, ask asker) ([]headgate.Response, error) {
	requests, responses := make([]headgate.Request, len(quotas)), make([]headgate.Response, len(quotas))
	for i := range quotas {
		q := &quotas[i]
		requests[i] = headgate.Request{Domain: q.domain, Descriptors: []headgate.Descriptor{{Entries: q.entries}}}
	}
	return responses, ask(ctx, requests, responses)
}

// appendUsage appends what the verdicts on q say. Those on rules further out and on other
// limits of its rule speak of something else, and one that is replaced counts nothing.
func (s *survey) appendUsage(dst []Limit, q *quota, resp *headgate.Response) []Limit {
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if v.Rule == nil || v.Role != rules.Main || v.Depth != len(q.entries) || v.By == verdict.ByReplacement {
			continue
		}
		u := Limit{Domain: q.domain, Rule: v.Rule.ID, Descriptor: q.text, Name: v.Name, Source: v.Source, Limit: v.Limit}
		if u.Limit != nil {
			u.Degraded, u.Local = v.Degraded, v.By == verdict.ByLocalShare
			u.count(&v.Decision, s.now)
		}
		dst = append(dst, u)
	}
	return dst
}

// count takes over what a peek at now says.
func (l *Limit) count(d *limit.Decision, now time.Time) {
	l.Quota = d.Limit
	l.Start, l.End = windowOf(l.Limit, now)
	if l.Counted() {
		l.Remaining, l.Used, l.ResetAfter = d.Remaining, max(d.Limit-d.Remaining, 0), d.ResetAfter
	}
}

// windowOf returns the window of l that is counted at now; see Limit.Start.
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
