package recommend_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/recommend"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

func init() { racetest.DrawLess() }

const noon = limit.Micros(1_795_953_600_000_000) // 2026-11-29 12:00 UTC

// hashed spreads small numbers over 64 bits (the finalizer of SplitMix64).
func hashed(n int) uint64 {
	z := uint64(n) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// drawUses draws uses of one limit in the order of their times.
func drawUses(t *rapid.T, keys int, period time.Duration) []recommend.Use {
	at := noon
	uses := make([]recommend.Use, rapid.IntRange(1, 120).Draw(t, "uses"))
	for i := range uses {
		at += limit.Micros(rapid.OneOf(
			rapid.Int64Range(0, period.Microseconds()/20), rapid.Int64Range(0, 3*period.Microseconds()),
		).Draw(t, "later"))
		uses[i] = recommend.Use{
			Key: hashed(rapid.IntRange(1, keys).Draw(t, "key")), At: at,
			Hits: rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, 40), rapid.Int64Range(1, limit.MaxQuota/1000)).Draw(t, "hits"),
			Op:   rapid.SampledFrom([]store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Charge}).Draw(t, "op"),
		}
	}
	return uses
}

// denied decides uses of one key and returns how many are denied.
func denied(l *limit.Limit, uses []recommend.Use, key uint64) (n int) {
	var state limit.State
	for i := range uses {
		if uses[i].Key != key {
			continue
		}
		take := store.Take{Limit: l, Hits: uses[i].Hits, Op: uses[i].Op}
		var d limit.Decision
		if state, d = take.Decide(state, uses[i].At); !d.Allowed && take.Op == store.Hit && take.Hits > 0 {
			n++
		}
	}
	return n
}

// needOf searches the smallest quota that denies a key nothing, by deciding.
func needOf(l *limit.Limit, uses []recommend.Use, key uint64) int64 {
	low, high := int64(0), int64(limit.MaxQuota) // denied at low-1, not at high
	for low < high {
		middle := low + (high-low)/2
		spec := l.Spec
		spec.Quota = middle
		if denied(limit.Must(spec), uses, key) > 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// keysOf returns the keys that ask for hits.
func keysOf(uses []recommend.Use) (keys []uint64) {
	for i := range uses {
		if u := &uses[i]; u.Op == store.Hit && u.Hits > 0 && !slices.Contains(keys, u.Key) {
			keys = append(keys, u.Key)
		}
	}
	return keys
}

func demandOf(l *limit.Limit, uses []recommend.Use, b recommend.Bounds) recommend.Seen {
	d := recommend.NewDemand([]*limit.Limit{l}, b)
	for i := range uses {
		d.Add(&uses[i])
	}
	return d.Of(0)
}

// windows are limits whose needs are exact.
func windows(t testing.TB) map[string]*limit.Limit {
	calendar, err := limit.NewCalendar(limit.CalendarMonth, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*limit.Limit{
		"sliding": limit.Must(limit.PerMinute(5)),
		"fixed":   limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: time.Hour}),
		"denials": limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: time.Hour, CountDenied: true}),
		"month":   limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Calendar: calendar}),
	}
}

// TestNeeds holds what keys needed to a search by the code that decides, and all that is told of
// them to the list of those.
func TestNeeds(t *testing.T) {
	for name, l := range windows(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				period := l.Period
				if l.Calendar != nil {
					period = 31 * 24 * time.Hour
				}
				uses := drawUses(t, rapid.SampledFrom([]int{1, 3, 12}).Draw(t, "keys"), period)
				var needs []int64
				requests := int64(0)
				for _, key := range keysOf(uses) {
					needs = append(needs, needOf(l, uses, key))
				}
				for i := range uses {
					if uses[i].Op == store.Hit && uses[i].Hits > 0 {
						requests++
					}
				}
				slices.Sort(needs)
				seen := demandOf(l, uses, recommend.Bounds{})
				if seen.Requests != requests || seen.Keys() != int64(len(needs)) || seen.Sampled() != seen.Keys() {
					t.Fatalf("%d requests of %d keys, not %d of %d", seen.Requests, seen.Keys(), requests, len(needs))
				}
				if len(needs) == 0 {
					return
				}
				for _, percent := range []int64{0, 1, 50, 90, 95, 99, 100} {
					rank := int(math.Ceil(float64(len(needs)) * float64(percent) / 100))
					if got, want := seen.Percentile(percent), needs[max(rank-1, 0)]; got != want {
						t.Errorf("p%d is %d, not %d, of %d", percent, got, want, needs)
					}
				}
				for _, quota := range append([]int64{0, 1}, needs...) {
					want := int64(0)
					for _, need := range needs {
						if need > quota {
							want++
						}
					}
					if got := seen.Above(quota); got != want {
						t.Errorf("%d need more than %d, not %d, of %d", got, quota, want, needs)
					}
				}
			})
		})
	}
}

// TestAdvice holds a recommendation to what it promises: no more keys are hit than may be, and
// without head-room and rounding a smaller quota would hit more.
func TestAdvice(t *testing.T) {
	for name, l := range windows(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				period := max(l.Period, time.Hour)
				uses := drawUses(t, 12, period)
				w := recommend.Wish{HeadRoom: rapid.Int64Range(0, recommend.MaxHeadRoom).Draw(t, "head-room"), MayHit: rapid.Int64Range(0, recommend.MaxMayHit).Draw(t, "may hit")}
				seen := demandOf(l, uses, recommend.Bounds{})
				a, err := recommend.Advise(l, &seen, w)
				if seen.Sampled() == 0 {
					if !errors.Is(err, recommend.ErrNothing) {
						t.Fatal(err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				may := float64(seen.Keys()) * float64(w.MayHit) / 100_000
				if hit := seen.Above(a.Needed); float64(hit) > may {
					t.Errorf("%d of %d keys need more than %d, and %v may", hit, seen.Keys(), a.Needed, may)
				}
				if hit := seen.Above(a.Needed - 1); float64(hit) <= may {
					t.Errorf("%d would do, by which %d of %d keys are hit, and %v may be", a.Needed-1, hit, seen.Keys(), may)
				}
				wanted := float64(a.Needed) * float64(1000+w.HeadRoom) / 1000
				if got := float64(a.Limit.Quota); got < wanted*(1-1e-12) || got > wanted*1.1+2 {
					t.Errorf("a quota of %v for a need of %d with %d thousandths of head-room", got, a.Needed, w.HeadRoom)
				}
			})
		})
	}
}

// TestProof holds what is proved to deciding key by key, for every algorithm that counts hits.
//
//promise:safe-changes
func TestProof(t *testing.T) {
	for algorithm := limit.SlidingWindow; algorithm <= limit.GCRA; algorithm++ {
		t.Run(algorithm.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				l := limit.Must(limit.Spec{Algorithm: algorithm, Quota: rapid.Int64Range(1, 60).Draw(t, "quota"), Period: time.Minute})
				uses := drawUses(t, 5, time.Minute)
				var want recommend.Found
				for _, key := range keysOf(uses) {
					want.Keys++
					if n := denied(l, uses, key); n > 0 {
						want.KeysDenied++
						want.Denied += int64(n)
					}
				}
				p := recommend.NewProof([]recommend.Tried{{Limit: l, Keys: 5}})
				for i := range uses {
					p.Add(&uses[i])
					if u := &uses[i]; u.Op == store.Hit && u.Hits > 0 {
						want.Requests++
					}
				}
				if got := p.Of(0); got != want {
					t.Errorf("%+v, not %+v", got, want)
				}
			})
		})
	}
}

// TestProofAgrees: for the limits whose needs are exact, a proof hits the keys that needed more.
func TestProofAgrees(t *testing.T) {
	for name, l := range windows(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				uses := drawUses(t, 12, max(l.Period, time.Hour))
				seen := demandOf(l, uses, recommend.Bounds{})
				a, err := recommend.Advise(l, &seen, recommend.Wish{MayHit: recommend.MaxMayHit})
				if errors.Is(err, recommend.ErrNothing) {
					return
				}
				p := recommend.NewProof([]recommend.Tried{{Limit: a.Limit, Keys: seen.Sampled()}})
				for i := range uses {
					p.Add(&uses[i])
				}
				if got, want := p.Of(0).KeysDenied, seen.Above(a.Limit.Quota); got != want {
					t.Errorf("%d keys are hit, not %d", got, want)
				}
			})
		})
	}
}

// TestRefundsAndResets: what is given back leaves room, and needs stay what they were.
func TestRefundsAndResets(t *testing.T) {
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: time.Hour})
	for _, c := range []struct {
		name string
		ops  []store.Op
		hits []int64
		want int64
	}{
		{"none", []store.Op{store.Hit, store.Hit}, []int64{10, 4}, 14},
		{"refund", []store.Op{store.Hit, store.Refund, store.Hit}, []int64{10, 8, 4}, 10},
		{"refund of more", []store.Op{store.Hit, store.Refund, store.Hit}, []int64{3, 8, 4}, 4},
		{"reset", []store.Op{store.Hit, store.Reset, store.Hit}, []int64{10, 0, 11}, 11},
		{"charge", []store.Op{store.Hit, store.Charge}, []int64{10, 100}, 10},
		{"charge before", []store.Op{store.Charge, store.Hit}, []int64{100, 1}, 101},
		{"peek", []store.Op{store.Hit, store.Hit}, []int64{10, 0}, 10},
		{"slots", []store.Op{store.Hit, store.Renew, store.Release}, []int64{10, 7, 7}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			var uses []recommend.Use
			for i, op := range c.ops {
				uses = append(uses, recommend.Use{Key: 1, At: noon, Op: op, Hits: c.hits[i]})
			}
			if seen := demandOf(l, uses, recommend.Bounds{}); seen.Percentile(100) != c.want || seen.Keys() != 1 {
				t.Errorf("%d keys needed %d, not %d", seen.Keys(), seen.Percentile(100), c.want)
			}
		})
	}
	for _, op := range []store.Op{store.Refund, store.Reset, store.Charge} {
		if seen := demandOf(l, []recommend.Use{{Key: 1, At: noon, Op: op, Hits: 1}}, recommend.Bounds{}); seen.Keys() != 0 || seen.Requests != 0 {
			t.Errorf("op %d alone: %d keys, %d requests", op, seen.Keys(), seen.Requests)
		}
	}
}

// TestTimeStandsStill: a use that is out of order counts in the latest window of its key.
func TestTimeStandsStill(t *testing.T) {
	l := limit.Must(limit.PerMinute(5))
	uses := []recommend.Use{{Key: 1, At: noon, Hits: 3}, {Key: 1, At: noon - limit.Micros(time.Hour.Microseconds()), Hits: 4}, {Key: 1, At: noon, Hits: 1}, {Key: 2, At: -5, Hits: 1}}
	if seen := demandOf(l, uses, recommend.Bounds{}); seen.Percentile(100) != 8 || seen.Percentile(50) != 1 {
		t.Errorf("needs up to %d and %d, not 8 and 1", seen.Percentile(100), seen.Percentile(50))
	}
}

// TestSample: where keys are bounded, those that are kept have the needs that they have without
// a bound, and estimates are near the truth.
func TestSample(t *testing.T) {
	const keys, rounds = 20_000, 3
	l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: time.Hour})
	small := limit.Must(limit.PerMinute(5))
	var uses []recommend.Use
	for round := range rounds {
		for key := range keys {
			uses = append(uses, recommend.Use{Key: hashed(key), At: noon + limit.Micros(round), Hits: int64(key%200 + 1)})
		}
	}
	uses = append(uses, recommend.Use{Limit: 1, Key: hashed(1), At: noon, Hits: 2})
	for _, b := range []recommend.Bounds{{KeysOfLimit: 2000, Keys: keys}, {KeysOfLimit: keys, Keys: 2000}} {
		t.Run(fmt.Sprint(b), func(t *testing.T) {
			d := recommend.NewDemand([]*limit.Limit{l, small}, b)
			for i := range uses {
				d.Add(&uses[i])
			}
			seen, other := d.Of(0), d.Of(1)
			if other.Keys() != 1 || other.Sample != 0 {
				t.Errorf("the small one has %d keys, 1 in %d", other.Keys(), other.Sample.OneIn())
			}
			if seen.Sample.OneIn() != 16 || seen.Sampled() > 2000 || seen.Requests != rounds*keys {
				t.Fatalf("%d keys, 1 in %d, of %d requests", seen.Sampled(), seen.Sample.OneIn(), seen.Requests)
			}
			kept := make(map[int64]int64)
			for key := range keys {
				if seen.Sample.Has(hashed(key)) {
					kept[rounds*int64(key%200+1)]++
				}
			}
			for need, want := range kept {
				if got := seen.Above(need-1) - seen.Above(need); got != want {
					t.Errorf("%d keys needed %d, not %d", got, need, want)
				}
			}
			within := func(what string, got, want, margin int64) {
				if got < want-margin || got > want+margin {
					t.Errorf("%s: %d, more than %d from %d", what, got, margin, want)
				}
			}
			within("keys", seen.Keys(), keys, 2*keys/30)
			above := seen.Above(rounds * 180)
			within("share of keys", 1_000_000*above/seen.Sampled(), 100_000, 2*seen.Sample.Margin(above, seen.Sampled()))

			p := recommend.NewProof([]recommend.Tried{{Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: rounds * 180, Period: time.Hour}), Sample: seen.Sample, Keys: seen.Sampled()}})
			for i := range uses[:len(uses)-1] {
				p.Add(&uses[i])
			}
			if f := p.Of(0); f.Keys != seen.Sampled() || f.KeysDenied != above || f.Requests != rounds*f.Keys || f.Denied != above {
				t.Errorf("%+v, not %d keys of which %d are denied one request each", f, seen.Sampled(), above)
			}
		})
	}
}

// TestMargin: what a sample tells has a margin, and all keys have none.
func TestMargin(t *testing.T) {
	for _, c := range []struct {
		sample      recommend.Sample
		n, of, want int64
	}{
		{0, 5, 100, 0}, {1, 0, 0, 0}, {1, 0, 1000, 3000}, {1, 1000, 1000, 3000}, {1, 0, 2, 1_000_000},
		{1, 500, 1000, 31_623}, {3, 10, 1000, 6293},
	} {
		if got := c.sample.Margin(c.n, c.of); got != c.want {
			t.Errorf("1 in %d: %d of %d are known to %d millionths, not %d", c.sample.OneIn(), c.n, c.of, got, c.want)
		}
	}
}

// TestProofBoundsWords: stamps of logs are bounded by a smaller sample.
func TestProofBoundsWords(t *testing.T) {
	log := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: limit.MaxLogQuota, Period: time.Hour})
	p := recommend.NewProof([]recommend.Tried{{Limit: log, Keys: 1 << 17}, {Limit: limit.Must(limit.PerMinute(3)), Keys: 1 << 17}, {Limit: log, Sample: 2, Keys: 100}})
	for i, want := range []recommend.Sample{7, 0, 2} {
		if got := p.Of(i).Sample; got != want {
			t.Errorf("limit %d: 1 in %d keys, not 1 in %d", i, got.OneIn(), want.OneIn())
		}
	}
}

func TestRounded(t *testing.T) {
	for _, c := range [][2]int64{
		{math.MinInt64, 1}, {0, 1}, {1, 1}, {9, 9}, {10, 10}, {36, 36}, {50, 50}, {51, 55}, {99, 100}, {100, 100}, {101, 110},
		{361, 370}, {500, 500}, {501, 550}, {6401, 6500}, {999_999_999_999_999_999, 1_000_000_000_000_000_000}, {math.MaxInt64, math.MaxInt64},
	} {
		if got := recommend.Rounded(c[0]); got != c[1] {
			t.Errorf("%d is rounded to %d, not %d", c[0], got, c[1])
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, limit.MaxQuota).Draw(t, "n")
		r := recommend.Rounded(n)
		if r < n || recommend.Rounded(r) != r || float64(r) >= float64(n)*1.1+1 {
			t.Errorf("%d is rounded to %d", n, r)
		}
		digits := r
		for digits%10 == 0 {
			digits /= 10
		}
		if digits > 99 || digits > 50 && digits%5 != 0 {
			t.Errorf("%d is rounded to %d", n, r)
		}
	})
}

// TestAdviceRefuses: what cannot be recommended is said.
func TestAdviceRefuses(t *testing.T) {
	seen := func(l *limit.Limit, hits int64) *recommend.Seen {
		s := demandOf(l, []recommend.Use{{Key: 1, At: noon, Hits: hits}}, recommend.Bounds{})
		return &s
	}
	none := limit.Must(limit.Spec{Period: time.Minute})
	if _, err := recommend.Advise(none, seen(none, 3), recommend.DefaultWish); !errors.Is(err, recommend.ErrDeniesAll) {
		t.Errorf("a limit of 0: %v", err)
	}
	few := limit.Must(limit.PerMinute(3))
	if _, err := recommend.Advise(few, new(recommend.Seen), recommend.DefaultWish); !errors.Is(err, recommend.ErrNothing) {
		t.Errorf("no keys: %v", err)
	}
	log := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 5, Period: time.Minute})
	var field *limit.SpecError
	if a, err := recommend.Advise(log, seen(log, 50_000), recommend.DefaultWish); !errors.As(err, &field) || a.Needed != 50_000 || a.Limit != nil {
		t.Errorf("a log of 60000: %v", err)
	}
	most := limit.Must(limit.PerMinute(3))
	if a, err := recommend.Advise(most, seen(most, limit.MaxQuota), recommend.Wish{HeadRoom: recommend.MaxHeadRoom}); !errors.As(err, &field) {
		t.Errorf("ten times the largest quota: %+v %v", a, err)
	}
	for _, w := range []recommend.Wish{{HeadRoom: -1}, {HeadRoom: recommend.MaxHeadRoom + 1}, {MayHit: -1}, {MayHit: recommend.MaxMayHit + 1}} {
		if w.Check() == nil {
			t.Errorf("%+v is taken", w)
		}
	}
	for _, w := range []recommend.Wish{{}, recommend.DefaultWish, {recommend.MaxHeadRoom, recommend.MaxMayHit}} {
		if err := w.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestBurst: a burst of its own keeps its share of the quota.
func TestBurst(t *testing.T) {
	for _, c := range []struct {
		spec limit.Spec
		want int64
	}{
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 100, Period: time.Minute, Burst: 10}, 6},
		{limit.Spec{Algorithm: limit.GCRA, Quota: 7, Period: time.Minute, Burst: 9}, 78},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 100, Period: time.Minute}, 60},
		{limit.Spec{Algorithm: limit.LeakyBucket, Quota: 100, Period: time.Minute}, 1},
	} {
		l := limit.Must(c.spec)
		s := demandOf(l, []recommend.Use{{Key: 1, At: noon, Hits: 50}}, recommend.Bounds{})
		a, err := recommend.Advise(l, &s, recommend.DefaultWish)
		if err != nil {
			t.Fatal(err)
		}
		if a.Limit.Quota != 60 || a.Limit.Burst != c.want {
			t.Errorf("%v: quota %d, burst %d, not 60 and %d", l.Algorithm, a.Limit.Quota, a.Limit.Burst, c.want)
		}
	}
}
