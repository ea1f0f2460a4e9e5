package regional

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
)

// Bounds of a Layout.
const (
	// MaxRegions is how many regions there may be.
	MaxRegions = 32
	// MaxWeight bounds the weight of a region.
	MaxWeight = 1_000_000
	// Million is the whole of which Layout.Reserve is a part, and MaxReserve the most that it
	// may be: the home needs something to lend.
	Million    = 1_000_000
	MaxReserve = 900_000
)

// MinTerm is how long leases on a limit last at least, at their longest. On limits whose
// leases would be shorter, a node far away from the home would hold hardly any.
const MinTerm = time.Second

// Layout says which regions there are and how reserves are divided. All processes of all
// regions have the same.
type Layout struct {
	// Weights has the weight of each region by its name, from 1 to MaxWeight; up to MaxRegions.
	Weights map[string]int64
	// Reserve is the part of each limit that regions have for themselves, in millionths, up to
	// MaxReserve.
	Reserve int64
}

// Total is the sum of the weights.
func (y *Layout) Total() (total int64) {
	for _, w := range y.Weights {
		total += w
	}
	return total
}

// part returns how much of n is the reserve of region, rounded down.
func (y *Layout) part(region string, n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(y.Reserve))
	whole, _ := bits.Div64(hi, lo, Million)
	hi, lo = bits.Mul64(whole, uint64(y.Weights[region]))
	part, _ := bits.Div64(hi, lo, uint64(y.Total()))
	return int64(part)
}

// orMore says how large a limit is of which each region has a hit.
func (y *Layout) orMore() string {
	if y.Reserve < 1 {
		return ""
	}
	smallest := slices.Min(slices.Collect(maps.Values(y.Weights)))
	whole := (y.Total() + smallest - 1) / smallest
	return fmt.Sprintf(" (of %d or more each region has a hit)", (whole*Million+y.Reserve-1)/y.Reserve)
}

// reserved returns how much of n is the reserve of any region.
func (y *Layout) reserved(n int64) (sum int64) {
	for region := range y.Weights {
		sum += y.part(region, n)
	}
	return sum
}

// Cut is a limit as one region sees it: the part of its home and that of the region. The
// parts of all regions and of the home add up to the limit, and so does what they promise.
type Cut struct {
	// Home is what nodes lease from, Own what the region counts for itself.
	Home, Own *limit.Limit
	// Fence is how old an epoch of the home must be before anything is leased in it: by then
	// nothing that passed before it began, or may pass by a lease of the one before, can be in
	// one window with what passes later. For windows that weigh what was before them it is two
	// periods: a lease lasts for one at most, and counts for another. What a bucket lets pass
	// by leases, which last for a quarter of its drain time, has drained after five quarters.
	// A fixed window counts for nothing once it is over, nor do its leases.
	Fence time.Duration
}

// CutFor cuts l for one region of y. It fails where l cannot be cut.
func (y *Layout) CutFor(region string, l *limit.Limit) (Cut, error) {
	if err := cuttable(l); err != nil {
		return Cut{}, err
	}
	home, own := l.Spec, l.Spec
	home.Quota -= y.reserved(l.Quota)
	own.Quota = y.part(region, l.Quota)
	least := own.Quota
	if l.Algorithm.IsBucket() {
		home.Burst -= y.reserved(l.Burst)
		own.Burst = y.part(region, l.Burst)
		least = min(least, own.Burst)
	}
	if least < 1 {
		return Cut{}, fmt.Errorf("of %d hits the region %s has a reserve of none; hint: a larger limit%s, a larger reserve in the file of regions, or regions: each", min(l.Quota, l.Capacity()), region, y.orMore())
	}
	if l.Algorithm == limit.FixedWindow {
		// The region's windows would begin at other instants than those of the home.
		own = limit.Spec{Algorithm: limit.SubWindows, Strict: true, Quota: own.Quota, Period: longestWindow(l)}
	}
	var c Cut
	var err error
	if c.Home, err = limit.New(home); err != nil {
		return Cut{}, fmt.Errorf("the part of the home: %w", err)
	}
	if c.Own, err = limit.New(own); err != nil {
		return Cut{}, fmt.Errorf("the part of the region %s: %w", region, err)
	}
	c.Fence = fence(c.Home)
	return c, nil
}

// Check returns why l cannot be cut for the regions of y, nil if it can.
func (y *Layout) Check(l *limit.Limit) error {
	for _, region := range slices.Sorted(maps.Keys(y.Weights)) {
		if _, err := y.CutFor(region, l); err != nil {
			return err
		}
	}
	return nil
}

// cuttable says why l is not a limit whose parts promise together what it promises.
func cuttable(l *limit.Limit) error {
	switch l.Algorithm {
	case limit.SlidingWindow, limit.FixedWindow, limit.SubWindows, limit.TokenBucket, limit.GCRA:
	case limit.LeakyBucket, limit.LeakyQueue:
		return fmt.Errorf("parts of %v would not be evenly spaced together; hint: token_bucket, gcra or a window", l.Algorithm)
	default:
		return fmt.Errorf("hits of %v cannot be leased; hint: sliding_window, fixed_window, sub_windows, token_bucket or gcra", l.Algorithm)
	}
	switch {
	case l.CountDenied:
		return fmt.Errorf("count_denied needs every hit in one place; hint: count_denied: false")
	case l.Carry != limit.CarryUsed:
		return fmt.Errorf("on_change: %v needs every hit in one place; hint: delete on_change", l.Carry)
	case l.MaxDebt > 0:
		return fmt.Errorf("a bound on debts needs every hit in one place")
	case longestLease(l) < MinTerm:
		return fmt.Errorf("its leases end after %v at the latest, which is too short for another continent; hint: a longer period, a larger burst, or regions: each", longestLease(l))
	}
	return nil
}

// Term is how long a lease of the part of the home lasts at most; one on a window ends with it too.
// longest is as in NewRights.
func (c *Cut) Term(longest time.Duration) time.Duration { return termOf(c.Home, longest) }

func termOf(home *limit.Limit, longest time.Duration) time.Duration {
	term := min(longestLease(home), maxTerm)
	if home.Algorithm.IsBucket() {
		term = min(term, max(bucketTerm, longest))
	}
	return term.Truncate(time.Microsecond)
}

// longestLease is how long a lease on l may last at most.
func longestLease(l *limit.Limit) time.Duration {
	switch {
	case l.Algorithm.IsBucket():
		return drainTime(l) / limit.LeasePart
	case l.Algorithm == limit.SubWindows:
		return time.Duration(l.PartMicros()) * time.Microsecond
	}
	return longestWindow(l)
}

// drainTime is the time in which a full burst drains, at most limit.MaxPeriod.
func drainTime(l *limit.Limit) time.Duration {
	if l.Quota == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(l.Period), uint64(l.Burst))
	if hi >= uint64(l.Quota) {
		return limit.MaxPeriod
	}
	drain, _ := bits.Div64(hi, lo, uint64(l.Quota))
	return time.Duration(min(drain, uint64(limit.MaxPeriod)))
}

// longestWindow is how long a window of l may be, an hour being for clocks that are put back.
func longestWindow(l *limit.Limit) time.Duration {
	const day = 24 * time.Hour
	if l.Calendar == nil {
		return l.Period
	}
	switch l.Calendar.Unit {
	case limit.CalendarDay:
		return day + time.Hour
	case limit.CalendarWeek:
		return 7*day + time.Hour
	case limit.CalendarMonth:
		return 31*day + time.Hour
	}
	return limit.MaxPeriod
}

// fence is Cut.Fence for the part of the home.
func fence(l *limit.Limit) time.Duration {
	switch {
	case l.Algorithm.IsBucket():
		return 2 * drainTime(l)
	case l.Algorithm == limit.FixedWindow:
		return longestWindow(l)
	case l.Algorithm == limit.SubWindows:
		return l.Period + 2*time.Duration(l.PartMicros())*time.Microsecond
	}
	return 2 * l.Period
}
