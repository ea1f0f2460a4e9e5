package limit

// Sliding window log.
//
// The instant of every admitted hit is remembered, and the window (now-W, now]
// of W = Period is counted exactly:
//
//	used = number of stamps later than now-W
//	allowed  iff  used + hits <= Quota
//
// So no window of any phase ever holds more than Quota, and no hit is denied
// that could have passed. The price is eight bytes for every hit, which is why
// Quota is bounded by MaxLogQuota. It is the log of the sorted-set recipes for
// Redis, with one difference: a denied hit leaves no stamp.
//
// State: Wide are the stamps in µs, ascending, one for each hit. Expired stamps
// are dropped when hits are charged and at least half of the stamps are
// expired, so that the cost of moving the rest is spread over the hits.

// hitLog is what a state says at some instant.
type hitLog struct {
	stamps []int64
	first  int   // index of the first stamp that still counts
	now    int64 // never before the last stamp
	moved  bool  // there are stamps too far in the future to be of this clock
}

// hitLogAt reads s at now. A last stamp up to a period ahead means that the
// clock stepped back: time stands still there until the clock has caught up.
// Stamps further ahead are bogus and count as made now.
func (l *Limit) hitLogAt(s *State, now int64) (g hitLog) {
	g.now = now
	if s.Kind != kindSlidingLog || len(s.Wide) == 0 {
		return g
	}
	g.stamps = s.Wide
	if last := clampStored(s.Wide[len(s.Wide)-1]); last > now {
		if last-now <= l.periodMicros {
			g.now = last
		} else {
			g.moved = true
		}
	}
	g.first = firstAfter(g.stamps, g.now-l.periodMicros)
	return g
}

// firstAfter returns the index of the first stamp later than t in ascending
// stamps, or their number.
func firstAfter(stamps []int64, t int64) int {
	low, high := 0, len(stamps)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if stamps[middle] > t {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// expiresAt returns the instant from which the stamp at index i does not count.
func (l *Limit) expiresAt(g *hitLog, i int) int64 {
	return min(clampStored(g.stamps[i]), g.now) + l.periodMicros
}

// pullBack pulls bogus stamps back to now.
func (g *hitLog) pullBack() {
	for i := len(g.stamps) - 1; i >= 0 && g.stamps[i] > g.now; i-- {
		g.stamps[i] = g.now
	}
}

// add appends a stamp for each hit, after dropping the expired ones if those
// are at least half of all.
func (g *hitLog) add(hits int64) {
	if 2*g.first >= len(g.stamps) {
		g.stamps = g.stamps[:copy(g.stamps, g.stamps[g.first:])]
		g.first = 0
	}
	for range hits {
		g.stamps = append(g.stamps, g.now)
	}
}

func (g *hitLog) save(s *State) {
	s.set(kindSlidingLog, 0, 0, 0)
	s.Wide = g.stamps
}

func decideSlidingLog(l *Limit, s *State, now, hits int64, d *Decision) {
	g := l.hitLogAt(s, now)
	used := int64(len(g.stamps) - g.first)
	d.Limit = l.Quota
	d.Allowed = used+hits <= l.Quota
	if !d.Allowed {
		if hits > l.Quota {
			d.Never = true
		} else {
			over := int(used + hits - l.Quota)
			d.RetryAfter = duration(max(l.expiresAt(&g, g.first+over-1)-now, 1))
		}
	}
	if hits > 0 && (d.Allowed || g.moved) {
		g.pullBack()
		if d.Allowed {
			g.add(hits)
			used += hits
		}
		g.save(s)
	}
	d.Remaining = max(l.Quota-used, 0)
	if used > 0 {
		d.ResetAfter = duration(l.expiresAt(&g, len(g.stamps)-1) - now)
	}
}

// refundSlidingLog forgets the newest stamps, and all that have expired: without
// the newest, a clock that stepped back would have them count again.
func refundSlidingLog(l *Limit, s *State, now, hits int64) {
	g := l.hitLogAt(s, now)
	g.pullBack()
	live := g.stamps[g.first:]
	live = live[:len(live)-int(min(hits, int64(len(live))))]
	g.stamps = g.stamps[:copy(g.stamps, live)]
	g.save(s)
}

// chargeSlidingLog appends a stamp for each hit, at most Quota, and gives up the
// oldest of more than Quota stamps: as long as one of those would count, all Quota
// newer ones do, and nothing passes either way.
func chargeSlidingLog(l *Limit, s *State, now, hits int64) {
	added := min(hits, l.Quota)
	if added == 0 {
		return
	}
	g := l.hitLogAt(s, now)
	g.pullBack()
	g.first = max(g.first, len(g.stamps)+int(added-l.Quota))
	g.add(added)
	g.save(s)
}
