package limit

import (
	"math/big"
	"time"
)

// An oracle is the definition of an algorithm, written as plainly as possible:
// it remembers every admitted hit and computes in arbitrary precision. It knows
// only limits that do not change and clocks that do not step back.
type oracle interface {
	// fits says whether hits would pass at now.
	fits(now, hits int64) bool
	// idle says whether the bucket is as if unused at now.
	idle(now int64) bool
	charge(now, hits int64)
}

func newOracle(spec Spec) oracle {
	h := history{quota: spec.Quota, period: spec.Period.Microseconds()}
	switch spec.Algorithm {
	case FixedWindow:
		return &fixedOracle{h}
	case SubWindows:
		parts := int64(spec.SubWindows)
		return &partsOracle{h, parts, (h.period + parts - 1) / parts, spec.Strict}
	case SlidingLog:
		return &logOracle{h}
	case TokenBucket, GCRA:
		burst := spec.Burst
		if burst == 0 {
			burst = spec.Quota
		}
		return newBucketOracle(h, burst, nil)
	case LeakyBucket:
		return newBucketOracle(h, 1, nil)
	case LeakyQueue:
		return newBucketOracle(h, 0, &spec)
	}
	return &slidingOracle{h}
}

type event struct{ at, hits int64 }

type history struct {
	quota, period int64
	events        []event
}

func (h *history) charge(now, hits int64) { h.events = append(h.events, event{now, hits}) }

// between returns the hits in [from, to).
func (h *history) between(from, to int64) *big.Int {
	sum := new(big.Int)
	for _, e := range h.events {
		if from <= e.at && e.at < to {
			sum.Add(sum, big.NewInt(e.hits))
		}
	}
	return sum
}

func floorTo(t, unit int64) int64 { return t / unit * unit }

// weighed returns ceil(n*a/b).
func weighed(n *big.Int, a, b int64) *big.Int {
	product := new(big.Int).Mul(n, big.NewInt(a))
	product.Add(product, big.NewInt(b-1))
	return product.Div(product, big.NewInt(b))
}

func (h *history) within(used *big.Int, hits int64) bool {
	return new(big.Int).Add(used, big.NewInt(hits)).Cmp(big.NewInt(h.quota)) <= 0
}

type fixedOracle struct{ history }

func (o *fixedOracle) used(now int64) *big.Int {
	return o.between(floorTo(now, o.period), now+1)
}
func (o *fixedOracle) fits(now, hits int64) bool { return o.within(o.used(now), hits) }
func (o *fixedOracle) idle(now int64) bool       { return o.used(now).Sign() == 0 }

type slidingOracle struct{ history }

func (o *slidingOracle) used(now int64) *big.Int {
	start := floorTo(now, o.period)
	previous := weighed(o.between(start-o.period, start), start+o.period-now, o.period)
	return previous.Add(previous, o.between(start, now+1))
}
func (o *slidingOracle) fits(now, hits int64) bool { return o.within(o.used(now), hits) }

// idle: neither window has hits, now or from the next on.
func (o *slidingOracle) idle(now int64) bool {
	return o.between(floorTo(now, o.period)-o.period, now+1).Sign() == 0
}

type partsOracle struct {
	history
	n, width int64
	strict   bool
}

func (o *partsOracle) used(now int64) *big.Int {
	start := floorTo(now, o.width)
	oldest := o.between(start-o.n*o.width, start-(o.n-1)*o.width)
	if !o.strict {
		oldest = weighed(oldest, start+o.width-now, o.width)
	}
	return oldest.Add(oldest, o.between(start-(o.n-1)*o.width, now+1))
}
func (o *partsOracle) fits(now, hits int64) bool { return o.within(o.used(now), hits) }
func (o *partsOracle) idle(now int64) bool {
	return o.between(floorTo(now, o.width)-o.n*o.width, now+1).Sign() == 0
}

type logOracle struct{ history }

func (o *logOracle) used(now int64) *big.Int   { return o.between(now-o.period+1, now+1) }
func (o *logOracle) fits(now, hits int64) bool { return o.within(o.used(now), hits) }
func (o *logOracle) idle(now int64) bool       { return o.used(now).Sign() == 0 }

// bucketOracle keeps the level of a bucket in hits, exactly: it leaks quota hits
// per period, and hits are poured in one instant after the other.
type bucketOracle struct {
	history
	rate  *big.Rat // hits per µs
	depth *big.Rat // hits
	level *big.Rat
	at    int64
}

func newBucketOracle(h history, burst int64, queue *Spec) *bucketOracle {
	o := &bucketOracle{history: h, rate: big.NewRat(h.quota, h.period), depth: big.NewRat(burst, 1), level: new(big.Rat)}
	if h.quota == 0 {
		o.depth = new(big.Rat)
	} else if queue != nil {
		// The last of the hits must have its turn within the delay: all
		// but one may be above what leaks in it.
		delay := queue.MaxDelay
		if delay == 0 {
			delay = queue.Period
		}
		o.depth.Mul(o.rate, big.NewRat(delay.Microseconds(), 1))
		o.depth.Add(o.depth, big.NewRat(1, 1))
		longest := big.NewRat(MaxBucketQuota, 1)
		if queue.MaxQueue > 0 {
			longest = big.NewRat(queue.MaxQueue+1, 1)
		}
		if longest.Cmp(o.depth) < 0 {
			o.depth = longest
		}
	}
	return o
}

func (o *bucketOracle) levelAt(now int64) *big.Rat {
	leaked := new(big.Rat).Mul(o.rate, big.NewRat(now-o.at, 1))
	level := leaked.Sub(o.level, leaked)
	if level.Sign() < 0 {
		return new(big.Rat)
	}
	return level
}

func (o *bucketOracle) fits(now, hits int64) bool {
	level := o.levelAt(now)
	return level.Add(level, big.NewRat(hits, 1)).Cmp(o.depth) <= 0
}
func (o *bucketOracle) idle(now int64) bool { return o.levelAt(now).Sign() == 0 }
func (o *bucketOracle) charge(now, hits int64) {
	o.level = o.levelAt(now)
	o.level.Add(o.level, big.NewRat(hits, 1))
	o.at = now
}

// delay returns how long the first of the next hits must wait, rounded up.
func (o *bucketOracle) delay(now int64) time.Duration {
	level := o.levelAt(now)
	if level.Sign() == 0 {
		return 0
	}
	wait := level.Quo(level, o.rate)
	us := new(big.Int).Add(wait.Num(), new(big.Int).Sub(wait.Denom(), big.NewInt(1)))
	us.Div(us, wait.Denom())
	return time.Duration(us.Int64()) * time.Microsecond
}
