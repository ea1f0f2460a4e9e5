package simulate

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/limit"
)

// warmUp is how many periods pass before decisions count: at first everything is idle.
const warmUp = 2

// A Cell is what one algorithm did under one workload at one load.
type Cell struct {
	Workload  string  `json:"workload"`
	Algorithm string  `json:"algorithm"`
	Load      float64 `json:"load"`
	// Requests were decided; Allowed of them passed.
	Requests int64 `json:"requests"`
	Allowed  int64 `json:"allowed"`
	// LogAllowed is what an exact log of the whole quota let pass of the same traffic. It is 0
	// in the open loop.
	LogAllowed int64 `json:"log_allowed,omitempty"`
	// WrongAllowed passed although the last period had no room for them.
	WrongAllowed int64 `json:"wrong_allowed"`
	// WrongDenied were denied although it had. It is counted in the open loop alone: in the
	// closed one a limit that has let one request less pass than it might have has room for
	// one all the time, and LogAllowed says how much it denies too much.
	WrongDenied int64 `json:"wrong_denied,omitempty"`
	// Overshoot is the most that any period of any source let pass (in the open loop: asked)
	// beyond the quota, as a share of it; below 0 when no period was full.
	Overshoot float64 `json:"overshoot"`
	// Peak is the most requests that were made in a hundredth of a period, over its mean.
	Peak float64 `json:"peak"`
}

// Share returns n as a share of the requests, 0 without any.
func (c Cell) Share(n int64) float64 {
	if c.Requests == 0 {
		return 0
	}
	return float64(n) / float64(c.Requests)
}

// Lost returns what passed less than by the log, as a share of that; below 0 it is more.
func (c Cell) Lost() float64 {
	if c.LogAllowed == 0 {
		return 0
	}
	return 1 - float64(c.Allowed)/float64(c.LogAllowed)
}

// Run simulates every algorithm under every workload at every load, on all processors. Cells
// are in the order of workloads, loads and algorithms. It ends early when ctx does.
func Run(ctx context.Context, o Options) ([]Cell, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	limits := make([][]*limit.Limit, len(o.Algorithms))
	for i, a := range o.Algorithms {
		var err error
		if limits[i], err = shares(a.Spec, o); err != nil {
			return nil, fmt.Errorf("simulate: %s: %w", a.Name, err)
		}
	}
	rows := len(o.Workloads) * len(o.Loads)
	cells := make([]Cell, rows*len(limits))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < rows && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				w, load := o.Workloads[i/len(o.Loads)], o.Loads[i%len(o.Loads)]
				runRow(o, w, load, limits, cells[i*len(limits):])
			}
		})
	}
	workers.Wait()
	return cells, ctx.Err()
}

// shares returns the limit of each node: the quota divided, the first ones with what is left.
func shares(spec limit.Spec, o Options) ([]*limit.Limit, error) {
	limits := make([]*limit.Limit, o.Nodes)
	for i := range limits {
		spec.Quota, spec.Period, spec.CountDenied = o.Quota/int64(o.Nodes), o.Period, o.OpenLoop
		if int64(i) < o.Quota%int64(o.Nodes) {
			spec.Quota++
		}
		var err error
		if limits[i], err = limit.New(spec); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

// runRow simulates all sources under one workload at one load: the exact log, and then each
// algorithm. All get the same requests, but for what is asked again.
func runRow(o Options, w Workload, load float64, limits [][]*limit.Limit, into []Cell) {
	logAllowed := int64(0)
	for i := 0; i < o.Sources && !o.OpenLoop; i++ {
		log := newSource(o, w, load, i, nil)
		log.run()
		logAllowed += log.allowed
	}
	for a := range limits {
		c := Cell{Workload: w.Name, Algorithm: o.Algorithms[a].Name, Load: load, LogAllowed: logAllowed, Overshoot: -1}
		for i := range o.Sources {
			s := newSource(o, w, load, i, limits[a])
			s.run()
			c.Requests += s.requests
			c.Allowed += s.allowed
			c.WrongAllowed += s.wrongAllowed
			c.WrongDenied += s.wrongDenied
			c.Overshoot = max(c.Overshoot, float64(s.judge.most)/float64(o.Quota)-1)
			c.Peak = max(c.Peak, s.peak())
		}
		into[a] = c
	}
}
