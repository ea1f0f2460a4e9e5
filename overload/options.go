package overload

import (
	"fmt"
	"math"
	"time"
)

// Options configures a Shedder. The zero value of each field is its default.
type Options struct {
	// MaxInFlight is the hard cap on what is in flight besides critical
	// traffic; default 1000, at most 2,097,151.
	MaxInFlight int
	// MaxCritical is the hard cap on critical requests in flight, counted apart
	// from the others; default MaxInFlight. So no more than MaxInFlight +
	// MaxCritical are ever in flight.
	MaxCritical int
	// MinLimit is what the adaptive limit never falls below; default 4.
	MinLimit int
	// InitialLimit is the adaptive limit at the start; default 20, or the
	// nearest that the bounds allow.
	InitialLimit int
	// Interval is the time between two adaptions; default 100 ms. An interval
	// with fewer than 20 completions is prolonged, up to ten times.
	Interval time.Duration
	// Tolerance is the latency that is fine, as a multiple of the best seen;
	// default 2, at least 1.
	Tolerance float64
	// QueueTarget is a time in a queue that is fine whatever the best latency;
	// default 20 ms. So latency is fine up to the larger of Tolerance times
	// the best one and the best one plus QueueTarget.
	QueueTarget time.Duration
	// BaseWindow is how long a latency counts as the best seen; default 30 s.
	BaseWindow time.Duration
	// RetryAfter is the least that a client is told that was shed; default
	// 500 ms, at most a minute. It is jittered upward, to three times as much.
	RetryAfter time.Duration
}

// Validate says which field cannot be.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.MaxInFlight < 1 || o.MaxInFlight > maxInFlight:
		return fmt.Errorf("overload: MaxInFlight is %d; it is 1 to %d", o.MaxInFlight, maxInFlight)
	case o.MaxCritical < 1 || o.MaxCritical > maxInFlight:
		return fmt.Errorf("overload: MaxCritical is %d; it is 1 to %d", o.MaxCritical, maxInFlight)
	case o.MinLimit < 1 || o.MinLimit > o.MaxInFlight:
		return fmt.Errorf("overload: MinLimit is %d; it is 1 to MaxInFlight, which is %d", o.MinLimit, o.MaxInFlight)
	case o.InitialLimit < o.MinLimit || o.InitialLimit > o.MaxInFlight:
		return fmt.Errorf("overload: InitialLimit is %d; it is from MinLimit, %d, to MaxInFlight, %d", o.InitialLimit, o.MinLimit, o.MaxInFlight)
	case o.Interval < time.Millisecond || o.Interval > time.Minute:
		return fmt.Errorf("overload: Interval is %v; it is 1 ms to 1 min", o.Interval)
	case !(o.Tolerance >= 1) || math.IsInf(o.Tolerance, 1):
		return fmt.Errorf("overload: Tolerance is %v; it is 1 or more", o.Tolerance)
	case o.QueueTarget < 0:
		return fmt.Errorf("overload: QueueTarget is %v; it cannot be negative", o.QueueTarget)
	case o.BaseWindow < 10*o.Interval:
		return fmt.Errorf("overload: BaseWindow is %v; it is at least ten times Interval, which is %v", o.BaseWindow, o.Interval)
	}
	return validRetryAfter(o.RetryAfter)
}

// maxRetryAfter bounds what a client is told, before jitter.
const maxRetryAfter = time.Minute

func validRetryAfter(d time.Duration) error {
	if d < 0 || d > maxRetryAfter {
		return fmt.Errorf("overload: RetryAfter is %v; it is 0 to %v", d, maxRetryAfter)
	}
	return nil
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxInFlight, 1000)
	setDefault(&o.MaxCritical, o.MaxInFlight)
	setDefault(&o.MinLimit, min(4, o.MaxInFlight))
	setDefault(&o.InitialLimit, max(o.MinLimit, min(20, o.MaxInFlight)))
	setDefault(&o.Interval, 100*time.Millisecond)
	setDefault(&o.Tolerance, 2)
	setDefault(&o.QueueTarget, 20*time.Millisecond)
	setDefault(&o.BaseWindow, 30*time.Second)
	setDefault(&o.RetryAfter, 500*time.Millisecond)
	return o
}

// setDefault gives a field that was left out its default.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
