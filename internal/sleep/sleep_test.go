package sleep_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

func TestFor(t *testing.T) {
	cut := errors.New("cut short")
	for _, test := range []struct {
		name          string
		ends, d, took time.Duration
		want          error
	}{
		{"waits", time.Hour, time.Minute, time.Minute, nil},
		{"the context ends before", time.Minute, time.Hour, time.Minute, cut},
		{"nothing to wait for", time.Minute, -1, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), test.ends, cut)
				defer cancel()
				began := time.Now()
				if err := sleep.For(ctx, test.d); !errors.Is(err, test.want) || time.Since(began) != test.took {
					t.Errorf("returned %v after %v, want %v after %v", err, time.Since(began), test.want, test.took)
				}
			})
		})
	}
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Second)
		defer cancel()
		began := time.Now()
		var rounds []time.Duration
		for range sleep.Every(ctx, time.Minute) {
			rounds = append(rounds, time.Since(began))
			if len(rounds) == 2 {
				_ = sleep.For(ctx, 3*time.Minute+time.Second) // three rounds fall due
			}
		}
		want := []time.Duration{1, 2, 5, 6, 7, 8, 9, 10}
		for i := range want {
			want[i] *= time.Minute
		}
		want[2] += time.Second // late, because the round before was long
		if !slices.Equal(rounds, want) || time.Since(began) != 10*time.Minute+time.Second {
			t.Errorf("rounds at %v, ended after %v; want %v", rounds, time.Since(began), want)
		}
		for range sleep.Every(t.Context(), time.Minute) {
			break // leaves no loop behind, which would be a deadlock here
		}
	})
}
