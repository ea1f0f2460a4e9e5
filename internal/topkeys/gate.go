package topkeys

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// budget is the number of keys in a second that a gate aims to have looked at. At 250 ns each,
	// were all keys new, they take an eighth of a percent of one core.
	budget = 5_000
	// reserve is how much of the budget may pass before a gate closes further by
	// itself, because the load has grown since the last tick.
	reserve = 2
	// closing is by how much it does.
	closing = 4
	// maxInterval bounds the requests that a sample stands for.
	maxInterval = 1 << 24
)

// always is the threshold of a gate that lets everything pass.
const always = math.MaxUint64

// gate chooses samples: one of every so many, by chance, so that about as many keys are looked
// at in a second as the budget allows. It is safe for concurrent use.
type gate struct {
	// threshold is what a random number is compared with. It has a cache line of its
	// own, because all decisions read it.
	threshold atomic.Uint64
	_         [56]byte
	// left is how many keys may be looked at until the gate closes further.
	left atomic.Int64
	// stood is what the samples since the last tick stand for, more how many keys they had
	// beyond one each, passed their number since the start.
	stood, more, passed atomic.Uint64
	budget              int64
	_                   [24]byte

	// ticked is what had passed at the last tick; it is for tick alone.
	ticked uint64
}

func (g *gate) init(budget int64) {
	g.budget = budget
	g.setInterval(1)
	g.left.Store(reserve * budget)
}

// pass says how many requests this one stands for, 0 when it is not a sample.
func (g *gate) pass() uint64 {
	threshold := g.threshold.Load()
	if threshold != always && rand.Uint64() > threshold {
		return 0
	}
	return g.taken(threshold)
}

// taken counts a sample, and returns what it stands for.
func (g *gate) taken(threshold uint64) uint64 {
	interval := always / threshold
	g.stood.Add(interval)
	g.passed.Add(1)
	g.use(1)
	return interval
}

// has says how many keys a sample had that was taken.
func (g *gate) has(keys int) {
	if keys > 1 {
		g.more.Add(uint64(keys - 1))
		g.use(int64(keys - 1))
	}
}

// use takes from what is left; whoever takes the last of it closes the gate further.
func (g *gate) use(keys int64) {
	if left := g.left.Add(-keys); left <= 0 && left > -keys {
		g.setInterval(always / g.threshold.Load() * closing)
		g.left.Store(reserve * g.budget / closing)
	}
}

// tick adapts the gate to what has passed in the time since the last tick.
func (g *gate) tick(since time.Duration) {
	rate := float64(g.stood.Swap(0)) / since.Seconds()
	passed, more := g.passed.Load(), g.more.Swap(0)
	if samples := passed - g.ticked; samples > 0 {
		rate *= 1 + float64(more)/float64(samples) // keys in place of requests
	}
	g.ticked = passed
	g.setInterval(uint64(math.Ceil(rate / float64(g.budget))))
	g.left.Store(reserve * g.budget)
}

func (g *gate) setInterval(interval uint64) {
	g.threshold.Store(always / min(max(interval, 1), maxInterval))
}
