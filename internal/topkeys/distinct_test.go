package topkeys

import (
	"math"
	"testing"
)

// slack is what sums of floats in another order may differ by.
const slack = 1e-9

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
