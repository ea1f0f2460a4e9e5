package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// testEarlyDenials has the clock step back under many buckets that have room for
// their hits. Each may deny one of them early, and no more: one that drains slowly
// until the clock has caught up, and one that is asked no faster than it drains once.
func testEarlyDenials(t *testing.T, h Harness) {
	slow := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 20, Period: 300 * 24 * time.Hour})
	calm := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 10, Period: time.Second, Burst: 50})
	if !h.has(slow) {
		t.Skip("the store has no buckets that drain")
	}
	const keys, back, gap = 60, time.Hour, 100 * time.Millisecond
	h.SetNow(noon)
	key := func(kind string, i int) string { return fmt.Sprint(kind, " ", i) }
	for i := range keys {
		h.hit(t, key("slow", i), slow, 19)
		h.hit(t, key("calm", i), calm, 1+int64(i)%50)
	}
	stepped := noon - micros(back)
	h.SetNow(stepped)
	for i := range keys {
		if d := h.hit(t, key("slow", i), slow, 1); d.Allowed || d.RetryAfter > back {
			t.Fatalf("slow key %d after the step: %+v; a denial until the clock has caught up is what is written down", i, d)
		}
	}
	for n := range 20 {
		h.SetNow(stepped + micros(time.Duration(n)*gap))
		for i := range keys {
			if d := h.hit(t, key("calm", i), calm, 1); d.Allowed != (n > 0) {
				t.Fatalf("calm key %d, hit %d after the step: %+v, want a denial of the first alone", i, n, d)
			}
		}
	}
	h.SetNow(noon)
	for i := range keys {
		if d := h.hit(t, key("slow", i), slow, 1); !d.Allowed {
			t.Fatalf("slow key %d once the clock has caught up: %+v", i, d)
		}
	}
}

// testLeasesStepBack: where nobody but holders of leases asks for a bucket, a clock
// that steps back locks it no longer than a full one is.
func testLeasesStepBack(t *testing.T, h Harness) {
	for _, back := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		eachOf(t, leased, h.stepped(back))
	}
}

func (h Harness) stepped(back time.Duration) func(t *testing.T, l *limit.Limit, key string) {
	return func(t *testing.T, l *limit.Limit, key string) {
		key = fmt.Sprint(key, " ", back)
		h.SetNow(noon)
		h.hit(t, key, l, 100)
		now := noon - micros(back)
		// Time goes on a second at a time, and only leases are asked for.
		for i := range 240 {
			h.SetNow(now + micros(time.Duration(i)*time.Second))
			if g := h.lease(t, request(key, l, i, 10))[0]; g.Hits > 0 {
				return
			}
		}
		t.Errorf("no lease in four minutes after a step of %v back", back)
	}
}

// testNewTermsOfALease: a bucket that was filled under a larger burst is no longer
// locked for holders of leases than for hits.
func testNewTermsOfALease(t *testing.T, h Harness) {
	large := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 100, Period: time.Minute, Burst: 100_000})
	small := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 100, Period: time.Minute})
	h.SetNow(noon)
	h.hit(t, "key", large, 100_000)
	if g := h.lease(t, request("key", small, 1, 10))[0]; g.Hits != 0 {
		t.Fatalf("at once: %+v", g)
	}
	h.SetNow(noon + micros(time.Minute))
	if g := h.lease(t, request("key", small, 2, 10))[0]; g.Hits != 10 {
		t.Errorf("after a minute, in which the small burst drains: %+v", g)
	}
}

// testLeaseEndsStepBack: leases do not last longer because the clock has stepped back,
// and what is given back then can be used.
func testLeaseEndsStepBack(t *testing.T, h Harness) {
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		h.SetNow(noon)
		brief := request(key, l, 1, 10)
		brief.TTL = time.Second
		other := request(key, l, 2, 10)
		other.TTL = time.Second
		if g := h.lease(t, brief, other, request(key, l, 3, 10)); g[0].TTL != time.Second || g[1].TTL != time.Second || g[2].Hits != 10 {
			t.Fatalf("got %+v", g)
		}
		now := noon - micros(time.Hour)
		h.SetNow(now)
		before := h.hit(t, key, l, 0).Remaining
		g := h.lease(t, giveBack(key, l, 2, 10))[0]
		if got := g.Decision.Remaining - before; !g.Returned || got != 10 {
			t.Errorf("a return of 10 after the step gave back %d: %+v", got, g)
		}
		h.SetNow(now + micros(time.Second))
		if g := h.lease(t, giveBack(key, l, 1, 10))[0]; g.Returned {
			t.Errorf("a lease of a second lasts longer: %+v", g)
		}
	})
}

// testManyStepBack: leases that nobody returned before the clock stepped back take up
// no places once they have ended.
func testManyStepBack(t *testing.T, h Harness) {
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 100_000, Period: time.Minute})
	h.SetNow(noon)
	for i := range store.MaxLeases {
		q := request("key", l, i, 2)
		q.TTL = time.Second
		if g := h.lease(t, q)[0]; g.Hits != 2 {
			t.Fatalf("lease %d: %+v", i, g)
		}
	}
	now := noon - micros(time.Hour)
	h.SetNow(now)
	if g := h.lease(t, request("key", l, store.MaxLeases, 2))[0]; g.Hits != 0 {
		t.Fatalf("one lease too many: %+v", g)
	}
	h.hit(t, "key", l, 1) // puts the bucket in order
	h.SetNow(now + micros(2*time.Second))
	if g := h.lease(t, request("key", l, store.MaxLeases, 2))[0]; g.Hits != 2 {
		t.Errorf("two seconds after the step: %+v", g)
	}
}
