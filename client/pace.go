package client

import "time"

// pace is what is known about one policy, and the pure part of slowing down.
type pace struct {
	name, partition string
	limit           int64 // 0 = not told
	// remaining is what was told to be left, less the requests that the server
	// had not seen when it said so.
	remaining int64
	// until is when there is more; past it nothing is known.
	until time.Time
	// next is the earliest time for the next request while they are spread.
	next time.Time
	// told is the number of the request whose answer was the last to speak.
	told uint64
}

// unknownThreshold is where spreading starts when the server tells no limit.
const unknownThreshold = 10

// threshold is the number of remaining units below which requests are spread.
func (p *pace) threshold(part float64) int64 {
	if part <= 0 {
		return 0
	}
	if p.limit == 0 {
		return unknownThreshold
	}
	return int64(float64(p.limit) * part)
}

// delay says when one more request may go out.
type delay struct {
	wait time.Duration
	// empty says that nothing is left: to go earlier is in vain. Without it
	// the wait is only for the sake of those that follow.
	empty bool
	// blocked says that the server asked for it.
	blocked bool
	name    string // of the policy
}

// isVoluntary reports whether the request would pass now, and holds its unit.
func (d *delay) isVoluntary() bool { return d.wait > 0 && !d.empty && !d.blocked }

// reserve takes one unit for a request at now. What remains below the threshold
// is spread over the time to the reset: each request moves the next one by an
// equal part of it. When nothing is left nothing is taken.
func (p *pace) reserve(now time.Time, part float64) delay {
	if !now.Before(p.until) {
		return delay{}
	}
	if p.remaining <= 0 {
		return delay{wait: p.until.Sub(now), empty: true, name: p.name}
	}
	threshold := p.threshold(part)
	p.remaining--
	if p.remaining >= threshold {
		return delay{}
	}
	start := now
	if p.next.After(now) {
		start = p.next
	}
	if start.After(p.until) {
		start = p.until
	}
	p.next = start.Add(p.until.Sub(start) / time.Duration(p.remaining+1))
	return delay{wait: start.Sub(now), name: p.name}
}

// update takes in what the answer to request number told, of which ahead requests
// are not counted in it yet. An answer that overtook an older one's is not undone by it:
// the older one does not speak while the younger one's time runs.
func (p *pace) update(l *Level, number uint64, ahead int64, now time.Time) {
	if number < p.told && now.Before(p.until) {
		return
	}
	p.told = number
	p.limit = l.Limit
	p.until = now.Add(l.ResetAfter)
	p.remaining = l.Remaining - ahead
	// The spread follows the new numbers, from the request that is due.
	if latest := now.Add(l.ResetAfter / time.Duration(max(p.remaining, 0)+1)); p.next.After(latest) {
		p.next = latest
	}
}
