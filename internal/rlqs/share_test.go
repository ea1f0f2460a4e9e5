package rlqs

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Nobody gets more than it wants, all together no more than there is, but for the last whole
// hit, and who gets less than it wants gets as much as anybody.
func TestMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(0, 1000).Draw(t, "capacity")
		wants := rapid.SliceOfN(rapid.Int64Range(0, 300), 1, 8).Draw(t, "wants")
		var parts []int64
		var sum, wanted int64
		for _, w := range wants {
			p := maxMin(capacity, slices.Clone(wants), w)
			parts, sum, wanted = append(parts, p), sum+p, wanted+w
			if p < 0 || p > w {
				t.Fatalf("%d of %d for a want of %d", p, capacity, w)
			}
		}
		if wanted <= capacity && sum != wanted {
			t.Fatalf("%v of %d for %v", parts, capacity, wants)
		}
		n := int64(len(wants))
		if wanted > capacity && (sum <= capacity-n || sum > max(capacity, n)) {
			t.Fatalf("%v of %d for %v", parts, capacity, wants)
		}
		for i, p := range parts {
			if p < wants[i] && p < slices.Max(parts) {
				t.Fatalf("%v of %d for %v", parts, capacity, wants)
			}
		}
	})
}

func TestMaxMinOfOne(t *testing.T) {
	for _, tt := range []struct{ capacity, want, part int64 }{{10, 3, 3}, {10, 30, 10}, {0, 3, 0}, {1, 1, 1}} {
		if got := maxMin(tt.capacity, []int64{tt.want}, tt.want); got != tt.part {
			t.Errorf("%d of %d: %d", tt.want, tt.capacity, got)
		}
	}
	if got := maxMin(1, []int64{5, 5, 5}, 5); got != 1 {
		t.Errorf("the last hit: %d", got)
	}
}

// The tokens for some hits let those pass in an interval, or one more, and no more at once
// than the burst.
func TestTokensFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hits, burst := rapid.Int64Range(1, 1<<33).Draw(t, "hits"), rapid.Int64Range(1, 1<<33).Draw(t, "burst")
		part := rapid.Float64Range(0, 1).Draw(t, "part")
		got := tokensFor(hits, burst, part)
		if got.Max < 1 || got.Fill < 1 || int64(got.Max) > burst {
			t.Fatalf("%d hits, %d at once: %+v", hits, burst, got)
		}
		if p, most := got.promise(part), min(hits, math.MaxUint32); p > most+1 || p < most-2 {
			t.Fatalf("%d hits, %d at once, of a bucket that begins with %v: %+v promise %d", hits, burst, part, got, p)
		}
	})
}

func TestLike(t *testing.T) {
	for _, tt := range []struct {
		a, b tokens
		want bool
	}{
		{tokens{100, 100}, tokens{100, 100}, true}, {tokens{100, 100}, tokens{91, 109}, true},
		{tokens{100, 100}, tokens{80, 100}, false}, {tokens{100, 100}, tokens{100, 120}, false}, {tokens{1, 1}, tokens{2, 1}, false},
	} {
		if got := tt.a.like(tt.b); got != tt.want {
			t.Errorf("%v, %v: %v", tt.a, tt.b, got)
		}
	}
}
