// Package explain says how a request would be decided now, and why: which descriptors of
// the rules were compared, which limits count, with what before and after, and the
// arithmetic of each in one line. Nothing is charged.
//
// It is a dry run (headgate.Limiter.DryRun), so what it says of a request is what that
// request would be told. All text is printable, whatever bytes a request brings.
package explain

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/verdict"
)

// Limiter is whose decisions are explained.
type Limiter interface {
	// Rules returns the rules in force, nil for none.
	Rules() *rules.Set
	// Switches returns what operators have switched, nil for nothing.
	Switches() *switches.Set
	// DryRun tells what Check would say, without charging anything.
	DryRun(ctx context.Context, req *headgate.Request, before, after *headgate.Response) error
}

// Request says how req, of which all descriptors are hits, would be decided by limiter
// now. It changes nothing, neither in the store nor in req. An error says what is wrong
// with req; a store that fails is explained, not returned.
func Request(ctx context.Context, limiter Limiter, req headgate.Request) (view.Explanation, error) {
	x := explainer{limiter: limiter, req: &req, set: limiter.Rules(), now: time.Now()}
	if x.set == nil {
		x.set = new(rules.Set)
	}
	if req.Hold == 0 {
		req.Hold = limit.NewHold() // as the ways in draw one
	}
	if err := limiter.DryRun(ctx, &req, &x.before, &x.after); err != nil {
		return view.Explanation{}, fmt.Errorf("explain: %w", err)
	}
	e := view.Explanation{
		Allowed: x.after.Allowed, Domain: printable(req.Domain), DomainKnown: x.after.DomainKnown,
		ConfigVersion: x.set.Version(), Descriptors: []view.ExplainedDescriptor{},
	}
	for i := range req.Descriptors {
		e.Descriptors = append(e.Descriptors, x.descriptor(i))
	}
	e.Unknown, e.Failure = x.unknown()
	e.Text = x.text(&e)
	return e, nil
}

// unknown reports whether the answer hangs on limits that the store did not decide, and by
// which failure modes they are decided. A limit that the store has counted and that denies
// leaves nothing open.
func (x *explainer) unknown() (unknown bool, failure string) {
	var modes []string
	for i := range x.after.Verdicts {
		v := &x.after.Verdicts[i]
		switch {
		case !v.Enforced():
		case v.Degraded == "" && !v.Decision.Allowed:
			return false, ""
		case v.Degraded != "":
			mode := rules.Open // that of limits which callers name
			if v.Rule != nil {
				mode = v.Rule.Failure
			}
			if !slices.Contains(modes, mode.String()) {
				modes = append(modes, mode.String())
			}
		}
	}
	return len(modes) > 0, strings.Join(modes, " and ")
}

// printable returns a name from a request as it is, or quoted if it is not printable.
func printable(name string) string {
	if quoted := strconv.QuoteToGraphic(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// explainer is the state of one call of Request.
type explainer struct {
	limiter       Limiter
	req           *headgate.Request
	set           *rules.Set
	now           time.Time
	before, after headgate.Response
}

// descriptor explains descriptor i.
func (x *explainer) descriptor(i int) view.ExplainedDescriptor {
	d := &x.req.Descriptors[i]
	e := view.ExplainedDescriptor{
		Descriptor: descriptor.Format(d.Entries), Hits: d.Hits, Steps: []view.ExplainStep{}, Limits: []view.ExplainedLimit{},
	}
	decided := map[*rules.Rule]bool{}
	for j := range x.after.Verdicts {
		if v := &x.after.Verdicts[j]; v.Descriptor == i {
			decided[v.Rule] = true
			e.Limits = append(e.Limits, x.limit(&x.before.Verdicts[j], v))
		}
	}
	if d.Limit != nil {
		e.Ended = "the caller names the limit, so no rule is looked for"
		return e
	}
	walk := describe.Explain(x.set, x.req.Domain, d.Entries, x.now)
	e.Ended = walk.End
	for depth := range walk.Steps {
		e.Steps = append(e.Steps, steps(depth+1, &walk.Steps[depth])...)
	}
	for _, a := range walk.Passed {
		e.Notes = append(e.Notes, fmt.Sprintf("%s does not apply: %s", a.Rule.ID, a.Why))
	}
	for _, a := range walk.Applies {
		switch r := a.Rule; {
		case decided[r] || r.Always && i > 0:
		case x.limiter.Switches() != nil && (r.Unlimited || len(r.Limits) > 0):
			e.Notes = append(e.Notes, r.ID+" applies and decides nothing: it is switched off")
		default:
			e.Notes = append(e.Notes, r.ID+" applies and limits nothing by itself")
		}
	}
	return e
}

// steps are the comparisons for one entry.
func steps(depth int, s *describe.Step) []view.ExplainStep {
	entry := descriptor.Format([]descriptor.Entry{s.Entry})
	if len(s.Tries) == 0 {
		return []view.ExplainStep{{Depth: depth, Entry: entry, Note: s.Note}}
	}
	var list []view.ExplainStep
	for _, try := range s.Tries {
		step := view.ExplainStep{Depth: depth, Entry: entry, Tried: try.Descriptor, Matched: try.Chosen, Note: try.Why}
		if try.Descriptor != "" {
			step.Note += fmt.Sprintf(" (%s:%d)", try.File, try.Line)
		}
		list = append(list, step)
	}
	return list
}

// limit explains one limit, by the verdicts of it before and after.
func (x *explainer) limit(before, after *headgate.Verdict) view.ExplainedLimit {
	if after.Source.Beyond() {
		before = unspent(after)
	}
	var room [8]descriptor.Entry
	e := view.ExplainedLimit{
		Name: after.Name, Role: after.Role.String(), Limit: limitText(after), Source: after.Source.String(), Tier: after.Tier,
		Key:      string(keyname.AppendText(nil, after.Entries(room[:0], x.req))),
		Enforced: after.Enforced(), Shadow: x.inShadow(after), Degraded: string(after.Degraded), Allowed: after.Decision.Allowed,
		Before: counters(before), After: counters(after), Notes: x.notes(after),
	}
	e.After.RetryAfterMS = milliseconds(after.Decision.RetryAfter)
	if r := after.Rule; r == nil {
		e.Source = "caller"
	} else {
		e.Rule, e.File, e.Line = r.ID, r.File, r.Line
		if r.Mode != (rules.Mode{}) {
			e.Promise = describe.Promise(r, 0)
		}
		if r.Always {
			e.Key = "every request"
		}
	}
	e.Arithmetic = x.arithmetic(before, after)
	return e
}

// inShadow reports whether the rule of v is in shadow mode. Of a limit on trial the other
// limits of its rule tell, of which one is not.
func (x *explainer) inShadow(v *headgate.Verdict) bool {
	if v.Effect != verdict.Trial {
		return v.Effect == verdict.RuleShadow
	}
	return slices.ContainsFunc(x.after.Verdicts, func(o headgate.Verdict) bool {
		return o.Rule == v.Rule && o.Descriptor == v.Descriptor && o.Effect == verdict.RuleShadow
	})
}

// unspent returns the verdict v of what a tenant has beyond its quota, as it was before.
func unspent(v *headgate.Verdict) *headgate.Verdict {
	u := *v
	if u.Decision.Allowed {
		u.Decision.Remaining += u.Hits
	}
	return &u
}

func limitText(v *headgate.Verdict) string {
	switch {
	case v.By == verdict.ByReplacement:
		return "replaced"
	case v.Limit == nil:
		return "unlimited"
	}
	if v.Role == rules.Sustained {
		return (&rules.NamedLimit{Limit: v.Limit, Name: v.Name, Role: v.Role}).String()
	}
	return rules.LimitText(v.Limit)
}

// counters are those that v tells of; none where nothing was counted.
func counters(v *headgate.Verdict) view.Counters {
	d := &v.Decision
	if !v.Counted() {
		return view.Counters{}
	}
	return view.Counters{Limit: d.Limit, Used: max(d.Limit-d.Remaining, 0), Remaining: d.Remaining, ResetMS: milliseconds(d.ResetAfter)}
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// notes are what there is to say of v beside its arithmetic.
func (x *explainer) notes(v *headgate.Verdict) (notes []string) {
	note := func(holds bool, format string, args ...any) {
		if holds {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	r := v.Rule
	if r == nil {
		return nil
	}
	if standing := standing(v); standing != "" {
		notes = append(notes, standing)
	}
	note(v.Tenant > 0 && v.Tier != "", "the tenant is in tier %s", v.Tier)
	note(v.Source.Beyond(), "the quota of the tenant denies, and its %v has what is missing", v.Source)
	if v.Role.IsMain() && !v.Source.Beyond() {
		schedule := describe.ScheduleText(r, x.now)
		note(schedule != "", "%s", schedule)
	}
	note(v.Raised > 0, "the limit is raised by %d %% for a time, by an operator (headgate switch list) or because the key is hot (raise_hot_keys)", v.Raised)
	note(r.Quota && v.Role == rules.Main, "one of the quota rules of the request: they deny when all of them are over")
	note(r.Cost.Source != rules.CostHits && v.Role != rules.InFlight, "the cost is %v", r.Cost)
	note(v.Role == rules.InFlight, "a slot is held while a request runs")
	note(v.Role == rules.Sustained, "it counts the time that requests are in flight, in milliseconds, when they end")
	note(v.Role == rules.Banning, "it counts denials of the other limits of the rule, and no hits")
	return notes
}

// standing says why v is not enforced, or is though its rule says else; "" where there is
// nothing to say.
func standing(v *headgate.Verdict) string {
	switch {
	case v.Effect == verdict.Trial && v.Role == rules.Candidate:
		return "a candidate that watches: it counts what it would do, and denies nobody"
	case v.Effect == verdict.Trial:
		return "the candidate of the rule is enforced in its place for this request; it only counts"
	case v.Role == rules.Candidate && v.Enforced():
		return "a candidate that is enforced in place of the main limits"
	case v.Rule.Shadow && v.Effect == verdict.RuleShadow:
		return "the rule is in shadow mode: it counts, and denies nobody"
	case v.Effect == verdict.RuleShadow:
		return "switched into shadow mode: it counts, and denies nobody"
	case !v.Enforced():
		return "nothing is enforced by this process: it counts, and denies nobody"
	case v.Rule.Shadow:
		return "the rule is in shadow mode, and switched on"
	}
	return ""
}

// arithmetic says in one line of numbers why the limit of a verdict says what it says.
func (x *explainer) arithmetic(before, after *headgate.Verdict) string {
	d := &before.Decision
	switch {
	case after.By == verdict.ByReplacement:
		return "another rule of the request takes its place"
	case after.Limit == nil:
		return "nothing is counted: allowed"
	case after.By == verdict.ByLocalWhole && !after.Decision.Allowed:
		return fmt.Sprintf("the store does not answer (%s), and this node alone has let the whole limit pass: denied", after.Degraded)
	case !after.Counted():
		mode := rules.Open
		if after.Rule != nil {
			mode = after.Rule.Failure
		}
		return fmt.Sprintf("the store does not answer (%s), failure mode %v: %s", after.Degraded, mode, word(after.Decision.Allowed))
	}
	line := account(after.Limit, d)
	if after.By == verdict.ByLocalShare {
		line = fmt.Sprintf("the store does not answer (%s), so the share of this node counts: %s", after.Degraded, line)
	}
	if after.Hits == 0 {
		return line + "; nothing asked"
	}
	return line + "; " + x.verdict(d, after)
}

// account says what a bucket holds.
func account(l *limit.Limit, d *limit.Decision) string {
	used := d.Limit - d.Remaining
	resets := ""
	if d.ResetAfter > 0 {
		resets = " in " + span(d.ResetAfter)
	}
	switch l.Algorithm {
	case limit.Concurrency:
		return fmt.Sprintf("%d of %d slots taken", used, d.Limit)
	case limit.Ban:
		if d.Remaining == 0 {
			return "banned for " + span(d.ResetAfter)
		}
		return fmt.Sprintf("%d of %d denials, no ban", used, d.Limit)
	}
	line := fmt.Sprintf("%v: %d of %d used", l.Algorithm, used, d.Limit)
	if used == 0 && resets == "" {
		return line
	}
	switch l.Algorithm {
	case limit.FixedWindow:
		return line + ", the window ends" + resets
	case limit.SlidingWindow:
		return line + " by this window and what is left of the one before, none" + resets
	case limit.SubWindows, limit.SlidingLog:
		return line + " by the last " + rules.DurationText(l.Period) + ", none" + resets
	}
	num, den := l.EmissionInterval()
	each := time.Duration(float64(num) / float64(den) * float64(time.Microsecond))
	return line + ", one drains each " + span(each) + ", all" + resets
}

// verdict says what becomes of the hits that are asked for.
func (x *explainer) verdict(d *limit.Decision, after *headgate.Verdict) string {
	a, hits := &after.Decision, after.Hits
	switch after.Limit.Algorithm {
	case limit.Ban:
		if a.Allowed {
			return "allowed"
		}
		return "denied, retry after " + span(a.RetryAfter)
	case limit.Concurrency:
		if a.Allowed {
			return fmt.Sprintf("1 asked <= %d free: allowed", d.Remaining)
		}
		if a.Never {
			return "none free: denied, and never fits"
		}
		return "none free: denied until a slot is released, in " + span(a.RetryAfter) + " at the latest"
	}
	sum := fmt.Sprintf("%d asked -> %d", hits, d.Limit-d.Remaining+hits)
	switch {
	case a.Allowed && d.Remaining == a.Remaining:
		return fmt.Sprintf("%s <= %d: allowed, and charged nothing, because the request is denied", sum, d.Limit)
	case a.Allowed:
		return fmt.Sprintf("%s <= %d: allowed, %d left", sum, d.Limit, a.Remaining)
	case a.Never:
		return fmt.Sprintf("%s > %d: denied, and never fits", sum, d.Limit)
	}
	return fmt.Sprintf("%s > %d: denied, retry after %s", sum, d.Limit, span(a.RetryAfter))
}

func word(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// span rounds up a time as people read it: to the millisecond, of a second and more to
// the tenth.
func span(d time.Duration) string {
	unit := time.Microsecond
	switch {
	case d >= time.Second:
		unit = 100 * time.Millisecond
	case d >= time.Millisecond:
		unit = time.Millisecond
	}
	return rules.DurationText((d + unit - 1) / unit * unit)
}
