package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// guardMetrics count what limits beside the main ones do, and what soft limits ask
// for. Every series is there from the start.
type guardMetrics struct {
	denials [len(roles)]prometheus.Counter
	soft    [len(softActions)]prometheus.Counter
	renewed, released,
	renewedDegraded, releasedDegraded prometheus.Counter
}

// roles are the values of the label role, by the Role.
var roles = [...]rules.Role{rules.Main, rules.InFlight, rules.Secondary, rules.Sustained, rules.Banning, rules.Candidate}

// softActions are the values of the label action, by the SoftAction.
var softActions = [...]rules.SoftAction{rules.Warn, rules.Delay, rules.Degrade, rules.Challenge}

func (g *guardMetrics) register(r *prometheus.Registry) {
	denials := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headgate_denied_requests_total",
		Help: "Requests that a count denied, by the role of the limit that spoke (main, concurrency, secondary, sustained, ban, candidate).",
	}, []string{"role"})
	for _, role := range roles {
		g.denials[role] = denials.WithLabelValues(role.String())
	}
	soft := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headgate_soft_limits_total",
		Help: "Limits on which an allowed request was above the soft limit, by action (warn, delay, degrade, challenge).",
	}, []string{"action"})
	for _, action := range softActions {
		g.soft[action] = soft.WithLabelValues(action.String())
	}
	holds := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "headgate_holds_total",
		Help: "Calls for requests in flight, by operation (renew, release) and outcome (done, degraded: the store could not).",
	}, []string{"op", "outcome"})
	g.renewed, g.renewedDegraded = holds.WithLabelValues("renew", "done"), holds.WithLabelValues("renew", "degraded")
	g.released, g.releasedDegraded = holds.WithLabelValues("release", "done"), holds.WithLabelValues("release", "degraded")
	r.MustRegister(denials, soft, holds)
}

// denied counts a request that is denied, unless failure mode did it.
func (g *guardMetrics) denied(resp *headgate.Response) {
	if v := resp.Decisive(-1); v != nil && !v.Guessed() && int(v.Role) < len(g.denials) {
		g.denials[v.Role].Inc()
	}
}

// above counts a soft limit that is reached.
func (g *guardMetrics) above(v *headgate.Verdict) {
	if soft := v.Soft(); soft != nil && int(soft.Action) < len(g.soft) {
		g.soft[soft.Action].Inc()
	}
}

// inFlight counts a request that renews or releases, and reports whether req is one.
func (g *guardMetrics) inFlight(req *headgate.Request, resp *headgate.Response) bool {
	if req == nil || len(req.Descriptors) == 0 {
		return false
	}
	done, degraded := g.renewed, g.renewedDegraded
	switch req.Descriptors[0].Op {
	case store.Renew:
	case store.Release:
		done, degraded = g.released, g.releasedDegraded
	default:
		return false
	}
	if resp.Degraded() != store.NoReason {
		done = degraded
	}
	done.Inc()
	return true
}
