package headgate_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// What a tenant of the model has: quotas, pools and top-ups are so long that nothing but
// requests moves their counts.
const (
	modelQuota = 20
	modelPool  = 30
	modelShare = 16
)

var modelTopUps = map[string]int64{"t1": 9, "t2": 14, "t3": 25}

// purses is a plain account of what was used of the quota, the pool, the shares of two
// users, and the top-ups.
type purses map[string]int64

// payers are those who may pay in place of the quota, in order.
func payers(has map[string]bool) (list []string) {
	for _, one := range []string{"pool", "t1", "t2", "t3"} {
		if has[one] {
			list = append(list, one)
		}
	}
	return list
}

// has reports whether payer has so many hits left for user.
func (u purses) has(payer, user string, hits int64) bool {
	switch payer {
	case "quota":
		return u["quota"]+hits <= modelQuota
	case "pool":
		return u["pool"]+hits <= modelPool && u["share of "+user]+hits <= modelShare
	}
	return u[payer]+hits <= modelTopUps[payer]
}

func (u purses) add(payer, user string, hits int64) {
	if u[payer] += hits; payer == "pool" {
		u["share of "+user] += hits
	}
}

// take charges the first of payers that has so many hits, and returns which; "" for none.
func (u purses) take(user string, hits int64, payers ...string) string {
	for _, one := range payers {
		if u.has(one, user, hits) {
			u.add(one, user, hits)
			return one
		}
	}
	return ""
}

// loan is a reservation of the model.
type loan struct {
	id, user string
	estimate int64
	by       string // who has paid
	texts    []string
	settled  bool
}

// lending is one run of the model beside the real thing.
type lending struct {
	t        *rapid.T
	store    store.Store
	domain   string
	who      string
	now      time.Time
	limiters [2]*headgate.Limiter
	has      map[string]bool
	used     purses
	loans    []*loan
	number   int
}

// modelTTL is how long the reservations of the model last. In a cluster a mark that was
// made just before the end of its window is not taken back (decision 16), so the window is
// as long as can be.
const modelTTL = time.Hour

func newLending(t *rapid.T, s store.Store, run string) *lending {
	w := &lending{
		t: t, store: s, domain: "d" + run, who: "k" + run, now: time.Now().Truncate(time.Millisecond),
		used: purses{}, has: map[string]bool{"pool": true, "t1": true, "t2": true, "t3": true},
	}
	rules := loadIn(t, w.domain, "domain: llm\ndescriptors: [{key: api_key, tenant: true}]\n")
	for i := range w.limiters {
		l, err := headgate.New(headgate.Options{Store: s, Rules: rules, Now: func() time.Time { return w.now }})
		if err != nil {
			t.Fatal(err)
		}
		w.limiters[i] = l
	}
	w.setTenants()
	return w
}

// setTenants swaps in what the tenant has.
func (w *lending) setTenants() {
	tier := tenant.Tier{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: {Limits: []tenant.Limit{yearly(modelQuota, "q")}}}}
	if w.has["pool"] {
		tier.Pool = &tenant.Pool{Limit: yearly(modelPool, "p"), PerKey: &tenant.KeyCap{Entry: "user", Limit: yearly(modelShare, "k")}}
	}
	tiers, err := tenant.NewTiers([]tenant.Tier{tier}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	account := tenant.Account{Subject: apiKey(w.who)}
	for i, id := range []string{"t1", "t2", "t3"} {
		if w.has[id] {
			account.TopUps = append(account.TopUps, tenant.TopUp{
				ID: id, Hits: modelTopUps[id], Term: tenant.Term{From: w.now.Add(-24 * time.Hour), Until: w.now.Add(time.Duration(24+i) * time.Hour)},
			})
		}
	}
	for _, l := range w.limiters {
		l.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{account})))
	}
}

func (w *lending) limiter() *headgate.Limiter {
	return w.limiters[rapid.IntRange(0, 1).Draw(w.t, "node")]
}

func (w *lending) request(user string, hits int64) *headgate.Request {
	d := on("api_key:" + w.who + ",user:" + user)
	d.Hits = hits
	return &headgate.Request{Domain: w.domain, Descriptors: []headgate.Descriptor{d}}
}

func (w *lending) step() {
	steps := []string{"check", "reserve", "reserve", "reserve", "again", "commit", "commit", "commit", "cancel", "late", "change"}
	switch step := rapid.SampledFrom(steps).Draw(w.t, "step"); step {
	case "check":
		w.check(rapid.SampledFrom([]string{"u", "v"}).Draw(w.t, "user"), rapid.Int64Range(1, 12).Draw(w.t, "hits"))
	case "reserve":
		w.number++
		w.reserve(&loan{
			id: fmt.Sprint("r", w.number), user: rapid.SampledFrom([]string{"u", "v"}).Draw(w.t, "user"),
			estimate: rapid.Int64Range(0, 18).Draw(w.t, "estimate"),
		}, true)
	case "change":
		one := rapid.SampledFrom([]string{"pool", "t1", "t2", "t3"}).Draw(w.t, "which")
		w.has[one] = !w.has[one]
		w.setTenants()
	case "late":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(w.t, "minutes")) * time.Minute)
	default:
		if len(w.loans) == 0 {
			return
		}
		b := rapid.SampledFrom(w.loans).Draw(w.t, "loan")
		switch step {
		case "again":
			w.reserve(b, false)
		case "commit":
			w.settle(b, rapid.Int64Range(0, 36).Draw(w.t, "actual"))
		case "cancel":
			w.settle(b, -1)
		}
	}
}

func (w *lending) check(user string, hits int64) {
	var responses [1]headgate.Response
	if err := w.limiter().Check(context.Background(), []headgate.Request{*w.request(user, hits)}, responses[:]); err != nil {
		w.t.Fatal(err)
	}
	by := w.used.take(user, hits, slices.Concat([]string{"quota"}, payers(w.has))...)
	w.speaks(&responses[0], by, by != "")
}

// speaks compares who a response says has paid.
func (w *lending) speaks(r *headgate.Response, by string, allowed bool) {
	source := tenant.FromTier
	switch by {
	case "pool":
		source = tenant.FromPool
	case "t1", "t2", "t3":
		source = tenant.FromTopUp
	}
	v := &r.Verdicts[0]
	if r.Allowed != allowed || v.Source != source || v.By != verdict.ByStore || v.Degraded != store.NoReason {
		w.t.Fatalf("%s, by %v: %+v; want allowed=%t by %v, has %v", answered(r), v.By, v, allowed, source, w.has)
	}
}

func (w *lending) reserve(b *loan, first bool) {
	var resp headgate.Response
	r, err := w.limiter().Reserve(context.Background(), w.request(b.user, b.estimate), reservation.Options{ID: b.id, TTL: modelTTL}, &resp)
	if err != nil {
		w.t.Fatal(err)
	}
	switch {
	case !first:
		by := b.by
		if !w.has[by] {
			by = "quota" // what is gone says nothing
		}
		w.speaks(&resp, by, true)
	case b.estimate == 0:
		// Who reserves nothing passes while nothing is owed, and nobody else pays.
		by := ""
		if w.used["quota"] <= modelQuota {
			by = "quota"
		}
		if b.by = by; by == "" {
			w.speaks(&resp, "quota", false)
			return
		}
		w.loans = append(w.loans, b)
	default:
		if b.by = w.used.take(b.user, b.estimate, slices.Concat([]string{"quota"}, payers(w.has))...); b.by == "" {
			w.speaks(&resp, "quota", false)
			return
		}
		w.speaks(&resp, b.by, true)
		w.loans = append(w.loans, b)
	}
	b.texts = append(b.texts, r.String())
}

func (w *lending) settle(b *loan, actual int64) {
	r, err := reservation.Parse(rapid.SampledFrom(b.texts).Draw(w.t, "text"))
	if err != nil {
		w.t.Fatal(err)
	}
	if late := !w.now.Before(r.Expires()); !late && rapid.IntRange(0, 4).Draw(w.t, "named alone") == 0 {
		// Another one knows the request and the id alone.
		if r, err = w.request(b.user, b.estimate).Reservation(reservation.Options{ID: b.id, TTL: modelTTL}); err != nil {
			w.t.Fatal(err)
		}
	}
	var resp headgate.Response
	var outcome reservation.Outcome
	if actual < 0 {
		actual = 0
		outcome, err = w.limiter().Cancel(context.Background(), r, &resp)
	} else {
		outcome, err = w.limiter().Commit(context.Background(), r, reservation.Actual{Hits: []int64{actual}}, &resp)
	}
	if end := r.Expires(); !end.IsZero() && !w.now.Before(end) {
		if err == nil {
			w.t.Fatalf("settled after its time: %v", outcome)
		}
		return
	}
	want := reservation.Settled
	if b.settled {
		want = reservation.SettledBefore
	}
	if err != nil || outcome != want || !resp.Allowed {
		w.t.Fatalf("settle %+v by %d: %v, %v, %+v, want %v", b, actual, outcome, err, resp, want)
	}
	if !b.settled {
		b.settled = true
		w.charge(b, actual)
	}
}

// charge charges the model what a settled reservation has used more, or gives back what
// it has not.
func (w *lending) charge(b *loan, actual int64) {
	more := actual - b.estimate
	gone := b.by != "quota" && !w.has[b.by]
	switch {
	case more <= 0 && gone:
	case more <= 0:
		w.used.add(b.by, b.user, more)
	default:
		asked := slices.Concat([]string{"quota"}, payers(w.has))
		if !gone {
			asked = slices.Concat([]string{b.by}, asked)
		}
		if w.used.take(b.user, more, asked...) == "" {
			w.used.add("quota", b.user, more)
		}
	}
}

// compare looks into every bucket, by limits that are large enough to tell debts.
func (w *lending) compare() {
	const large = 1_000_000
	plain := yearly(large, "").Limit
	topUp := limit.Must(limit.Spec{Algorithm: limit.SubWindows, SubWindows: limit.MinSubWindows, Strict: true, Quota: large, Period: limit.MaxPeriod})
	subject := apiKey(w.who)
	key := descriptor.AppendKey(nil, descriptor.KindTenant, w.domain, []descriptor.Entry{subject}, 0)
	names := []string{"quota", "pool", "share of u", "share of v", "t1", "t2", "t3"}
	takes := []store.Take{
		{Key: key, Limit: plain},
		{Key: tenant.AppendPoolKey(nil, subject), Limit: plain},
		{Key: tenant.AppendPoolKey(nil, subject, descriptor.Entry{Key: "user", Value: "u"}), Limit: plain},
		{Key: tenant.AppendPoolKey(nil, subject, descriptor.Entry{Key: "user", Value: "v"}), Limit: plain},
		{Key: tenant.AppendTopUpKey(nil, subject, "t1"), Limit: topUp},
		{Key: tenant.AppendTopUpKey(nil, subject, "t2"), Limit: topUp},
		{Key: tenant.AppendTopUpKey(nil, subject, "t3"), Limit: topUp},
	}
	results := make([]store.Result, len(takes))
	w.store.Take(context.Background(), takes, results)
	got := purses{}
	for i := range results {
		if results[i].Err != nil {
			w.t.Fatal(results[i].Err)
		}
		if n := large - results[i].Remaining; n != 0 {
			got[names[i]] = n
		}
	}
	want := maps.Clone(w.used)
	maps.DeleteFunc(want, func(_ string, n int64) bool { return n == 0 })
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Fatalf("used %v, want %v", got, want)
	}
}

// TestReservationsDrawOnPoolsAndTopUps mixes checks, reservations, repetitions, commits
// and cancellations, by who has the text and by who knows the id alone, while the pool and
// top-ups come and go, through two limiters: every bucket has the sum of what was used of
// it, and answers say who has paid.
func TestReservationsDrawOnPoolsAndTopUps(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	all := stores(t)
	all["cluster"] = func() store.Store { return openRedis(t, "redis+cluster://"+strings.Join(servers.Addrs(), ",")) }
	for name, open := range all {
		t.Run(name, func(t *testing.T) {
			shared := open()
			defer shared.Close()
			var runs atomic.Int64
			rapid.Check(t, func(t *rapid.T) {
				w := newLending(t, shared, fmt.Sprint(name, runs.Add(1)))
				for range rapid.IntRange(1, 30).Draw(t, "steps") {
					w.step()
					w.compare()
				}
			})
		})
	}
}
