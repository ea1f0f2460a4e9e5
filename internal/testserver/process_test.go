package testserver

import "testing"

// A port that a test has is given to no other, though nobody listens there yet.
func TestFreePortIsGivenOnce(t *testing.T) {
	const enough = 500 // of 20,000, drawn at random: two would nearly always be the same
	given := map[int]bool{}
	for range enough {
		port := FreePort(t)
		if given[port] {
			t.Fatalf("port %d is given twice", port)
		}
		given[port] = true
	}
}
