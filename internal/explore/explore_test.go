package explore_test

import (
	"encoding/binary"
	"testing"

	"github.com/headgate/headgate/internal/explore"
)

// jugs are two jugs of 3 and 5 litres, which can be filled, emptied and poured into each other.
func jugs(wrong func(j [2]int) string) explore.Space[[2]int] {
	holds := [2]int{3, 5}
	return explore.Space[[2]int]{
		Steps: func(j [2]int, reached func([2]int)) {
			for i := range j {
				full, empty, poured := j, j, j
				full[i], empty[i] = holds[i], 0
				n := min(j[i], holds[1-i]-j[1-i])
				poured[i] -= n
				poured[1-i] += n
				reached(full)
				reached(empty)
				reached(poured)
			}
		},
		Key: func(j [2]int, buf []byte) []byte {
			return binary.AppendVarint(binary.AppendVarint(buf, int64(j[0])), int64(j[1]))
		},
		Wrong: wrong,
	}
}

func TestAllStatesAreSeenOnce(t *testing.T) {
	for depth, want := range map[int]int{0: 1, 1: 3, 2: 6, 100: 16} {
		asked := map[[2]int]int{}
		space := jugs(func(j [2]int) string { asked[j]++; return "" })
		found := space.Run(depth)
		if found.States != want || found.Bad != nil || len(asked) != want {
			t.Errorf("%d steps: %+v, and %d were asked about; want %d", depth, found, len(asked), want)
		}
		for j, n := range asked {
			if n != 1 {
				t.Errorf("%d steps: %v was asked about %d times", depth, j, n)
			}
		}
	}
}

// Four litres need six steps.
func TestTheShortestWayIsFound(t *testing.T) {
	space := jugs(func(j [2]int) string {
		if j[1] == 4 {
			return "four litres"
		}
		return ""
	})
	if found := space.Run(5); found.Bad != nil {
		t.Errorf("%+v within 5 steps", *found.Bad)
	}
	if found := space.Run(9); found.Bad == nil || found.Bad[1] != 4 || found.Wrong != "four litres" {
		t.Errorf("%+v", found)
	}
	space.First = [2]int{0, 4}
	if found := space.Run(0); found.Bad == nil || found.States != 1 {
		t.Errorf("the first state: %+v", found)
	}
}

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{"": 5, "9": 9, "deep": 5} {
		t.Setenv(explore.Variable, text)
		if n := explore.Depth(5); n != want {
			t.Errorf("%q: %d", text, n)
		}
	}
}
