package rulereview

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
)

const (
	// maxBytes bounds the memory of the buckets of each of the two sets of rules.
	maxBytes = 32 << 20
	// maxRows bounds the rules that are named.
	maxRows = 50
)

// Effect is how requests would have been answered that nodes remember: by the rules of today
// and by others, both beginning with empty counters.
type Effect struct {
	replay.Counts
	// From and Until are the times of the first request and the last, zero without any.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Cut says that nodes remember more of the hour than was asked about: only of the time is asked of which
	// all have told.
	Cut bool `json:"cut,omitempty"`
	// Nodes are those whose events were asked for, with how many of them are in it.
	Nodes []EffectNode `json:"nodes"`
	// Rules are those with the most newly denied first, 50 at most.
	Rules []replay.RuleRow `json:"rules"`
	// Notes say what cannot be told.
	Notes []string `json:"notes"`
	// Unknown says why nothing can be told; then the rest says nothing.
	Unknown string `json:"unknown,omitempty"`
}

// Question is what Effect is asked about.
type Question struct {
	// Now are the rules in force, nil for none, and Next those to be.
	Now, Next *rules.Set
	// Tenants is what tenants may use by both; nil is nothing of their own.
	Tenants *tenant.Snapshot
	// Remembered are the requests that are asked about.
	Remembered
}

// Ask decides the remembered events of the last hour anew. When ctx ends before, or the requests
// find no room, the answer says so in Unknown.
func (q *Question) Ask(ctx context.Context) Effect {
	e := Effect{Rules: []replay.RuleRow{}, Notes: []string{}, Nodes: []EffectNode{}}
	recalled, err := q.Recall(ctx)
	e.Nodes = append(e.Nodes, recalled.Nodes...)
	if err == nil && recalled.Events == 0 {
		return e
	}
	var report *replay.Report
	if err == nil {
		report, err = q.replay(ctx, recalled.Input)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		e.Unknown = "the requests could not be asked about in time"
		return e
	case errors.Is(err, replay.ErrFull):
		e.Unknown = "the keys of these requests have no room in memory"
		return e
	case err != nil:
		e.Unknown = err.Error()
		return e
	}
	e.Counts, e.From, e.Until, e.Cut = report.Counts, report.From, report.Until, recalled.Cut
	e.Rules = append(e.Rules, report.Rules[:min(len(report.Rules), maxRows)]...)
	e.Notes = append(e.Notes, report.Notes...)
	if report.Requests == 0 {
		e.From, e.Until = time.Time{}, time.Time{}
	}
	return e
}

// replay asks both sets of rules.
func (q *Question) replay(ctx context.Context, events replay.Input) (*replay.Report, error) {
	now := q.Now
	if now == nil {
		now = new(rules.Set)
	}
	return replay.Run(ctx, replay.Options{
		Inputs:    []replay.Input{events},
		Candidate: q.Next, Current: now, Tenants: q.Tenants, Window: replay.DefaultWindow, Partial: true, MaxBytes: maxBytes,
	})
}
