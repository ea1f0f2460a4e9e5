package headgate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/spread"
	"github.com/headgate/headgate/tenant"
)

// counts says what is left of all that the tenant of b has, by what a peek tells and by
// looking into the buckets beyond its quotas.
func (b *bench) counts(subject tenant.Subject, texts ...string) string {
	b.t.Helper()
	var all []string
	for _, text := range texts {
		for _, v := range b.check(some(text, 0)).Verdicts {
			if v.Limit != nil {
				all = append(all, fmt.Sprintf("%s %s/%v: %d", text, v.Source, v.Limit.Period, v.Decision.Remaining))
			}
		}
	}
	takes := []store.Take{{Key: tenant.AppendPoolKey(nil, subject), Limit: limit.Must(limit.PerHour(1000))}}
	for _, user := range []string{"", "u", "v"} {
		takes = append(takes, store.Take{
			Key: tenant.AppendPoolKey(nil, subject, descriptor.Entry{Key: "user", Value: user}), Limit: limit.Must(limit.PerHour(1000)),
		})
	}
	for _, id := range []string{"a", "b", "w"} {
		takes = append(takes, store.Take{Key: tenant.AppendTopUpKey(nil, subject, id), Limit: limit.Must(limit.Spec{
			Algorithm: limit.SubWindows, SubWindows: limit.MinSubWindows, Strict: true, Quota: 1000, Period: limit.MaxPeriod,
		})})
	}
	results := make([]store.Result, len(takes))
	b.store.Take(context.Background(), takes, results)
	for i, name := range []string{"pool", "pool for ''", "pool for u", "pool for v", "a", "b", "w"} {
		if results[i].Err != nil {
			b.t.Fatal(results[i].Err)
		}
		all = append(all, fmt.Sprintf("%s used %d", name, 1000-results[i].Remaining))
	}
	return strings.Join(all, ", ")
}

// usedOf returns the numbers behind the counts.
func (b *bench) usedOf(subject tenant.Subject, texts ...string) []int64 {
	var used []int64
	for _, one := range strings.Split(b.counts(subject, texts...), ", ") {
		var n int64
		if at := strings.LastIndexByte(one, ' '); at >= 0 {
			fmt.Sscan(one[at+1:], &n)
			if strings.Contains(one, ": ") {
				n = -n // what is left
			}
		}
		used = append(used, n)
	}
	return used
}

// TestReserveAndCommitIsACheck: with whatever quotas, pools and top-ups, for one or two
// descriptors, on the path or at the leaf, what is reserved and committed has charged what
// a check of it has; half of it, half of that; and what is cancelled, nothing.
func TestReserveAndCommitIsACheck(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		small := func(name string) int64 { return 2 * rapid.Int64Range(1, 8).Draw(rt, name) }
		tier := tenant.Tier{Name: "free", Quotas: map[string]*tenant.Quota{
			tenant.Default: {Limits: []tenant.Limit{fixed(small("minute"), time.Minute, "m"), fixed(small("hour")+6, time.Hour, "h")}},
			"op:write":     {Limits: []tenant.Limit{fixed(small("writes"), time.Minute, "w")}},
		}}
		if rapid.Bool().Draw(rt, "pool") {
			tier.Pool = &tenant.Pool{Limit: fixed(small("pool")+8, time.Hour, "pool")}
			if rapid.Bool().Draw(rt, "shares") {
				tier.Pool.PerKey = &tenant.KeyCap{Entry: "user", Limit: fixed(small("per key")+4, time.Hour, "key")}
			}
		}
		account := tenant.Account{Subject: apiKey("k")}
		for _, id := range []string{"a", "b", "w"} {
			of := ""
			if id == "w" {
				of = "op:write"
			}
			if rapid.Bool().Draw(rt, "has "+id) {
				account.TopUps = append(account.TopUps, topUp(id, of, small("hits of "+id)))
			}
		}
		yaml := fmt.Sprintf("domain: d\nmatch: %s\nconsumption: %s\ndescriptors: [{key: api_key, tenant: true}]\n",
			rapid.SampledFrom([]string{"path", "leaf"}).Draw(rt, "match"), rapid.SampledFrom([]string{"all_or_nothing", "independent"}).Draw(rt, "consumption"))
		tiers, err := tenant.NewTiers([]tenant.Tier{tier}, "")
		if err != nil {
			rt.Fatal(err)
		}
		texts := []string{"api_key:k", "api_key:k,op:write"}
		descriptors := func(name string) (list []headgate.Descriptor) {
			for range rapid.IntRange(1, 2).Draw(rt, name) {
				list = append(list, some(rapid.SampledFrom(texts).Draw(rt, "what")+rapid.SampledFrom([]string{"", ",user:u", ",user:v"}).Draw(rt, "user"), small("hits")))
			}
			return list
		}
		var before [][]headgate.Descriptor
		for range rapid.IntRange(0, 4).Draw(rt, "requests before") {
			before = append(before, descriptors("before"))
		}
		asked := descriptors("descriptors")
		// settled returns what is used before, and after asked was checked, or reserved and
		// settled by a part of it.
		settled := func(reserves bool, half int64) (start, end []int64, allowed bool) {
			b := newBench(t, yaml, headgate.Options{})
			b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{account})))
			for _, one := range before {
				one = slices.Clone(one)
				b.check(one...)
			}
			start = b.usedOf(account.Subject, texts...)
			if !reserves {
				// As a reservation, a check is all or nothing here.
				resp := b.check(asked...)
				return start, b.usedOf(account.Subject, texts...), resp.Allowed
			}
			r, resp := b.reserve(reservation.Options{}, asked...)
			if resp.Allowed {
				var actual reservation.Actual
				for _, d := range asked {
					actual.Hits = append(actual.Hits, d.Hits/2*half)
				}
				b.commit(r, reservation.Settled, actual)
				b.commit(r, reservation.SettledBefore, actual)
			}
			return start, b.usedOf(account.Subject, texts...), resp.Allowed
		}
		start, end, _ := settled(true, 2)
		for half := range int64(2) {
			again, got, allowed := settled(true, half)
			for i := range got {
				if allowed && (start[i] != again[i] || 2*(got[i]-start[i]) != half*(end[i]-start[i])) {
					rt.Fatalf("%d halves of %+v: %v, want that part from %v to %v", half, asked, got, start, end)
				}
			}
		}
		if strings.Contains(yaml, "all_or_nothing") {
			if _, want, allowed := settled(false, 0); allowed && !slices.Equal(end, want) {
				rt.Fatalf("%+v: %v, want %v as by a check", asked, end, want)
			}
		}
	})
}

// lenders are limiters on stores that share buckets, for a tenant whose quota of 20 has a
// pool of 70 behind it, of which 30 for each user, and a top-up of 40. Nothing comes back
// while a test runs.
func lenders(t testing.TB, stores ...store.Store) []*headgate.Limiter {
	t.Helper()
	tiers, err := tenant.NewTiers([]tenant.Tier{{
		Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: {Limits: []tenant.Limit{yearly(20, "q")}}},
		Pool: &tenant.Pool{Limit: yearly(70, "p"), PerKey: &tenant.KeyCap{Entry: "user", Limit: yearly(30, "k")}},
	}}, "")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	account := tenant.Account{Subject: apiKey("k"), TopUps: []tenant.TopUp{{ID: "a", Hits: 40, Term: tenant.Term{From: now.Add(-time.Hour), Until: now.Add(time.Hour)}}}}
	var all []*headgate.Limiter
	for _, s := range stores {
		l, err := headgate.New(headgate.Options{Store: s, Rules: load(t, "domain: d\ndescriptors: [{key: api_key, tenant: true}]")})
		if err != nil {
			t.Fatal(err)
		}
		l.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{account})))
		all = append(all, l)
	}
	return all
}

// lent is what was used of the quota, the pool, its shares of u and v, and the top-up of
// lenders.
func lent(t testing.TB, s store.Store) [5]int64 {
	t.Helper()
	const large = 1_000_000
	plain, subject := yearly(large, "").Limit, apiKey("k")
	takes := []store.Take{
		{Key: descriptor.AppendKey(nil, descriptor.KindTenant, "d", []descriptor.Entry{subject}, 0), Limit: plain},
		{Key: tenant.AppendPoolKey(nil, subject), Limit: plain},
		{Key: tenant.AppendPoolKey(nil, subject, descriptor.Entry{Key: "user", Value: "u"}), Limit: plain},
		{Key: tenant.AppendPoolKey(nil, subject, descriptor.Entry{Key: "user", Value: "v"}), Limit: plain},
		{Key: tenant.AppendTopUpKey(nil, subject, "a"), Limit: limit.Must(limit.Spec{
			Algorithm: limit.SubWindows, SubWindows: limit.MinSubWindows, Strict: true, Quota: large, Period: limit.MaxPeriod,
		})},
	}
	results := make([]store.Result, len(takes))
	s.Take(t.Context(), takes, results)
	var used [5]int64
	for i := range results {
		if results[i].Err != nil {
			t.Fatal(results[i].Err)
		}
		used[i] = large - results[i].Remaining
	}
	return used
}

// TestLoansRace lets reservations by few ids, and commits and cancellations of them, race
// on two nodes to the last hit: all that was settled is in one bucket or another, once.
func TestLoansRace(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			first := open()
			defer first.Close()
			second := first
			if name == "redis" {
				second = open()
				defer second.Close()
				second = denial.New(second, denial.Options{})
			}
			nodes := lenders(t, first, second)
			type job struct {
				user             string
				estimate, actual int64
				granted, settled atomic.Int64
			}
			jobs := make([]*job, 60)
			for i := range jobs {
				jobs[i] = &job{user: []string{"u", "v"}[i%2], estimate: int64(1 + i%7)}
				jobs[i].actual = []int64{0, jobs[i].estimate, 2, 11}[i%4]
			}
			var all sync.WaitGroup
			for worker := range 4 {
				all.Go(func() {
					for i, j := range jobs {
						l, resp := nodes[(worker+i)%2], new(headgate.Response)
						req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("api_key:k,user:"+j.user, j.estimate)}}
						r, err := l.Reserve(t.Context(), req, reservation.Options{ID: fmt.Sprint(i)}, resp)
						if err != nil || resp.Degraded() != store.NoReason {
							t.Errorf("%+v, %v", resp, err)
						}
						if !resp.Allowed {
							continue
						}
						j.granted.Add(1)
						outcome, err := l.Commit(t.Context(), r, used(j.actual), resp)
						switch {
						case err != nil:
							t.Error(err)
						case outcome == reservation.Settled:
							j.settled.Add(1)
						}
					}
				})
			}
			all.Wait()
			var want, most int64
			for i, j := range jobs {
				if j.granted.Load() > 0 {
					want, most = want+j.actual, max(most, j.granted.Load())
				}
				if n := j.settled.Load(); n != min(j.granted.Load(), 1) {
					t.Errorf("job %d, granted %d times, was settled %d times", i, j.granted.Load(), n)
				}
			}
			got := lent(t, first)
			if sum := got[0] + got[1] + got[4]; sum != want || got[1] != got[2]+got[3] {
				t.Errorf("quota, pool, shares, top-up: %v, %d in all, want %d", got, sum, want)
			}
			// What is used more than reserved is looked up, and then charged: while three others
			// do the same, by 10 at most.
			if got[1] > 70+30 || got[2] > 30+30 || got[3] > 30+30 || got[4] > 40+30 || got[1] == 0 || most < 2 {
				t.Errorf("quota, pool, shares, top-up: %v are too much, or nothing was raced for (%d)", got, most)
			}
		})
	}
}

// TestLoansNeverTwice loses questions and answers of one store, and of each of three that
// a group falls apart into: however often it is asked again, what was reserved on the pool
// is settled once, and of three never twice.
func TestLoansNeverTwice(t *testing.T) {
	for _, parts := range []int{1, 3} {
		t.Run(fmt.Sprint(parts, " parts"), rapid.MakeCheck(func(rt *rapid.T) {
			shared, calm := lossy(rt, parts)
			*calm = true
			l := lenders(t, shared)[0]
			reserve := func(id string, hits int64) (reservation.Reservation, bool) {
				var resp headgate.Response
				req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("api_key:k,user:u", hits)}}
				r, err := l.Reserve(context.Background(), req, reservation.Options{ID: id}, &resp)
				if err != nil {
					rt.Fatal(err)
				}
				return r, resp.Allowed && resp.Degraded() == store.NoReason
			}
			if _, ok := reserve("fills the quota", 20); !ok {
				rt.Fatal("denied")
			}
			*calm = parts > 1
			r, ok := reserve("job", 20)
			for tries := 0; !ok; tries++ {
				*calm = tries > 20
				r, ok = reserve("job", 20)
			}
			*calm = true
			reserved := lent(t, shared)
			if reserved != [5]int64{20, 20, 20, 0, 0} {
				rt.Fatalf("reserved: %v", reserved)
			}
			*calm = false
			actual := rapid.Int64Range(0, 30).Draw(rt, "actual")
			for tries := 0; ; tries++ {
				*calm = tries > 20
				if outcome, err := l.Commit(context.Background(), r, used(actual), new(headgate.Response)); err != nil {
					rt.Fatal(err)
				} else if outcome != reservation.Undecided {
					break
				}
			}
			*calm = true
			got := lent(t, shared)
			if parts == 1 && got != [5]int64{20, actual, actual, 0, 0} {
				rt.Fatalf("used %d of the pool: %v", actual, got)
			}
			for i := range got {
				if change := got[i] - reserved[i]; change != 0 && (i == 0 || i > 2 || change != actual-20) {
					rt.Fatalf("used %d: from %v to %v", actual, reserved, got)
				}
			}
		}))
	}
}

// What says that something else has paid is not believed, but the store.
func TestForgedLoans(t *testing.T) {
	buckets := memory(t)
	l := lenders(t, buckets)[0]
	reserve := func(l *headgate.Limiter, id string, hits int64) reservation.Reservation {
		t.Helper()
		var resp headgate.Response
		req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("api_key:k,user:u", hits)}}
		r, err := l.Reserve(t.Context(), req, reservation.Options{ID: id}, &resp)
		if err != nil || !resp.Allowed {
			t.Fatalf("%+v, %v", resp, err)
		}
		return r
	}
	forge := func(r, like reservation.Reservation) reservation.Reservation {
		t.Helper()
		forged, err := reservation.Parse(grafted(r, like))
		if err != nil {
			t.Fatal(err)
		}
		return forged
	}
	cancel := func(r reservation.Reservation) {
		t.Helper()
		if outcome, err := l.Cancel(t.Context(), r, new(headgate.Response)); err != nil || outcome != reservation.Settled {
			t.Fatal(outcome, err)
		}
	}
	byQuota := reserve(l, "quota", 15)
	byPool := reserve(l, "pool", 12)
	if got := lent(t, buckets); got != [5]int64{15, 12, 12, 0, 0} {
		t.Fatalf("%v", got)
	}
	// One that the quota has paid says that the pool did: it is charged what it takes back
	// from nobody.
	cancel(forge(byQuota, byPool))
	if got := lent(t, buckets); got != [5]int64{15, 12, 12, 0, 0} {
		t.Errorf("the pool has given back what it was not charged: %v", got)
	}
	// One of another tenant's world, which says more.
	other := lenders(t, memory(t))[0]
	reserve(other, "fills the quota", 20)
	more := reserve(other, "more", 30)
	cancel(forge(byPool, more))
	if got := lent(t, buckets); got != [5]int64{15, 0, 0, 0, 0} {
		t.Errorf("the pool has not what it was charged: %v", got)
	}
	// Who says nothing at all is believed no less.
	nothing := reserve(l, "again", 12)
	r := forge(nothing, reserve(l, "no hits", 0))
	cancel(r)
	if got := lent(t, buckets); got != [5]int64{15, 0, 0, 0, 0} {
		t.Errorf("the pool has not what it was charged: %v", got)
	}
}

// What was reserved at another price gives back no more than it was charged.
func TestLoanWhosePriceHasChanged(t *testing.T) {
	const rule = "domain: d\ndescriptors: [{key: api_key, tenant: true%s}]"
	b := newBench(t, fmt.Sprintf(rule, ", cost: {from: content_length}"), headgate.Options{})
	pooled := toppedUp("k", topUp("a", "", 100))
	b.limiter.SetTenants(beyond(t, pooled))
	request := headgate.Request{
		Domain: "d", Descriptors: []headgate.Descriptor{some("api_key:k", 50)},
		Attributes: []descriptor.Entry{{Key: "content_length", Value: "10"}},
	}
	var resp headgate.Response
	r, err := b.limiter.Reserve(t.Context(), &request, reservation.Options{}, &resp)
	if err != nil || answered(&resp) != "passes, top_up 90/100, top_up 90/100" {
		t.Fatalf("%s, %v", answered(&resp), err)
	}
	b.check(some("api_key:other", 0))
	other, err := b.limiter.Reserve(t.Context(), &request, reservation.Options{}, &resp)
	if err != nil || !resp.Allowed {
		t.Fatalf("%+v, %v", resp, err)
	}
	b.limiter.SetRules(load(t, fmt.Sprintf(rule, "")))
	if got := answered(b.commit(r, reservation.Settled, used(0))); got != "passes, top_up 90/100, top_up 90/100" {
		t.Errorf("cancelled when hits count, and not bytes: %s", got)
	}
	if got := answered(b.commit(other, reservation.Settled, used(40))); !strings.HasPrefix(got, "passes, top_up 60/100") {
		t.Errorf("40 hits in place of 10 bytes: %s", got)
	}
}

// The pool pays what was used more than the quota has, and a debt is left where nobody has
// so much.
func TestOvershootIsCovered(t *testing.T) {
	buckets := memory(t)
	l := lenders(t, buckets)[0]
	for _, c := range []struct {
		estimate, actual int64
		want             [5]int64
		source           tenant.Source
		left             int64
	}{
		{10, 15, [5]int64{15, 0, 0, 0, 0}, tenant.FromTier, 5},
		{5, 12, [5]int64{20, 7, 7, 0, 0}, tenant.FromPool, 23},
		{3, 9, [5]int64{20, 16, 16, 0, 0}, tenant.FromPool, 14},
		{10, 40, [5]int64{20, 26, 26, 0, 30}, tenant.FromTopUp, 10},
		{1, 30, [5]int64{49, 27, 27, 0, 30}, tenant.FromTier, 0},
	} {
		var resp headgate.Response
		req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("api_key:k,user:u", c.estimate)}}
		r, err := l.Reserve(t.Context(), req, reservation.Options{}, &resp)
		if err != nil || !resp.Allowed {
			t.Fatalf("%+v: %+v, %v", c, resp, err)
		}
		outcome, err := l.Commit(t.Context(), r, used(c.actual), &resp)
		v := &resp.Verdicts[0]
		if err != nil || outcome != reservation.Settled || v.Source != c.source || v.Decision.Remaining != c.left || !v.Decision.Allowed {
			t.Errorf("%+v: %v, %v, %s", c, outcome, err, answered(&resp))
		}
		if got := lent(t, buckets); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// lossy is a store of so many parts that loses questions and answers unless it is calm.
func lossy(t *rapid.T, parts int) (shared store.Store, calm *bool) {
	var all []store.Store
	calm = new(bool)
	for range parts {
		buckets, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		// The parts are asked side by side: each has its own chances.
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		bad := func() bool { return !*calm && chance.IntN(3) == 0 }
		all = append(all, &unreliable{Store: buckets, fails: bad, loses: bad})
	}
	shared, err := spread.New(func(take *store.Take) int { return int(take.Key[len(take.Key)-3]) % parts }, all...)
	if err != nil {
		t.Fatal(err)
	}
	return shared, calm
}

// One that another node makes by the same id, after the quota has denied and before the
// pool is asked, is made once.
func TestLoanIsMadeMeanwhile(t *testing.T) {
	buckets := &punctual{Store: memory(t)}
	nodes := lenders(t, buckets, buckets)
	reserve := func(l *headgate.Limiter, id string, hits int64) (reservation.Reservation, *headgate.Response) {
		t.Helper()
		resp := new(headgate.Response)
		req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("api_key:k,user:u", hits)}}
		r, err := l.Reserve(t.Context(), req, reservation.Options{ID: id}, resp)
		if err != nil || !resp.Allowed {
			t.Fatalf("%+v, %v", resp, err)
		}
		return r, resp
	}
	reserve(nodes[0], "fills the quota", 20)
	buckets.then = func() {
		buckets.then = nil
		reserve(nodes[1], "job", 12)
	}
	r, resp := reserve(nodes[0], "job", 12)
	if got := lent(t, buckets); got != [5]int64{20, 12, 12, 0, 0} || answered(resp) != "passes, pool 18/30" {
		t.Errorf("made twice: %v, %s", got, answered(resp))
	}
	if _, err := nodes[0].Commit(t.Context(), r, used(5), new(headgate.Response)); err != nil {
		t.Fatal(err)
	}
	if got := lent(t, buckets); got != [5]int64{20, 5, 5, 0, 0} {
		t.Errorf("settled by 5: %v", got)
	}
}

// Of two descriptors that are equal the pool has paid one, and a quota the other one: each
// gets back its own.
func TestLoanOfOneOfTwins(t *testing.T) {
	buckets := memory(t)
	b := newBench(t, "domain: d\nmatch: leaf\ndescriptors: [{key: api_key, tenant: true}]", headgate.Options{Store: buckets})
	tiers, err := tenant.NewTiers([]tenant.Tier{{
		Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: {Limits: []tenant.Limit{yearly(20, "q")}}}, Pool: &tenant.Pool{Limit: yearly(70, "p")},
	}}, "")
	if err != nil {
		t.Fatal(err)
	}
	b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{{Subject: apiKey("k")}})))
	b.check(some("api_key:k", 17))
	for _, hits := range [][2]int64{{5, 2}, {2, 5}} {
		r, resp := b.reserve(reservation.Options{}, some("api_key:k", hits[0]), some("api_key:k", hits[1]))
		if got := lent(t, buckets); !resp.Allowed || got != [5]int64{19, 5, 0, 0, 0} {
			t.Fatalf("%v: %v, %s", hits, got, answered(resp))
		}
		b.commit(r, reservation.Settled, used(0))
		if got := lent(t, buckets); got != [5]int64{17, 0, 0, 0, 0} {
			t.Errorf("%v, cancelled: %v", hits, got)
		}
	}
}

// Who asks again for a reservation that others than the quota have paid, and of which a limit
// that only watches was not charged, is told the same; and it is settled by what was charged.
func TestLoanBesideALimitThatWatches(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {key: api_key, tenant: true}
- {key: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 60}}
`, headgate.Options{})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 100))))
	b.check(some("tried:x", 20))
	var r reservation.Reservation
	for range 2 {
		var resp *headgate.Response
		if r, resp = b.reserve(reservation.Options{ID: "one"}, some("api_key:k", 50), some("tried:x", 50)); !strings.HasPrefix(answered(resp), "passes, top_up 50/100, top_up 50/100") {
			t.Fatal(answered(resp))
		}
	}
	if got := answered(b.commit(r, reservation.Settled, used(10, 0))); !strings.HasPrefix(got, "passes, top_up 90/100") {
		t.Errorf("committed: %s", got)
	}
	if left := b.remaining("tried:x"); left != 40 {
		t.Errorf("%d of 60 are left, 20 were used", left)
	}
}
