package forwardauth_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/internal/turns/turnstest"
	"github.com/headgate/headgate/store/memstore"
)

// TestRequestsWaitForTheirTurn: a request waits for a place before it asks the store, with an id
// and without one, and gives the place back.
func TestRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		places := turnstest.NewFull(t.Context())
		a := setup{store: turnstest.Store{Store: buckets}, idHeader: "X-Check-ID", turns: places.Turns}.make(t)
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
			places.Free()
			if synctest.Wait(); status != http.StatusOK {
				t.Errorf("id %q: status %d when there is a place", id, status)
			}
			places.Fill(t.Context()) // which has been given back
		}
	})
}
