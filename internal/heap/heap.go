// Package heap is a queue in which what comes first is always known: adding and removing take
// a time that grows with the logarithm of its length. It is package container/heap for one
// type of elements, which no interface holds.
package heap

// Queue is such a queue. The zero value, with Before, is empty.
type Queue[T any] struct {
	// Before reports whether a comes before b. Required.
	Before func(a, b T) bool
	// Moved, when not nil, is told the place of an element whenever it has another one: whoever
	// remembers it can remove the element.
	Moved func(element T, place int)

	list []T
}

// Len returns how many elements there are.
func (q *Queue[T]) Len() int { return len(q.list) }

// All returns the elements, the first one first and the others in no order. They are good until
// the next change.
func (q *Queue[T]) All() []T { return q.list }

// First returns the element that comes before all others. There has to be one.
func (q *Queue[T]) First() T { return q.list[0] }

// Push adds an element.
func (q *Queue[T]) Push(element T) {
	q.list = append(q.list, element)
	q.up(len(q.list) - 1)
}

// Pop removes the first element and returns it. There has to be one.
func (q *Queue[T]) Pop() T { return q.Remove(0) }

// Remove removes the element at a place and returns it.
func (q *Queue[T]) Remove(place int) T {
	last := len(q.list) - 1
	element := q.list[place]
	q.list[place] = q.list[last]
	clear(q.list[last:])
	if q.list = q.list[:last]; place < last {
		q.Fix(place)
	}
	return element
}

// Fix finds the place of the element at a place, which has changed.
func (q *Queue[T]) Fix(place int) { q.down(q.up(place)) }

// up moves the element at a place before those that it comes before, and returns its place.
func (q *Queue[T]) up(place int) int {
	element := q.list[place]
	for place > 0 {
		above := (place - 1) / 2
		if !q.Before(element, q.list[above]) {
			break
		}
		q.put(q.list[above], place)
		place = above
	}
	q.put(element, place)
	return place
}

// down moves the element at a place behind those that come before it.
func (q *Queue[T]) down(place int) {
	element := q.list[place]
	for {
		below := 2*place + 1
		if next := below + 1; next < len(q.list) && q.Before(q.list[next], q.list[below]) {
			below = next
		}
		if below >= len(q.list) || !q.Before(q.list[below], element) {
			break
		}
		q.put(q.list[below], place)
		place = below
	}
	q.put(element, place)
}

func (q *Queue[T]) put(element T, place int) {
	q.list[place] = element
	if q.Moved != nil {
		q.Moved(element, place)
	}
}
