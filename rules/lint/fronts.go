package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// Front is a way in of a server that only answers what it is asked: whoever asked is the
// one who passes the request on, so that such a server cannot do for it all that a rule
// may ask for.
type Front string

const (
	// HTTP is the HTTP API. Who asks is told how long to wait, and takes slots and
	// frees them.
	HTTP Front = "http"
	// GRPC is the protocol of Envoy's rate limit filter, which waits for nothing and
	// frees slots only of requests that an entry names.
	GRPC Front = "grpc"
	// Auth is for sub-requests of gateways, which end before the request begins.
	Auth Front = "auth"
	// Redis is the protocol of Redis, in which clients are told no more than whether they
	// pass.
	Redis Front = "redis"
)

// Fronts are all of them.
var Fronts = []Front{HTTP, GRPC, Auth, Redis}

// Unmet is what a rule asks for and some fronts cannot do.
type Unmet struct {
	Rule *rules.Rule
	// Asked is what the rule says: leaky_queue, soft_limit, concurrency or priority.
	Asked  string
	Fronts []Front
	// Instead is what happens there, and Hint what to do about it.
	Instead, Hint string
}

// String returns what is not done and where, in one sentence without the rule.
func (u Unmet) String() string {
	names := make([]string, len(u.Fronts))
	for i, f := range u.Fronts {
		names[i] = string(f)
	}
	return fmt.Sprintf("%s has no effect over %s: %s", u.Asked, strings.Join(names, ", "), u.Instead)
}

// Diagnostic returns u as a warning at the place of the rule.
func (u Unmet) Diagnostic() rules.Diagnostic {
	var l linter
	l.warnRule(u.Rule, u.Hint, "rule %s: %v", u.Rule.ID, u)
	return l.diagnostics[0]
}

// demand is something that a rule may ask for.
type demand struct {
	asked, instead, hint string
	of                   func(*rules.Rule) bool
	met                  func(*rules.Rule, Front) bool
}

var demands = []demand{
	{
		"leaky_queue", "nothing waits there, so that hits which should leave one after the other pass at once",
		"use leaky_bucket or gcra, which deny what comes too early, or let headgate proxy or the middleware wait",
		func(r *rules.Rule) bool {
			return slices.ContainsFunc(r.Limits, func(l rules.NamedLimit) bool { return l.Algorithm == limit.LeakyQueue })
		},
		func(_ *rules.Rule, f Front) bool { return f == HTTP },
	},
	{
		"soft_limit with action delay", "nothing is held back there",
		"use warn, degrade or challenge, or let headgate proxy or the middleware hold requests back",
		func(r *rules.Rule) bool { return r.Soft != nil && r.Soft.Action == rules.Delay },
		func(_ *rules.Rule, f Front) bool { return f == HTTP },
	},
	{
		"concurrency", "nobody says when a request ends, so that no slot is taken",
		"write hold: KEY for Envoy, and let it call again when the stream ends (docs/concurrency.md), or use headgate proxy or the middleware",
		func(r *rules.Rule) bool { return r.LimitOf(rules.InFlight) != nil },
		func(r *rules.Rule, f Front) bool { return f == HTTP || f == GRPC && r.HoldEntry != "" },
	},
	{
		"priority", "headgate serve sheds no requests",
		"delete it, or use headgate proxy --shed or the middleware, which do",
		func(r *rules.Rule) bool { return r.Priority != "" },
		func(*rules.Rule, Front) bool { return false },
	},
}

// NeedsHold reports whether r limits requests in flight, and counts over HTTP only those that
// are asked for with a hold: no entry names it. Who asks without one passes whatever is in
// flight. That is no finding, because callers may well send it.
func NeedsHold(r *rules.Rule) bool { return r.LimitOf(rules.InFlight) != nil && r.HoldEntry == "" }

// Unserved returns what rules of s ask for and what the given fronts cannot do, by the
// order of the rules.
func Unserved(s *rules.Set, fronts ...Front) []Unmet {
	var all []Unmet
	for _, r := range s.Rules() {
		for _, d := range demands {
			if !d.of(r) {
				continue
			}
			u := Unmet{Rule: r, Asked: d.asked, Instead: d.instead, Hint: d.hint}
			for _, f := range fronts {
				if !d.met(r, f) {
					u.Fronts = append(u.Fronts, f)
				}
			}
			if len(u.Fronts) > 0 {
				all = append(all, u)
			}
		}
	}
	return all
}
