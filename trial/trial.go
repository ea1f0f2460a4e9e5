// Package trial counts what the candidate limits of rules would change, and says when one
// is to be taken back. It knows neither requests nor stores: whoever decides tells it what
// a request came to.
package trial

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// Report says how the candidate limits of a rule compare with its main ones on one node.
// Requests count that the rule alone decided: neither another rule nor a limit of another
// kind denied them, as far as these were looked at, and the store did not fail.
type Report struct {
	// Rule is the ID of the rule, Domain its domain.
	Rule, Domain string
	// Limits are the main limits and Candidate the candidate ones, as people read them.
	Limits, Candidate string
	// Percent and Tenants say for whom the candidate is enforced in place of the main
	// limits; the caller must not change Tenants.
	Percent int
	Tenants []descriptor.Entry
	// Over is the span of time up to now that the counts are of; the oldest part of
	// it, a sixtieth, counts whole.
	Over time.Duration
	// Decided are the requests in that time, Denied those that the main limits deny
	// and CandidateDenied those that the candidate denies, whichever is enforced.
	Decided, Denied, CandidateDenied int64
	// Added are those that the candidate alone denies, Avoided those that the main
	// limits alone do.
	Added, Avoided int64
	// AddedPercent is Added as a share of Decided, 0 when there is none.
	AddedPercent float64
	// RolledBack is when this node stopped enforcing the candidate by itself; zero if
	// it did not.
	RolledBack time.Time
}

// parts is how many parts the span of a Counter has.
const parts = 60

// Counter is what one node has counted for the candidate of a rule. It is safe for
// concurrent use. Make them with Counters.
type Counter struct {
	subject
	// rolledBack is the limit.Micros at which the candidate was taken back, 0 if it
	// was not.
	rolledBack atomic.Int64

	mu    sync.Mutex
	parts [parts]tally // by the number of the part, modulo
	sum   tally
	part  int64 // the number of the latest part
	begun bool
}

// subject is what is tried out.
type subject struct {
	rule, domain, limits, candidate string
	trial                           *rules.Trial
}

func subjectOf(r *rules.Rule) subject {
	return subject{r.ID, r.Domain, textOf(r, rules.Main), textOf(r, rules.Candidate), r.Trial}
}

// textOf returns the limits of r with a role, joined.
func textOf(r *rules.Rule, role rules.Role) string {
	var texts []string
	for i := range r.Limits {
		if r.Limits[i].Role == role {
			texts = append(texts, rules.LimitText(r.Limits[i].Limit))
		}
	}
	return strings.Join(texts, " and ")
}

// Counters returns the counters of a list of rules by their index, nil for those without
// candidates. Those of before, in any order, that try the same out go on.
func Counters(list []*rules.Rule, before []*Counter) []*Counter {
	counters := make([]*Counter, len(list))
	var old map[string]*Counter
	for i, r := range list {
		if r.Trial == nil {
			continue
		}
		if old == nil {
			old = byRule(before)
		}
		s := subjectOf(r)
		if c := old[r.ID]; c != nil && reflect.DeepEqual(c.subject, s) {
			counters[i] = c
		} else {
			counters[i] = &Counter{subject: s}
		}
	}
	return counters
}

func byRule(counters []*Counter) map[string]*Counter {
	by := make(map[string]*Counter)
	for _, c := range counters {
		if c != nil {
			by[c.rule] = c
		}
	}
	return by
}

// RolledBack reports whether the candidate was taken back.
func (c *Counter) RolledBack() bool { return c.rolledBack.Load() != 0 }

// Count counts a request that the main limits, and the candidate, denied or not, and
// reports whether the candidate is taken back by it.
func (c *Counter) Count(denied, candidateDenied bool, now limit.Micros) bool {
	one := outcome(denied, candidateDenied)
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.countedLocked(now)
	sum.add(one, 1)
	c.parts[c.part%parts].add(one, 1)
	back := c.trial.RollBack
	if back == nil || c.trial.Watches() || sum.decided < back.MinRequests || c.RolledBack() ||
		sum.added*percentScale <= back.Above*sum.decided {
		return false
	}
	c.rolledBack.Store(int64(now))
	return true
}

// percentScale is what a share is multiplied by to be in thousandths of a percent.
const percentScale = 100 * 1000

// Report returns what is known at now.
func (c *Counter) Report(now limit.Micros) Report {
	c.mu.Lock()
	sum := *c.countedLocked(now)
	c.mu.Unlock()
	r := Report{
		Rule: c.rule, Domain: c.domain, Limits: c.limits, Candidate: c.candidate,
		Percent: c.trial.Percent, Tenants: c.trial.Tenants, Over: c.trial.Over(),
		Decided: sum.decided, Denied: sum.denied, CandidateDenied: sum.candidateDenied, Added: sum.added, Avoided: sum.avoided,
	}
	if sum.decided > 0 {
		r.AddedPercent = 100 * float64(sum.added) / float64(sum.decided)
	}
	if at := c.rolledBack.Load(); at != 0 {
		r.RolledBack = limit.Micros(at).Time()
	}
	return r
}

// countedLocked returns what is counted in the span up to now. A clock that steps back
// counts into the latest part; one that steps back by a span or more begins anew.
func (c *Counter) countedLocked(now limit.Micros) *tally {
	part := int64(now) / max(c.trial.Over().Microseconds()/parts, 1)
	if gone := part - c.part; !c.begun || gone >= parts || gone <= -parts {
		c.parts, c.sum, c.begun, c.part = [parts]tally{}, tally{}, true, part
	}
	for ; c.part < part; c.part++ {
		oldest := &c.parts[(c.part+1)%parts]
		c.sum.add(*oldest, -1)
		*oldest = tally{}
	}
	return &c.sum
}

// tally is what requests in a trial came to.
type tally struct{ decided, denied, candidateDenied, added, avoided int64 }

// add adds n times o.
func (t *tally) add(o tally, n int64) {
	t.decided += n * o.decided
	t.denied += n * o.denied
	t.candidateDenied += n * o.candidateDenied
	t.added += n * o.added
	t.avoided += n * o.avoided
}

// outcome returns the tally of one request.
func outcome(denied, candidateDenied bool) tally {
	t := tally{decided: 1}
	switch {
	case denied && candidateDenied:
		t.denied, t.candidateDenied = 1, 1
	case denied:
		t.denied, t.avoided = 1, 1
	case candidateDenied:
		t.candidateDenied, t.added = 1, 1
	}
	return t
}
