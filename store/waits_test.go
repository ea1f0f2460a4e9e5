package store_test

import (
	"context"
	"testing"

	"github.com/headgate/headgate/store"
)

// TestWaits: who decides hears that it is about to wait, through contexts made of its own.
func TestWaits(t *testing.T) {
	told := 0
	ctx, cancel := context.WithCancel(store.OnWait(t.Context(), func() { told++ }))
	defer cancel()
	store.Waits(ctx)
	store.Waits(context.WithoutCancel(ctx))
	store.Waits(t.Context())
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
}
