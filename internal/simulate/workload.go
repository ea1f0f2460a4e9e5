package simulate

import (
	"math"
	"math/rand/v2"

	"github.com/headgate/headgate/limit"
)

// A Workload says when one source asks. Its mean is the load times the quota in each period,
// but for a flash crowd, which comes on top, and for what is asked again.
type Workload struct {
	Name string
	// Text says in a line what it is a model of, with all its numbers.
	Text string
	// arrivals returns a function whose every call tells when the source asks next, in
	// microseconds after the start; the times never fall.
	arrivals func(r *rand.Rand, t traffic) func() float64
	// again says how who is denied asks again; nil is never.
	again func(r *rand.Rand, wait limit.Micros) limit.Micros
}

// traffic is what a workload has to know.
type traffic struct {
	period, rate float64 // µs, and requests in a µs
	phase        float64 // when the first window of the limit ends
	length       float64 // µs from the first request to the last
}

// The numbers of the models. They stand in Text, and so in every report.
const (
	batchMean  = 8    // requests in a burst
	dutyShare  = 0.1  // of the time a source is on
	onPeriods  = 0.5  // mean time on, in periods
	daySwing   = 0.8  // how far the rate of a day is above and below its mean
	dayPeriods = 24.0 // periods in a day
	crowdTimes = 10   // how many times the load a crowd is
	crowdStay  = 3.0  // periods that it stays
	edgeShare  = 0.01 // of a period, around its end, in which the adversary asks
	maxTries   = 5    // how often a request is made in all
)

// Workloads returns all models, in the order of reports.
func Workloads() []Workload {
	soon := func(_ *rand.Rand, wait limit.Micros) limit.Micros { return wait }
	spread := func(r *rand.Rand, wait limit.Micros) limit.Micros {
		return wait + limit.Micros(r.Int64N(int64(wait)+1))
	}
	return []Workload{
		{"poisson", "independent requests at one rate", poisson, nil},
		{"bursts", "bursts of 8 requests in the mean (geometric), at one instant each, at random times", bursts, nil},
		{"on-off", "on for half a period in the mean, off nine times as long (exponential); ten times the rate while on", onOff, nil},
		{"diurnal", "a rate that rises and falls by 80 % in 24 periods", diurnal, nil},
		{"flash-crowd", "one rate, and ten times that for 3 periods in the middle", flashCrowd, nil},
		{"adversary", "everything in the hundredth of a period before and the one after the end of each second window", adversary, nil},
		{"retry-storm", "as poisson; who is denied asks again at the time told, 4 times at most", poisson, soon},
		{"retry-jitter", "as retry-storm, and waits a random time more, up to as long again", poisson, spread},
	}
}

func poisson(r *rand.Rand, t traffic) func() float64 {
	now := 0.0
	return func() float64 {
		now += r.ExpFloat64() / t.rate
		return now
	}
}

func bursts(r *rand.Rand, t traffic) func() float64 {
	now, left := 0.0, 0
	return func() float64 {
		for left == 0 {
			now += r.ExpFloat64() * batchMean / t.rate
			left = 1 + int(math.Log(1-r.Float64())/math.Log(1-1.0/batchMean))
		}
		left--
		return now
	}
}

func onOff(r *rand.Rand, t traffic) func() float64 {
	now := 0.0
	ends := r.ExpFloat64() * onPeriods * t.period
	return func() float64 {
		now += r.ExpFloat64() * dutyShare / t.rate
		for now > ends {
			// The rest of the step falls into the next time on: it has no memory.
			off := r.ExpFloat64() * onPeriods * t.period * (1 - dutyShare) / dutyShare
			now += off
			ends += off + r.ExpFloat64()*onPeriods*t.period
		}
		return now
	}
}

// thinned draws at the highest rate, of highest times t.rate, and keeps the share that is due.
func thinned(r *rand.Rand, t traffic, highest float64, due func(now float64) float64) func() float64 {
	now := 0.0
	return func() float64 {
		for {
			now += r.ExpFloat64() / (t.rate * highest)
			if r.Float64()*highest < due(now) {
				return now
			}
		}
	}
}

func diurnal(r *rand.Rand, t traffic) func() float64 {
	day := dayPeriods * t.period
	return thinned(r, t, 1+daySwing, func(now float64) float64 { return 1 + daySwing*math.Sin(2*math.Pi*now/day) })
}

func flashCrowd(r *rand.Rand, t traffic) func() float64 {
	from := t.length / 2
	to := from + crowdStay*t.period
	return thinned(r, t, crowdTimes, func(now float64) float64 {
		if now >= from && now < to {
			return crowdTimes
		}
		return 1
	})
}

// adversary knows when windows of the limit end.
func adversary(_ *rand.Rand, t traffic) func() float64 {
	each := max(2, math.Round(2*t.rate*t.period)) // requests in two periods
	edge, n := t.phase+t.period, 0.0
	return func() float64 {
		if n == each {
			edge, n = edge+2*t.period, 0
		}
		n++
		// The first half before the end, the other at it or after it.
		return edge + edgeShare*t.period*(2*(n-0.5)/each-1)
	}
}
