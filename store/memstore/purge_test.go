package memstore

import "testing"

// TestPurgeOnceInAUnit: a shard that is full of live buckets looks through all of them
// once in a unit of time, not at every take.
func TestPurgeOnceInAUnit(t *testing.T) {
	s := &shard{purged: 6}
	for i, c := range []struct {
		unit uint32
		want bool
	}{{7, true}, {7, false}, {7, false}, {8, true}, {8, false}} {
		if got := s.purge(c.unit); got != c.want {
			t.Errorf("%d. in unit %d: swept %v, want %v", i+1, c.unit, got, c.want)
		}
	}
}
