package telemetry

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// decisionBounds are those of the duration histogram: from a decision in memory to one
// that waited for a store in another region.
var decisionBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// customaryBounds are those that other servers use by default, for the names of others.
var customaryBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// The native histogram has buckets from 2^lowestOctave to 2^highestOctave seconds (60 ns
// to 64 s), stepsOfOctave in each octave: a quantile is off by 4.5 % at most.
const (
	nativeSchema   = 3
	stepsOfOctave  = 1 << nativeSchema
	lowestOctave   = -24
	highestOctave  = 6
	lowestNative   = lowestOctave * stepsOfOctave
	highestNative  = highestOctave * stepsOfOctave
	nativeZeroUpTo = 1.0 / (1 << -lowestOctave) // seconds
)

// maxCells bounds the cells: one for each bound of a histogram, and one above all.
const maxCells = highestNative - lowestNative + 1 + len(decisionBounds) + len(customaryBounds) + 1

// cellEdges are the upper bounds of the cells in nanoseconds, the last cell excepted,
// which has none. Durations are counted in cells, which are so fine that the buckets of
// every histogram, classic or native, are made of whole ones: a decision counts once.
var cellEdges = func() []int64 {
	var edges []int64
	for i := lowestNative; i <= highestNative; i++ {
		edges = append(edges, nativeEdge(i))
	}
	for _, bound := range slices.Concat(decisionBounds[:], customaryBounds[:]) {
		edges = append(edges, int64(bound))
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}()

// nativeEdge is the upper bound of a bucket of the native histogram, in nanoseconds
// rounded down: a duration in whole nanoseconds is above both or neither.
func nativeEdge(bucket int) int64 {
	return int64(math.Exp2(float64(bucket)/stepsOfOctave) * 1e9)
}

// The cell of a duration is looked up by its highest bits: where they begin, and the
// slotBits that follow.
const (
	slotBits    = 4
	slotsOctave = 1 << slotBits
)

// firstCells has, for each slot, the cell of its smallest duration.
var firstCells = func() (first [(64 - slotBits) * slotsOctave]uint16) {
	for slot := range first {
		smallest := int64(slot)
		if octave := slot / slotsOctave; octave > 0 {
			smallest = int64(slot%slotsOctave+slotsOctave) << (octave - 1)
		}
		cell, _ := slices.BinarySearch(cellEdges, smallest)
		first[slot] = uint16(cell)
	}
	return first
}()

// cellOf returns the cell that counts a duration. A clock that stepped back counts as 0.
func cellOf(took time.Duration) int {
	ns := max(int64(took), 0)
	slot := int(ns)
	if octave := bits.Len64(uint64(ns)) - slotBits; octave > 0 {
		slot = octave*slotsOctave + int(ns>>(octave-1))&(slotsOctave-1)
	}
	cell := int(firstCells[slot])
	for cell < len(cellEdges) && ns > cellEdges[cell] {
		cell++
	}
	return cell
}

// cellsUpTo returns how many cells lie below a bound, which is an edge.
func cellsUpTo(bound time.Duration) int {
	cell, _ := slices.BinarySearch(cellEdges, int64(bound))
	return cell + 1
}

// cellCounts counts durations by their cells.
type cellCounts [maxCells]uint64

// buckets returns the counts between bounds, all of which are edges: those up to the
// first one, up to the second, and so on, and those above the last one.
func (c *cellCounts) buckets(bounds []time.Duration) []uint64 {
	counts := make([]uint64, len(bounds)+1)
	cell := 0
	for i := range counts {
		end := len(c)
		if i < len(bounds) {
			end = cellsUpTo(bounds[i])
		}
		for ; cell < end; cell++ {
			counts[i] += c[cell]
		}
	}
	return counts
}

// native returns the counts of the buckets of the native histogram, and of what is too
// short for any of them. What is too long is in the bucket above the highest.
func (c *cellCounts) native() (zero uint64, buckets map[int]uint64) {
	buckets = map[int]uint64{}
	bucket := lowestNative
	for cell, n := range c {
		for bucket <= highestNative && (cell >= len(cellEdges) || cellEdges[cell] > nativeEdge(bucket)) {
			bucket++
		}
		switch {
		case n == 0:
		case bucket == lowestNative:
			zero += n
		default:
			buckets[bucket] += n
		}
	}
	return zero, buckets
}

// quantile returns the duration that a share q of those counted do not exceed, in
// seconds: interpolated within a cell, and 0 where nothing was counted.
func (c *cellCounts) quantile(q float64) float64 {
	total := uint64(0)
	for _, n := range c {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := q * float64(total)
	below := 0.0
	for cell, n := range c {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		from, to := cellSpan(cell)
		return (from + (to-from)*(rank-below)/float64(n)) / 1e9
	}
	return 0 // not reached: the last rank is total
}

// cellSpan returns the bounds of a cell in nanoseconds. The last one is a point.
func cellSpan(cell int) (from, to float64) {
	if cell >= len(cellEdges) {
		last := float64(cellEdges[len(cellEdges)-1])
		return last, last
	}
	if cell > 0 {
		from = float64(cellEdges[cell-1])
	}
	return from, float64(cellEdges[cell])
}
