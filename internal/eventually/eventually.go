// Package eventually lets tests wait for what another goroutine or process does.
package eventually

import (
	"fmt"
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen: far longer than it takes on
// any machine, because it ends as soon as that has happened.
const Patience = 60 * time.Second

// The time between two looks is an eighth of the time waited, within these bounds: a look
// may be a request, or a program that is started, and what takes seconds is not told sooner
// by a thousand of them.
const (
	leastPause = 2 * time.Millisecond
	mostPause  = 20 * time.Millisecond
)

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
	began, deadline := time.Now(), time.NewTimer(Patience)
	defer deadline.Stop()
	look := time.NewTimer(0)
	defer look.Stop()
	for !holds() {
		look.Reset(min(max(time.Since(began)/8, leastPause), mostPause))
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
