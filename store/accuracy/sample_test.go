package accuracy

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
)

// All nodes sample the same keys, whatever their version is: these numbers do not change.
func TestKeyHashStaysTheSame(t *testing.T) {
	for key, want := range map[string]uint64{
		"": 0x4797fee1fc2cf95e, "a": 0xabb83f8d20316e8a, "abcd": 0xc2531ce5ecd34131, "0123456789abcdef": 0x81d52140ab571cea, "0123456789abcdefg": 0x1076fc536a4b1a40,
		"0123456789abcdef0123456789abcdef01234": 0x3f0181b83e3bd810,
	} {
		if got := keyHash([]byte(key)); got != want {
			t.Errorf("%q: %#x, want %#x", key, got, want)
		}
	}
}

// Keys that are counted up, differ in one byte at any place, or are long, are spread
// evenly: every byte counts.
func TestKeyHashSpreads(t *testing.T) {
	const keys = 20_000
	for name, key := range map[string]func(i int) []byte{
		"numbers":   func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) },
		"text":      func(i int) []byte { return fmt.Appendf(nil, "user:%d", i) },
		"long text": func(i int) []byte { return fmt.Appendf(nil, "%060d and what follows it", i) },
		"one byte": func(i int) []byte {
			b := make([]byte, 100)
			b[i%100] = byte(i / 100)
			b[(i/100+7)%100] ^= byte(i)
			return b
		},
	} {
		for _, share := range []float64{0.01, 0.5} {
			s, distinct, n := sampleOf(share), map[string]bool{}, 0
			for i := range keys {
				k := key(i)
				if distinct[string(k)] {
					continue
				}
				if distinct[string(k)] = true; s.has(k) {
					n++
				}
			}
			want := share * float64(len(distinct))
			if deviation := math.Abs(float64(n) - want); deviation > 5*math.Sqrt(want) {
				t.Errorf("%s: %d of %d are in a sample of %v", name, n, len(distinct), share)
			}
		}
	}
}

// A sample of all has all, and a smaller one is part of a larger one.
func TestSamples(t *testing.T) {
	for i := range 10_000 {
		key, before := fmt.Appendf(nil, "key %d", i), false
		for _, share := range []float64{math.SmallestNonzeroFloat64, 0.01, 0.3, 0.999, 1} {
			has := sampleOf(share).has(key)
			if before && !has {
				t.Fatalf("%s is in a smaller sample than that of %v", key, share)
			}
			before = has
		}
		if !before {
			t.Fatalf("%s is not in the sample of all", key)
		}
	}
}
