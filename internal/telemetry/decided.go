package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
)

// outcome is what one limit said.
type outcome uint8

const (
	allowed outcome = iota
	denied
	shadowDenied
	replaced
	degradedAllowed
	degradedDenied
	localAllowed
	localDenied
	skipped
	outcomes // their number
)

var outcomeNames = [outcomes]string{
	allowed:         "allowed",
	denied:          "denied",
	shadowDenied:    "shadow_denied",
	replaced:        "replaced",
	degradedAllowed: "degraded_allowed",
	degradedDenied:  "degraded_denied",
	localAllowed:    "local_allowed",
	localDenied:     "local_denied",
	skipped:         "skipped",
}

func outcomeOf(v *headgate.Verdict) outcome {
	switch {
	case v.Replaced:
		return replaced
	case v.Skipped:
		return skipped
	case v.Local && v.OverLimit():
		return localDenied
	case v.Local:
		return localAllowed
	case v.Degraded != store.NoReason && v.OverLimit():
		return degradedDenied
	case v.Degraded != store.NoReason:
		return degradedAllowed
	case v.Decision.Allowed:
		return allowed
	case v.Enforced:
		return denied
	default:
		return shadowDenied
	}
}

// Outcomes of whole requests.
const (
	requestAllowed = iota
	requestDenied
	requestDegradedAllowed
	requestDegradedDenied
	requestUnmatched
	requestUnknownDomain
	requestOutcomes // their number
)

var requestOutcomeNames = [requestOutcomes]string{
	requestAllowed:         "allowed",
	requestDenied:          "denied",
	requestDegradedAllowed: "degraded_allowed",
	requestDegradedDenied:  "degraded_denied",
	requestUnmatched:       "unmatched",
	requestUnknownDomain:   "unknown_domain",
}

func requestOutcome(resp *headgate.Response, degraded bool) int {
	switch {
	case len(resp.Verdicts) == 0 && !resp.DomainKnown:
		return requestUnknownDomain
	case len(resp.Verdicts) == 0:
		return requestUnmatched
	case degraded && resp.Allowed:
		return requestDegradedAllowed
	case degraded:
		return requestDegradedDenied
	case resp.Allowed:
		return requestAllowed
	default:
		return requestDenied
	}
}

// Decided implements headgate.Observer. It neither blocks nor allocates. Who renews
// or releases asks for no decision and is counted apart.
func (m *Metrics) Decided(req *headgate.Request, resp *headgate.Response, took time.Duration) {
	m.duration.Observe(took.Seconds())
	if m.guards.inFlight(req, resp) {
		if reason := resp.Degraded(); reason != store.NoReason {
			m.storeError(reason)
		}
		return
	}
	t := m.rules.load()
	degraded := store.NoReason
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if v.Watched {
			continue // Limiter.Candidates tells what it would have done
		}
		o := outcomeOf(v)
		t.of(v.Rule).inc(o)
		if v.Degraded != store.NoReason {
			degraded = v.Degraded
			if o == degradedAllowed {
				m.failOpen.Inc()
			}
		}
		if resp.Allowed {
			m.guards.above(v)
		}
	}
	if degraded != store.NoReason {
		m.storeError(degraded)
	}
	if !resp.Allowed {
		m.guards.denied(resp)
	}
	m.requests[requestOutcome(resp, degraded != store.NoReason)].Inc()
}

// storeError counts one request that the store could not decide. A reason that
// is not in the list is a slip on our side, and counted as one.
func (m *Metrics) storeError(r store.Reason) {
	c, ok := m.errors[r]
	if !ok {
		c = m.errors[store.Internal]
	}
	c.series.Inc()
	c.n.Add(1)
}

// reasonCounter is a series that can be read.
type reasonCounter struct {
	series prometheus.Counter
	n      atomic.Uint64
}

// Undecided returns how many requests the store could not decide so far, by
// reason; reasons of none are left out.
func (m *Metrics) Undecided() map[store.Reason]uint64 {
	counts := map[store.Reason]uint64{}
	for reason, c := range m.errors {
		if n := c.n.Load(); n > 0 {
			counts[reason] = n
		}
	}
	return counts
}
