package topkeys

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// slack is what sums of floats in another order may differ by.
const slack = 1e-9

// checkShape holds what must be true of a summary whatever it has counted.
func checkShape(t interface{ Fatalf(string, ...any) }, s *summary) {
	if len(s.heap) != len(s.slots) || len(s.slots) > s.size || 2*len(s.slots) > len(s.table) {
		t.Fatalf("%d slots of %d, a heap of %d, a table of %d", len(s.slots), s.size, len(s.heap), len(s.table))
	}
	for i, index := range s.heap {
		if s.slots[index].at != int32(i) {
			t.Fatalf("slot %d is at %d, and says %d", index, i, s.slots[index].at)
		}
		if i > 0 && s.less(int32(i), int32(i-1)/2) {
			t.Fatalf("what is at %d is less than its parent", i)
		}
	}
	linked := 0
	for _, index := range s.table {
		if index != 0 {
			linked++
		}
	}
	if linked != len(s.slots) {
		t.Fatalf("%d places are taken by %d slots", linked, len(s.slots))
	}
	for i := range s.slots {
		if s.find(s.slots[i].hash) != &s.slots[i] {
			t.Fatalf("slot %d is not found", i)
		}
	}
}

// checkPromise holds a summary against the exact counts.
func checkPromise(t interface{ Fatalf(string, ...any) }, s *summary, truth map[uint64]float64) {
	n := 0.0
	for _, count := range truth {
		n += count
	}
	most := n/float64(s.size) + slack
	for i := range s.slots {
		key := &s.slots[i]
		if real := truth[key.hash]; key.count < real-slack || key.count-key.over > real+slack {
			t.Fatalf("key %d: %v, give or take %v, but it is %v", key.hash, key.count, key.over, real)
		}
		if key.over > most {
			t.Fatalf("key %d: the error is %v, of %v in all", key.hash, key.over, n)
		}
	}
	for hash, real := range truth {
		if s.find(hash) != nil {
			continue
		}
		if real > most {
			t.Fatalf("key %d is missing with %v of %v", hash, real, n)
		}
		if real > s.floor()+slack {
			t.Fatalf("key %d is missing with %v, and the floor is %v", hash, real, s.floor())
		}
	}
}

func TestSummaryAgainstExactCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := summary{size: rapid.IntRange(1, 40).Draw(t, "size")}
		keys := rapid.IntRange(1, 200).Draw(t, "keys")
		// The hashes share their low bits, so that they collide in the table.
		shift := rapid.IntRange(0, 8).Draw(t, "shift")
		truth := map[uint64]float64{}
		for range rapid.IntRange(0, 400).Draw(t, "adds") {
			if rapid.IntRange(0, 50).Draw(t, "what") == 0 {
				factor := rapid.Float64Range(0.1, 1).Draw(t, "factor")
				s.fade(factor, 0)
				for hash := range truth {
					truth[hash] *= factor
				}
			} else {
				// The smaller a key, the oftener it comes.
				most := rapid.IntRange(1, keys).Draw(t, "most")
				hash := uint64(rapid.IntRange(1, most).Draw(t, "key")) << shift
				weight := float64(rapid.IntRange(1, 64).Draw(t, "weight"))
				truth[hash] += weight
				s.add(hash, weight)
			}
			checkShape(t, &s)
			checkPromise(t, &s, truth)
		}
	})
}

func TestFaintKeysAreForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := summary{size: 20}
		truth := map[uint64]float64{}
		for range rapid.IntRange(0, 100).Draw(t, "adds") {
			hash := uint64(rapid.IntRange(1, 30).Draw(t, "key"))
			truth[hash]++
			s.add(hash, 1)
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				s.fade(0.5, 1)
				for hash := range truth {
					truth[hash] /= 2
				}
			}
			checkShape(t, &s)
			for i := range s.slots {
				if key := &s.slots[i]; key.count-key.over > truth[key.hash]+slack {
					t.Fatalf("key %d: %v, give or take %v, but it is %v", key.hash, key.count, key.over, truth[key.hash])
				}
			}
		}
		s.fade(1e-9, 1)
		if len(s.slots) != 0 || s.floor() != 0 {
			t.Fatalf("%d keys are remembered", len(s.slots))
		}
		checkShape(t, &s)
	})
}

// hashOf is a hash for each number, as chance would have them.
func hashOf(n int) uint64 {
	x := uint64(n)*0x9e3779b97f4a7c15 + 1
	x ^= x >> 31
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func TestSketchCounts(t *testing.T) {
	// Five standard deviations; the hashes are always the same.
	const off = 5 * 0.063
	for _, different := range []int{0, 1, 2, 255, 256, 257, 1000, 30_000, 500_000} {
		for _, times := range []int{1, 3} {
			var s sketch
			for i := range different * times {
				s.add(hashOf(i%different), 1)
			}
			got, want := s.estimate(), float64(different)
			if different < sketchSize && got != want || math.Abs(got-want) > off*want {
				t.Errorf("%d keys, %d times each: %v", different, times, got)
			}
		}
	}
}

// Of keys that come once each a sample of one in k shows one in k, and that they come once.
func TestSketchOfSamples(t *testing.T) {
	const different, k = 400_000, 100
	var once, often sketch
	for i := range different {
		if i%k == 0 {
			once.add(hashOf(i), k)
		}
		often.add(hashOf(i%1000), k)
	}
	if got, want := once.estimate(), different/math.Sqrt(k); math.Abs(got-want) > want/3 {
		t.Errorf("keys that come once: %v, want about %v", got, want)
	}
	if got := often.estimate(); math.Abs(got-1000) > 1000/3 {
		t.Errorf("a thousand keys that come often: %v", got)
	}
	if once.reset(); once.estimate() != 0 {
		t.Errorf("%v after a reset", once.estimate())
	}
}
