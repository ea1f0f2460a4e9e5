//go:build !race

package headgate_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/reservation"
)

func TestReserveAllocates(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("shared:s", 1)}}
	var resp headgate.Response
	back := used(0)
	if n := alloctest.PerRun(200, func() {
		r, err := b.limiter.Reserve(t.Context(), &req, reservation.Options{}, &resp)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.limiter.Commit(t.Context(), r, back, &resp); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations for a reservation and its commit, want 2 at most", n)
	} else {
		t.Logf("%v allocations", n)
	}
}
