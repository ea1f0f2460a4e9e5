package headgate_test

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/reservation"
)

func TestK1ReservationsAreCounted(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	first, _ := b.reserve(reservation.Options{}, some("user:a", 60))
	second, _ := b.reserve(reservation.Options{}, some("user:a", 30))
	b.reserve(reservation.Options{}, some("user:a", 60)) // denied
	b.commit(first, reservation.Settled, reservation.Actual{Hits: []int64{10}})
	b.commit(first, reservation.SettledBefore, reservation.Actual{Hits: []int64{10}})
	if _, err := b.limiter.Cancel(context.Background(), second, new(headgate.Response)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.limiter.Commit(context.Background(), reservation.Reservation{}, reservation.Actual{}, new(headgate.Response)); err == nil {
		t.Fatal("no reservation was settled")
	}
	want := reservation.Counts{Made: 2, Denied: 1}
	want.Commits[reservation.Settled], want.Commits[reservation.SettledBefore], want.Cancels[reservation.Settled] = 1, 1, 1
	if got := b.limiter.Reservations(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
