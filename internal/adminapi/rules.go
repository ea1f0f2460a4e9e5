package adminapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/trial"
)

// rulesInForce are the rules of this node.
type rulesInForce struct{ *Options }

func (f rulesInForce) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "rules", scope: Read, local: true, serve: f.list, id: "listRules", summary: "List the rules in force, and where each comes from",
			query: page, answers: []reply{ok(rulesPage{}, "A page of the rules of this node."), notHere},
		},
		{
			method: http.MethodGet, path: "candidates", scope: Read, local: true, serve: f.compared, id: "listCandidates", summary: "List what was seen of candidate limits",
			query: page, answers: []reply{ok(candidatesPage{}, "A page of what this node has seen.")},
		},
	}
}

// ruleView is a rule in force on this node.
type ruleView struct {
	ID      string `json:"id"`
	Domain  string `json:"domain"`
	Summary string `json:"summary"`
	// Source is file, document or row; File and Line say where there.
	Source string `json:"source"`
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	// Path is what the entries of a descriptor have to be to reach the rule, level by level: a key,
	// or a key and a value with an underscore between. It is empty where the rule always applies.
	Path   []string        `json:"path"`
	Limits []ruleLimitView `json:"limits"`
	// Failure is what answers while the store does not, Cost what a request costs.
	Failure   string `json:"failure"`
	Cost      string `json:"cost"`
	Unlimited bool   `json:"unlimited,omitempty"`
	Shadow    bool   `json:"shadow,omitempty"`
	Tenant    bool   `json:"tenant,omitempty"`
	Sensitive bool   `json:"sensitive,omitempty"`
	Priority  string `json:"priority,omitempty"`
	SoftLimit string `json:"soft_limit,omitempty"`
	// Candidate are the limits beside those in force; Schedule is when the limits are others, and
	// Now what it makes of them at this moment.
	Candidate  string    `json:"candidate,omitempty"`
	Schedule   []string  `json:"schedule,omitempty"`
	Now        string    `json:"now,omitempty"`
	Replaces   []string  `json:"replaces,omitempty"`
	ValidFrom  time.Time `json:"valid_from,omitzero"`
	ValidUntil time.Time `json:"valid_until,omitzero"`
}

// ruleLimitView is one limit of a rule, of whatever role.
type ruleLimitView struct {
	Name  string `json:"name,omitempty"`
	Role  string `json:"role"`
	Limit string `json:"limit"`
}

// ruleViewOf returns r as it is at now.
func ruleViewOf(r *rules.Rule, source string, now time.Time) ruleView {
	v := ruleView{
		ID: r.ID, Domain: r.Domain, Summary: describe.Summary(r), Source: source, File: r.File, Line: r.Line,
		Path: append([]string{}, r.Path()...), Limits: []ruleLimitView{}, Failure: r.Failure.String(), Cost: r.Cost.String(),
		Unlimited: r.Unlimited, Shadow: r.Shadow, Tenant: r.Tenant, Sensitive: r.Sensitive, Priority: r.Priority,
		Candidate: r.Trial.String(), Now: describe.ScheduleText(r, now), Replaces: r.Replaces, ValidFrom: r.ValidFrom, ValidUntil: r.ValidUntil,
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		v.Limits = append(v.Limits, ruleLimitView{l.Name, l.Role.String(), l.String()})
	}
	for i := range r.Schedule {
		v.Schedule = append(v.Schedule, r.Schedule[i].String())
	}
	if r.Soft != nil {
		v.SoftLimit = r.Soft.String()
	}
	return v
}

type rulesPage struct {
	// Version is that of all rules in force on this node.
	Version    string     `json:"version"`
	Rules      []ruleView `json:"rules"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// list answers with the rules in force.
func (f rulesInForce) list(c *call) (*answer, error) {
	if f.Limiter == nil {
		return nil, errNoLimiter
	}
	p := rulesPage{Rules: []ruleView{}}
	set := f.Limiter.Rules()
	if set == nil {
		return jsonAnswer(http.StatusOK, p)
	}
	p.Version = set.Version()
	list := set.Rules()
	slices.SortFunc(list, func(a, b *rules.Rule) int { return strings.Compare(a.ID, b.ID) })
	var bad *problem
	p.Rules, p.NextCursor, bad = window(c, list, func(r **rules.Rule) string { return (*r).ID }, func(r **rules.Rule) ruleView {
		source := "file"
		if f.RuleSource != nil {
			source = f.RuleSource((*r).File)
		}
		return ruleViewOf(*r, source, c.now)
	})
	if bad != nil {
		return nil, bad
	}
	return jsonAnswer(http.StatusOK, p)
}

// candidateView says how the candidate limits of a rule compare with its main ones.
type candidateView struct {
	Rule      string `json:"rule"`
	Domain    string `json:"domain"`
	Limits    string `json:"limits"`
	Candidate string `json:"candidate"`
	// Percent and Tenants say for whom the candidate is enforced.
	Percent int      `json:"percent,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
	// OverSeconds is the time up to now that the counts are of.
	OverSeconds     float64    `json:"over_seconds"`
	Decided         int64      `json:"decided"`
	Denied          int64      `json:"denied"`
	CandidateDenied int64      `json:"candidate_denied"`
	Added           int64      `json:"added"`
	Avoided         int64      `json:"avoided"`
	AddedPercent    float64    `json:"added_percent"`
	RolledBackAt    *time.Time `json:"rolled_back_at,omitempty"`
}

type candidatesPage struct {
	Candidates []candidateView `json:"candidates"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

// compared answers with what was seen of candidate limits.
func (f rulesInForce) compared(c *call) (*answer, error) {
	var list []trial.Report
	if f.Candidates != nil {
		list = f.Candidates()
	}
	slices.SortFunc(list, func(a, b trial.Report) int { return strings.Compare(a.Rule, b.Rule) })
	page, next, bad := window(c, list, func(r *trial.Report) string { return r.Rule }, candidateViewOf)
	if bad != nil {
		return nil, bad
	}
	return jsonAnswer(http.StatusOK, candidatesPage{page, next})
}

func candidateViewOf(r *trial.Report) candidateView {
	v := candidateView{
		Rule: r.Rule, Domain: r.Domain, Limits: r.Limits, Candidate: r.Candidate, Percent: r.Percent, OverSeconds: r.Over.Seconds(),
		Decided: r.Decided, Denied: r.Denied, CandidateDenied: r.CandidateDenied, Added: r.Added, Avoided: r.Avoided, AddedPercent: r.AddedPercent,
	}
	for _, t := range r.Tenants {
		v.Tenants = append(v.Tenants, t.Key+":"+t.Value)
	}
	if !r.RolledBack.IsZero() {
		at := r.RolledBack.UTC()
		v.RolledBackAt = &at
	}
	return v
}
