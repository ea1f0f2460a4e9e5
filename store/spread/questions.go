package spread

import "github.com/headgate/headgate/store"

// unheard is the place of an answer that nobody asked for.
const unheard = -1

// questions gathers takes by their parts.
type questions struct {
	parts []Part
	// place[p][k] is the index in the results of the batch where the k-th
	// answer of parts[p] belongs, or unheard.
	place [][]int
	// groups has the number of each group in each part.
	groups map[groupPart]uint32
}

// groupPart is a group of the batch in one part.
type groupPart struct{ group, part int }

// groupIn returns the number that the takes of a group have in a part. It is
// never the same in two parts: their batches may be put together again.
func (q *questions) groupIn(group, part int) uint32 {
	if q.groups == nil {
		q.groups = map[groupPart]uint32{}
	}
	key := groupPart{group, part}
	n, ok := q.groups[key]
	if !ok {
		n = uint32(len(q.groups) + 1)
		q.groups[key] = n
	}
	return n
}

// add asks a part for t, whose answer goes to place.
func (q *questions) add(part int, t store.Take, place int) {
	at := 0
	for at < len(q.parts) && q.parts[at].ID != part {
		at++
	}
	if at == len(q.parts) {
		q.parts = append(q.parts, Part{ID: part})
		q.place = append(q.place, nil)
	}
	q.parts[at].Takes = append(q.parts[at].Takes, t)
	q.place[at] = append(q.place[at], place)
}

// ask asks all parts that were added, and puts their answers in their places. A
// peek that fails when it is asked again leaves the first answer.
func (q *questions) ask(ask func([]Part), results []store.Result, again bool) {
	if len(q.parts) == 0 {
		return
	}
	for i := range q.parts {
		q.parts[i].Results = make([]store.Result, len(q.parts[i].Takes))
	}
	ask(q.parts)
	for i, places := range q.place {
		for k, place := range places {
			r := &q.parts[i].Results[k]
			if place == unheard || again && r.Err != nil && q.parts[i].Takes[k].Op == store.Hit {
				continue
			}
			results[place] = *r
		}
	}
}
