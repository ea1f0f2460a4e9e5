package memstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// FuzzPacking holds that a state comes back as it was from a slot of its class, whatever the
// slot held before; and that what is at the edge of packing is on the side where it belongs.
func FuzzPacking(f *testing.F) {
	tat, window := 1+uint8(limit.GCRA), kindSlidingWindow
	for _, a := range []int64{0, 1, -1, int64(noon), int64(noon) + 1, 1<<53 - 1, -1 << 53, 1 << 53, -1<<53 - 1, 1 << 54, windowUnit<<startBits - windowUnit, windowUnit << startBits} {
		for _, b := range []int64{0, maxPart, maxPart + 1, -1, 1<<countBits - 1, 1 << countBits} {
			f.Add(tat, uint16(0), a, b, int64(0))
			f.Add(window, uint16(0x403c), a, b, b)
			f.Add(window, uint16(0xffff), a, int64(1), b)
			f.Add(kindFixedWindow, uint16(0x403c), a, b, int64(0))
			f.Add(1+uint8(limit.Ban), uint16(0), a, b, a)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, per uint16, a, b, c int64) {
		s := limit.State{Kind: kind & kindMask, Per: limit.Per(per), A: a, B: b, C: c}
		class := classOfState(&s)
		if class == wide {
			return
		}
		if class != slim && classOfKind(s.Kind) == narrow || class == medium {
			// Words of their own have 56 bits for A and B, which no state exceeds.
			s.A, s.B = withoutPer(uint64(a)), withoutPer(uint64(b))
			if classOfState(&s) != class {
				return
			}
		}
		if classOfKind(s.Kind) == narrow {
			s.C = 0
		}
		words := make([]uint64, strides[class])
		for i := range words {
			words[i] = ^uint64(0)
		}
		table := table{words: words, stride: strides[class]}
		table.store(0, class, ident{1, 2 << idShift}, &s, 7)
		var got limit.State
		table.load(0, class, &got)
		if !equal(got, s) {
			t.Fatalf("class %d: %+v, want %+v", class, got, s)
		}
		if metaExpiry(words[slotMeta]) != 7 {
			t.Fatalf("expiry %d", metaExpiry(words[slotMeta]))
		}
	})
}

// TestPackedClasses has limits on both sides of what packs write states: they are of the
// class that is looked for first.
func TestPackedClasses(t *testing.T) {
	const prime = 1_000_003 * time.Microsecond
	for _, test := range []struct {
		spec limit.Spec
		want class
	}{
		{limit.Spec{Algorithm: limit.GCRA, Quota: 100, Period: time.Minute}, slim},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: maxPart + 1, Period: prime}, slim},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: maxPart + 2, Period: prime}, narrow},
		{limit.Spec{Algorithm: limit.LeakyBucket, Quota: 7, Period: time.Hour}, slim},
		{limit.Spec{Algorithm: limit.LeakyQueue, Quota: 7, Period: time.Hour}, slim},
		{limit.Spec{Algorithm: limit.FixedWindow, Quota: 7, Period: time.Hour}, narrow},
		{limit.Spec{Quota: 1 << countBits, Period: time.Hour}, narrow},
		{limit.Spec{Quota: 7, Period: 1_500_500 * time.Microsecond}, medium},
		{limit.Spec{Quota: 7, Period: 4_097 * time.Millisecond}, medium},
	} {
		s, c := newStoreAt(t, noon+1)
		l := limit.Must(test.spec)
		for range 3 {
			s.TakeOne("key", l, 1)
			c.advance(1_000)
		}
		k := s.identBytes([]byte("key"))
		if where := s.shardOf(k).locate(k, slim); where.class != test.want || classOf(l) != test.want {
			t.Errorf("%+v: in class %d, and looked for in %d, want %d", test.spec, where.class, classOf(l), test.want)
		}
	}
}

// TestUnpacks charges a sliding window past what packs, and back by a refund.
func TestUnpacks(t *testing.T) {
	s, _ := newStoreAt(t, noon)
	l := limit.Must(limit.PerHour(7))
	key := []byte("key")
	k := s.identBytes(key)
	for _, test := range []struct {
		take store.Take
		want class
	}{
		{store.Take{Hits: 1}, narrow},
		{store.Take{Hits: 1 << countBits, Op: store.Charge}, medium},
		{store.Take{Hits: 1}, medium},
		{store.Take{Hits: 1 << countBits, Op: store.Refund}, narrow},
		{store.Take{Hits: 1}, narrow},
	} {
		before := s.stateOf("key").B
		test.take.Key, test.take.Limit = key, l
		results := make([]store.Result, 1)
		s.Take(t.Context(), []store.Take{test.take}, results)
		if where := s.shardOf(k).locate(k, slim); where.class != test.want || s.Stats().Keys != 1 {
			t.Fatalf("after %+v: class %d, want %d; %d keys", test.take, where.class, test.want, s.Stats().Keys)
		}
		want := before + test.take.Hits
		switch {
		case test.take.Op == store.Refund:
			want = before - test.take.Hits
		case test.take.Op == store.Hit && !results[0].Allowed:
			want = before
		}
		if got := s.stateOf("key").B; got != want {
			t.Fatalf("after %+v: %d counted, want %d", test.take, got, want)
		}
	}
	s.check(t)
}
