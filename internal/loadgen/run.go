package loadgen

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// Answer is what came of one request.
type Answer struct {
	// Code is what was answered: 200, OVER_LIMIT, or why there was no answer.
	Code string
	// Err is why there was no answer.
	Err error
	// Decided says that it was decided, and Allowed how.
	Decided, Allowed bool
	// Degraded says that the store did not decide.
	Degraded bool
	// Unmatched says that no rule is for the request, so that it passes. Only HTTP tells.
	Unmatched bool
	// Slow says that the caller was slow on purpose, so that the latency is its own.
	Slow bool
}

// Sender asks about a key, by its number.
type Sender func(ctx context.Context, key int) Answer

// Report is what came of a run.
type Report struct {
	// Sent and Unsent are requests; Unsent ones would have been more under way than
	// Options.UnderWay.
	Sent, Unsent int
	// Codes are the answers by their code.
	Codes map[string]int
	// Err is why there was no answer, the first time that there was none.
	Err error
	// Decided are the answers that decide, Degraded those of them for which the store did not.
	Decided, Degraded int
	// Unmatched are the answers, among those that decide, to requests that no rule is for.
	Unmatched int
	// Took are the latencies of answers, from the time at which they were to be sent, the
	// shortest first. Those of slow callers are not among them.
	Took []time.Duration
	// Allowed is how many requests of each key were let pass.
	Allowed map[int]int
	// Lasted is the time from the first request to the last answer.
	Lasted time.Duration
}

// run is a Report that is being made.
type run struct {
	mu     sync.Mutex
	report Report
}

// Run sends what o says, which is valid, by send. When ctx ends it stops, and returns what it has.
func Run(ctx context.Context, o Options, send Sender) *Report {
	r := &run{report: Report{Codes: map[string]int{}, Allowed: map[int]int{}}}
	random := rand.New(rand.NewPCG(o.Seed, 0))
	room := make(chan struct{}, o.UnderWay)
	var underWay sync.WaitGroup
	began := time.Now()
	for i := range o.requests() {
		due, key := began.Add(o.at(i)), o.key(random)
		if sleep.For(ctx, time.Until(due)) != nil {
			break
		}
		select {
		case room <- struct{}{}:
		default:
			r.report.Unsent++
			continue
		}
		r.report.Sent++
		underWay.Go(func() {
			defer func() { <-room }()
			r.note(key, send(ctx, key), time.Since(due))
		})
	}
	underWay.Wait()
	r.report.Lasted = time.Since(began)
	slices.Sort(r.report.Took)
	return &r.report
}

// note counts an answer.
func (r *run) note(key int, a Answer, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Codes[a.Code]++
	if r.report.Err == nil {
		r.report.Err = a.Err
	}
	if !a.Decided {
		return
	}
	r.report.Decided++
	if a.Degraded {
		r.report.Degraded++
	}
	if a.Unmatched {
		r.report.Unmatched++
	}
	if a.Allowed {
		r.report.Allowed[key]++
	}
	if !a.Slow {
		r.report.Took = append(r.report.Took, took)
	}
}
