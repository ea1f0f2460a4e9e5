package memcachestore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// TestWaitsAreTold: who asks hears that a take waits for a server.
func TestWaitsAreTold(t *testing.T) {
	s, _ := openMemcached(t, 1)
	told := 0
	takes := []store.Take{{Key: []byte("k"), Limit: limit.Must(limit.PerMinute(1)), Hits: 1}}
	s.Take(store.OnWait(t.Context(), func() { told++ }), takes, make([]store.Result, 1))
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
	swaps := []store.Swap{{Key: []byte("k"), New: []byte("v"), TTL: time.Minute}}
	s.Swap(store.OnWait(t.Context(), func() { told++ }), swaps, make([]store.Swapped, 1))
	if told != 2 {
		t.Errorf("a swap was told of %d times, want once", told-1)
	}
}
