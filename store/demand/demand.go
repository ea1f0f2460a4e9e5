// Package demand estimates how many hits per second a bucket is asked for on one node, so that
// whoever takes hits in advance takes what will be needed. Time is an argument.
package demand

import "time"

const (
	// Demand is averaged over window at least, and until windowHits have
	// come or maxWindow is over.
	window     = 100 * time.Millisecond
	windowHits = 16
	maxWindow  = 2 * time.Second
	// minSpan keeps the first hits of a bucket from looking like an
	// endless stream.
	minSpan = 500 * time.Millisecond
)

// Demand estimates how many hits per second a bucket is asked for on this node,
// those among them that are denied included. The zero value has seen none. Instants
// are since any one before the first; 0 is none of them.
type Demand struct {
	rate  float64       // of the windows that are over; 0 is none
	since time.Duration // start of the present window; 0 is none
	count int64         // in it
}

// Note counts hits at now.
func (d *Demand) Note(hits int64, now time.Duration) {
	if d.since == 0 {
		d.since = now
	}
	span := now - d.since
	if span >= window && d.count >= windowHits || span >= maxWindow {
		d.fold(span)
		d.since, d.count = now, 0
	}
	d.count += hits
}

// fold moves the estimate towards the window that is over: half way, or all the
// way after a long one.
func (d *Demand) fold(span time.Duration) {
	rate := float64(d.count) / span.Seconds()
	if d.rate == 0 || span >= maxWindow {
		d.rate = rate
		return
	}
	d.rate += (rate - d.rate) / 2
}

// PerSecond is the estimate at now.
func (d *Demand) PerSecond(now time.Duration) float64 {
	if d.since == 0 {
		return 0
	}
	span := now - d.since
	if d.rate == 0 || span >= maxWindow {
		return float64(d.count) / max(span, minSpan).Seconds()
	}
	return d.rate
}

// HitsIn is how many hits the estimate expects within span, rounded up and at
// most most.
func (d *Demand) HitsIn(span, now time.Duration, most int64) int64 {
	hits := d.PerSecond(now) * span.Seconds()
	if hits >= float64(most) {
		return most
	}
	return int64(hits) + 1
}

// Rate is the estimate of the time that is over, in hits per second; 0 where too few
// hits have come for one.
func (d *Demand) Rate() float64 { return d.rate }
