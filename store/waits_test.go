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

// TestRests: who decides hears that it asks nothing for a while, and apart from that when it waits.
func TestRests(t *testing.T) {
	rested, waited := 0, 0
	ctx := store.OnRest(store.OnWait(t.Context(), func() { waited++ }), func() { rested++ })
	store.Rests(context.WithoutCancel(ctx))
	store.Rests(ctx)
	store.Rests(t.Context())
	store.Waits(ctx)
	if rested != 2 || waited != 1 {
		t.Errorf("rested %d times and waited %d, want 2 and 1", rested, waited)
	}
}
