package sleep_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// TestNudge: what was given often is there once, and giving waits for nobody.
func TestNudge(t *testing.T) {
	there := func(n sleep.Nudge) bool {
		select {
		case <-n:
			return true
		default:
			return false
		}
	}
	n := sleep.NewNudge()
	if there(n) {
		t.Error("it is there before it was given")
	}
	for range 2 {
		n.Give()
		n.Give()
		if !there(n) || there(n) {
			t.Error("it is not there once")
		}
	}
	sleep.Nudge(nil).Give()
}

// TestNudgeEvery: a round comes when it was given, beside those that fall due.
func TestNudgeEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
		defer cancel()
		n := sleep.NewNudge()
		time.AfterFunc(90*time.Second, n.Give)
		began := time.Now()
		var rounds []time.Duration
		for range n.AtOnce(ctx, time.Minute) {
			rounds = append(rounds, time.Since(began))
		}
		if want := []time.Duration{0, time.Minute, 90 * time.Second, 2 * time.Minute}; !slices.Equal(rounds, want) {
			t.Errorf("rounds at %v, want %v", rounds, want)
		}
	})
}

// TestAtOnce: the first round comes even where the end has come before it, and none after a break.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rounds := 0
		for range sleep.AtOnce(ctx, time.Minute) {
			rounds++
			break
		}
		cancel()
		for range sleep.AtOnce(ctx, time.Minute) {
			rounds++
		}
		if rounds != 2 {
			t.Errorf("%d rounds, want 2", rounds)
		}
	})
}
