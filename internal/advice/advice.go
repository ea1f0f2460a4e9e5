// Package advice recommends limits for the rules of a set, by what was recorded.
//
//	records -> replay.Asks -> recommend.Demand -> a quota for each limit
//	records -> replay.Asks -> recommend.Proof  -> whom it denies something, and whom the present one
//
// Records are read twice, because how many requests a limit denies depends on what it has denied
// before. Decision 29 says why.
package advice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/recommend"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/candidates"
)

// Options configures Run.
type Options struct {
	// Source is what is read, and has the rules as Candidate; see replay.Asks. Each input can be
	// opened a second time and holds the same then; what it holds more, and later, is left out.
	Source replay.Options
	// Rules are the IDs of the rules that are looked at; none are all.
	Rules []string
	// Wish says what quotas shall be like.
	Wish recommend.Wish
}

// Result is what is recommended.
type Result struct {
	*replay.Asked
	recommend.Report

	limits []limitOf
}

// limitOf is a main limit of a rule, and the one that is recommended, nil for none.
type limitOf struct {
	rule           *rules.Rule
	present, other *limit.Limit
}

// advising is a Run under way.
type advising struct {
	Result
	o *Options
	// first finds the first limit of a rule among limits.
	first map[*rules.Rule]int
	seen  []recommend.Seen
}

// Run recommends limits, until ctx ends. Where no record is for any rule nothing is proved.
func Run(ctx context.Context, o Options) (*Result, error) {
	a := &advising{o: &o}
	if err := a.take(); err != nil {
		return nil, err
	}
	if err := a.survey(ctx); err != nil {
		return nil, err
	}
	if a.Matched > 0 {
		if err := a.prove(ctx); err != nil {
			return nil, err
		}
	}
	return &a.Result, nil
}

// take takes the limits of the rules that are named, of all where none is.
func (a *advising) take() error {
	ids := a.o.Rules
	a.first = make(map[*rules.Rule]int)
	wanted := make(map[string]bool)
	for _, id := range ids {
		wanted[id] = true
	}
	for _, r := range a.o.Source.Candidate.Rules() {
		if len(ids) > 0 && !wanted[r.ID] {
			continue
		}
		delete(wanted, r.ID)
		a.first[r] = len(a.limits)
		for i := range r.Limits {
			if r.Limits[i].Role == rules.Main {
				a.limits = append(a.limits, limitOf{rule: r, present: r.Limits[i].Limit})
			}
		}
	}
	for _, id := range ids {
		if wanted[id] {
			return fmt.Errorf("recommend: there is no rule %.100q; hint: headgate rules validate lists them", id)
		}
	}
	return nil
}

// over goes over all that is asked of the limits that were taken.
func (a *advising) over(ctx context.Context, source replay.Options, add func(*recommend.Use)) (*replay.Asked, error) {
	return replay.Asks(ctx, source, func(ask *replay.Ask) {
		if first, taken := a.first[ask.Rule]; taken {
			add(&recommend.Use{Limit: first + ask.Limit, Key: ask.Key, At: ask.At, Hits: ask.Hits, Op: ask.Op})
		}
	})
}

// survey finds what keys needed, and a quota for each limit.
func (a *advising) survey(ctx context.Context) (err error) {
	list := make([]*limit.Limit, len(a.limits))
	for i := range a.limits {
		list[i] = a.limits[i].present
	}
	demand := recommend.NewDemand(list, recommend.Bounds{})
	if a.Asked, err = a.over(ctx, a.o.Source, demand.Add); err != nil {
		return err
	}
	a.Report = recommend.Report{HeadRoom: a.o.Wish.HeadRoom, MayHit: a.o.Wish.MayHit, Rows: make([]recommend.Row, len(a.limits))}
	a.seen = make([]recommend.Seen, len(a.limits))
	for i := range a.limits {
		a.seen[i] = demand.Of(i)
		a.Rows[i] = a.row(i)
	}
	return nil
}

// row returns what is told of a limit before anything is proved.
func (a *advising) row(i int) recommend.Row {
	l, seen := &a.limits[i], &a.seen[i]
	row := recommend.Row{
		Rule: l.rule.ID, Limit: rules.LimitText(l.present), Quota: l.present.Quota, Burst: recommend.BurstOf(l.present), Scheduled: len(l.rule.Schedule) > 0,
		Requests: seen.Requests, Keys: seen.Keys(), KeysKnown: seen.Sampled(), OneIn: seen.Sample.OneIn(), Needs: recommend.NeedsOf(seen),
	}
	advice, err := recommend.Advise(l.present, seen, a.o.Wish)
	row.Needed = advice.Needed
	if err != nil {
		row.Why, _, _ = strings.Cut(err.Error(), "; hint: ")
		return row
	}
	l.other = advice.Limit
	row.Recommended, row.RecommendedBurst = l.other.Quota, recommend.BurstOf(l.other)
	return row
}

// prove finds whom the present limits and the others deny something. What a file has got since the
// survey is left out.
func (a *advising) prove(ctx context.Context) error {
	source := a.o.Source
	source.Until = a.Until.Add(time.Microsecond)
	var tried []recommend.Tried
	at := make([][]int, len(a.limits)) // of tried: the present limit, and the other one
	for i := range a.limits {
		l := &a.limits[i]
		if a.seen[i].Sampled() == 0 {
			continue
		}
		for _, one := range []*limit.Limit{l.present, l.other} {
			if one != nil {
				at[i] = append(at[i], len(tried))
				tried = append(tried, recommend.Tried{Limit: one, Sample: a.seen[i].Sample, Keys: a.seen[i].Sampled()})
			}
		}
	}
	proof := recommend.NewProof(tried)
	_, err := a.over(ctx, source, func(u *recommend.Use) {
		for _, n := range at[u.Limit] {
			use := *u
			use.Limit = n
			proof.Add(&use)
		}
	})
	if err != nil {
		return err
	}
	for i := range at {
		row := &a.Rows[i]
		for j, n := range at[i] {
			effect := recommend.EffectOf(proof.Of(n))
			if j == 0 {
				row.Now = effect
			} else {
				row.Then = effect
			}
		}
	}
	return nil
}

var (
	// ErrNoRequest is that nothing was asked in what was recorded.
	ErrNoRequest = errors.New("there is no request in what was recorded")
	// ErrNoRule is that no rule is for anything that was asked.
	ErrNoRule = errors.New("no rule is for any of the requests")
)

// Enough returns ErrNoRequest or ErrNoRule where there is too little in what was recorded to recommend anything.
func (r *Result) Enough() error {
	switch {
	case r.Requests == 0:
		return ErrNoRequest
	case r.Matched == 0:
		return ErrNoRule
	}
	return nil
}

// Wanted returns the candidates of the rules of which a limit should be another one.
func (r *Result) Wanted() (list []candidates.Wanted) {
	for i := 0; i < len(r.limits); {
		one, changes := candidates.Wanted{Rule: r.limits[i].rule.ID}, false
		for rule := r.limits[i].rule; i < len(r.limits) && r.limits[i].rule == rule; i++ {
			l := r.limits[i].present
			if r.Rows[i].Changes() {
				l, changes = r.limits[i].other, true
			}
			one.Limits = append(one.Limits, l)
		}
		if changes {
			list = append(list, one)
		}
	}
	return list
}

// WriteText writes r as text.
func (r *Result) WriteText(w io.Writer) error {
	const clock = "2006-01-02 15:04:05"
	fmt.Fprintf(w, "%d requests from %s to %s UTC, %d of them for no rule\n\n", r.Requests, r.From.Format(clock), r.Until.Format(clock), r.Requests-r.Matched)
	if err := r.Report.WriteText(w); err != nil {
		return err
	}
	for _, note := range r.Notes {
		if _, err := fmt.Fprintf(w, "\nnote: %s\n", note); err != nil {
			return err
		}
	}
	return nil
}
