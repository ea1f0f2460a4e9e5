package totals

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

const noon = limit.Micros(1_800_014_400_000_000)

// site is a region with one node and a store in memory.
type site struct {
	*Store
	memory *memstore.Store
}

// sites returns regions that tell each other, by one clock.
func sites(t testing.TB, n int, now *limit.Micros, o Options) []site {
	t.Helper()
	o.Now = func() limit.Micros { return *now }
	all := make([]site, n)
	for i := range all {
		memory, err := memstore.New(memstore.Options{Now: o.Now})
		if err != nil {
			t.Fatal(err)
		}
		all[i].memory = memory
	}
	for i := range all {
		o.Own, o.Peers = all[i].memory, nil
		for j := range all {
			if j != i {
				o.Peers = append(o.Peers, Peer{Region: fmt.Sprint("region ", j), Store: all[j].memory})
			}
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		all[i].Store = s
	}
	return all
}

// take decides takes, one call.
func (s site) take(t testing.TB, takes ...store.Take) []store.Result {
	t.Helper()
	results := make([]store.Result, len(takes))
	s.Take(context.Background(), takes, results)
	for i := range results {
		if results[i].Err != nil {
			t.Fatal(results[i].Err)
		}
	}
	return results
}

// left is what a peek says.
func (s site) left(t testing.TB, key string, l *limit.Limit) int64 {
	t.Helper()
	return s.take(t, store.Take{Key: []byte(key), Limit: l})[0].Remaining
}

// tellAll has every site tell every other one.
func tellAll(t testing.TB, all []site) {
	t.Helper()
	for _, s := range all {
		for p := range s.peers {
			if err := s.tell(t.Context(), p, s.floor); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func hits(key string, l *limit.Limit, n int64) store.Take {
	return store.Take{Key: []byte(key), Limit: l, Hits: n, Mode: &store.Mode{Rule: "a rule"}}
}

var minute = limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 100, Period: time.Minute})

// Each region comes to know what passed in all of them, once.
//
//promise:shared-usage
func TestTold(t *testing.T) {
	now := noon
	all := sites(t, 3, &now, Options{})
	all[0].take(t, hits("a", minute, 10), hits("b", minute, 1))
	all[1].take(t, hits("a", minute, 20))
	for range 3 {
		tellAll(t, all)
		for i, s := range all {
			if a, b := s.left(t, "a", minute), s.left(t, "b", minute); a != 70 || b != 99 {
				t.Errorf("region %d: %d and %d left", i, a, b)
			}
		}
	}
	all[2].take(t, hits("a", minute, 70))
	if r := all[0].take(t, hits("a", minute, 70))[0]; !r.Allowed {
		t.Error("what was not told yet is denied")
	}
	tellAll(t, all)
	for i, s := range all {
		if r := s.take(t, hits("a", minute, 1))[0]; r.Allowed {
			t.Errorf("region %d: one more passes", i)
		}
	}
}

// A clock that is set back keeps no counts until it is that late again.
func TestCountsEndAfterAClockIsSetBack(t *testing.T) {
	now := noon + limit.Micros(time.Hour.Microseconds())
	all := sites(t, 2, &now, Options{MaxBuckets: shardCount})
	for i := range 50 {
		all[0].take(t, hits(fmt.Sprint(i), minute, 10))
	}
	now = noon
	tellAll(t, all)
	now += limit.Micros((5 * time.Minute).Microseconds())
	for i := range 50 { // in their places
		all[0].take(t, hits(fmt.Sprint("later ", i), minute, 10))
	}
	tellAll(t, all)
	r := all[0].Rules()["a rule"]
	for _, e := range all[0].keys() {
		if !strings.HasPrefix(e, "later ") {
			t.Errorf("there is still a count of %s, which weighs nothing", e)
		}
	}
	if r.Buckets == 0 {
		t.Error("nothing is counted")
	}
}

// keys are those that s counts.
func (s site) keys() (all []string) {
	for i := range s.shards {
		for _, e := range s.shards[i].entries {
			all = append(all, string(e.key))
		}
	}
	return all
}

// Why a peer takes nothing is known, and stays known while its breaker is open.
func TestWhyAPeerRefuses(t *testing.T) {
	now := noon
	all := sites(t, 2, &now, Options{})
	peer := &refuser{Importer: all[1].memory, fault: &store.Error{Op: "import", Store: "redis.vir.internal:6379", Reason: store.Denied, Hint: "the user needs +eval"}}
	all[0].peers[0].Store = peer
	why := func() (store.Reason, string) {
		t.Helper()
		all[0].take(t, hits("a", minute, 5))
		_ = all[0].tell(t.Context(), 0, 0)
		p := all[0].Peers()[0]
		return p.Reason, p.Hint
	}
	if reason, hint := why(); reason != store.Denied || hint != "the user needs +eval" {
		t.Errorf("%s, %s", reason, hint)
	}
	peer.fault = &store.Error{Op: "import", Reason: store.BreakerOpen}
	if reason, hint := why(); reason != store.Denied || hint == "" {
		t.Errorf("while the breaker is open: %s, %s", reason, hint)
	}
	peer.fault = nil
	if reason, hint := why(); reason != store.NoReason || hint != "" {
		t.Errorf("of a peer that answers: %s, %s", reason, hint)
	}
}

// refuser answers with a fault, if it has one.
type refuser struct {
	store.Importer
	fault *store.Error
}

func (r *refuser) Import(ctx context.Context, totals []store.Total, results []store.Result) {
	if r.fault == nil {
		r.Importer.Import(ctx, totals, results)
		return
	}
	for i := range results {
		results[i] = store.Result{Err: r.fault}
	}
}

// What is counted is what the store of the region was charged with.
//
//promise:shared-refunds
func TestCounted(t *testing.T) {
	strict := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute, CountDenied: true})
	group := func(takes ...store.Take) []store.Take {
		for i := range takes {
			takes[i].Group = 1
		}
		return takes
	}
	with := func(t store.Take, change func(*store.Take)) store.Take {
		change(&t)
		return t
	}
	op := func(op store.Op, n int64) store.Take {
		return with(hits("a", minute, n), func(t *store.Take) { t.Op = op })
	}
	for _, tt := range []struct {
		name  string
		takes []store.Take
		left  int64 // elsewhere
	}{
		{"hits", []store.Take{hits("a", minute, 3), hits("a", minute, 4)}, 93},
		{"a peek", []store.Take{hits("a", minute, 0)}, 100},
		{"denied", []store.Take{hits("a", minute, 99), hits("a", minute, 3)}, 1},
		{"denied hits that count", []store.Take{hits("a", strict, 99), hits("a", strict, 3)}, 0},
		{"a dry run", []store.Take{with(hits("a", minute, 3), func(t *store.Take) { t.DryRun = true })}, 100},
		{"a charge", []store.Take{op(store.Charge, 30)}, 70},
		{"a refund", []store.Take{hits("a", minute, 30), op(store.Refund, 10)}, 80},
		{"a refund of more", []store.Take{hits("a", minute, 30), op(store.Refund, 50)}, 100},
		{"a refund of nothing", []store.Take{hits("a", minute, 30), op(store.Refund, 0)}, 70},
		{"a group that passes", group(hits("a", minute, 3), hits("b", minute, 100)), 97},
		{"a group that is denied", group(hits("a", minute, 3), hits("b", minute, 101)), 100},
		{"a group whose shadow is denied", group(hits("a", minute, 3), with(hits("b", minute, 101), func(t *store.Take) { t.Shadow = true })), 97},
		{"a slot", []store.Take{with(hits("a", limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 5, Period: time.Minute}), 1), func(t *store.Take) { t.Hold = 7 })}, 5},
		{"denials of a ban", []store.Take{{Key: []byte("a"), Limit: limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 5, Period: time.Minute, BanFor: time.Hour}), Hits: 3, Op: store.Charge}}, 5},
		{"a reset", []store.Take{hits("a", minute, 30), op(store.Reset, 0), hits("a", minute, 5)}, 95},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := noon
			all := sites(t, 2, &now, Options{})
			all[1].take(t, hits("c", minute, 7))
			all[0].take(t, tt.takes...)
			tellAll(t, all)
			if left := all[1].left(t, "a", tt.takes[0].Limit); left != tt.left {
				t.Errorf("%d left elsewhere, want %d", left, tt.left)
			}
			if left := all[0].left(t, "c", minute); left != 93 {
				t.Errorf("%d left of another key", left)
			}
		})
	}
}

// A reset empties the bucket of every region once, and nothing from before comes back.
//
//promise:shared-reset
func TestReset(t *testing.T) {
	now := noon
	all := sites(t, 3, &now, Options{})
	all[1].take(t, hits("a", minute, 50))
	tellAll(t, all)
	all[0].take(t, hits("a", minute, 9))
	all[0].take(t, store.Take{Key: []byte("a"), Limit: minute, Op: store.Reset})
	all[0].take(t, hits("a", minute, 2))
	tellAll(t, all)
	all[1].take(t, hits("a", minute, 5))
	for range 2 {
		tellAll(t, all)
	}
	for i, s := range all {
		if left := s.left(t, "a", minute); left != 93 {
			t.Errorf("region %d: %d left", i, left)
		}
	}
}

// What is given back later is told, though nothing passes.
func TestGivenBackLater(t *testing.T) {
	now := noon
	all := sites(t, 2, &now, Options{})
	all[0].take(t, hits("a", minute, 30))
	tellAll(t, all)
	all[0].take(t, store.Take{Key: []byte("a"), Limit: minute, Hits: 20, Op: store.Refund})
	tellAll(t, all)
	if left := all[1].left(t, "a", minute); left != 90 {
		t.Errorf("%d left", left)
	}
}

// What is below the floor is told when it is no more; the floor is that of all nodes together.
func TestFloor(t *testing.T) {
	now := noon
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 1000, Period: time.Minute})
	nodes := 2
	all := sites(t, 2, &now, Options{Floor: 20_000, Nodes: func() int { return nodes }})
	all[0].take(t, hits("a", l, 9))
	tellAll(t, all)
	if left := all[1].left(t, "a", l); left != 1000 {
		t.Errorf("%d left: 9 are told, though 10 are the part of the floor", left)
	}
	if u := all[0].Rules()["a rule"].Unheard["region 1"]; u != 9 {
		t.Errorf("%d unheard", u)
	}
	all[0].take(t, hits("a", l, 1))
	tellAll(t, all)
	if left := all[1].left(t, "a", l); left != 990 {
		t.Errorf("%d left", left)
	}
	// Drain tells the last hit.
	all[0].take(t, hits("a", l, 1))
	if err := all[0].Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if left := all[1].left(t, "a", l); left != 989 {
		t.Errorf("%d left after the end", left)
	}
}

// away is a peer that does not answer.
type away struct {
	store.Importer
	gone bool
	// late does what it is told all the same.
	late bool
}

var errAway = errors.New("away")

func (a *away) Import(ctx context.Context, totals []store.Total, results []store.Result) {
	if !a.gone || a.late {
		a.Importer.Import(ctx, totals, results)
	}
	if a.gone {
		for i := range results {
			results[i] = store.Result{Err: errAway}
		}
	}
}

// cutOff makes the way from one site to its peers one that can be cut.
func (s site) cutOff() []*away {
	var ways []*away
	for p := range s.peers {
		way := &away{Importer: s.peers[p].Store}
		s.peers[p].Store = way
		ways = append(ways, way)
	}
	return ways
}

// picky does not take one key.
type picky struct{ store.Importer }

func (p picky) Import(ctx context.Context, totals []store.Total, results []store.Result) {
	p.Importer.Import(ctx, totals, results)
	for i := range totals {
		if string(totals[i].Key) == "bad" {
			results[i] = store.Result{Err: errAway}
		}
	}
}

// A peer that says no to some is told of all others.
func TestPeerThatSaysNo(t *testing.T) {
	now := noon
	all := sites(t, 2, &now, Options{})
	all[0].peers[0].Store = picky{all[0].peers[0].Store}
	all[0].take(t, hits("bad", minute, 3), hits("a", minute, 4))
	if err := all[0].Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if left := all[1].left(t, "a", minute); left != 96 {
		t.Errorf("%d left", left)
	}
	if p := all[0].Peers()[0]; p.Totals != 2 || p.Failed != 1 || p.Connected {
		t.Errorf("%+v", p)
	}
}

// Few hits on a key are told when they are beyond the floor, and are late from then on only: a
// region that answers does not lag because a key is slow.
func TestSlowKeysAreNotLate(t *testing.T) {
	now := noon
	all := sites(t, 2, &now, Options{Floor: 100_000})
	way := all[0].cutOff()[0]
	for range 2 {
		all[0].take(t, hits("a", minute, 6)) // of 10 that need not be told
		for range 20 {
			if err := all[0].tell(t.Context(), 0, 100_000); err != nil {
				t.Fatal(err)
			}
			if p := all[0].Peers()[0]; p.Lag > time.Second {
				t.Fatalf("a lag of %s at %s", p.Lag, time.Duration(now-noon)*time.Microsecond)
			}
			now += 1_000_000
		}
	}
	if p := all[0].Peers()[0]; p.Totals != 1 || p.Unheard != 0 {
		t.Errorf("12 hits were not told: %+v", p)
	}
	// Away it lags from when there was enough to tell.
	way.gone = true
	all[0].take(t, hits("a", minute, 6))
	for range 20 {
		_ = all[0].tell(t.Context(), 0, 100_000) // away, or nothing to tell
		now += 1_000_000
	}
	all[0].take(t, hits("a", minute, 6))
	for range 20 {
		_ = all[0].tell(t.Context(), 0, 100_000)
		now += 1_000_000
	}
	if p := all[0].Peers()[0]; p.Lag < 19*time.Second || p.Lag > 21*time.Second {
		t.Errorf("away for 20s it lags %s", p.Lag)
	}
}

// A region that was away is told what still weighs, once, and owes no more than one period.
func TestHealing(t *testing.T) {
	bucket := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 60, Period: time.Minute, Burst: 60})
	window := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 60, Period: time.Minute})
	for _, late := range []bool{false, true} {
		now := noon
		all := sites(t, 2, &now, Options{})
		way := all[0].cutOff()[0]
		way.gone, way.late = true, late
		all[0].take(t, hits("w", window, 50), hits("b", bucket, 50))
		if err := all[0].tell(t.Context(), 0, 0); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		way.late = false
		now += 30_000_000
		all[0].take(t, hits("w", window, 5), hits("b", bucket, 5))
		if err := all[0].tell(t.Context(), 0, 0); err == nil {
			t.Fatal("told a peer that is away")
		}
		p := all[0].Peers()[0]
		if p.Connected || p.Known || p.Failed != 4 || p.Totals != 4 || p.Lag < 30*time.Second || p.Unheard != 110 {
			t.Errorf("%+v", p)
		}
		way.gone = false
		tellAll(t, all)
		if left := all[1].left(t, "w", window); left != 5 {
			t.Errorf("late %t: %d left of the window", late, left)
		}
		if left := all[1].left(t, "b", bucket); left > 35 || left < 5 {
			t.Errorf("late %t: %d left of the bucket", late, left)
		}
		if p := all[0].Peers()[0]; !p.Connected || !p.Known {
			t.Errorf("%+v", p)
		}
		// Windows that have ended while it was away are not charged to the next one.
		way.gone = true
		all[0].take(t, hits("w", window, 5))
		now += 60_000_000
		all[0].take(t, hits("w", window, 7))
		way.gone = false
		tellAll(t, all)
		if left := all[1].left(t, "w", window); left != 53 {
			t.Errorf("late %t: %d left of the next window", late, left)
		}
	}
}

func TestDebtIsOnePeriod(t *testing.T) {
	now := noon
	bucket := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 60, Period: time.Minute, Burst: 60})
	all := sites(t, 4, &now, Options{})
	for _, s := range all {
		if r := s.take(t, hits("b", bucket, 60))[0]; !r.Allowed {
			t.Fatal("denied")
		}
	}
	tellAll(t, all)
	for i, s := range all {
		if r := s.take(t, hits("b", bucket, 1))[0]; r.Allowed || r.RetryAfter > time.Minute+time.Second {
			t.Errorf("region %d: %+v", i, r.Decision)
		}
	}
}

// Regions that have different limits, or algorithms, count the same hits, and each decides by its
// own limit.
//
//promise:shared-limits-differ
func TestLimitsThatDiffer(t *testing.T) {
	now := noon
	all := sites(t, 2, &now, Options{})
	less := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 60, Period: time.Minute})
	bucket := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 100, Period: time.Minute, Burst: 100})
	all[0].take(t, hits("a", minute, 40), hits("b", minute, 40))
	all[1].take(t, hits("a", less, 10), hits("b", bucket, 10))
	for range 2 {
		tellAll(t, all)
	}
	if here, there := all[0].left(t, "a", minute), all[1].left(t, "a", less); here != 50 || there != 10 {
		t.Errorf("%d and %d left", here, there)
	}
	if here, there := all[0].left(t, "b", minute), all[1].left(t, "b", bucket); here != 50 || there != 50 {
		t.Errorf("%d left of a window, %d of a bucket", here, there)
	}
}

// A table that is full counts what it has, and says what it does not.
//
//promise:shared-crowded
func TestCrowded(t *testing.T) {
	now := noon
	all := sites(t, 2, &now, Options{MaxBuckets: shardCount})
	long := strings.Repeat("x", maxKey+1)
	for i := range 1000 {
		all[0].take(t, hits(fmt.Sprint(i), minute, 1))
	}
	all[0].take(t, hits(long, minute, 1))
	r := all[0].Rules()["a rule"]
	if r.Buckets > shardCount || r.Buckets < shardCount/2 || r.Hits != r.Buckets || r.Crowded != uint64(1001-r.Buckets) {
		t.Errorf("%+v", r)
	}
	tellAll(t, all)
	if left := all[1].left(t, long, minute); left != 100 {
		t.Errorf("%d left of a key that is not counted", left)
	}
	// What weighs no more makes room.
	now += limit.Micros(3 * time.Minute / time.Microsecond)
	for i := range 1000 {
		all[0].take(t, hits(fmt.Sprint("later ", i), minute, 1))
	}
	if later := all[0].Rules()["a rule"]; later.Hits < r.Hits+shardCount/2 {
		t.Errorf("%+v after %+v", later, r)
	}
	all[0].Forget(func(string) bool { return false })
	if rules := all[0].Rules(); len(rules) != 1 || rules[""].Hits == 0 || rules[""].Crowded == 0 {
		t.Errorf("%v", rules)
	}
	// What has no row is looked at anew in each round, too.
	for range 2 {
		tellAll(t, all)
	}
	if n := all[0].Rules()[""].Unheard["region 1"]; n != 0 {
		t.Errorf("%d are said to be unheard when all is told", n)
	}
}

// Run tells each interval, and a reset at once.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memories := make([]*memstore.Store, 2)
		for i := range memories {
			var err error
			if memories[i], err = memstore.New(memstore.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		s, err := New(Options{Own: memories[0], Peers: []Peer{{"virginia", memories[1]}}})
		if err != nil {
			t.Fatal(err)
		}
		here, there := site{s, memories[0]}, site{s, memories[1]}
		left := func() int64 {
			results := make([]store.Result, 1)
			there.memory.Take(t.Context(), []store.Take{hits("a", minute, 0)}, results)
			return results[0].Remaining
		}
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		wait := func(d time.Duration) {
			if err := sleep.For(ctx, d); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		wait(DefaultInterval / 2)
		here.take(t, hits("a", minute, 10))
		wait(DefaultInterval / 4)
		if n := left(); n != 100 {
			t.Errorf("%d left before the round", n)
		}
		wait(DefaultInterval / 2)
		if n := left(); n != 90 {
			t.Errorf("%d left after it", n)
		}
		if p := s.Peers()[0]; p.Region != "virginia" || !p.Known || !p.Connected || p.Lag != DefaultInterval/2 || p.Heard != DefaultInterval/4 {
			t.Errorf("%+v", p)
		}
		here.take(t, store.Take{Key: []byte("a"), Limit: minute, Op: store.Reset})
		synctest.Wait()
		if n := left(); n != 100 {
			t.Errorf("%d left after a reset", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestRefused(t *testing.T) {
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good := Options{Own: memory, Peers: []Peer{{"virginia", memory}}}
	for name, change := range map[string]func(*Options){
		"no store":          func(o *Options) { o.Own = nil },
		"no peer":           func(o *Options) { o.Peers = nil },
		"too often":         func(o *Options) { o.Interval = time.Millisecond },
		"too rare":          func(o *Options) { o.Interval = time.Minute },
		"too high a floor":  func(o *Options) { o.Floor = MaxFloor + 1 },
		"negative interval": func(o *Options) { o.Interval = -time.Second },
	} {
		o := good
		change(&o)
		if s, err := New(o); err == nil {
			t.Errorf("%s: %v", name, s)
		}
	}
	s, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		spec limit.Spec
		fits bool
	}{
		{limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: 10 * time.Second}, true},
		{limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: 9 * time.Second}, false},
		{limit.Spec{Algorithm: limit.SlidingWindow, Quota: 5, Period: 5 * time.Second}, true},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Second, Burst: 5}, false},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Second, Burst: 50}, true},
		{limit.Spec{Algorithm: limit.Concurrency, Quota: 5, Period: time.Minute}, false},
		{limit.Spec{Algorithm: limit.LeakyQueue, Quota: 5, Period: time.Minute, MaxDelay: time.Minute}, false},
	} {
		if err := s.Supports(limit.Must(tt.spec)); (err == nil) != tt.fits {
			t.Errorf("%+v: %v", tt.spec, err)
		}
	}
}

// A hit on a bucket that is known costs no memory beyond what the region's store takes.
func TestAllocs(t *testing.T) {
	now := noon
	all := sites(t, 2, &now, Options{})
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 1 << 40, Period: time.Hour})
	takes, results := []store.Take{hits("a", l, 1)}, make([]store.Result, 1)
	ctx := t.Context()
	if n := alloctest.PerRun(1000, func() { all[0].Take(ctx, takes, results) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

// noted keeps what a peer was told.
type noted struct {
	store.Importer
	totals []store.Total
}

func (n *noted) Import(ctx context.Context, totals []store.Total, results []store.Result) {
	n.totals = append(n.totals, totals...)
	n.Importer.Import(ctx, totals, results)
}

// Peers remember what they have heard while a hit weighs, and not for months.
func TestKeep(t *testing.T) {
	now := noon
	all := sites(t, 2, &now, Options{})
	peer := &noted{Importer: all[0].peers[0].Store}
	all[0].peers[0].Store = peer
	for _, tt := range []struct {
		period, want time.Duration
	}{{time.Minute, 3 * time.Minute}, {300 * 24 * time.Hour, maxKeep}} {
		all[0].take(t, hits("a", limit.Must(limit.Spec{Quota: 100, Period: tt.period}), 1))
		if err := all[0].Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last := peer.totals[len(peer.totals)-1]; last.Keep != tt.want {
			t.Errorf("a limit of %v: %v", tt.period, last.Keep)
		}
	}
}
