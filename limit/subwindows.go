package limit

// Sub-windows.
//
// The period is cut into n parts of w = ceil(Period/n) µs, aligned to the
// epoch, each with a counter; n+1 parts cover any window. With e the time since
// the newest part began and c[0..n] the counters, newest first:
//
//	smooth:  used = c[0]+...+c[n-1] + ceil(c[n]*(w-e)/w)
//	strict:  used = c[0]+...+c[n-1] + c[n]
//	allowed  iff  used + hits <= Quota
//
// Figma counted strictly in 60 parts ("An alternative approach to rate
// limiting", 2017); smooth weighs the oldest part as the sliding window counter
// does. Strict never admits more than Quota in any window of Period, of any
// phase, at the price of holding hits for up to Period/n longer than needed;
// smooth keeps that promise for windows of Period*(1-1/n).
//
// State: A is the start of the newest part, B the length of a part, both in µs;
// Wide are the n+1 counters, newest first, of which the sum is at most 2^51.
//
// When Period or SubWindows change, B or the length of Wide no longer fit: what
// the old parts count is carried over as from another algorithm (carry.go).

// parts is what a state says at some instant: counts[i-shift] hits in the part
// that is i parts older than the newest one, for i from shift on; carried more
// in the newest.
type parts struct {
	start   int64 // of the newest part, µs
	elapsed int64 // since start, µs, in [0, w)
	shift   int
	counts  []int64
	carried int64
	total   int64 // of all
	moved   bool  // the state is not in terms of this clock
	foreign bool  // it has parts of another length or number
}

// partsAt reads s at now. Stored parts up to a window ahead mean that the clock
// stepped back: time stands still there until the clock has caught up. Parts
// further ahead are bogus and pulled back so that the newest is the present one.
func (l *Limit) partsAt(s *State, now int64) (p parts) {
	n, width := l.SubWindows, l.partMicros
	p.start, p.elapsed = now-now%width, now%width
	if s.Kind != kindSubWindows {
		return p
	}
	if !l.sameParts(s) {
		p.foreign = true
		return p
	}
	stored := clampStored(s.A)
	p.counts = s.Wide
	switch {
	case stored >= p.start+int64(n+1)*width:
		p.moved = true
	case stored > now:
		p.start, p.elapsed = stored, 0
	default:
		p.shift = int(min((p.start-stored)/width, int64(n+1)))
	}
	for i := p.shift; i <= n; i++ {
		p.total += clampCount(p.counts[i-p.shift])
	}
	return p
}

// at returns the count of the part that is i parts older than the newest.
func (p *parts) at(i int) int64 {
	if i < p.shift {
		return 0
	}
	if i -= p.shift; i < len(p.counts) {
		return clampCount(p.counts[i])
	}
	return 0
}

// used returns the hits that count now; see the formulas above.
func (l *Limit) usedOfParts(p *parts) int64 {
	if l.Strict || p.elapsed == 0 {
		return p.total
	}
	oldest := p.at(l.SubWindows)
	if oldest == 0 {
		return p.total
	}
	return p.total - oldest + muldivCeil(oldest, l.partMicros-p.elapsed, l.partMicros)
}

// partsPassAt returns the first instant at which hits would pass parts that
// deny them now; hits <= Quota. It walks forward a part at a time: j parts on,
// the oldest that counts is the one that is n-j older than the newest now.
func (l *Limit) partsPassAt(p *parts, hits int64) int64 {
	n, width := l.SubWindows, l.partMicros
	room := l.Quota - hits
	newest := p.carried // charged, not in counts
	whole := p.total
	for j := 0; j <= n; j++ {
		oldest := p.at(n - j)
		if j == n {
			oldest += newest
		}
		if whole <= room {
			return p.start + int64(j)*width
		}
		if rest := whole - oldest; !l.Strict && rest <= room {
			return p.start + int64(j+1)*width - muldivFloor(room-rest, width, oldest)
		}
		whole -= oldest
	}
	return p.start + int64(n+1)*width
}

// partsUnusedAt returns the instant at which the newest hit has left.
func (l *Limit) partsUnusedAt(p *parts) int64 {
	if p.total == 0 {
		return 0
	}
	if p.carried > 0 {
		return p.start + int64(l.SubWindows+1)*l.partMicros
	}
	for i := p.shift; i <= l.SubWindows; i++ {
		if p.at(i) > 0 {
			return p.start + int64(l.SubWindows+1-i)*l.partMicros
		}
	}
	return 0
}

// saveParts writes p to s, in the memory of its Wide where that suffices.
func (l *Limit) saveParts(p *parts, s *State) {
	n, wide := l.SubWindows+1, s.Wide
	if cap(wide) < n {
		grown := make([]int64, n)
		copy(grown, wide)
		wide = grown
	}
	wide = wide[:n]
	kept := 0
	if p.counts != nil {
		kept = n - p.shift
		copy(wide[p.shift:], p.counts[:kept])
	}
	clear(wide[:n-kept])
	for i := range wide {
		wide[i] = clampCount(wide[i])
	}
	wide[0] += p.carried
	s.set(kindSubWindows, p.start, l.partMicros, 0)
	s.Wide = wide
}

func decideSubWindows(l *Limit, s *State, now, hits int64, d *Decision) {
	p := l.partsAt(s, now)
	if p.foreign {
		decideForeign(l, s, now, hits, d)
		return
	}
	used := l.usedOfParts(&p)
	d.Limit = l.Quota
	d.Allowed = used+hits <= l.Quota
	charge := hits > 0 && (d.Allowed || l.CountDenied)
	if charge {
		added := max(min(hits, maxCount-p.total), 0)
		p.carried += added
		p.total += added
		used += added
	}
	d.Remaining = max(l.Quota-used, 0)
	d.ResetAfter = duration(l.partsUnusedAt(&p) - now)
	if !d.Allowed {
		if hits > l.Quota {
			d.Never = true
		} else {
			d.RetryAfter = duration(l.partsPassAt(&p, hits) - now)
		}
	}
	if charge || (p.moved && hits > 0) {
		l.saveParts(&p, s)
	}
}

// refundSubWindows takes the hits from the newest part that has any, and what is
// left of them from the older ones.
func refundSubWindows(l *Limit, s *State, now, hits int64) {
	p := l.partsAt(s, now)
	l.saveParts(&p, s)
	for i := range s.Wide {
		taken := min(hits, s.Wide[i])
		s.Wide[i] -= taken
		hits -= taken
	}
}
