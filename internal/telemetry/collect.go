package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/verdict"
)

// decisionCollector makes series of what decisions have added up to.
type decisionCollector struct {
	stripes   *stripes
	exemplars *exemplars // nil: none
}

var (
	decisionsTotal = prometheus.NewDesc("headgate_decisions_total",
		"Limits decided, by rule and outcome (allowed, denied, shadow_denied, replaced, degraded_allowed, degraded_denied; local_allowed, local_denied: by the share of the node, because the store could not; open_denied: failure mode open, where this node alone has let the whole limit pass; skipped: another limit of the request is known to deny).",
		[]string{"rule", "outcome"}, nil)
	burstExhausted = prometheus.NewDesc("headgate_burst_exhausted_total",
		"Denials by a limit with a burst that is used up (token_bucket, gcra), by rule.", []string{"rule"}, nil)
	hotKeysTotal  = prometheus.NewDesc("headgate_hot_keys_total", "Keys of exact rules that became hot, by rule.", []string{"rule"}, nil)
	requestsTotal = prometheus.NewDesc("headgate_requests_total",
		"Requests answered, by outcome (allowed, denied, degraded_allowed, degraded_denied, unmatched, unknown_domain); degraded_denied is 503 where a rule fails closed, and 429 where the node denied by its own count.",
		[]string{"outcome"}, nil)
	failOpenTotal    = prometheus.NewDesc("headgate_failopen_total", "Limits that allowed because the store could not decide.", nil, nil)
	storeErrorsTotal = prometheus.NewDesc("headgate_store_errors_total", "Requests that the store could not decide, by reason.", []string{"reason"}, nil)
	deniedRequests   = prometheus.NewDesc("headgate_denied_requests_total",
		"Requests that a count denied, by the role of the limit that spoke (main, concurrency, secondary, sustained, ban, candidate).",
		[]string{"role"}, nil)
	softLimits = prometheus.NewDesc("headgate_soft_limits_total",
		"Limits on which an allowed request was above the soft limit, by action (warn, delay, degrade, challenge).",
		[]string{"action"}, nil)
	holdsTotal = prometheus.NewDesc("headgate_holds_total",
		"Calls for requests in flight, by operation (renew, release) and outcome (done, degraded: the store could not).",
		[]string{"op", "outcome"}, nil)
	decisionDuration = prometheus.NewDesc("headgate_decision_duration_seconds",
		"Time to decide a call with all of its requests, the store and the wait for a turn there included. Of calls below 20 us, one in 16 is timed and stands for the others.", nil, nil)
	retryAfter = prometheus.NewDesc("headgate_retry_after_seconds",
		"What denied requests are told to wait; requests that can never pass are not counted.", nil, nil)
	remainingRatio = prometheus.NewDesc("headgate_remaining_ratio",
		"Share of a limit that is left after a request, of one request in 16.", nil, nil)
	ruleRetryAfter = prometheus.NewDesc("headgate_rule_retry_after_seconds",
		"What denied requests are told to wait, by the rule that spoke; a rule that has denied nothing has no series.", []string{"rule"}, nil)
	ruleRemainingRatio = prometheus.NewDesc("headgate_rule_remaining_ratio",
		"Share of a limit that is left after a request, of one request in 16, by rule.", []string{"rule"}, nil)
)

// Describe implements prometheus.Collector.
func (decisionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		decisionsTotal, burstExhausted, hotKeysTotal, requestsTotal, failOpenTotal, storeErrorsTotal, deniedRequests, softLimits, holdsTotal,
		decisionDuration, retryAfter, remainingRatio, ruleRetryAfter, ruleRemainingRatio, tierDecisions, tierUsed,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c decisionCollector) Collect(ch chan<- prometheus.Metric) {
	t := c.stripes.total()
	for i := range t.rules {
		collectRule(ch, t, i)
	}
	collectTiers(ch, t)
	for _, o := range requestOutcomes {
		one := total(requestsTotal, t.requests[o], o.String())
		if o == verdict.Denied {
			one = withExemplars(one, c.exemplars.ofDenied())
		}
		ch <- one
	}
	ch <- total(failOpenTotal, t.failOpen)
	for i, n := range t.errors {
		ch <- total(storeErrorsTotal, n, string(storeReasons[i]))
	}
	for i, n := range t.denials {
		ch <- total(deniedRequests, n, roles[i].String())
	}
	for i, n := range t.soft {
		ch <- total(softLimits, n, softActions[i].String())
	}
	for call, n := range t.holds {
		ch <- total(holdsTotal, n, holdCallNames[call][:]...)
	}
	took := t.durations(decisionDuration, decisionBounds[:])
	zero, native := t.cells.native()
	took.native = &nativeBuckets{zero, native}
	ch <- withExemplars(took, c.exemplars.ofDurations())
	ch <- newHistogram(retryAfter, seconds(retryBounds[:]), t.retries[:], t.retry.Seconds())
	ch <- newHistogram(remainingRatio, remainingBounds[:], t.remaining[:], t.left)
}

// shown reports whether the series of an outcome are there before their first event, so
// that a rate over that one is right; the others only come when they are needed, because a
// series that stays 0 costs as much as any.
func shown(o verdict.Outcome) bool { return o == verdict.Allowed || o == verdict.Denied }

// collectRule makes the series of a row.
func collectRule(ch chan<- prometheus.Metric, t *totals, i int) {
	inForce := i < len(t.gen.rules)
	id := t.gen.id(i)
	for o, n := range t.rules[i].outcomes {
		if n > 0 || inForce && shown(verdict.Outcome(o)) {
			ch <- total(decisionsTotal, n, id, verdict.Outcome(o).String())
		}
	}
	if n := t.rules[i].burst; n > 0 || inForce && takesBursts(t.gen.rules[i]) {
		ch <- total(burstExhausted, n, id)
	}
	if n := t.rules[i].hot; n > 0 {
		ch <- total(hotKeysTotal, n, id)
	}
	if c := &t.rules[i]; c.retry > 0 {
		ch <- newHistogram(ruleRetryAfter, seconds(ruleRetryBounds[:]), c.retries[:], c.retry.Seconds(), id)
	}
	if c := &t.rules[i]; c.looked > 0 {
		ch <- newHistogram(ruleRemainingRatio, ruleRemainingBounds[:], c.shares[:], c.left, id)
	}
}

// takesBursts reports whether r has a limit with a burst.
func takesBursts(r *rules.Rule) bool {
	for i := range r.Limits {
		if hasBurst(r.Limits[i].Limit) {
			return true
		}
	}
	return false
}

// total returns a counter.
func total(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// durations returns the histogram of how long decisions took, with other bounds.
func (t *tally) durations(d *prometheus.Desc, bounds []time.Duration, labels ...string) *histogram {
	return newHistogram(d, seconds(bounds), t.cells.buckets(bounds), t.took.Seconds(), labels...)
}

// seconds converts bounds.
func seconds(bounds []time.Duration) []float64 {
	all := make([]float64, len(bounds))
	for i, b := range bounds {
		all[i] = b.Seconds()
	}
	return all
}
