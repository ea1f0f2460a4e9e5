package headgate_test

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
)

func TestK1ReservationsAreCounted(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	first, _ := b.reserve(headgate.ReserveOptions{}, some("user:a", 60))
	second, _ := b.reserve(headgate.ReserveOptions{}, some("user:a", 30))
	b.reserve(headgate.ReserveOptions{}, some("user:a", 60)) // denied
	b.commit(first, headgate.Settled, headgate.Actual{Hits: []int64{10}})
	b.commit(first, headgate.SettledBefore, headgate.Actual{Hits: []int64{10}})
	if _, err := b.limiter.Cancel(context.Background(), second, new(headgate.Response)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.limiter.Commit(context.Background(), headgate.Reservation{}, headgate.Actual{}, new(headgate.Response)); err == nil {
		t.Fatal("no reservation was settled")
	}
	want := headgate.ReservationCounts{Made: 2, Denied: 1}
	want.Commits[headgate.Settled], want.Commits[headgate.SettledBefore], want.Cancels[headgate.Settled] = 1, 1, 1
	if got := b.limiter.Reservations(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
