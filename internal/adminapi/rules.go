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
	page, next, bad := window(c, list, func(r **rules.Rule) string { return (*r).ID })
	if bad != nil {
		return nil, bad
	}
	p.NextCursor = next
	for _, r := range page {
		source := "file"
		if f.RuleSource != nil {
			source = f.RuleSource(r.File)
		}
		p.Rules = append(p.Rules, ruleView{r.ID, r.Domain, describe.Summary(r), source, r.File, r.Line})
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
	page, next, bad := window(c, list, func(r *trial.Report) string { return r.Rule })
	if bad != nil {
		return nil, bad
	}
	p := candidatesPage{Candidates: make([]candidateView, len(page)), NextCursor: next}
	for i := range page {
		p.Candidates[i] = candidateViewOf(&page[i])
	}
	return jsonAnswer(http.StatusOK, p)
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
