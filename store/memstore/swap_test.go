package memstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

// Values have room of their own, whose size is bounded; what is over makes room.
func TestSwapIsBounded(t *testing.T) {
	c := new(testClock)
	s := newStore(t, Options{MaxBytes: MinMaxBytes, Shards: 1, Now: c.now})
	put := func(i int) store.Swapped {
		answers := make([]store.Swapped, 1)
		s.Swap(t.Context(), []store.Swap{{Key: fmt.Append(nil, i), New: make([]byte, 1000), TTL: time.Minute}}, answers)
		return answers[0]
	}
	n := 0
	for ; n < 1000 && put(n).Err == nil; n++ {
	}
	if n == 0 || n*1000 > MinMaxBytes/keptShare {
		t.Errorf("%d values of 1000 bytes have room in %d bytes", n, MinMaxBytes/keptShare)
	}
	if got := put(n); store.ReasonOf(got.Err) != store.Full {
		t.Errorf("one more: %v", got.Err)
	}
	if got := put(0); got.Err != nil || got.Done || len(got.Found) != 1000 {
		t.Errorf("the first one does not stand any more: %v", got.Err)
	}
	c.advance(60_000_000)
	if got := put(n); !got.Done {
		t.Errorf("when the time of the others is over: %v", got.Err)
	}
	if s.kept.bytes != 1000+keptOverhead || len(s.kept.values) != 1 || s.kept.order.Len() != 1 {
		t.Errorf("%d values of %d bytes are left, %d in order, want one", len(s.kept.values), s.kept.bytes, s.kept.order.Len())
	}
}
