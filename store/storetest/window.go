package storetest

import (
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
)

// MaxInWindow returns the most stamps that lie in any one window (t-window, t]:
// what an exact limit of that window must never let exceed its quota. Stamps
// come in any order, one for each admitted hit; those exactly a window apart are
// not in one.
func MaxInWindow(stamps []limit.Micros, window time.Duration) int {
	sorted := slices.Sorted(slices.Values(stamps))
	most, from := 0, 0
	for to := range sorted {
		for sorted[to]-sorted[from] >= micros(window) {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}
