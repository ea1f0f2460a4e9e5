package testserver

import (
	"fmt"
	"testing"
	"time"
)

const (
	// settleTimeout bounds how long several servers may take to agree.
	settleTimeout = 60 * time.Second
	// settlePoll is how often they are asked meanwhile.
	settlePoll = 10 * time.Millisecond
)

// until calls ready until it returns nil, and fails the test when that takes
// longer than settleTimeout.
func until(t testing.TB, what string, ready func() error) {
	t.Helper()
	if err := poll(ready); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// poll calls ready until it returns nil, for up to settleTimeout, and returns
// the last error.
func poll(ready func() error) error {
	deadline := time.NewTimer(settleTimeout)
	defer deadline.Stop()
	ticker := time.NewTicker(settlePoll)
	defer ticker.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-deadline.C:
			return fmt.Errorf("gave up after %v: %w", settleTimeout, err)
		case <-ticker.C:
		}
	}
}
