package redisstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// drawTalliedLimits draws limits for one key, mostly of one period.
func drawTalliedLimits(t *rapid.T, most int, algorithms ...limit.Algorithm) []*limit.Limit {
	limits := make([]*limit.Limit, rapid.IntRange(2, most).Draw(t, "limits"))
	for i := range limits {
		spec := limit.Spec{
			Algorithm: rapid.SampledFrom(algorithms).Draw(t, "algorithm"),
			Quota:     rapid.Int64Range(1, 60).Draw(t, "quota"),
			Period:    rapid.SampledFrom([]time.Duration{time.Hour, time.Hour, time.Hour, time.Minute, 4097 * time.Second}).Draw(t, "period"),
		}
		switch spec.Algorithm {
		case limit.SubWindows:
			spec.SubWindows = rapid.SampledFrom([]int{2, 3, 4, 5, 6, 8, 9, 10, 12, 15}).Draw(t, "parts")
			spec.Period = time.Hour
		case limit.TokenBucket, limit.GCRA:
			spec.Burst = rapid.Int64Range(1, 60).Draw(t, "burst")
		case limit.FixedWindow:
			if rapid.IntRange(0, 5).Draw(t, "calendar") == 0 {
				unit := limit.CalendarUnit(rapid.IntRange(1, int(limit.CalendarYear)).Draw(t, "unit"))
				spec.Calendar, _ = limit.NewCalendar(unit, "UTC")
				spec.Period = 0
			}
		}
		spec.Carry = rapid.SampledFrom([]limit.Carry{
			limit.CarryUsed, limit.CarryUsed, limit.CarryUsed, limit.CarryUsed, limit.CarryUsed, limit.CarryUsed, limit.CarryShare, limit.CarryNothing,
		}).Draw(t, "on_change")
		limits[i] = limit.Must(spec)
	}
	return limits
}

var countingAlgorithms = []limit.Algorithm{
	limit.SlidingWindow, limit.FixedWindow, limit.SubWindows, limit.SlidingLog,
	limit.TokenBucket, limit.LeakyBucket, limit.LeakyQueue, limit.GCRA,
}

// TestLateLimitsEqualLimit holds the script to package limit where more and more limits,
// in the end more than have a tally each, ask for one key.
//
//promise:late-limits
func TestLateLimitsEqualLimit(t *testing.T) {
	racetest.Serially(t)
	s, _ := openRedis(t)
	var now limit.Micros
	setClock(t, s, func() limit.Micros { return now })
	rapid.Check(t, func(t *rapid.T) {
		if _, err := tryCommand(s, "FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		m := newModel(s, 0)
		algorithms := countingAlgorithms
		if rapid.IntRange(0, 3).Draw(t, "alike") == 0 {
			algorithms = []limit.Algorithm{limit.SubWindows} // which look back as long, and hold as much
		}
		limits := drawTalliedLimits(t, 14, algorithms...)
		asked := 1
		now = 1_780_315_200_000_000
		for range rapid.IntRange(1, 60).Draw(t, "takes") {
			if rapid.IntRange(0, 2).Draw(t, "another") == 0 {
				asked = min(asked+1, len(limits))
			}
			now += limit.Micros(rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, 60_000_000), rapid.Int64Range(0, 900_000_000)).Draw(t, "step µs"))
			m.now = now
			take := store.Take{
				Key: []byte("tallied"), Limit: limits[rapid.IntRange(0, asked-1).Draw(t, "limit")],
				Hits: rapid.SampledFrom([]int64{0, 1, 1, 1, 2, 5, 20}).Draw(t, "hits"),
				Op:   rapid.SampledFrom([]store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Hit, store.Refund, store.Charge}).Draw(t, "op"),
			}
			want, got := m.take([]store.Take{take}), takeAll(s, take)
			if got[0].Err != nil || got[0].Decision != want[0] {
				t.Fatalf("at %d, %+v with %+v:\nscript %+v\nlimit  %+v", now, take, take.Limit.Spec, got[0], want[0])
			}
			compareStates(t, s, m)
		}
	})
}

// talliesHead is how many words a tally has before those of its state's Wide, of which
// the last says how many follow.
const talliesHead = 10

// talliesIn takes the tallies of s apart.
func talliesIn(s limit.State) (all [][]int64) {
	for wide := s.Wide; len(wide) >= talliesHead; {
		n := talliesHead + int(wide[talliesHead-1])
		all, wide = append(all, slices.Clone(wide[:n])), wide[n:]
	}
	return all
}

// TestSeedMergesTallies holds that what is brought back to a bucket with the tallies of
// several limits is merged, as limit.Merge does, into the tally of its kind that was
// touched last, and that all else stays as it is.
func TestSeedMergesTallies(t *testing.T) {
	racetest.Serially(t)
	s, _ := openRedis(t)
	now := limit.Micros(1_780_315_200_000_000)
	setClock(t, s, func() limit.Micros { return now })
	kinds := []uint8{1, 2, 5, 8}
	merged, others := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		key := []byte("seeded")
		hash := hashOf(key)
		if _, err := tryCommand(s, "DEL", s.Name(key)); err != nil {
			t.Fatal(err)
		}
		limits := drawTalliedLimits(t, 6, limit.SlidingWindow, limit.FixedWindow, limit.SubWindows, limit.SlidingLog, limit.TokenBucket, limit.GCRA)
		for range rapid.IntRange(2, 12).Draw(t, "takes") {
			takeOne(s, "seeded", rapid.SampledFrom(limits).Draw(t, "limit"), rapid.Int64Range(1, 4).Draw(t, "hits"))
		}
		before, err := s.Lookup(t.Context(), key)
		if err != nil || before.State.Kind != limit.KindTallies {
			return // they agree
		}
		known := drawNarrow(t, rapid.SampledFrom(kinds).Draw(t, "kind"), time.Hour.Microseconds(), "known")
		want := talliesIn(before.State)
		i := slices.IndexFunc(want, func(words []int64) bool { return uint8(words[0]) == known.Kind })
		if i >= 0 {
			w := want[i]
			after := limit.Merge(limit.Must(limit.PerHour(10)), limit.State{Kind: uint8(w[0]), A: w[4], B: w[5], C: w[6]}, known)
			if after.A != w[4] || after.B != w[5] || after.C != w[6] {
				merged++
				w[0], w[4], w[5], w[6] = int64(after.Kind), after.A, after.B, after.C
			}
			others += len(want) - 1
		}
		body := &seedBody{prefix: s.prefix(hash), seeds: []seed{{
			remembered{hash: hash, kind: known.Kind, a: known.A, b: known.B, c: known.C, period: time.Hour.Microseconds()}, time.Minute,
		}}}
		for range 2 { // doing it again changes nothing
			if err := s.run(t.Context(), seedScript, body, hash, time.Now().Add(patient)); err != nil {
				t.Fatal(err)
			}
			got, err := s.Lookup(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, talliesIn(got.State)); diff != "" {
				t.Fatalf("%q and %v: stored %q (- limit, + script):\n%s", before.Value, known, got.Value, diff)
			}
			m := newModel(s, now)
			m.states["seeded"] = got.State
			for _, l := range limits { // the script reads it as well
				peek := store.Take{Key: key, Limit: l}
				if said, want := takeAll(s, peek)[0], m.one(&peek); said.Err != nil || said.Decision != want {
					t.Fatalf("%q: %v says %+v, want %+v", got.Value, l.Spec, said, want)
				}
			}
			if got.TTL < before.TTL/2 {
				t.Fatalf("it lasts %v, before %v", got.TTL, before.TTL)
			}
		}
	})
	if !t.Failed() && (merged == 0 || others == 0) {
		t.Errorf("%d were merged, with %d beside them: not all cases were met", merged, others)
	}
}

// TestSeededTalliesGoOnLimiting holds that after a failover which lost the latest hits a
// bucket with two tallies admits no more than it would have without: the node brings back
// what it saw of its own limit, and the tally of the other stays.
func TestSeededTalliesGoOnLimiting(t *testing.T) {
	s, _ := openRedis(t)
	now := limit.Micros(1_780_315_200_000_000)
	setClock(t, s, func() limit.Micros { return now })
	window := limit.Must(limit.PerHour(10))
	bucket := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 20, Period: time.Hour})
	key := []byte("seeded")
	hash := hashOf(key)
	for _, l := range []*limit.Limit{window, bucket, window} {
		if r := takeOne(s, "seeded", l, 2); !r.Allowed || r.Err != nil {
			t.Fatalf("%v: %+v", l.Spec, r)
		}
	}
	lost, err := s.Lookup(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	r := takeOne(s, "seeded", bucket, 6) // of which Redis then knows nothing
	known := stateOf(bucket, &r.Decision, now, 0)
	command(t, s, "SET", s.Name(key), lost.Value, "PX", "90000000")
	body := &seedBody{prefix: s.prefix(hash), seeds: []seed{{
		remembered{hash: hash, kind: known.Kind, a: known.A, b: known.B, c: known.C, period: bucket.PeriodMicros()}, time.Hour,
	}}}
	if err := s.run(t.Context(), seedScript, body, hash, time.Now().Add(patient)); err != nil {
		t.Fatal(err)
	}
	after := command(t, s, "GET", s.Name(key))
	if !strings.HasPrefix(after, "11 * ") {
		t.Fatalf("stored %q: the tallies are gone", after)
	}
	// 12 of the bucket's 20 were used; the two that were noted for it count once more.
	if got := takeOne(s, "seeded", bucket, 0).Remaining; got != 6 {
		t.Errorf("%d remain of the bucket, want 6: %q", got, after)
	}
	if got := takeOne(s, "seeded", window, 0).Remaining; got != 4 {
		t.Errorf("%d remain of the window, want 4, as before the hits that were lost", got)
	}
}
