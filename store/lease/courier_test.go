package lease

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// slow is a store that answers questions for leases when it may.
type slow struct {
	store.Leaser
	may chan struct{}
}

func (s slow) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	<-s.may
	s.Leaser.Lease(ctx, requests, grants)
}

// TestQuestionsAreBounded: four calls of a kind are under way at one time, and what is given
// back waits for them up to the bound of buckets; beyond that it is lost, and said to be.
func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		may := make(chan struct{})
		s := New(Options{Store: slow{shared, may}, MaxBuckets: 10})
		b := &bucket{key: []byte("key"), limit: limit.Must(limit.PerHour(1000))}
		var sh shard
		for range 20 {
			s.giveBack(&sh, b, store.NewLeaseID(), 3)
			synctest.Wait() // those that may leave have left
		}
		c := &s.courier
		c.mu.Lock()
		flying, waiting := c.lanes[0].flying, len(c.lanes[0].waiting)
		c.mu.Unlock()
		if flying != maxFlights || waiting != 10 {
			t.Errorf("%d are under way and %d wait, want %d and 10", flying, waiting, maxFlights)
		}
		if sh.stats.UnderWay != 3*14 || sh.stats.Expired != 3*6 {
			t.Errorf("%d hits are under way and %d lost, want 42 and 18", sh.stats.UnderWay, sh.stats.Expired)
		}
		close(may)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
