package httpcheck_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/turns/turnstest"
	"github.com/headgate/headgate/store/memstore"
)

// Reservations wait for their turn at the store, and so do their ends.
func TestReservationsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		places := turnstest.NewFull(t.Context())
		now := time.Now()
		h := reservations(t, turnstest.Store{Store: buckets}, &now, places.Turns)
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
			places.Free()
			if synctest.Wait(); !ended {
				t.Errorf("%s is not answered when there is a place", what)
			}
			places.Fill(t.Context()) // which has been given back
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
