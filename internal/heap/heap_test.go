package heap_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/heap"
)

// element is one of a queue, and its place there.
type element struct{ key, place int }

// TestQueue: a queue gives out what a sorted list would, whatever was pushed, removed and changed,
// and each element is at the place that was told.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := heap.Queue[*element]{
			Before: func(a, b *element) bool { return a.key < b.key },
			Moved:  func(e *element, place int) { e.place = place },
		}
		var all []*element
		one := func() *element { return all[rapid.IntRange(0, len(all)-1).Draw(rt, "which")] }
		gone := func(e *element) { all = slices.DeleteFunc(all, func(other *element) bool { return other == e }) }
		least := func() *element {
			return slices.MinFunc(all, func(a, b *element) int { return a.key - b.key })
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			op := rapid.SampledFrom([]string{"push", "push", "pop", "remove", "fix"}).Draw(rt, "op")
			switch key := rapid.IntRange(0, 9).Draw(rt, "key"); {
			case len(all) == 0 || op == "push":
				e := &element{key: key}
				q.Push(e)
				all = append(all, e)
			case op == "pop":
				if e := q.Pop(); e.key != least().key {
					rt.Fatalf("popped %d, least is %d", e.key, least().key)
				} else {
					gone(e)
				}
			case op == "remove":
				e := one()
				if removed := q.Remove(e.place); removed != e {
					rt.Fatalf("removed %v, want %v", removed, e)
				}
				gone(e)
			case op == "fix":
				e := one()
				e.key = key
				q.Fix(e.place)
			}
			if q.Len() != len(all) || len(all) > 0 && q.First().key != least().key {
				rt.Fatalf("%d elements, want %d", q.Len(), len(all))
			}
			for place, e := range q.All() {
				if e.place != place {
					rt.Fatalf("%v is at place %d", e, place)
				}
			}
		}
	})
}

// TestQueueOfValues: nobody has to ask where elements are.
func TestQueueOfValues(t *testing.T) {
	q := heap.Queue[int]{Before: func(a, b int) bool { return a < b }}
	for _, n := range []int{3, 1, 2, 1} {
		q.Push(n)
	}
	var got []int
	for q.Len() > 0 {
		got = append(got, q.Pop())
	}
	if want := []int{1, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
