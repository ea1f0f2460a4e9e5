package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/store"
)

func TestReasonOf(t *testing.T) {
	full := &store.Error{Op: "take", Store: "test", Reason: store.Full}
	for _, c := range []struct {
		err  error
		want store.Reason
	}{
		{nil, store.NoReason},
		{full, store.Full},
		{fmt.Errorf("wrapped: %w", full), store.Full},
		{errors.Join(errors.New("first"), full), store.Full},
		{&store.Error{Reason: store.Timeout, Err: full}, store.Timeout},
		{errors.New("other"), store.Internal},
	} {
		if got := store.ReasonOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// Every take that the store fails asks for the reason.
func TestReasonOfAllocatesNothing(t *testing.T) {
	var err error = &store.Error{Reason: store.Full}
	if n := alloctest.PerRun(100, func() { store.ReasonOf(err) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
