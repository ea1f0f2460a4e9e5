package forwardauth_test

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

// waiting is a memory store that says of each take and swap that it waits, as a store elsewhere
// does.
type waiting struct{ *memstore.Store }

func (w waiting) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	store.Waits(ctx)
	w.Store.Take(ctx, takes, results)
}

func (w waiting) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	store.Waits(ctx)
	w.Store.Swap(ctx, swaps, answers)
}

// TestRequestsWaitForTheirTurn: a request waits for a place before it asks the store, with an id
// and without one, and gives the place back.
func TestRequestsWaitForTheirTurn(t *testing.T) {
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
		a := setup{store: waiting{buckets}, idHeader: "X-Check-ID", turns: places}.make(t)
		for _, id := range []string{"", "1"} {
			r := recorded(t, "traefik")
			if id != "" {
				r.Header.Set("X-Check-ID", id)
			}
			status := 0
			go func() { status = ask(a, r).Code }()
			synctest.Wait()
			if waiting := places.Stats().Waiting; waiting != 1 || status != 0 {
				t.Errorf("id %q: %d wait for a place, want 1; status %d", id, waiting, status)
			}
			taken[0].End()
			if synctest.Wait(); status != http.StatusOK {
				t.Errorf("id %q: status %d when there is a place", id, status)
			}
			taken[0] = turns.Turn{}
			taken[0].Take(t.Context(), places) // which has been given back
		}
	})
}
