package httpcheck_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// waiting is a memory store that says of each take that it waits, as a store elsewhere does.
type waiting struct{ *memstore.Store }

func (w waiting) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	store.Waits(ctx)
	w.Store.Take(ctx, takes, results)
}

// Reservations wait for their turn at the store, and so do their ends.
func TestReservationsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		places := turns.New(time.Millisecond)
		taken := make([]turns.Turn, 64*runtime.GOMAXPROCS(0))
		for i := range taken {
			taken[i].Take(t.Context(), places)
		}
		now := time.Now()
		h := reservations(t, waiting{buckets}, &now, places)
		var made reservation
		inTurn := func(what string, ask func()) {
			ended := false
			go func() {
				ask()
				ended = true
			}()
			synctest.Wait()
			if waiting := places.Stats().Waiting; waiting != 1 {
				t.Errorf("%s: %d wait for a place, want 1", what, waiting)
			}
			taken[0].End()
			if synctest.Wait(); !ended {
				t.Errorf("%s is not answered when there is a place", what)
			}
			taken[0] = turns.Turn{}
			taken[0].Take(t.Context(), places) // which has been given back
		}
		for _, path := range []string{"/v1/commit", "/v1/cancel"} {
			inTurn("/v1/reserve", func() {
				made = reserve(t, h, `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":4}],"ttl_ms":60000}`)
			})
			inTurn(path, func() {
				if got := settle(t, h, path, made.Reservation, ""); got.status != http.StatusOK {
					t.Errorf("%s: %+v", path, got)
				}
			})
		}
	})
}
