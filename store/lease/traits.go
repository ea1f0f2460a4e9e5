package lease

import (
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// pausePart is the part of its refill time for which a node asks nothing of
	// a bucket that was found empty: in that time the fleet gathers 1/pausePart
	// of the limit, to be handed out in leases instead of hit by hit.
	pausePart = 100
	// maxPause bounds that time for long windows.
	maxPause = 10 * time.Second
	// hotPause is the least pause of a hot bucket for each node, so that at its limit
	// too the fleet asks for it no more than about 50 times a second, and hotPausePart
	// the part of the refill time that this is at most. Sub-windows, of which a part
	// ends before such a pause would pay, have none.
	hotPause     = 22 * time.Millisecond
	hotPausePart = 16
	// maxHorizon is how far ahead a lease is sized.
	maxHorizon = time.Minute
)

// traits are what leasing needs to know of a limit.
type traits struct {
	// leasable says that leases make sense: the algorithm has them, and one
	// lasts for store.MinLeaseTTL at least.
	leasable bool
	// capacity is the most hits that can be there at once.
	capacity int64
	// width is the time between the edges at which leases on a window end; 0
	// for buckets and calendar windows, which have no such beat.
	width time.Duration
	// refill is the time in which an empty bucket is full again, bit by bit; 0
	// where all comes back in one step.
	refill time.Duration
	// ttl is how long a lease is asked for.
	ttl time.Duration
	// pause is how long to ask nothing of an empty bucket, gain how many hits come
	// back in it; 0 where all comes back in one step.
	pause time.Duration
	gain  int64
	// nodes is for how many nodes pause is, and longest what it is at most, of buckets
	// that are leased because they are hot; 0 of others.
	nodes   int64
	longest time.Duration
}

// traitsOf derives the traits of l under mode as they are now.
func (s *Store) traitsOf(l *limit.Limit, mode *store.Mode) traits {
	return traitsOf(l, mode, s.liveNodes(), s.maxHotPause)
}

// traitsOf derives the traits of l under mode in a fleet of nodes, with the longest
// pause of hot buckets.
func traitsOf(l *limit.Limit, mode *store.Mode, nodes int64, longest time.Duration) traits {
	t := traits{leasable: l.Leasable() && l.Quota > 0, capacity: l.Quota}
	step := l.Period // the time after which an empty bucket has changed for good
	switch {
	case l.Algorithm.IsBucket():
		t.capacity = l.Burst
		t.refill = bucketRefill(l)
		t.ttl = min(leaseTTL(mode), t.refill/4)
		step = t.refill
	case l.Algorithm == limit.FixedWindow:
		t.width, t.ttl = l.Period, l.Period
		if l.Calendar != nil {
			t.width, t.ttl, step = 0, limit.MaxPeriod, limit.MaxPeriod
		}
	case l.Algorithm == limit.SubWindows:
		parts := time.Duration(l.SubWindows)
		t.width = (l.Period/time.Microsecond + parts - 1) / parts * time.Microsecond
		t.refill, t.ttl = l.Period, t.width
	default:
		t.width, t.refill, t.ttl = l.Period, l.Period, l.Period
	}
	t.leasable = t.leasable && t.ttl >= store.MinLeaseTTL
	t.pause = min(step/pausePart, maxPause)
	if mode.Consistency == store.Exact {
		t.nodes, t.longest = nodes, longest
		if l.Algorithm != limit.SubWindows {
			t.pause = max(t.pause, min(hotPause*time.Duration(nodes), step/hotPausePart))
		}
		t.pause = min(t.pause, longest)
	}
	if t.refill > 0 {
		t.gain = int64(float64(t.capacity) * float64(t.pause) / float64(t.refill))
	}
	return t
}

// bucketRefill is the time in which a full burst drains, at most
// limit.MaxPeriod.
func bucketRefill(l *limit.Limit) time.Duration {
	if l.Quota == 0 {
		return 0
	}
	refill := float64(l.Period) * float64(l.Burst) / float64(l.Quota)
	return time.Duration(min(refill, float64(limit.MaxPeriod)))
}

func leaseTTL(mode *store.Mode) time.Duration {
	if mode.LeaseTTL == 0 {
		return store.DefaultLeaseTTL
	}
	return min(max(mode.LeaseTTL, store.MinLeaseTTL), store.MaxLeaseTTL)
}

func syncInterval(mode *store.Mode) time.Duration {
	if mode.SyncInterval == 0 {
		return store.DefaultSyncInterval
	}
	return min(max(mode.SyncInterval, store.MinSyncInterval), store.MaxSyncInterval)
}

// sameLimit reports whether a and b decide alike; reloads make new limits of old
// rules.
func sameLimit(a, b *limit.Limit) bool { return a == b || a.Spec == b.Spec }
