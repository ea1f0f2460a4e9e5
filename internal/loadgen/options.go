package loadgen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Shape says how requests are spread over the time.
type Shape string

// The shapes.
const (
	// Steady sends one request after the other, at equal distances.
	Steady Shape = "steady"
	// Ramp begins with none and ends with the rate.
	Ramp Shape = "ramp"
	// Burst sends all requests of a second at its beginning.
	Burst Shape = "burst"
)

const (
	// guardRate and guardTime bound what is sent, unless Options.Unguarded says otherwise.
	guardRate = 1000
	guardTime = time.Minute
	// maxRate, maxTime and maxRequests bound it in any case.
	maxRate     = 100_000
	maxTime     = 24 * time.Hour
	maxRequests = 10_000_000
	// maxKeys bounds the keys.
	maxKeys = 1_000_000
	// maxUnderWay bounds the requests without an answer.
	maxUnderWay = 100_000
)

// Options says what is sent.
type Options struct {
	Shape Shape
	// Rate is requests per second: of Ramp the last one, of Burst a whole number. From 1 to
	// maxRate.
	Rate float64
	// For is how long requests are sent.
	For time.Duration
	// Keys is among how many keys requests are drawn, and Hot the share of them that goes to the
	// first one beside what it draws, from 0 to 1.
	Keys int
	Hot  float64
	// Seed is what the drawing begins with.
	Seed uint64
	// UnderWay bounds the requests without an answer: one beyond it is not sent, and counted. From 1 to
	// maxUnderWay.
	UnderWay int
	// Unguarded allows more than guardRate and guardTime.
	Unguarded bool
}

// Validate refuses what cannot be, or is more than was asked for on purpose.
func (o *Options) Validate() error {
	switch {
	case o.Shape != Steady && o.Shape != Ramp && o.Shape != Burst:
		return fmt.Errorf("shape %.20q; hint: steady, ramp or burst", o.Shape)
	case !(o.Rate >= 1 && o.Rate <= maxRate):
		return fmt.Errorf("a rate of %v per second; hint: from 1 to %d", o.Rate, maxRate)
	case o.Shape == Burst && o.Rate != math.Trunc(o.Rate):
		return fmt.Errorf("a rate of %v per second in bursts; hint: a whole number", o.Rate)
	case o.For < time.Millisecond || o.For > maxTime:
		return fmt.Errorf("%v long; hint: from 1ms to %v", o.For, maxTime)
	case !o.Unguarded && (o.Rate > guardRate || o.For > guardTime):
		return fmt.Errorf("%v per second for %v is more than %d per second or %v; hint: --unguarded, if that is meant for this server", o.Rate, o.For, guardRate, guardTime)
	case o.Keys < 1 || o.Keys > maxKeys:
		return fmt.Errorf("%d keys; hint: from 1 to %d", o.Keys, maxKeys)
	case !(o.Hot >= 0 && o.Hot <= 1):
		return fmt.Errorf("a share of %v; hint: from 0 to 1", o.Hot)
	case o.UnderWay < 1 || o.UnderWay > maxUnderWay:
		return fmt.Errorf("%d under way; hint: from 1 to %d", o.UnderWay, maxUnderWay)
	case o.requests() > maxRequests:
		return fmt.Errorf("%d requests; hint: %d at most", o.requests(), maxRequests)
	}
	return nil
}

// requests is how many are sent.
func (o *Options) requests() int {
	n := o.Rate * o.For.Seconds()
	if o.Shape == Ramp {
		n /= 2
	}
	return max(int(math.Round(n)), 1)
}

// at is when request i is to be sent, from the beginning.
func (o *Options) at(i int) time.Duration {
	var seconds float64
	switch o.Shape {
	case Ramp: // rate*t/for is integrated to rate*t*t/(2*for) requests until t
		seconds = math.Sqrt(2 * float64(i) * o.For.Seconds() / o.Rate)
	case Burst:
		seconds = math.Floor(float64(i) / o.Rate)
	default:
		seconds = float64(i) / o.Rate
	}
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// key draws the key of a request.
func (o *Options) key(random *rand.Rand) int {
	if random.Float64() < o.Hot {
		return 0
	}
	return random.IntN(o.Keys)
}
