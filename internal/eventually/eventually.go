// Package eventually lets tests wait for what another goroutine or process does.
package eventually

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen: far longer than it takes on
// any machine, since it ends as soon as that has happened.
const Patience = 60 * time.Second

// every is the time between two looks.
const every = time.Millisecond

// True waits until holds does, and fails the test when it does not within Patience.
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	look, deadline := time.NewTicker(every), time.NewTimer(Patience)
	defer look.Stop()
	defer deadline.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}
