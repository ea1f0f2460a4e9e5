package rlqs

import (
	"math"
	"testing"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

// envoy does with reports and assignments what Envoy's filter does, faults among it, by the
// clock of the test.
type envoy struct {
	world   *world
	service *Service
	session *session
	domain  string
	buckets map[string]*envoyBucket
	order   []string
	next    time.Time // of the report
}

// envoyBucket is a bucket of Envoy.
type envoyBucket struct {
	id              map[string]string
	allowed, denied uint64
	reported        time.Time
	rule            *typev3.RateLimitStrategy // nil: none
	until           time.Time
	held            float64
	at              time.Time
}

// world is some nodes on one store, and the clock of them all.
type world struct {
	t     *testing.T
	now   time.Time
	nodes []*Service
	// limiters are those of the nodes.
	limiters []*headgate.Limiter
}

// newWorld returns nodes with these rules.
func newWorld(t *testing.T, rules string, nodes int) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)}
	counts, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(w.now) }})
	if err != nil {
		t.Fatal(err)
	}
	set := testrules.Load(t, rules)
	for range nodes {
		l, err := headgate.New(headgate.Options{Store: counts, Rules: set, Now: func() time.Time { return w.now }})
		if err != nil {
			t.Fatal(err)
		}
		door := l.Door(headgate.DoorOptions{Name: "rlqs", Rights: headgate.Rights{Check: true, GiveBack: true, Explain: true}})
		w.limiters = append(w.limiters, l)
		w.nodes = append(w.nodes, New(Options{Decider: door, Store: counts, OnPanic: func(cause any, stack []byte) { t.Errorf("%v\n%s", cause, stack) }}))
	}
	return w
}

// envoy returns one that reports to a node, first after that time.
func (w *world) envoy(node int, first time.Duration) *envoy {
	s := w.nodes[node]
	return &envoy{world: w, service: s, session: &session{service: s, domain: "d", leases: map[string]*lease{}}, domain: "d",
		buckets: map[string]*envoyBucket{}, next: w.now.Add(first)}
}

// pass decides a request of the bucket of a user.
func (e *envoy) pass(user string) bool {
	b := e.buckets[user]
	if b == nil {
		b = &envoyBucket{id: map[string]string{"user": user}, allowed: 1, reported: e.world.now, at: e.world.now}
		e.buckets[user], e.order = b, append(e.order, user)
		e.report([]*envoyBucket{b})
		return true
	}
	if b.decide(e.world.now) {
		b.allowed++
		return true
	}
	b.denied++
	return false
}

func (b *envoyBucket) decide(now time.Time) bool {
	if b.rule == nil || now.After(b.until) {
		return true // no assignment
	}
	if t := b.rule.GetTokenBucket(); t != nil {
		b.fill(now)
		if b.held < 1 {
			return false
		}
		b.held--
		return true
	}
	return b.rule.GetBlanketRule() == typev3.RateLimitStrategy_ALLOW_ALL
}

// fill brings the tokens up to now.
func (b *envoyBucket) fill(now time.Time) {
	if t := b.rule.GetTokenBucket(); t != nil {
		rate := float64(t.GetTokensPerFill().GetValue()) / math.Trunc(t.GetFillInterval().AsDuration().Seconds())
		b.held = min(b.held+rate*now.Sub(b.at).Seconds(), float64(t.GetMaxTokens()))
	}
	b.at = now
}

// tick reports, if it is time to.
func (e *envoy) tick() {
	if e.world.now.Before(e.next) {
		return
	}
	e.next = e.next.Add(5 * time.Second)
	var all []*envoyBucket
	for _, user := range e.order {
		if b := e.buckets[user]; b != nil {
			all = append(all, b)
		}
	}
	e.report(all)
}

func (e *envoy) report(all []*envoyBucket) {
	m := &rlqspb.RateLimitQuotaUsageReports{Domain: e.domain}
	for _, b := range all {
		m.BucketQuotaUsages = append(m.BucketQuotaUsages, &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: &rlqspb.BucketId{Bucket: b.id}, TimeElapsed: durationpb.New(e.world.now.Sub(b.reported)),
			NumRequestsAllowed: b.allowed, NumRequestsDenied: b.denied,
		})
		b.allowed, b.denied, b.reported = 0, 0, e.world.now
	}
	e.hear(response(e.service.ledger.report(e.world.t.Context(), e.session, e.session.read(m), e.world.now)))
}

// wake has the service look at what may pass again.
func (e *envoy) wake() {
	for _, le := range e.session.leases {
		if !le.wake.IsZero() && !le.wake.After(e.world.now) {
			e.hear(response(e.service.ledger.wake(e.world.t.Context(), e.session, e.world.now)))
			return
		}
	}
}

func (e *envoy) hear(m *rlqspb.RateLimitQuotaResponse) {
	for _, a := range m.GetBucketAction() {
		user := a.GetBucketId().GetBucket()["user"]
		b := e.buckets[user]
		if b == nil {
			continue
		}
		if a.GetAbandonAction() != nil {
			delete(e.buckets, user)
			continue
		}
		b.take(a.GetQuotaAssignmentAction(), e.world.now)
	}
}

// take takes an assignment. A token bucket is replaced only where its numbers differ, and of
// its interval the fraction of a second alone is looked at.
func (b *envoyBucket) take(a *rlqspb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, now time.Time) {
	b.until = now.Add(a.GetAssignmentTimeToLive().AsDuration().Truncate(time.Second))
	s := a.GetRateLimitStrategy()
	t := s.GetTokenBucket()
	if t == nil && s.GetStrategy() != nil && s.GetRequestsPerTimeUnit() == nil {
		b.rule, b.at = s, now
		return
	}
	if t == nil {
		return // is not heeded
	}
	old := b.rule.GetTokenBucket()
	switch {
	case old == nil:
		b.rule, b.held, b.at = s, float64(t.GetMaxTokens()), now
	case old.GetMaxTokens() != t.GetMaxTokens() || old.GetTokensPerFill().GetValue() != t.GetTokensPerFill().GetValue() || old.GetFillInterval().GetNanos() != t.GetFillInterval().GetNanos():
		b.fill(now)
		b.held *= float64(t.GetMaxTokens()) / float64(old.GetMaxTokens())
		b.rule = s
	}
}
