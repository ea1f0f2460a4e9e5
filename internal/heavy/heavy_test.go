package heavy

import (
	"testing"

	"pgregory.net/rapid"
)

// slack is what sums of floats in another order may differ by.
const slack = 1e-9

// checkShape holds what must be true of a summary whatever it has counted.
func checkShape(t interface{ Fatalf(string, ...any) }, s *Summary) {
	if len(s.heap) != len(s.Slots) || len(s.Slots) > s.Size || 2*len(s.Slots) > len(s.table) {
		t.Fatalf("%d slots of %d, a heap of %d, a table of %d", len(s.Slots), s.Size, len(s.heap), len(s.table))
	}
	for i, index := range s.heap {
		if s.Slots[index].at != int32(i) {
			t.Fatalf("slot %d is at %d, and says %d", index, i, s.Slots[index].at)
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
	if linked != len(s.Slots) {
		t.Fatalf("%d places are taken by %d slots", linked, len(s.Slots))
	}
	for i := range s.Slots {
		if s.Find(s.Slots[i].Hash) != &s.Slots[i] {
			t.Fatalf("slot %d is not found", i)
		}
	}
}

// checkPromise holds a summary against the exact counts.
func checkPromise(t interface{ Fatalf(string, ...any) }, s *Summary, truth map[uint64]float64) {
	n := 0.0
	for _, count := range truth {
		n += count
	}
	most := n/float64(s.Size) + slack
	for i := range s.Slots {
		key := &s.Slots[i]
		if real := truth[key.Hash]; key.Count < real-slack || key.Count-key.Over > real+slack {
			t.Fatalf("key %d: %v, give or take %v, but it is %v", key.Hash, key.Count, key.Over, real)
		}
		if key.Over > most {
			t.Fatalf("key %d: the error is %v, of %v in all", key.Hash, key.Over, n)
		}
	}
	for hash, real := range truth {
		if s.Find(hash) != nil {
			continue
		}
		if real > most {
			t.Fatalf("key %d is missing with %v of %v", hash, real, n)
		}
		if real > s.Floor()+slack {
			t.Fatalf("key %d is missing with %v, and the floor is %v", hash, real, s.Floor())
		}
	}
}

func TestSummaryAgainstExactCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Summary{Size: rapid.IntRange(1, 40).Draw(t, "size")}
		keys := rapid.IntRange(1, 200).Draw(t, "keys")
		// The hashes share their low bits, so that they collide in the table.
		shift := rapid.IntRange(0, 8).Draw(t, "shift")
		truth := map[uint64]float64{}
		for range rapid.IntRange(0, 400).Draw(t, "adds") {
			if rapid.IntRange(0, 50).Draw(t, "what") == 0 {
				factor := rapid.Float64Range(0.1, 1).Draw(t, "factor")
				s.Fade(factor, 0)
				for hash := range truth {
					truth[hash] *= factor
				}
			} else {
				// The smaller a key, the oftener it comes.
				most := rapid.IntRange(1, keys).Draw(t, "most")
				hash := uint64(rapid.IntRange(1, most).Draw(t, "key")) << shift
				weight := float64(rapid.IntRange(1, 64).Draw(t, "weight"))
				truth[hash] += weight
				s.Add(hash, weight)
			}
			checkShape(t, &s)
			checkPromise(t, &s, truth)
		}
	})
}

func TestFaintKeysAreForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Summary{Size: 20}
		truth := map[uint64]float64{}
		for range rapid.IntRange(0, 100).Draw(t, "adds") {
			hash := uint64(rapid.IntRange(1, 30).Draw(t, "key"))
			truth[hash]++
			s.Add(hash, 1)
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				s.Fade(0.5, 1)
				for hash := range truth {
					truth[hash] /= 2
				}
			}
			checkShape(t, &s)
			for i := range s.Slots {
				if key := &s.Slots[i]; key.Count-key.Over > truth[key.Hash]+slack {
					t.Fatalf("key %d: %v, give or take %v, but it is %v", key.Hash, key.Count, key.Over, truth[key.Hash])
				}
			}
		}
		s.Fade(1e-9, 1)
		if len(s.Slots) != 0 || s.Floor() != 0 {
			t.Fatalf("%d keys are remembered", len(s.Slots))
		}
		checkShape(t, &s)
	})
}
