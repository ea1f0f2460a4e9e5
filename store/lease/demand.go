package lease

import "time"

const (
	// Demand is averaged over demandWindow at least, and until demandHits have
	// come or maxDemandWindow is over.
	demandWindow    = 100 * time.Millisecond
	demandHits      = 16
	maxDemandWindow = 2 * time.Second
	// minDemandSpan keeps the first hits of a bucket from looking like an
	// endless stream.
	minDemandSpan = 500 * time.Millisecond
)

// demand estimates how many hits per second a bucket is asked for on this node,
// those among them that are denied included. The zero value has seen none.
type demand struct {
	rate  float64       // of the windows that are over; 0 is none
	since time.Duration // start of the present window; 0 is none
	count int64         // in it
}

// note counts hits at now.
func (d *demand) note(hits int64, now time.Duration) {
	if d.since == 0 {
		d.since = now
	}
	span := now - d.since
	if span >= demandWindow && d.count >= demandHits || span >= maxDemandWindow {
		d.fold(span)
		d.since, d.count = now, 0
	}
	d.count += hits
}

// fold moves the estimate towards the window that is over: half way, or all the
// way after a long one.
func (d *demand) fold(span time.Duration) {
	rate := float64(d.count) / span.Seconds()
	if d.rate == 0 || span >= maxDemandWindow {
		d.rate = rate
		return
	}
	d.rate += (rate - d.rate) / 2
}

// perSecond is the estimate at now.
func (d *demand) perSecond(now time.Duration) float64 {
	if d.since == 0 {
		return 0
	}
	span := now - d.since
	if d.rate == 0 || span >= maxDemandWindow {
		return float64(d.count) / max(span, minDemandSpan).Seconds()
	}
	return d.rate
}

// hitsIn is how many hits the estimate expects within span, rounded up and at
// most most.
func (d *demand) hitsIn(span, now time.Duration, most int64) int64 {
	hits := d.perSecond(now) * span.Seconds()
	if hits >= float64(most) {
		return most
	}
	return int64(hits) + 1
}
