package telemetry

import (
	"encoding/hex"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
)

// exemplar is one decision of a trace that was recorded.
type exemplar struct {
	trace [16]byte
	value float64 // seconds that the decision took
	at    time.Time
}

// exemplars are the latest ones: for each bucket of the duration histogram, and of the
// requests that were denied. Few decisions are of recorded traces, so one lock does.
type exemplars struct {
	mu     sync.Mutex
	took   [len(decisionBounds) + 1]exemplar
	denied exemplar
}

// note keeps a decision whose trace is recorded.
func (e *exemplars) note(req *headgate.Request, resp *headgate.Response, took time.Duration) {
	one := exemplar{trace: req.Origin.Trace.ID, value: took.Seconds(), at: time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if took >= 0 { // else it was not timed, because it panicked
		e.took[bucketOf(decisionBounds[:], took)] = one
	}
	if !resp.Allowed && resp.Degraded() == "" {
		e.denied = one
	}
}

// ofDurations returns those of the duration histogram, ofDenied that of denials; none
// where e is nil.
func (e *exemplars) ofDurations() (all []prometheus.Exemplar) {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.took {
		all = e.took[i].appendTo(all, e.took[i].value)
	}
	return all
}

func (e *exemplars) ofDenied() []prometheus.Exemplar {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.denied.appendTo(nil, 1)
}

// appendTo appends e with a value, if there is one.
func (e *exemplar) appendTo(all []prometheus.Exemplar, value float64) []prometheus.Exemplar {
	if e.at.IsZero() {
		return all
	}
	return append(all, prometheus.Exemplar{
		Value: value, Timestamp: e.at, Labels: prometheus.Labels{"trace_id": hex.EncodeToString(e.trace[:])},
	})
}

// withExemplars returns m with exemplars, of which there may be none.
func withExemplars(m prometheus.Metric, all []prometheus.Exemplar) prometheus.Metric {
	if len(all) == 0 {
		return m
	}
	return prometheus.MustNewMetricWithExemplars(m, all...)
}
