package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/fleetusage"
	"github.com/headgate/headgate/overload/httpshed"
)

// shedders are the parts that shed requests; nil ones are off.
type shedders struct {
	worker *overload.Shedder
	fleet  *overload.Fleet
	usage  *fleetusage.Counter
	gate   *overload.Gate
}

// shedding returns what puts the shedders of s around a handler, and keeps the
// usage of the fleet up to date. It stands behind the limits, which then pass on
// their Result for the priorities of rules. trusted says whose priority header
// may raise.
func (p *process) shedding(s *config.Shedding, trusted func(*http.Request) bool) (func(http.Handler) http.Handler, error) {
	if !s.On() {
		return func(next http.Handler) http.Handler { return next }, nil
	}
	var parts shedders
	classifier, err := classifierOf(s)
	if err == nil {
		err = parts.open(s, p.stack)
	}
	if err != nil {
		return nil, err
	}
	parts.gate = overload.NewGate(parts.fleet, parts.worker)
	middleware, err := httpshed.New(httpshed.Options{
		Gate: parts.gate, Classifier: classifier,
		Header: s.PriorityHeader, Trusted: trusted, Rule: priorityOfRule,
	})
	if err != nil {
		return nil, fmt.Errorf("--priority-header: %w", err)
	}
	if parts.usage != nil {
		if p.stack.backends[0].inMemory() {
			p.logger.Warn("the fleet is this process alone, because its store is in memory; hint: --store redis://HOST:6379")
		}
		p.tasks = append(p.tasks, parts.count)
	}
	p.metrics.WatchShedding(parts.state)
	return middleware.Wrap, nil
}

// around returns inner within outer.
func around(outer, inner func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return outer(inner(next)) }
}

// open makes the shedders of s.
func (k *shedders) open(s *config.Shedding, stores *stack) error {
	now := time.Now()
	var err error
	if s.Shed {
		o := overload.Options{MaxInFlight: s.ShedMaxInFlight, MaxCritical: s.ShedMaxCritical}
		if k.worker, err = overload.New(o, now); err != nil {
			return fmt.Errorf("--shed: %w", err)
		}
	}
	if s.FleetCapacity > 0 {
		// The store itself: a rule's mode of counting is no matter of the fleet's.
		o := fleetusage.Options{Store: stores.backends[0].Store, Capacity: s.FleetCapacity, Name: s.FleetName}
		if k.usage, err = fleetusage.New(o); err != nil {
			return fmt.Errorf("--fleet-capacity: %w", err)
		}
		if k.fleet, err = overload.NewFleet(overload.FleetOptions{Usage: k.usage.Usage}, now); err != nil {
			return fmt.Errorf("--fleet-capacity: %w", err)
		}
	}
	return nil
}

// classifierOf reads the priorities of paths.
func classifierOf(s *config.Shedding) (*overload.Classifier, error) {
	var o overload.ClassifierOptions
	var errs []error
	for _, text := range s.PriorityPaths {
		p, err := overload.ParsePathPriority(text)
		errs = append(errs, err)
		o.Paths = append(o.Paths, p)
	}
	err := errors.Join(errs...)
	if err != nil {
		return nil, fmt.Errorf("--priority-paths: %w", err)
	}
	c, err := overload.NewClassifier(o)
	if err != nil {
		return nil, fmt.Errorf("--priority-paths: %w", err)
	}
	return c, nil
}

// priorityOfRule returns the word of the rules that the limits met.
func priorityOfRule(r *http.Request) string {
	result, _ := httplimit.FromContext(r.Context())
	return result.Priority
}

// count reports to the counter of the fleet until ctx ends.
func (k *shedders) count(ctx context.Context) { k.usage.Run(ctx, k.gate.TotalAdmitted) }

// state returns what metrics show.
func (k *shedders) state() telemetry.Shedding {
	stats := k.gate.Stats()
	s := telemetry.Shedding{Served: stats.Served, Ignored: stats.Ignored, Overloaded: stats.Overloaded}
	for p := range stats.Admitted {
		s.Priorities = append(s.Priorities, telemetry.ShedPriority{
			Name: overload.Priority(p).String(), Admitted: stats.Admitted[p],
			ByFleet:   stats.Shed[p][overload.FleetShare-1],
			ByWorker:  stats.Shed[p][overload.WorkerLimit-1],
			AtHardCap: stats.Shed[p][overload.HardCap-1],
		})
	}
	if k.worker != nil {
		w := k.worker.Stats()
		s.Worker = &telemetry.ShedWorker{
			InFlight: w.InFlight, Critical: w.Critical, Limit: w.Limit,
			Latency: w.Latency.Seconds(), BaseLatency: w.Base.Seconds(),
		}
		for p := range s.Priorities {
			s.Priorities[p].UpTo = w.UpTo[p]
		}
	}
	if k.fleet != nil {
		used, counted := k.usage.Usage(), k.usage.Stats()
		s.Fleet = &telemetry.ShedFleet{
			Known: used.Capacity > 0, Used: used.Used, Capacity: k.usage.Capacity(),
			Reports: counted.Reports + counted.Failed, Failed: counted.Failed,
		}
		share := k.fleet.Stats().Share
		for p := range s.Priorities {
			s.Priorities[p].Share = share[p]
		}
	}
	return s
}
