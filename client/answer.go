package client

import (
	"cmp"
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// wireDecision is the answer to one check; what is not known is nil.
type wireDecision struct {
	Allowed    *bool  `json:"allowed"`
	Limit      *int64 `json:"limit"`
	Remaining  *int64 `json:"remaining"`
	ResetMS    int64  `json:"reset_ms"`
	RetryAfter *int64 `json:"retry_after_s"`
	DelayMS    int64  `json:"delay_ms"`
	Rule       string `json:"rule"`
	Role       string `json:"role"`
	Degraded   string `json:"degraded"`
	// Name, WindowS and Status are told in a batch, else by the header.
	Name    string     `json:"name"`
	WindowS int64      `json:"window_s"`
	Status  int        `json:"status"`
	Hold    *wireHold  `json:"hold"`
	Soft    []wireSoft `json:"soft"`
}

// wireHold is what a request holds.
type wireHold struct {
	ID            string `json:"id"`
	RenewWithinMS int64  `json:"renew_within_ms"`
}

// wireSoft is a soft limit that a request is above.
type wireSoft struct {
	Action    string `json:"action"`
	Rule      string `json:"rule"`
	Name      string `json:"name"`
	Percent   int    `json:"percent"`
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	DelayMS   int64  `json:"delay_ms"`
	Header    string `json:"header"`
	Value     string `json:"value"`
	Challenge string `json:"challenge"`
}

// maxSoft bounds the soft limits that are taken from one answer, as the server
// does.
const maxSoft = 16

// fill turns the answer to req into resp. told is what its header says, which
// names the windows.
func (w *wireDecision) fill(req *headgate.Request, resp *headgate.Response, told *Limits) {
	*resp = headgate.Response{
		Allowed: *w.Allowed, DomainKnown: w.Rule != "" || w.Limit != nil, Verdicts: resp.Verdicts[:0],
	}
	if w.Hold != nil && *w.Allowed {
		resp.Hold, resp.HoldFor = limit.HoldOf(w.Hold.ID), max(millis(w.Hold.RenewWithinMS), time.Millisecond)
	}
	if !resp.DomainKnown && resp.Allowed && w.Degraded == "" {
		return
	}
	resp.Verdicts = append(resp.Verdicts, w.verdict(req, told))
	for i := range w.Soft[:min(len(w.Soft), maxSoft)] {
		w.Soft[i].addTo(resp, req)
	}
}

// verdict returns the decisive verdict on req.
func (w *wireDecision) verdict(req *headgate.Request, told *Limits) headgate.Verdict {
	d := &req.Descriptors[0]
	v := headgate.Verdict{
		Hits: d.Hits, Role: roleTold(w.Role), Degraded: reasonTold(w.Degraded),
		Decision: limit.Decision{
			Allowed: *w.Allowed, ResetAfter: millis(w.ResetMS), Delay: millis(w.DelayMS),
		},
	}
	if w.Rule != "" {
		v.Rule = &rules.Rule{ID: w.Rule, Domain: req.Domain}
	}
	if w.Limit != nil {
		v.Decision.Limit = max(*w.Limit, 0)
		if v.Limit = d.Limit; v.Limit == nil {
			v.Name, v.Limit = w.limit(told)
		}
	}
	if v.Name == w.Rule {
		v.Name = ""
	}
	if w.Remaining != nil {
		v.Decision.Remaining = max(*w.Remaining, 0)
	}
	if v.Degraded != store.NoReason {
		v.By = w.instead()
	}
	switch {
	case *w.Allowed:
	case w.RetryAfter == nil || *w.RetryAfter <= 0:
		v.Decision.Never = true
	default:
		v.Decision.RetryAfter = durationOf(*w.RetryAfter)
	}
	return v
}

// instead returns who decided in the place of the store.
func (w *wireDecision) instead() verdict.Decider {
	switch {
	case w.Remaining != nil:
		return verdict.ByLocalShare
	case !*w.Allowed && w.Status == http.StatusTooManyRequests: // failure mode closed would be 503
		return verdict.ByLocalWhole
	}
	return verdict.ByFailureMode
}

// limit returns the limit of which the answer speaks, and its name.
func (w *wireDecision) limit(told *Limits) (string, *limit.Limit) {
	if roleTold(w.Role) == rules.InFlight {
		l, err := limit.New(limit.Spec{Algorithm: limit.Concurrency, Quota: min(*w.Limit, limit.MaxConcurrency), Period: slotTimeout})
		if err == nil {
			return w.Name, l
		}
	}
	if w.WindowS > 0 || w.Name != "" {
		return w.Name, slidingWindow(*w.Limit, durationOf(w.WindowS))
	}
	return limitTold(*w.Limit, told)
}

// slotTimeout stands for the timeout of a limit on concurrency, which is not told:
// it is the default.
const slotTimeout = time.Minute

// addTo adds a soft limit to resp: to the decisive verdict when it is that one's,
// else with a verdict of its own.
func (s *wireSoft) addTo(resp *headgate.Response, req *headgate.Request) {
	soft := s.soft()
	if soft == nil || !resp.Allowed {
		return
	}
	first := &resp.Verdicts[0]
	if d := &first.Decision; first.Role == rules.Main && first.Rule != nil && first.Rule.ID == s.Rule &&
		first.Rule.Soft == nil && d.Limit == s.Limit && d.Remaining == s.Remaining {
		first.Rule.Soft = soft
		return
	}
	resp.Verdicts = append(resp.Verdicts, headgate.Verdict{
		Rule: &rules.Rule{ID: s.Rule, Domain: req.Domain, Telling: rules.Telling{Soft: soft}}, Name: s.Name,
		Limit: slidingWindow(s.Limit, 0), Hits: req.Descriptors[0].Hits,
		Decision: limit.Decision{Allowed: true, Limit: s.Limit, Remaining: s.Remaining},
	})
}

// soft returns the rule's own form; nil for what a later server may know.
func (s *wireSoft) soft() *rules.Soft {
	for _, action := range [...]rules.SoftAction{rules.Warn, rules.Delay, rules.Degrade, rules.Challenge} {
		if action.String() == s.Action {
			return &rules.Soft{
				Percent: s.Percent, Action: action, Delay: min(millis(s.DelayMS), rules.MaxSoftDelay),
				Header: s.Header, Value: s.Value, Challenge: s.Challenge,
			}
		}
	}
	return nil
}

// roleTold keeps to the roles that there are, whatever a server says.
func roleTold(text string) rules.Role {
	for _, role := range [...]rules.Role{rules.InFlight, rules.Secondary, rules.Sustained, rules.Banning} {
		if role.String() == text {
			return role
		}
	}
	return rules.Main
}

// reasonTold keeps the reasons few, as labels must be, whatever a server says.
func reasonTold(text string) store.Reason {
	switch r := store.Reason(text); r {
	case store.NoReason, store.Timeout, store.Unavailable, store.Overloaded, store.BreakerOpen, store.Denied,
		store.Full, store.ReadOnly, store.Loading, store.Misconfigured:
		return r
	}
	return store.Internal
}

func millis(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(maxTold/time.Millisecond))) * time.Millisecond
}

// unknownWindow stands for the window of a limit that is not told. It is less
// than a second, so that whoever writes header fields leaves it out.
const unknownWindow = time.Microsecond

// limitTold returns the limit of which header fields speak, and its name: that of
// RateLimit among the policies, or without names the first of the same quota.
func limitTold(quota int64, told *Limits) (string, *limit.Limit) {
	name := ""
	if len(told.Levels) > 0 {
		name = told.Levels[0].Name
	}
	window := time.Duration(0)
	for i := range told.Policies {
		if p := &told.Policies[i]; p.Quota == quota && (name == "" || p.Name == name) && p.Window > 0 {
			window, name = p.Window, p.Name
			break
		}
	}
	return name, slidingWindow(quota, window)
}

// slidingWindow returns a limit of that quota and window, 0 for one that is not told.
func slidingWindow(quota int64, window time.Duration) *limit.Limit {
	window = cmp.Or(max(window, 0), unknownWindow)
	l, err := limit.New(limit.Spec{Quota: min(max(quota, 0), limit.MaxQuota), Period: window})
	if err != nil {
		return nil
	}
	return l
}
