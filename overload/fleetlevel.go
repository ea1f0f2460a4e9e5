package overload

const (
	// arrivalWeight is the weight of the newest interval in the smoothed arrivals.
	arrivalWeight = 0.5
	// goalWeight is the part of the way to its goal that the level goes at once,
	// unless there is room for all: usage is noisy, and may lag an interval
	// behind and so have the same excess taken off twice.
	goalWeight = 0.5
	// forget is the part of a RestoreStep by which the level falls, unapplied,
	// in an interval without a figure: over a short gap it is kept.
	forget = 0.1
	// leastUsed is the share of the capacity below which the fleet is idle, and
	// its share nothing to divide by.
	leastUsed = 1e-9
	// reserveKept is for how many intervals without a request of P0 its reserve is
	// kept: critical traffic that pauses for less finds its room.
	reserveKept = 60
	// leastRoom is the part of this node's amount below which there is none.
	leastRoom = 1e-9
)

// fleetSample is what one interval showed.
type fleetSample struct {
	// usage of the fleet; a capacity of zero is unknown.
	usage Usage
	// arrived counts the requests that came to this node, by priority.
	arrived [Priorities]float64
	// intervals that went by.
	intervals float64
}

// fleetLevel is the state of the fleet shedder.
type fleetLevel struct {
	// level from 0, nothing is shed, over 1, all P3 are, and 2, all P2 too, to
	// 3, all but P0. One number for all, so no higher priority is shed while a
	// lower one is admitted.
	level float64
	// arrived, smoothed.
	arrived [Priorities]float64
	// uncritical is for how many intervals no request of P0 has come.
	uncritical float64
}

// reserved is the share of the capacity that is kept for P0: that of o, but none where
// no such requests come.
func (f fleetLevel) reserved(o FleetOptions) float64 {
	if f.uncritical >= reserveKept {
		return 0
	}
	return o.Reserve
}

// admittedShares are the shares of each priority that are admitted at a level.
func admittedShares(level float64) [Priorities]float64 {
	shares := [Priorities]float64{P0: 1}
	for p := P1; p <= P3; p++ {
		shares[p] = 1 - min(max(level-float64(P3-p), 0), 1)
	}
	return shares
}

// next is the state after an interval that showed m. It reads no clock; o has
// its defaults.
func (f fleetLevel) next(o FleetOptions, m fleetSample) fleetLevel {
	for p := range f.arrived {
		f.arrived[p] += arrivalWeight * (m.arrived[p] - f.arrived[p])
	}
	f.uncritical += max(m.intervals, 1)
	if m.arrived[P0] > 0 {
		f.uncritical = 0
	}
	restore := o.RestoreStep * max(m.intervals, 1)
	if !m.usage.known() {
		f.level = max(0, f.level-forget*restore)
		return f
	}
	goal := f.goal(o, m.usage.share())
	move := goal - f.level
	if goal > 0 {
		move *= goalWeight
	}
	move = min(max(move, -restore), o.ShedStep)
	f.level = min(max(f.level+move, 0), float64(P3))
	return f
}

// goal is the level at which the fleet, at a share used of its capacity, would
// come to be where it should. This node admits some amount per interval, and the
// whole fleet as much times its capacity used; so this node's part of t times
// the capacity is its amount times t/used. That is dealt out in the order of
// priority: each gets what is left up to its threshold, and all but P0 together
// no more than what is not reserved for P0.
func (f fleetLevel) goal(o FleetOptions, used float64) float64 {
	if used < leastUsed {
		return 0
	}
	shares := admittedShares(f.level)
	admitted := 0.0
	for p, share := range shares {
		admitted += share * f.arrived[p]
	}
	if admitted == 0 {
		return f.goalUnseen(o, used)
	}
	whole := admitted / used
	critical, others, level := f.arrived[P0], 0.0, 0.0
	for p := P1; p <= P3; p++ {
		room := min(o.ShedAt[p]*whole-critical-others, (1-f.reserved(o))*whole-others)
		switch {
		case room <= leastRoom*whole:
			level++
		case f.arrived[p] > room:
			level += 1 - room/f.arrived[p]
			others += room
		default:
			others += f.arrived[p]
		}
	}
	return level
}

// goalUnseen is the goal of a node that admits nothing and so cannot tell what
// its part is: it stays while the fleet is above the lowest threshold, and else
// opens.
func (f fleetLevel) goalUnseen(o FleetOptions, used float64) float64 {
	if used >= o.ShedAt[P3] {
		return f.level
	}
	return 0
}
