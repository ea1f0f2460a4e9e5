// Package eventually lets tests wait for what another goroutine or process does.
package eventually

import (
	"fmt"
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen: far longer than it takes on
// any machine, since it ends as soon as that has happened.
const Patience = 60 * time.Second

// every is the time between two looks.
const every = 2 * time.Millisecond

// True waits until holds does, and fails the test when it does not within Patience.
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Holds(holds) {
		t.Fatalf("%s: not within %v", what, Patience)
	}
}

// Holds waits until holds does, and reports whether it did within Patience.
func Holds(holds func() bool) bool {
	return poll(nil, holds)
}

// Nil waits until ready returns nil, and fails the test with its last error when it does
// not within Patience.
func Nil(t testing.TB, what string, ready func() error) {
	t.Helper()
	if err := Poll(nil, ready); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Poll calls ready until it returns nil. It gives up after Patience, or when over is
// closed, and returns the last error.
func Poll(over <-chan struct{}, ready func() error) error {
	var err error
	if !poll(over, func() bool { err = ready(); return err == nil }) {
		return fmt.Errorf("gave up after %v at most: %w", Patience, err)
	}
	return nil
}

func poll(over <-chan struct{}, holds func() bool) bool {
	look, deadline := time.NewTicker(every), time.NewTimer(Patience)
	defer look.Stop()
	defer deadline.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-over:
			return false
		case <-deadline.C:
			return false
		}
	}
	return true
}
