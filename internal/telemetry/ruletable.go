package telemetry

import (
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/verdict"
)

// Values of the label rule that name no rule. Names and paths of rules have
// no parenthesis at their start.
const (
	callerRule   = "(caller)"   // all limits named by callers
	outdatedRule = "(outdated)" // rules no longer in force, decided while they were swapped
)

// counts is what the limits of one rule have said.
type counts struct {
	outcomes [verdict.OfLimits]uint64
	// burst counts denials by limits that have a burst, which is used up.
	burst uint64
	// hot counts keys that became hot.
	hot uint64
	// remaining is what the last decision that was looked at has left, and looked its
	// number among those; 0: none was.
	remaining int64
	looked    uint64
	// retries are what denied requests were told to wait for which the rule spoke, between
	// ruleRetryBounds and above; retry is their sum.
	retries [len(ruleRetryBounds) + 1]uint64
	retry   time.Duration
	// shares are those of its limits that were left, between ruleRemainingBounds and above;
	// left is their sum.
	shares [len(ruleRemainingBounds) + 1]uint64
	left   float64
}

// ruleRetryBounds and ruleRemainingBounds are those of the histograms by rule. They are few, because
// each is a series of every rule.
var (
	ruleRetryBounds     = [...]time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}
	ruleRemainingBounds = [...]float64{0, 0.1, 0.25, 0.5}
)

// retryAfter counts what a denied client is told to wait.
func (c *counts) retryAfter(wait time.Duration) {
	c.retries[bucketOf(ruleRetryBounds[:], wait)]++
	c.retry += wait
}

// share counts the share of a limit that is left.
func (c *counts) share(left float64) {
	c.shares[bucketOf(ruleRemainingBounds[:], left)]++
	c.left += left
}

func (c *counts) add(other *counts) {
	sum(c.outcomes[:], other.outcomes[:])
	sum(c.retries[:], other.retries[:])
	sum(c.shares[:], other.shares[:])
	c.retry += other.retry
	c.left += other.left
	c.burst += other.burst
	c.hot += other.hot
	if other.looked > c.looked {
		c.remaining, c.looked = other.remaining, other.looked
	}
}

// row is what one stripe has counted of a rule; rule is nil in the last two rows, those
// of callerRule and outdatedRule.
type row struct {
	rule *rules.Rule
	// plain is rule where of a limit that lets pass nothing is counted but that; else nil.
	plain *rules.Rule
	counts
}

// generation is the rules of one set, as rows. It is immutable but for what it carries,
// which stripes.swap guards.
type generation struct {
	// rules are those in force, by their index, which is that of their rows.
	rules []*rules.Rule
	byID  map[string]int
	// late has the rows of the rules of the set before, for the requests under way
	// while they are swapped.
	late map[*rules.Rule]int
	// carried is what was counted before the generation began, by row.
	carried []counts
	// hits are the carried hits, by row; nil unless they are counted.
	hits []hits
}

// next returns the generation of inForce that follows g. Rules are the same when their IDs
// are.
func (g *generation) next(inForce []*rules.Rule) *generation {
	next := &generation{
		rules:   inForce,
		byID:    make(map[string]int, len(inForce)),
		late:    make(map[*rules.Rule]int, len(g.rules)),
		carried: make([]counts, len(inForce)+2),
	}
	for i, r := range inForce {
		next.byID[r.ID] = i
	}
	for _, r := range g.rules {
		if i, stays := next.byID[r.ID]; stays {
			next.late[r] = i
		}
	}
	if g.hits != nil {
		next.hits = make([]hits, len(next.carried))
	}
	return next
}

// caller and outdated are the rows beside those of rules.
func (g *generation) caller() int   { return len(g.rules) }
func (g *generation) outdated() int { return len(g.rules) + 1 }

// rows returns the rows of a stripe, and its hits if they are counted, which have counted
// nothing.
func (g *generation) rows() ([]row, []hits) {
	rows := make([]row, len(g.carried))
	for i, r := range g.rules {
		rows[i].rule = r
		if r.Soft == nil && g.hits == nil {
			rows[i].plain = r
		}
	}
	if g.hits == nil {
		return rows, nil
	}
	return rows, make([]hits, len(rows))
}

// id returns the value of the label rule of a row.
func (g *generation) id(i int) string {
	switch i {
	case g.caller():
		return callerRule
	case g.outdated():
		return outdatedRule
	}
	return g.rules[i].ID
}

// heirs returns, for each row of the generation before, the row of g that takes it over;
// -1 for that of a rule that is gone.
func (g *generation) heirs(before *generation) []int {
	heirs := make([]int, len(before.carried))
	for i := range heirs {
		heirs[i] = -1
		switch i {
		case before.caller():
			heirs[i] = g.caller()
		case before.outdated():
			heirs[i] = g.outdated()
		default:
			if heir, stays := g.byID[before.rules[i].ID]; stays {
				heirs[i] = heir
			}
		}
	}
	return heirs
}

// lateRow returns the row of a rule that is not in force.
func (g *generation) lateRow(r *rules.Rule) int {
	if i, known := g.late[r]; known {
		return i
	}
	return g.outdated()
}
