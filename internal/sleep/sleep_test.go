package sleep_test

import (
	"context"
	"errors"
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
