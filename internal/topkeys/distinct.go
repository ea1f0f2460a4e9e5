package topkeys

import (
	"cmp"
	"math"
	"slices"
)

// sketchSize is the number of hashes that a sketch keeps: its estimates are off by a
// standard deviation of 1/√(sketchSize-2), 6.3 %.
const sketchSize = 256

// sketch estimates how many different keys there were among samples, and from that how
// many there were in all. The zero value has seen none.
type sketch struct {
	// keys are the smallest hashes of those seen, in order: keys drawn by chance.
	keys []sketched
	// seen is the number of samples, stood what they stand for together.
	seen, stood float64
}

// sketched is one key, and whether it was seen more than once.
type sketched struct {
	hash  uint64
	again bool
}

// add notes a sample of a key which stands for weight requests.
func (s *sketch) add(hash uint64, weight float64) {
	s.seen++
	s.stood += weight
	full := len(s.keys) == sketchSize
	if full && hash > s.keys[sketchSize-1].hash {
		return
	}
	i, found := slices.BinarySearchFunc(s.keys, hash, func(k sketched, hash uint64) int { return cmp.Compare(k.hash, hash) })
	if found {
		s.keys[i].again = true
		return
	}
	if full {
		s.keys = s.keys[:sketchSize-1]
	}
	s.keys = slices.Insert(s.keys, i, sketched{hash: hash})
}

// estimate returns the number of different keys.
func (s *sketch) estimate() float64 {
	if len(s.keys) == 0 {
		return 0
	}
	once := 0
	for _, k := range s.keys {
		if !k.again {
			once++
		}
	}
	different := float64(len(s.keys))
	share := float64(once) / different
	if len(s.keys) == sketchSize {
		different = (sketchSize - 1) / (float64(s.keys[sketchSize-1].hash) / math.MaxUint64)
	}
	return different * (share*math.Sqrt(s.stood/s.seen) + 1 - share)
}

// reset forgets all, and keeps the memory.
func (s *sketch) reset() { *s = sketch{keys: s.keys[:0]} }
