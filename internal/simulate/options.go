package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
)

// Bounds of what one simulation may ask for.
const (
	// maxQuota bounds the log of a source: what is asked in one period, with maxLoad.
	maxQuota = 100_000
	// minLoad and maxLoad bound a load.
	minLoad, maxLoad = 0.001, 100
	// maxTime bounds the periods that pass, because limits tell the time to the year 2112.
	maxTime = 80 * 365 * 24 * time.Hour
	// maxRequests bounds the work: at some millions a second, minutes. What is asked again is
	// not counted, and is four times as much at most.
	maxRequests = 2_000_000_000
	// maxSources bounds the keys of a row, also of those that hardly ask.
	maxSources = 1_000_000
	// maxNodes bounds the shares of one quota.
	maxNodes = 1000
	// maxLoads bounds the rows of one algorithm.
	maxLoads = 50
)

// An Algorithm is a limit under a name of reports.
type Algorithm struct {
	Name string
	Spec limit.Spec // without quota and period
}

// algorithms returns those that admit or deny at once. A leaky_queue is none of them, because
// it lets later pass what it has no room for now; neither are concurrency and ban, which count
// something else.
func algorithms() []Algorithm {
	return []Algorithm{
		{"sliding_window", limit.Spec{Algorithm: limit.SlidingWindow}},
		{"sub_windows", limit.Spec{Algorithm: limit.SubWindows}},
		{"sub_windows_strict", limit.Spec{Algorithm: limit.SubWindows, Strict: true}},
		{"sliding_log", limit.Spec{Algorithm: limit.SlidingLog}},
		{"fixed_window", limit.Spec{Algorithm: limit.FixedWindow}},
		{"token_bucket", limit.Spec{Algorithm: limit.TokenBucket}},
		{"gcra", limit.Spec{Algorithm: limit.GCRA}},
		{"leaky_bucket", limit.Spec{Algorithm: limit.LeakyBucket}},
	}
}

// Options say what is simulated.
type Options struct {
	Quota      int64
	Period     time.Duration
	Algorithms []Algorithm
	Workloads  []Workload
	// Loads are shares of the quota that a source asks for in the mean: 2 is twice of it.
	Loads []float64
	// Sources is how many keys are simulated in each cell, each with a phase of its own.
	Sources int
	// Periods is how long, in periods that count; two more come before.
	Periods int
	// OpenLoop has denied requests count as well, for the limit and for the log, so that both
	// judge one history: what is asked. Only algorithms that can count denied hits take it.
	OpenLoop bool
	// Nodes above 1 divide the quota between that many nodes, as 'consistency: local' does,
	// and send each request to a random one.
	Nodes int
	Seed  uint64
}

// Defaults are the options of the command without flags.
func Defaults() Options {
	return Options{
		Quota: 100, Period: time.Minute, Algorithms: algorithms(), Workloads: Workloads(),
		Loads: []float64{0.2, 0.5, 0.8, 0.9, 1, 1.1, 1.5, 2, 5, 10}, Sources: 10, Periods: 100, Nodes: 1, Seed: 1,
	}
}

// Open returns those algorithms that can count denied hits.
func Open(all []Algorithm) (open []Algorithm) {
	for _, a := range all {
		a.Spec.Quota, a.Spec.Period, a.Spec.CountDenied = 1, time.Second, true
		if _, err := limit.New(a.Spec); err == nil {
			open = append(open, Algorithm{a.Name, a.Spec})
		}
	}
	return open
}

// Named returns those of all whose names are in names; no names are all of them.
func Named[T any](what string, all []T, name func(T) string, names []string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []T
	for _, n := range names {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == n })
		if i < 0 {
			known := make([]string, len(all))
			for k := range all {
				known[k] = name(all[k])
			}
			return nil, fmt.Errorf("%s: %.40q is none; hint: %s", what, n, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// check refuses what cannot be simulated, or not within the bounds.
func (o Options) check() error {
	switch {
	case o.Quota < 1 || o.Quota > maxQuota:
		return fmt.Errorf("quota: %d is out of range; hint: from 1 to %d", o.Quota, maxQuota)
	case o.Period < time.Millisecond || o.Period > 24*time.Hour || o.Period%time.Microsecond != 0:
		return fmt.Errorf("period: %v is out of range; hint: from 1ms to 24h", o.Period)
	case o.Sources < 1 || o.Sources > maxSources:
		return fmt.Errorf("sources: %d is out of range; hint: from 1 to %d", o.Sources, maxSources)
	case o.Periods < 1:
		return fmt.Errorf("periods: %d are none; hint: 1 at least", o.Periods)
	case o.Periods > int(maxTime/o.Period)-warmUp:
		return fmt.Errorf("%d periods of %v are more than 80 years; hint: fewer, or shorter ones", o.Periods, o.Period)
	case o.Nodes < 1 || o.Nodes > maxNodes || int64(o.Nodes) > o.Quota:
		return fmt.Errorf("nodes: %d is out of range; hint: from 1 to the quota, and %d at most", o.Nodes, maxNodes)
	case len(o.Loads) == 0 || len(o.Loads) > maxLoads:
		return fmt.Errorf("loads: %d are too many or none; hint: from 1 to %d", len(o.Loads), maxLoads)
	}
	sum := 0.0
	for _, load := range o.Loads {
		if !(load >= minLoad && load <= maxLoad) { // also refuses what is no number
			return fmt.Errorf("load: %v is out of range; hint: from %v to %v", load, minLoad, maxLoad)
		}
		sum += load
	}
	requests := sum * float64(o.Quota) * float64(o.Sources) * float64(o.Periods+warmUp) * float64(len(o.Algorithms)*len(o.Workloads))
	if requests > maxRequests {
		return fmt.Errorf("some %.0f million requests are more than %d million; hint: fewer sources, periods or loads", requests/1e6, maxRequests/1_000_000)
	}
	return nil
}
