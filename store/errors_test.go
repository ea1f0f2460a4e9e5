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

func TestMayCount(t *testing.T) {
	open := &store.Error{Op: "take", Store: "test", Reason: store.BreakerOpen}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{open, false},
		{&store.Error{Reason: store.Timeout}, true},
		{&store.Error{Reason: store.BreakerOpen, Err: fmt.Errorf("%w: %w", store.ErrMayCount, open)}, true},
		{errors.New("other"), false},
	} {
		if got := store.MayCount(c.err); got != c.want {
			t.Errorf("%v: %t, want %t", c.err, got, c.want)
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
