// Package rulesview shows the rules in force, as JSON and as lines of
// envoyproxy/ratelimit.
package rulesview

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
)

// Rules is the body of /rules.
type Rules struct {
	Version string `json:"version"`
	Rules   []Rule `json:"rules"`
}

// Rule is one rule.
type Rule struct {
	ID         string     `json:"id"`
	Domain     string     `json:"domain"`
	Limits     []Limit    `json:"limits,omitempty"`
	Unlimited  bool       `json:"unlimited,omitempty"`
	Shadow     bool       `json:"shadow,omitempty"`
	Quota      bool       `json:"quota,omitempty"`
	Always     bool       `json:"always,omitempty"`
	Tenant     bool       `json:"tenant,omitempty"`
	Sensitive  bool       `json:"sensitive,omitempty"`
	Priority   string     `json:"priority,omitempty"`
	Soft       string     `json:"soft_limit,omitempty"`
	Answer     string     `json:"answer,omitempty"`
	Failure    string     `json:"failure"`
	Cost       string     `json:"cost"`
	Replaces   []string   `json:"replaces,omitempty"`
	OnChange   string     `json:"on_change"`
	MaxDebt    int64      `json:"max_debt,omitempty"`
	Schedule   []string   `json:"schedule,omitempty"`
	Shift      string     `json:"shift,omitempty"` // what the schedule makes of the limits now
	Candidate  string     `json:"candidate,omitempty"`
	ValidFrom  *time.Time `json:"valid_from,omitempty"`
	ValidUntil *time.Time `json:"valid_until,omitempty"`
	File       string     `json:"file"`
	Line       int        `json:"line"`
}

// Limit is one limit of a rule.
type Limit struct {
	Name        string `json:"name,omitempty"`
	Role        string `json:"role"`
	Algorithm   string `json:"algorithm"`
	Quota       int64  `json:"quota"`
	Period      string `json:"period"`
	Burst       int64  `json:"burst,omitempty"`
	CountDenied bool   `json:"count_denied,omitempty"`
	BanFor      string `json:"ban_for,omitempty"`
}

// Of returns what set has at now, nothing for nil.
func Of(set *rules.Set, now time.Time) Rules {
	v := Rules{Rules: []Rule{}}
	if set == nil {
		return v
	}
	v.Version = set.Version()
	for _, r := range set.Rules() {
		v.Rules = append(v.Rules, ruleViewOf(r, now))
	}
	return v
}

func ruleViewOf(r *rules.Rule, now time.Time) Rule {
	v := Rule{
		ID: r.ID, Domain: r.Domain, Unlimited: r.Unlimited, Shadow: r.Shadow, Quota: r.Quota, Always: r.Always, Tenant: r.Tenant,
		Sensitive: r.Sensitive, Priority: r.Priority, Failure: r.Failure.String(), Cost: r.Cost.String(), Replaces: r.Replaces, File: r.File, Line: r.Line,
		OnChange: r.Carry.String(), MaxDebt: r.MaxDebt, Shift: describe.ScheduleText(r, now), Candidate: r.Trial.String(),
	}
	for i := range r.Schedule {
		v.Schedule = append(v.Schedule, r.Schedule[i].String())
	}
	if !r.ValidFrom.IsZero() {
		v.ValidFrom = &r.ValidFrom
	}
	if !r.ValidUntil.IsZero() {
		v.ValidUntil = &r.ValidUntil
	}
	if r.Soft != nil {
		v.Soft = r.Soft.String()
	}
	if r.Answer != nil {
		v.Answer = r.Answer.String()
	}
	for _, l := range r.Limits {
		v.Limits = append(v.Limits, limitViewOf(l))
	}
	return v
}

func limitViewOf(l rules.NamedLimit) Limit {
	v := Limit{
		Name: l.Name, Role: l.Role.String(), Algorithm: l.Algorithm.String(), Quota: l.Quota, Period: periodOf(l.Limit),
		Burst: l.Burst, CountDenied: l.CountDenied,
	}
	if l.Role == rules.Banning {
		v.BanFor = rules.DurationText(l.BanFor)
	}
	return v
}

// periodOf names the period of l as rule files do.
func periodOf(l *limit.Limit) string {
	if l.Calendar != nil {
		return l.Calendar.Unit.String() + " in " + l.Calendar.Zone
	}
	for _, u := range envoyUnits {
		if l.Period == u.length {
			return strings.ToLower(u.name)
		}
	}
	return rules.DurationText(l.Period)
}

// envoyUnits are the units of envoyproxy/ratelimit; months and years of it have
// 30 and 365 days.
var envoyUnits = []struct {
	name   string
	length time.Duration
}{
	{"SECOND", time.Second},
	{"MINUTE", time.Minute},
	{"HOUR", time.Hour},
	{"DAY", 24 * time.Hour},
	{"WEEK", 7 * 24 * time.Hour},
	{"MONTH", 30 * 24 * time.Hour},
	{"YEAR", 365 * 24 * time.Hour},
}

// WriteLines writes one line for each main limit, as /rlconfig of
// envoyproxy/ratelimit does, for the scripts that read it.
func WriteLines(w io.Writer, set *rules.Set) {
	if set == nil {
		return
	}
	for _, r := range set.Rules() {
		name := lineName(r)
		if r.Unlimited {
			writeLine(w, name, "UNKNOWN", 0, r)
		}
		for _, l := range r.Limits {
			if l.Role != rules.Main {
				continue
			}
			writeLine(w, name, strings.ToUpper(periodOf(l.Limit)), l.Quota, r)
		}
	}
}

// lineName is what envoyproxy/ratelimit calls a rule: its domain and path, whatever the
// name of its limit is. A rule that always applies has no path, and a name.
func lineName(r *rules.Rule) string {
	path := r.Path()
	if len(path) == 0 {
		return r.ID
	}
	return r.Domain + "." + strings.Join(path, ".")
}

func writeLine(w io.Writer, name, unit string, quota int64, r *rules.Rule) {
	fmt.Fprintf(w, "%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n", name, unit, quota, r.Shadow, r.Quota)
}
