package store_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headgate/headgate/store"
)

// ends walks through takes with these groups and returns where each part ends.
func ends(groups ...uint32) (all []int) {
	takes := make([]store.Take, len(groups))
	for i := range groups {
		takes[i].Group = groups[i]
	}
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		all = append(all, to)
	}
	return all
}

func TestGroupEnd(t *testing.T) {
	for _, tt := range []struct {
		groups []uint32
		want   []int
	}{
		{nil, nil},
		{[]uint32{0}, []int{1}},
		{[]uint32{0, 0, 0}, []int{1, 2, 3}},
		{[]uint32{7}, []int{1}},
		{[]uint32{7, 7, 7}, []int{3}},
		{[]uint32{1, 1, 2, 2}, []int{2, 4}},
		{[]uint32{0, 1, 1, 0, 1}, []int{1, 3, 4, 5}}, // the same number again is another group
		{[]uint32{1 << 31, 1 << 31, 0, 0}, []int{2, 3, 4}},
	} {
		if got := ends(tt.groups...); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.groups, got, tt.want)
		}
	}
}

// A dry run ends a group of takes that are none, and the other way round.
func TestGroupEndOfDryRuns(t *testing.T) {
	takes := []store.Take{{Group: 1}, {Group: 1, DryRun: true}, {Group: 1, DryRun: true}, {Group: 1}}
	for from, want := range []int{1, 3, 3, 4} {
		if got := store.GroupEnd(takes, from); got != want {
			t.Errorf("from %d: %d, want %d", from, got, want)
		}
	}
}

// Between two neighbours there is an end unless they have one group.
func TestGroupEndEverywhere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		groups := make([]uint32, 1+random.IntN(20))
		for i := range groups {
			groups[i] = random.Uint32N(3)
		}
		got := ends(groups...)
		for i := 1; i <= len(groups); i++ {
			end := i == len(groups) || groups[i] == 0 || groups[i] != groups[i-1]
			if slices.Contains(got, i) != end {
				t.Fatalf("%v: ends at %v", groups, got)
			}
		}
	}
}
