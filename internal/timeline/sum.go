package timeline

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// Told is what is known of one node.
type Told struct {
	Name string
	// Line is what the node has answered over time; nil: it has not told.
	Line *view.Timeline
	// GoneAt is when a node was heard of last that is not any more. Its Line is nil. It is missing in no sum of
	// what was later.
	GoneAt time.Time
}

// behind is by how many seconds a node may be late and is still at the end of the time that is shown:
// it has looked up to a second ago, and its clock is its own.
const behind = 10

// tick is by how many seconds a step may be shorter than another, because sums are told once a second.
const tick = 2

// Sum adds up what nodes have answered in steps as long as the longest of any, up to an instant. How much a
// node has answered per second counts by the seconds that it knows of; a second in which nobody looked is
// part of the next one that is known.
func Sum(told []Told, to time.Time) view.FleetTimeline {
	sum := view.FleetTimeline{Step: 1, Points: []view.FleetPoint{}, Nodes: []view.TimelineNode{}}
	for i := range told {
		if told[i].Line != nil {
			sum.Step = max(sum.Step, told[i].Line.Step)
		}
	}
	lines := make([][]known, len(told))
	for i := range told {
		if told[i].Line != nil {
			lines[i] = spread(inSteps(told[i].Line, sum.Step), sum.Step)
		}
	}
	end := endOf(lines, sum.Step, to)
	points := map[int64]*view.FleetPoint{}
	for _, line := range lines {
		for i := range line {
			if k := &line[i]; k.step <= end {
				addKnown(points, k, sum.Step)
			}
		}
	}
	for _, step := range slices.Sorted(maps.Keys(points)) {
		p := points[step]
		p.Whole = wholeAt(told, lines, step, sum.Step, step == end)
		sum.Points = append(sum.Points, *p)
	}
	for i := range told {
		sum.Nodes = append(sum.Nodes, standing(&told[i], lines[i], sum.Step, end))
	}
	slices.SortStableFunc(sum.Nodes, func(a, b view.TimelineNode) int { return cmp.Compare(a.Name, b.Name) })
	return sum
}

// known is what a node knows of one step: the number of it, since 1970.
type known struct {
	step    int64
	seconds int64
	counts  view.Requests
	rates   view.Requests
	p50     float64
	p99     float64
}

// inSteps returns a timeline in steps of so many seconds, of which its own steps are parts.
func inSteps(line *view.Timeline, seconds int64) (list []known) {
	for i := range line.Points {
		p := &line.Points[i]
		step := p.At.Unix() / seconds
		if len(list) == 0 || list[len(list)-1].step != step {
			list = append(list, known{step: step})
		}
		k := &list[len(list)-1]
		k.seconds += p.Known
		k.counts = plusRequests(k.counts, p.Requests)
		k.p50, k.p99 = max(k.p50, p.P50), max(k.p99, p.P99)
	}
	return list
}

// spread fills in rates, and the steps in which nobody looked, of which the step after them is too.
func spread(list []known, seconds int64) []known {
	var spread []known
	for i := range list {
		k := list[i]
		if k.seconds > 0 {
			k.rates = perSecond(k.counts, float64(k.seconds))
		}
		first := k.step
		for over := k.seconds - seconds; over >= seconds && i > 0 && first > list[i-1].step+1; over -= seconds {
			first--
		}
		for step := first; step < k.step; step++ {
			spread = append(spread, known{step: step, seconds: seconds, rates: k.rates, p50: k.p50, p99: k.p99})
		}
		k.seconds -= (k.step - first) * seconds
		spread = append(spread, k)
	}
	return spread
}

// endOf returns the last step that all have reached which are at the end: what some have not told yet is not
// drawn as if they had answered nothing.
func endOf(lines [][]known, seconds int64, to time.Time) int64 {
	end := to.Unix() / seconds
	for _, line := range lines {
		if len(line) > 0 {
			if last := line[len(line)-1].step; last < end && (last+1)*seconds >= to.Unix()-behind {
				end = last
			}
		}
	}
	return end
}

func addKnown(points map[int64]*view.FleetPoint, k *known, seconds int64) {
	p := points[k.step]
	if p == nil {
		p = &view.FleetPoint{At: time.Unix(k.step*seconds, 0).UTC()}
		points[k.step] = p
	}
	p.Nodes++
	p.Requests, p.Rates = plusRequests(p.Requests, k.counts), plusRequests(p.Rates, k.rates)
	p.P50, p.P99 = max(p.P50, k.p50), max(p.P99, k.p99)
}

// wholeAt reports whether nothing is missing in a step. last says that it need not be over.
func wholeAt(told []Told, lines [][]known, step, seconds int64, last bool) bool {
	for i := range told {
		switch {
		case !told[i].GoneAt.IsZero():
			if step <= told[i].GoneAt.Unix()/seconds {
				return false
			}
		case told[i].Line == nil:
			return false
		default:
			at, there := slices.BinarySearchFunc(lines[i], step, func(k known, step int64) int { return cmp.Compare(k.step, step) })
			if !there || !last && lines[i][at].seconds < seconds-max(tick, seconds/20) {
				return false
			}
		}
	}
	return true
}

// standing says what there is of a node up to a step.
func standing(t *Told, line []known, seconds, end int64) view.TimelineNode {
	n := view.TimelineNode{Name: t.Name, Answered: t.Line != nil, GoneAt: t.GoneAt}
	if len(line) > 0 && line[0].step <= end {
		n.From = time.Unix(line[0].step*seconds, 0).UTC()
		there, _ := slices.BinarySearchFunc(line, end+1, func(k known, step int64) int { return cmp.Compare(k.step, step) })
		n.Gaps = int(end-line[0].step) + 1 - there
	}
	return n
}

func plusRequests(a, b view.Requests) view.Requests {
	return view.Requests{
		Allowed: a.Allowed + b.Allowed, Denied: a.Denied + b.Denied, DegradedAllowed: a.DegradedAllowed + b.DegradedAllowed,
		DegradedDenied: a.DegradedDenied + b.DegradedDenied, Unmatched: a.Unmatched + b.Unmatched, UnknownDomain: a.UnknownDomain + b.UnknownDomain,
	}
}

func perSecond(r view.Requests, seconds float64) view.Requests {
	return view.Requests{
		Allowed: r.Allowed / seconds, Denied: r.Denied / seconds, DegradedAllowed: r.DegradedAllowed / seconds,
		DegradedDenied: r.DegradedDenied / seconds, Unmatched: r.Unmatched / seconds, UnknownDomain: r.UnknownDomain / seconds,
	}
}
