package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// RunLeases checks the store that open returns, which must be a store.Leaser, as
// Run does. A store passes both.
func RunLeases(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, open, []test{
		{"grant is a deduction", testGrant},
		{"bounds of a grant", testGrantBounds},
		{"length of a lease", testLeaseLength},
		{"length in a calendar", testLeaseCalendar},
		{"return", testReturn},
		{"return is idempotent", testReturnOnce},
		{"return of nothing", testReturnNothing},
		{"return after the end", testReturnLate},
		{"return leaves what others hold", testReturnOthers},
		{"return of another bucket", testReturnForeign},
		{"reset and lease", testResetAndLease},
		{"refund and lease", testRefundAndLease},
		{"what cannot be leased", testNotLeasable},
		{"one id, one lease", testLeaseTwice},
		{"many leases on a bucket", testManyLeases},
		{"batch of requests", testLeaseBatch},
		{"grants are overwritten", testGrantsOverwritten},
		{"hostile keys of leases", testLeaseKeys},
		{"leases after the clock has stepped back", testLeasesStepBack},
		{"ends of leases when the clock steps back", testLeaseEndsStepBack},
		{"many leases when the clock steps back", testManyStepBack},
		{"lease on a bucket of a larger burst", testNewTermsOfALease},
		{"leases and the model", testLeaseModel},
		{"leases keep the promise", testLeasePromise},
	})
}

// leaseID makes an id.
func leaseID(n int) (id store.LeaseID) {
	copy(id[:], fmt.Sprintf("%08d", n))
	return id
}

// request asks for want hits for an hour.
func request(key string, l *limit.Limit, id int, want int64) store.LeaseRequest {
	return store.LeaseRequest{Key: []byte(key), Limit: l, ID: leaseID(id), Want: want, Share: 1, TTL: time.Hour}
}

// giveBack asks for nothing but a return.
func giveBack(key string, l *limit.Limit, id int, hits int64) store.LeaseRequest {
	return store.LeaseRequest{Key: []byte(key), Limit: l, Return: leaseID(id), ReturnHits: hits}
}

// lease calls Lease; an error of any grant fails the test.
func (h Harness) lease(tb testing.TB, requests ...store.LeaseRequest) []store.Grant {
	tb.Helper()
	grants := make([]store.Grant, len(requests))
	as[store.Leaser](tb, h.Store).Lease(tb.Context(), requests, grants)
	for i := range grants {
		if grants[i].Err != nil {
			tb.Fatalf("request %d of %d, key %.40q: %v", i, len(requests), requests[i].Key, grants[i].Err)
		}
	}
	return grants
}

// leased has limits of about a hundred that can be leased.
var leased = []limit.Spec{
	{Algorithm: limit.SlidingWindow, Quota: 100, Period: time.Minute},
	{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute},
	{Algorithm: limit.SubWindows, Quota: 100, Period: time.Minute, SubWindows: 6},
	{Algorithm: limit.SubWindows, Quota: 100, Period: time.Minute, SubWindows: 6, Strict: true},
	{Algorithm: limit.TokenBucket, Quota: 70, Period: time.Minute, Burst: 100},
	{Algorithm: limit.GCRA, Quota: 100, Period: time.Minute},
}

func testGrant(t *testing.T, h Harness) {
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		h.hit(t, key, l, 10)
		g := h.lease(t, request(key, l, 1, 30))[0]
		if g.Hits != 30 || g.TTL <= 0 || g.TTL > time.Hour || g.Returned {
			t.Fatalf("got %+v", g)
		}
		if peek := h.hit(t, key, l, 0); peek != g.Decision {
			t.Errorf("a peek says %+v, the grant %+v", peek, g.Decision)
		}
		if !l.Algorithm.IsBucket() && g.Decision.Remaining != 60 || g.Decision.Remaining > 60 {
			t.Errorf("remaining %d of 100 after 10 and 30", g.Decision.Remaining)
		}
		// What is left is all that passes one by one.
		left := g.Decision.Remaining
		if d := h.hit(t, key, l, left); !d.Allowed {
			t.Errorf("the %d that remain: %+v", left, d)
		}
		g = h.lease(t, request(key, l, 2, 30))[0]
		if denial := h.hit(t, key, l, 1); g.Hits != 0 || g.TTL != 0 || g.Decision != denial || denial.Allowed || denial.RetryAfter <= 0 {
			t.Errorf("lease on a full bucket: %+v, a hit %+v", g, denial)
		}
	})
}

// testGrantBounds: a grant is at most what is wanted and a share of what remains,
// and nothing when the share is below two.
func testGrantBounds(t *testing.T, h Harness) {
	l := limit.Must(limit.PerMinute(100))
	for i, c := range []struct{ used, want, share, granted int64 }{
		{0, 1, 1, 1},
		{0, limit.MaxQuota, 1, 100},
		{0, 100, 3, 33},
		{0, 7, 3, 7},
		{0, 100, 50, 2},
		{0, 100, 51, 0},
		{0, 1, 51, 0},
		{98, 100, 1, 2},
		{99, 100, 1, 0},
		{100, 100, 1, 0},
		{0, 100, 0, 100},
		{0, 100, -3, 100},
		{0, 100, 1 << 62, 0},
		{0, 0, 1, 0},
		{0, -1, 1, 0},
		{0, 1 << 62, 2, 50},
	} {
		key := fmt.Sprint("key ", i)
		h.hit(t, key, l, c.used)
		q := request(key, l, i, c.want)
		q.Share = c.share
		g := h.lease(t, q)[0]
		if g.Hits != c.granted || (g.TTL > 0) != (c.granted > 0) {
			t.Errorf("%+v: got %+v", c, g)
		}
		h.remaining(t, key, l, 100-c.used-c.granted)
	}
	for i, ttl := range []time.Duration{-time.Hour, 0, time.Nanosecond, 999 * time.Nanosecond} {
		q := request("brief", l, i, 10)
		q.TTL = ttl
		if g := h.lease(t, q)[0]; g.Hits != 0 || g.TTL != 0 {
			t.Errorf("for %v: %+v", ttl, g)
		}
	}
	q := request("brief", l, 9, 10)
	q.TTL = 1999 * time.Nanosecond
	if g := h.lease(t, q)[0]; g.Hits != 10 || g.TTL != time.Microsecond {
		t.Errorf("for 1999 ns: %+v", g)
	}
}

// testLeaseLength: a lease ends with its window, and with a quarter of a bucket.
func testLeaseLength(t *testing.T, h Harness) {
	want := map[string]time.Duration{
		"sliding_window": 47 * time.Second,
		"fixed_window":   47 * time.Second,
		"sub_windows":    7 * time.Second,
		"token_bucket":   time.Minute * 100 / 70 / 4 / time.Microsecond * time.Microsecond,
		"gcra":           15 * time.Second,
	}
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		h.SetNow(noon + micros(13*time.Second))
		if g := h.lease(t, request(key, l, 1, 10))[0]; g.TTL != want[l.Algorithm.String()] {
			t.Errorf("got %+v, want %v", g, want[l.Algorithm.String()])
		}
		q := request(key, l, 2, 10)
		q.TTL = 50 * time.Millisecond
		if g := h.lease(t, q)[0]; g.TTL != q.TTL || g.Hits != 10 {
			t.Errorf("a short one: %+v", g)
		}
	})
}

// testLeaseCalendar leases on the last hours of a day of 23 hours, and on until
// midnight.
func testLeaseCalendar(t *testing.T, h Harness) {
	berlin, err := limit.NewCalendar(limit.CalendarDay, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Calendar: berlin})
	start := time.Date(2026, time.March, 29, 21, 30, 0, 0, time.UTC) // 23:30
	h.SetNow(limit.MicrosOf(start))
	g := h.lease(t, request("key", l, 1, 60))[0]
	if g.Hits != 60 || g.TTL != 30*time.Minute || g.Decision.Remaining != 40 {
		t.Errorf("half an hour before midnight: %+v", g)
	}
	h.SetNow(limit.MicrosOf(start.Add(30 * time.Minute)))
	h.remaining(t, "key", l, 100)
	if g := h.lease(t, giveBack("key", l, 1, 60))[0]; g.Returned || g.Decision.Remaining != 100 {
		t.Errorf("given back the next day: %+v", g)
	}
}

// testReturn gives back some and leases anew in one step.
func testReturn(t *testing.T, h Harness) {
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		first := h.lease(t, request(key, l, 1, 60))[0]
		q := request(key, l, 2, 10)
		q.Return, q.ReturnHits = leaseID(1), 40
		g := h.lease(t, q)[0]
		if !g.Returned || g.Hits != 10 || g.Decision.Remaining != first.Decision.Remaining+30 {
			t.Errorf("after %+v: %+v", first, g)
		}
		g = h.lease(t, giveBack(key, l, 2, 1000))[0]
		if !g.Returned || g.Hits != 0 || g.TTL != 0 || g.Decision.Remaining != first.Decision.Remaining+40 {
			t.Errorf("more than was granted, given back: %+v", g)
		}
	})
}

// testReturnOnce repeats returns, also of what nobody has.
func testReturnOnce(t *testing.T, h Harness) {
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		first := h.lease(t, request(key, l, 1, 60))[0]
		nameless := giveBack(key, l, 1, 60)
		nameless.Return = store.LeaseID{}
		for _, none := range []store.LeaseRequest{giveBack(key, l, 2, 60), giveBack(key, l, 2, 0), nameless} {
			if g := h.lease(t, none)[0]; g.Returned || g.Decision != first.Decision {
				t.Errorf("%+v: %+v, want %+v", none, g, first.Decision)
			}
		}
		for i := range 3 {
			g := h.lease(t, giveBack(key, l, 1, 20))[0]
			if g.Returned != (i == 0) || g.Decision.Remaining != first.Decision.Remaining+20 {
				t.Errorf("time %d: %+v", i, g)
			}
		}
	})
}

// testReturnNothing: a return of no hits ends a lease all the same. Nothing is
// freed by it, not even by giving back more afterwards, and its id can be used
// again.
func testReturnNothing(t *testing.T, h Harness) {
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		h.lease(t, request(key, l, 1, 20))
		before := h.lease(t, request(key, l, 2, 20))[0].Decision
		for i, hits := range []int64{0, -5} {
			if g := h.lease(t, giveBack(key, l, 1+i, hits))[0]; !g.Returned || g.Decision != before {
				t.Errorf("return of %d: %+v, want %+v", hits, g, before)
			}
			if g := h.lease(t, giveBack(key, l, 1+i, 20))[0]; g.Returned || g.Decision != before {
				t.Errorf("return of 20 after one of %d: %+v, want %+v", hits, g, before)
			}
		}
		if g := h.lease(t, request(key, l, 1, 5))[0]; g.Hits != 5 {
			t.Errorf("its id again: %+v", g)
		}
	})
}

func testReturnLate(t *testing.T, h Harness) {
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		for i, c := range []struct {
			early    limit.Micros
			returned bool
		}{{1, true}, {0, false}} {
			start := noon + micros(time.Hour)*limit.Micros(i+1)
			h.SetNow(start)
			g := h.lease(t, request(key, l, i, 50))[0]
			h.SetNow(start + micros(g.TTL) - c.early)
			before := h.hit(t, key, l, 0).Remaining
			g = h.lease(t, giveBack(key, l, i, 50))[0]
			if g.Returned != c.returned || (g.Decision.Remaining > before) != c.returned {
				t.Errorf("%d µs before the end: %+v, before %d", c.early, g, before)
			}
		}
		// One that ends before an earlier one does has ended, too.
		start := noon + 4*micros(time.Hour)
		h.SetNow(start)
		long, short := request(key, l, 10, 20), request(key, l, 11, 20)
		short.TTL = time.Second
		if g := h.lease(t, long, short); g[0].TTL <= g[1].TTL {
			t.Fatalf("%+v do not end one before the other", g)
		}
		h.SetNow(start + micros(time.Second))
		before := h.hit(t, key, l, 0).Remaining
		if g := h.lease(t, giveBack(key, l, 11, 20))[0]; g.Returned || g.Decision.Remaining != before {
			t.Errorf("after its end, behind a longer one: %+v, before %d", g, before)
		}
	})
}

// testReturnOthers: a bucket that a second lease found high because of the first
// does not fall below what the second needs; see limit.Return.
func testReturnOthers(t *testing.T, h Harness) {
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1000, Period: time.Second, Burst: 1000})
	m := newModel()
	for i, c := range []struct {
		at time.Duration
		q  store.LeaseRequest
	}{
		{0, request("key", l, 1, 100)},
		{90 * time.Millisecond, request("key", l, 2, 50)},
		{95 * time.Millisecond, giveBack("key", l, 1, 100)},
		{96 * time.Millisecond, giveBack("key", l, 2, 50)},
	} {
		m.now = noon + micros(c.at)
		h.SetNow(m.now)
		if c.q.TTL > 0 {
			c.q.TTL = 100 * time.Millisecond
		}
		want := m.lease(&c.q)
		if g := h.lease(t, c.q)[0]; g != want {
			t.Errorf("step %d: %+v, want %+v", i, g, want)
		}
		if i == 2 && want.Decision.ResetAfter != 145*time.Millisecond {
			t.Errorf("the second lease ends in 95 ms and holds 50 hits: %+v", want.Decision)
		}
	}
}

func testReturnForeign(t *testing.T, h Harness) {
	l := limit.Must(limit.PerMinute(100))
	h.lease(t, request("a", l, 1, 60), request("b", l, 2, 60))
	if g := h.lease(t, giveBack("b", l, 1, 60))[0]; g.Returned || g.Decision.Remaining != 40 {
		t.Errorf("got %+v", g)
	}
	h.remaining(t, "a", l, 40)
}

// testResetAndLease: a reset forgets what is leased; a return then gives back no
// more than there is.
func testResetAndLease(t *testing.T, h Harness) {
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		most := l.Capacity()
		h.lease(t, request(key, l, 1, 60))
		reset := op(store.Reset, key, l, 0)
		h.batch(t, reset)
		if g := h.lease(t, giveBack(key, l, 1, 60))[0]; !g.Returned || g.Decision.Remaining != most || g.Decision.ResetAfter != 0 {
			t.Errorf("given back to an unused bucket: %+v", g)
		}
		h.lease(t, request(key, l, 2, 60))
		h.batch(t, reset, take(key, l, 10))
		if g := h.lease(t, giveBack(key, l, 2, 60))[0]; !g.Returned || g.Decision.Remaining != most {
			t.Errorf("given back to a bucket that was used again: %+v", g)
		}
	})
}

// testRefundAndLease: a refund of other hits leaves the lease as it is.
func testRefundAndLease(t *testing.T, h Harness) {
	eachOf(t, leased, func(t *testing.T, l *limit.Limit, key string) {
		h.hit(t, key, l, 40)
		first := h.lease(t, request(key, l, 1, 20))[0]
		if d := h.batch(t, op(store.Refund, key, l, 30))[0]; d.Remaining != first.Decision.Remaining+30 {
			t.Errorf("refund of 30 after %+v: %+v", first.Decision, d)
		}
		if g := h.lease(t, giveBack(key, l, 1, 20))[0]; !g.Returned || g.Decision.Remaining < first.Decision.Remaining+30 {
			t.Errorf("given back: %+v", g)
		}
	})
}

// testNotLeasable asks for leases on what cannot be leased, in use and full.
func testNotLeasable(t *testing.T, h Harness) {
	for i, spec := range []limit.Spec{
		{Algorithm: limit.SlidingLog, Quota: 100, Period: time.Minute},
		{Algorithm: limit.LeakyQueue, Quota: 100, Period: time.Minute, MaxQueue: 99},
		{Algorithm: limit.LeakyBucket, Quota: 100, Period: time.Minute}, // one hit is too few
		{Algorithm: limit.GCRA, Quota: 0, Period: time.Minute},
		{Algorithm: limit.FixedWindow, Quota: 0, Period: time.Minute},
		{Algorithm: limit.Concurrency, Quota: 100, Period: time.Minute},
		{Algorithm: limit.Ban, Quota: 100, Period: time.Minute, BanFor: time.Minute},
	} {
		l, key := limit.Must(spec), fmt.Sprint("key ", i)
		for range 2 {
			q := request(key, l, i, 10)
			q.Return, q.ReturnHits = leaseID(i), 5
			g := h.lease(t, q)[0]
			want := h.hit(t, key, l, 0)
			if l.Leasable() && want.Remaining == 0 {
				want = h.hit(t, key, l, 1)
			}
			if g.Hits != 0 || g.TTL != 0 || g.Returned || g.Decision != want {
				t.Errorf("%v: %+v, want %+v", l.Algorithm, g, want)
			}
			h.hit(t, key, l, l.Capacity())
		}
	}
}

// testLeaseTwice repeats a request, as a network may.
func testLeaseTwice(t *testing.T, h Harness) {
	l := limit.Must(limit.PerMinute(100))
	first := h.lease(t, request("key", l, 1, 20))[0]
	if g := h.lease(t, request("key", l, 1, 20))[0]; g.Hits != 0 || g.Decision != first.Decision {
		t.Errorf("repeated: %+v, first %+v", g, first)
	}
	q := request("key", l, 1, 30)
	q.Return, q.ReturnHits = leaseID(1), 20
	if g := h.lease(t, q)[0]; !g.Returned || g.Hits != 30 || g.Decision.Remaining != 70 {
		t.Errorf("after its return: %+v", g)
	}
}

// testManyLeases fills the register of a bucket; when one is given back, or its
// oldest end, there is room again.
func testManyLeases(t *testing.T, h Harness) {
	l := limit.Must(limit.PerMinute(1_000_000))
	id := 0
	grant := func() store.Grant {
		id++
		q := request("key", l, id, 2)
		q.TTL = 10 * time.Second
		return h.lease(t, q)[0]
	}
	for range store.MaxLeases {
		if g := grant(); g.Hits != 2 {
			t.Fatalf("lease %d: %+v", id, g)
		}
	}
	if g := grant(); g.Hits != 0 || g.Decision.Remaining != 1_000_000-2*store.MaxLeases {
		t.Errorf("one too many: %+v", g)
	}
	if g := h.lease(t, giveBack("key", l, 77, 0))[0]; !g.Returned || g.Decision.Remaining != 1_000_000-2*store.MaxLeases {
		t.Errorf("lease 77: %+v", g)
	}
	if g := grant(); g.Hits != 2 {
		t.Errorf("after a lease has ended: %+v", g)
	}
	if g := grant(); g.Hits != 0 {
		t.Errorf("one too many again: %+v", g)
	}
	if g := h.lease(t, request("other", l, 1, 2))[0]; g.Hits != 2 {
		t.Errorf("on another bucket: %+v", g)
	}
	h.SetNow(noon + micros(10*time.Second))
	for range store.MaxLeases {
		if g := grant(); g.Hits != 2 {
			t.Fatalf("after the end of all: %+v", g)
		}
	}
}

// testLeaseBatch has requests of one batch see each other, and many of them.
func testLeaseBatch(t *testing.T, h Harness) {
	h.lease(t)
	l := limit.Must(limit.PerMinute(100))
	log := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 5, Period: time.Minute})
	grants := h.lease(t,
		request("a", l, 1, 60), request("b", l, 2, 10), request("a", l, 3, 60), request("log", log, 4, 2),
		giveBack("a", l, 1, 50), request("a", l, 5, 60))
	for i, want := range []int64{60, 10, 40, 0, 0, 50} {
		if grants[i].Hits != want {
			t.Errorf("request %d: %+v, want %d", i, grants[i], want)
		}
	}
	many := make([]store.LeaseRequest, 700)
	for i := range many {
		many[i] = request(fmt.Sprint("many ", i%350), l, i, 30)
	}
	for i, g := range h.lease(t, many...) {
		if g.Hits != 30 || g.Decision.Remaining != 70-int64(i/350)*30 {
			t.Fatalf("request %d of many: %+v", i, g)
		}
	}
}

func testGrantsOverwritten(t *testing.T, h Harness) {
	l := limit.Must(limit.PerMinute(100))
	grants := []store.Grant{{Hits: 5, TTL: 5, Returned: true, Err: &store.Error{}, Decision: limit.Decision{Never: true, Delay: 3}}}
	h.Store.(store.Leaser).Lease(t.Context(), []store.LeaseRequest{giveBack("key", l, 1, 3)}, grants)
	if want := (store.Grant{Decision: h.hit(t, "key", l, 0)}); grants[0] != want {
		t.Errorf("got %+v, want %+v", grants[0], want)
	}
}

// testLeaseKeys: keys that a store might mistake for each other have leases of
// their own.
func testLeaseKeys(t *testing.T, h Harness) {
	long := strings.Repeat("x", 1<<20)
	l := limit.Must(limit.PerHour(10))
	keys := []string{"", "\x00", "a", "a\x00", "a:b", "{a}", "{}", "{", "}{", "\r\n", "\xff", long, long + "x"}
	for i, key := range keys {
		if g := h.lease(t, request(key, l, 1, 6))[0]; g.Hits != 6 {
			t.Errorf("key %d, %.20q: %+v", i, key, g)
		}
	}
	for i, key := range keys {
		if g := h.lease(t, giveBack(key, l, 1, 5))[0]; !g.Returned || g.Decision.Remaining != 9 {
			t.Errorf("key %d, %.20q given back: %+v", i, key, g)
		}
	}
}
