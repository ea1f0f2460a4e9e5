package lease

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// TestPutBackToItsLease: what a group gives back of a lease that has been replaced is lost,
// and not made part of the next one.
func TestPutBackToItsLease(t *testing.T) {
	var st Stats
	b := bucket{limit: limit.Must(limit.PerHour(1000)), lots: [2]lot{
		{serial: 1, granted: 4, left: 4, ends: time.Hour},
		{serial: 2, granted: 10, left: 10, ends: time.Hour},
	}}
	spent := b.spend(7, &st)
	b.putBack(spent, &st)
	if b.left() != 10 || st.Used != 0 || st.Expired != 4 {
		t.Errorf("%d hits are left and %+v, want 10, none used and 4 lost", b.left(), st)
	}
}

// TestFailedQuestionsWait: each that fails makes the next wait for longer, up to a second.
func TestFailedQuestionsWait(t *testing.T) {
	var b bucket
	for i, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		if b.failed(time.Hour); b.retryAt != time.Hour+want*time.Millisecond {
			t.Errorf("after %d failures the next question waits for %v, want %d ms", i+1, b.retryAt-time.Hour, want)
		}
	}
	if b.learn(&limit.Decision{Allowed: true}, time.Hour, time.Hour); b.retryAt != 0 {
		t.Errorf("after an answer the next waits until %v", b.retryAt)
	}
}

// TestPausesAreBounded: where nothing comes back before the window ends, the pause doubles
// with each denial, three times, and no longer.
func TestPausesAreBounded(t *testing.T) {
	b := bucket{limit: limit.Must(limit.PerHour(1000)), traits: traits{pause: time.Second}}
	b.view.retryAt = time.Hour
	for i := range 70 {
		b.press(0, 1)
		if want := time.Second << min(i, 3); b.quiet != want {
			t.Fatalf("pause %d lasts %v, want %v", i+1, b.quiet, want)
		}
	}
}

// TestNoRenewalAtTheEdge: while it is not sure in which window the store is, no lease is
// asked for, because it would be of the window that ends.
func TestNoRenewalAtTheEdge(t *testing.T) {
	b := bucket{
		limit:  limit.Must(limit.PerMinute(1000)),
		traits: traits{leasable: true, width: time.Minute}, view: view{at: 1},
		edge: time.Hour, blur: 5 * time.Millisecond,
	}
	for since, want := range map[time.Duration]bool{
		0: false, 5 * time.Millisecond: false, 6 * time.Millisecond: true, time.Minute + time.Millisecond: false, 90 * time.Second: true,
	} {
		if got := b.renewable(time.Hour + since); got != want {
			t.Errorf("%v after an edge: renewable %v, want %v", since, got, want)
		}
	}
}

// TestLowBeforeItIsEmpty: the next lease is asked for while there are hits for as long as the
// answer takes.
func TestLowBeforeItIsEmpty(t *testing.T) {
	b := bucket{limit: limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 1000, Period: time.Second}), traits: traits{ttl: time.Minute}, roundTrip: 10 * time.Millisecond}
	now := time.Hour
	for range 2000 { // a thousand in a second
		now += time.Millisecond
		b.demand.Note(1, now)
	}
	for left, want := range map[int64]bool{1: true, 10: true, 400: false} {
		b.lots[0] = lot{serial: 1, granted: 500, left: left, ends: now + time.Minute}
		if got := b.low(now); got != want {
			t.Errorf("%d left of a thousand in a second: low %v, want %v", left, got, want)
		}
	}
}

// TestGrantsThatComeTooLate: what is granted to a bucket that no longer wants it is used by
// nobody: it is given back, or where the store may have counted anew, dropped.
func TestGrantsThatComeTooLate(t *testing.T) {
	const hits = 100
	type world struct {
		s *Store
		b *bucket
		e *errand
		a answer
	}
	for name, c := range map[string]struct {
		late  func(*world)
		fates [3]int64 // hits that are held, dropped and given back
	}{
		"in time":            {func(*world) {}, [3]int64{hits, 0, 0}},
		"the clocks parted":  {func(w *world) { w.a.stale = true }, [3]int64{0, hits, 0}},
		"reset":              {func(w *world) { w.e.flight.void = true }, [3]int64{0, hits, 0}},
		"bucket is gone":     {func(w *world) { w.b.gone = true }, [3]int64{0, 0, hits}},
		"node drains":        {func(w *world) { w.s.draining.Store(true) }, [3]int64{0, 0, hits}},
		"refunds make exact": {func(w *world) { w.b.exactTo = time.Hour }, [3]int64{0, 0, hits}},
	} {
		shared, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{Store: shared})
		l, mode := limit.Must(limit.PerHour(1000)), &store.Mode{Consistency: store.Leased}
		b := &bucket{key: []byte("key"), limit: l, mode: mode, traits: s.traitsOf(l, mode), flight: &flight{done: make(chan struct{})}}
		w := &world{s: s, b: b, e: &errand{what: renew, b: b, flight: b.flight}, a: answer{
			request: &store.LeaseRequest{ID: store.NewLeaseID(), Want: hits, Share: 2},
			grant:   &store.Grant{Hits: hits, TTL: time.Minute, Decision: limit.Decision{Allowed: true, Limit: 1000, Remaining: 900}},
			sent:    time.Second, now: 2 * time.Second, nodes: 1,
		}}
		c.late(w)
		var sh shard
		s.granted(&sh, w.e, &w.a)
		if got := [3]int64{b.left(), sh.stats.Expired, sh.stats.UnderWay}; got != c.fates || sh.stats.Granted != hits {
			t.Errorf("%s: held, dropped and given back are %v of %d, want %v", name, got, sh.stats.Granted, c.fates)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHitsGivenBackInVain are lost, and not told of as given back.
func TestHitsGivenBackInVain(t *testing.T) {
	for name, c := range map[string]struct {
		grant          store.Grant
		returned, lost int64
	}{
		"taken back": {store.Grant{Returned: true}, 4, 0},
		"too late":   {store.Grant{}, 0, 4},
		"no answer":  {store.Grant{Returned: true, Err: &store.Error{Op: "lease", Reason: store.Timeout}}, 0, 4},
	} {
		sh := shard{stats: Stats{UnderWay: 10}}
		new(Store).returned(&sh, &store.LeaseRequest{ReturnHits: 4}, &c.grant)
		if st := &sh.stats; st.UnderWay != 6 || st.Returned != c.returned || st.Expired != c.lost {
			t.Errorf("%s: %+v, want %d given back and %d lost", name, st, c.returned, c.lost)
		}
	}
}

// TestExchanges: what has passed is charged, what was given back refunded, and with neither
// the store is only asked.
func TestExchanges(t *testing.T) {
	s := New(Options{})
	for delta, want := range map[int64]store.Take{
		5: {Op: store.Charge, Hits: 5}, -5: {Op: store.Refund, Hits: 5}, 0: {},
	} {
		b := &bucket{kind: synced, key: []byte("key"), limit: limit.Must(limit.PerHour(10)), delta: delta}
		got := s.exchangeTake(&errand{what: exchange, b: b}, time.Second)
		if got.Op != want.Op || got.Hits != want.Hits || b.delta != 0 || b.sent != delta {
			t.Errorf("%d hits: op %d of %d, and %d stay to be sent", delta, got.Op, got.Hits, b.delta)
		}
	}
}

// TestSyncedCountsWhatIsUnderWay: hits that the store is being told of are no longer free.
func TestSyncedCountsWhatIsUnderWay(t *testing.T) {
	s, now := New(Options{}), time.Hour
	l, mode := limit.Must(limit.PerHour(100)), &store.Mode{Consistency: store.Synced}
	b := &bucket{
		kind: synced, key: []byte("key"), limit: l, mode: mode, traits: s.traitsOf(l, mode), exchange: 2 * now,
		view: view{at: now, limit: 100, remaining: 10, resetAt: 2 * now}, sent: 6, delta: 1,
	}
	var sh shard
	for hits, want := range map[int64]outcome{4: denied, 3: served} {
		b.delta = 1
		var d limit.Decision
		take := &store.Take{Key: b.key, Limit: l, Hits: hits, Mode: mode}
		if got := s.decideSynced(&sh, take, &step{b: b, sh: &sh}, now, &d, false); got != want || d.Allowed != (want == served) {
			t.Errorf("%d hits where 3 are free: outcome %d, %+v", hits, got, d)
		}
	}
}

// TestTwoKeysOfOneHash: the first has the bucket, and the store decides of the other.
func TestTwoKeysOfOneHash(t *testing.T) {
	shared, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, sh := New(Options{Store: shared}), &shard{buckets: map[uint64]*bucket{}}
	take := func(key string) *store.Take {
		return &store.Take{Key: []byte(key), Limit: limit.Must(limit.PerHour(1000)), Mode: &store.Mode{Consistency: store.Leased}}
	}
	first := s.bucketOf(sh, 7, take("first"), leased, time.Hour)
	if second := s.bucketOf(sh, 7, take("second"), leased, time.Hour); first == nil || second != nil || sh.find(7, []byte("second")) != nil {
		t.Errorf("the first has %v, the second %v", first, second)
	}
	if again := s.bucketOf(sh, 7, take("first"), leased, time.Hour); again == nil || string(again.key) != "first" {
		t.Errorf("the first has %v when it comes again", again)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestIdleLeasesAreGivenBack a second after the last hit, and the bucket is forgotten later.
func TestIdleLeasesAreGivenBack(t *testing.T) {
	shared, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, sh := New(Options{Store: shared}), &shard{buckets: map[uint64]*bucket{}}
	b := &bucket{key: []byte("key"), hash: 7, limit: limit.Must(limit.PerHour(1000))}
	sh.buckets[7] = b
	for idle, want := range map[time.Duration]int64{idleAfter - 1: 9, idleAfter: 0} {
		b.usedAt, b.lots[0] = time.Hour, lot{serial: 1, granted: 10, left: 9, ends: 2 * time.Hour}
		if s.tidy(sh, time.Hour+idle); b.left() != want || b.gone {
			t.Errorf("%d are held after %v without hits, want %d; gone: %v", b.left(), idle, want, b.gone)
		}
	}
	if s.tidy(sh, time.Hour+forgetAfter); !b.gone || len(sh.buckets) != 0 {
		t.Errorf("a bucket is kept for longer than %v", forgetAfter)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestWhatIsHandedOver when a lease that ends is replaced: what is left of a bucket's, but
// not of a window's, which would be given back to the next.
func TestWhatIsHandedOver(t *testing.T) {
	for _, c := range []struct {
		spec limit.Spec
		want int64
	}{
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 1000, Period: time.Minute}, 4},
		{limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Period: time.Minute}, 0},
	} {
		b := bucket{limit: limit.Must(c.spec), lots: [2]lot{{id: store.NewLeaseID(), serial: 1, granted: 10, left: 4, ends: time.Hour + time.Millisecond}}}
		var r store.LeaseRequest
		var st Stats
		if b.handOver(&r, time.Hour, &st); r.ReturnHits != c.want || b.left() != 4-c.want || st.UnderWay != c.want {
			t.Errorf("%v: %d hits are given back and %d stay, want %d", c.spec.Algorithm, r.ReturnHits, b.left(), c.want)
		}
	}
}

// TestSmallLimitsAreNotLeased: each node could hold next to nothing of them.
func TestSmallLimitsAreNotLeased(t *testing.T) {
	s := New(Options{Nodes: func() int { return 3 }})
	for _, c := range []struct {
		spec limit.Spec
		want bool
	}{
		{limit.Spec{Algorithm: limit.FixedWindow, Quota: 11, Period: time.Minute}, false},
		{limit.Spec{Algorithm: limit.FixedWindow, Quota: 12, Period: time.Minute}, true},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 1000, Burst: 11, Period: time.Minute}, false},
		{limit.Spec{Algorithm: limit.SlidingLog, Quota: 1000, Period: time.Minute}, false},
	} {
		take := &store.Take{Limit: limit.Must(c.spec)}
		if got := s.worthwhile(take, leased); got != c.want {
			t.Errorf("%+v: leased by three nodes %v, want %v", c.spec, got, c.want)
		}
	}
}
