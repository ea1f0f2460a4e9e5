package history

import (
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
)

// Where an operation was decided at an unknown instant c of an interval, not every microsecond
// has to be tried, because later answers depend on c in few ways:
//
//   - Of a counter of windows or parts they depend on which one c lies in, and on whether the
//     operation passed. In each window the first instant is tried, and the first at which it
//     passes, which is RetryAfter later.
//   - Of a bucket that drains, c counts only if the bucket was empty: then it is full of those hits
//     until c + hits * T. Who asks next while that lasts is told when it ends, in whole
//     microseconds, after S hits in all: c is that end less S * T. Who asks later finds it empty,
//     for which the earliest c will do.
//   - Of a log, of slots and of a ban, c is told by who is told that something ends: c is that end less
//     the time that it lasts. Who is told nothing of it either finds it gone, for which the
//     earliest c will do, or still there at y: for that c = y - the time that it lasts + 1 is the
//     earliest. If both are seen, the second is right.
//
// An operation of which the answer is known, but not the instant, is tried besides where its own
// ResetAfter and RetryAfter say that it was. For a log, slots and a ban that is not enough, because one answer then
// tells of two instants that are both unknown; Check refuses those.

// instants returns the instants at which operation i may have been decided in state s, of those
// up to last.
func (m *model) instants(i int, s *state, last limit.Micros) []limit.Micros {
	o := &m.operations[i]
	first, last := max(o.From, s.now), min(o.To, last)
	switch {
	case first > last:
		return nil
	case first == last:
		return []limit.Micros{first}
	}
	starts := appendEdges([]limit.Micros{first}, o.Take.Limit, first, last)
	list := slices.Clone(starts)
	var found []limit.Micros
	for i := 0; i < len(list); i++ {
		at := list[i]
		_, d := o.decide(&s.bucket, at)
		if i < len(starts) && d.RetryAfter > 0 {
			list = append(list, at+micros(d.RetryAfter))
		}
		if !o.Unknown {
			found = append(found, at+micros(d.ResetAfter-o.Decision.ResetAfter), at+micros(d.RetryAfter-o.Decision.RetryAfter))
		}
	}
	list = append(list, found...)
	list = append(list, m.told[i]...)
	list = slices.DeleteFunc(list, func(at limit.Micros) bool { return at < first || at > last })
	slices.Sort(list)
	return slices.Compact(list)
}

// appendEdges appends the instants after first, and not after last, at which a window or a part
// of one begins.
func appendEdges(list []limit.Micros, l *limit.Limit, first, last limit.Micros) []limit.Micros {
	length := limit.Micros(l.PeriodMicros())
	switch l.Algorithm {
	case limit.FixedWindow, limit.SlidingWindow:
	case limit.SubWindows:
		length = limit.Micros(l.PartMicros())
	default:
		return list
	}
	for edge := first - first%length + length; edge <= last; edge += length {
		list = append(list, edge)
	}
	return list
}

// tell returns, for each operation with an unknown instant, the instants in its interval that the answers
// to others tell of.
func tell(operations []Operation) [][]limit.Micros {
	told := make([][]limit.Micros, len(operations))
	for i := range operations {
		o := &operations[i]
		if o.From == o.To {
			continue
		}
		for j := range operations {
			by := &operations[j]
			if j == i || by.Unknown || by.To < o.From {
				continue
			}
			for _, at := range ends(operations, by) {
				for _, c := range by.tells(at) {
					if c > o.From && c <= o.To {
						told[i] = append(told[i], c)
					}
				}
			}
		}
		slices.Sort(told[i])
		told[i] = slices.Compact(told[i])
	}
	return told
}

// ends returns the instants which an operation may tell from: its own; or where that is not known those that
// may bound it, because it is not before what came before, nor after what came after, and those at which a
// bucket is empty that others have filled, as its answer says.
func ends(operations []Operation, o *Operation) []limit.Micros {
	if o.From == o.To {
		return []limit.Micros{o.From}
	}
	list := []limit.Micros{o.From, o.To}
	for i := range operations {
		by := &operations[i]
		list = append(list, by.From, by.To)
		if by.From == by.To {
			for _, end := range by.fills() {
				list = append(list, end-micros(o.Decision.ResetAfter))
			}
		}
	}
	return slices.DeleteFunc(list, func(at limit.Micros) bool { return at < o.From || at > o.To })
}

// fills returns when a bucket that drains may be empty, as far as others ask for some hits more before or after the
// operation.
func (o *Operation) fills() []limit.Micros {
	l := o.Take.Limit
	if !l.Algorithm.IsBucket() {
		return nil
	}
	var list []limit.Micros
	hit := limit.Micros(l.PeriodMicros() / l.Quota)
	for n := -mostCharged; n <= mostCharged; n++ {
		list = append(list, o.From+micros(o.Decision.ResetAfter)+limit.Micros(n)*hit)
	}
	return list
}

// lasts returns how long what an operation begins may last, of a limit for which that is told.
func lasts(l *limit.Limit) []limit.Micros {
	switch l.Algorithm {
	case limit.SlidingLog, limit.Concurrency:
		return []limit.Micros{limit.Micros(l.PeriodMicros())}
	case limit.Ban:
		return []limit.Micros{limit.Micros(l.PeriodMicros()), micros(l.BanFor)}
	}
	return nil
}

// tells returns the instants of other operations that the answer, if given at that instant, may
// tell of.
func (o *Operation) tells(at limit.Micros) []limit.Micros {
	if o.Take.Limit.Algorithm.IsBucket() {
		return o.drains(at)
	}
	var list []limit.Micros
	for _, t := range lasts(o.Take.Limit) {
		list = append(list, at+micros(o.Decision.ResetAfter)-t, at+micros(o.Decision.RetryAfter)-t, at-t+1)
	}
	return list
}

// drains is tells for a bucket that drains.
func (o *Operation) drains(at limit.Micros) []limit.Micros {
	l := o.Take.Limit
	hit := limit.Micros(l.PeriodMicros() / l.Quota)
	var list []limit.Micros
	// A charge may go beyond the capacity, by no more than it has itself.
	for n := range o.Decision.Limit + mostCharged {
		list = append(list, at+micros(o.Decision.ResetAfter)-limit.Micros(n+1)*hit)
	}
	return list
}

// mostCharged bounds the hits beyond its capacity that a bucket is looked through for.
const mostCharged = 16

func micros(d time.Duration) limit.Micros { return limit.Micros(d.Microseconds()) }
