package rulereview

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
)

const (
	// Lookback is how far back events are asked about anew.
	Lookback = time.Hour
	// MaxEvents bounds those events: the latest are taken.
	MaxEvents = 20_000
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
	// Node is the name of this node, and Others is what other nodes remember.
	Node   string
	Others []NodeEvents
	// Recent returns a page of events that this node remembers, the latest first.
	Recent func(cursor string) (view.Events, error)
	// At is the end of the time that is looked at.
	At time.Time
}

// Ask decides the remembered events of the last hour anew. When ctx ends before, or the requests
// find no room, the answer says so in Unknown.
func (q *Question) Ask(ctx context.Context) Effect {
	e := Effect{Rules: []replay.RuleRow{}, Notes: []string{}, Nodes: []EffectNode{}}
	lines, cut, err := q.lines(ctx, &e)
	if err == nil && len(lines) == 0 {
		return e
	}
	var report *replay.Report
	if err == nil {
		report, err = q.replay(ctx, lines)
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
	e.Counts, e.From, e.Until, e.Cut = report.Counts, report.From, report.Until, cut
	e.Rules = append(e.Rules, report.Rules[:min(len(report.Rules), maxRows)]...)
	e.Notes = append(e.Notes, report.Notes...)
	if report.Requests == 0 {
		e.From, e.Until = time.Time{}, time.Time{}
	}
	return e
}

// lines returns the events that are asked about as lines, the oldest first, and whether there are more. It
// notes in e of which nodes they are.
func (q *Question) lines(ctx context.Context, e *Effect) (lines [][]byte, cut bool, err error) {
	own, cut, err := Collect(ctx, q.Recent, q.At.Add(-Lookback), MaxEvents)
	if err != nil {
		return nil, false, err
	}
	events, nodes, cut := together(append([]NodeEvents{{Node: q.Node, Events: own, Cut: cut}}, q.Others...))
	e.Nodes = nodes
	for i := range events {
		line, err := json.Marshal(&events[i])
		if err != nil {
			return nil, false, err
		}
		lines = append(lines, line)
	}
	return backwards(lines), cut, ctx.Err()
}

func backwards(lines [][]byte) [][]byte {
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return lines
}

// replay asks both sets of rules.
func (q *Question) replay(ctx context.Context, lines [][]byte) (*replay.Report, error) {
	now := q.Now
	if now == nil {
		now = new(rules.Set)
	}
	return replay.Run(ctx, replay.Options{
		Inputs: []replay.Input{{
			Name: "events",
			Open: func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(bytes.Join(lines, []byte("\n")))), nil
			},
			Decoder: func() (replay.Decoder, error) { return replay.Events(nil), nil },
		}},
		Candidate: q.Next, Current: now, Tenants: q.Tenants, Window: replay.DefaultWindow, Partial: true, MaxBytes: maxBytes,
	})
}
