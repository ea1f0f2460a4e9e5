package accuracy

import (
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
)

const (
	// Span is the time up to now that Report.Recent is of; its oldest part, a sixtieth,
	// counts whole.
	Span = time.Hour
	// parts is how many parts it has.
	parts = 60
	// MaxRules bounds the rules that are measured, at 3 KB each: 50 MB. The first ones of
	// which a key is sampled are.
	MaxRules = 1 << 14
)

// Report says how exact the decisions on the main limits of a rule were on this node, for
// the keys that are sampled. The zero value says that nothing was measured.
type Report struct {
	// Counts are all of them.
	Counts
	// Recent are those of Span.
	Recent Counts
	// Last is the limit that was measured last, nil before: of a rule without limits of
	// its own, which tenants have in their place, nothing else tells what was compared.
	Last *limit.Limit
}

// Counts are decisions of limits that were compared with those of a reference, which
// counts what they let pass.
type Counts struct {
	// Decided are the decisions that were compared: what passed, and what the limit
	// denied.
	Decided int64
	// WrongAllowed are those that passed and the reference would have denied,
	// WrongDenied those that it would have let pass.
	WrongAllowed, WrongDenied int64
	// Missed are decisions of which the reference did not see what passed, because the
	// store did not answer.
	Missed int64
	// Overshoot is the most hits beyond a limit that the reference saw pass, as a share
	// of what the limit admits at one instant; up to 3 where the reference is a
	// sliding_log, else up to 60 at least.
	Overshoot float64
}

// add adds what else was compared.
func (c *Counts) add(o *Counts) {
	c.Decided += o.Decided
	c.WrongAllowed += o.WrongAllowed
	c.WrongDenied += o.WrongDenied
	c.Missed += o.Missed
	c.Overshoot = max(c.Overshoot, o.Overshoot)
}

// gauge is what was measured of one rule.
type gauge struct {
	mu    sync.Mutex
	total Counts
	parts [parts]part // by their number, modulo
	last  *limit.Limit
}

// part is what was measured in a part of Span, which has a number.
type part struct {
	number int64
	counts Counts
}

func partAt(now limit.Micros) int64 { return max(int64(now), 0) / (Span.Microseconds() / parts) }

// add counts what was compared of l.
func (g *gauge) add(counts *Counts, l *limit.Limit, now limit.Micros) {
	number := partAt(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.parts[number%parts]
	if p.number != number {
		*p = part{number: number}
	}
	p.counts.add(counts)
	g.total.add(counts)
	g.last = l
}

func (g *gauge) report(now limit.Micros) Report {
	number := partAt(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	r := Report{Counts: g.total, Last: g.last}
	for i := range g.parts {
		if p := &g.parts[i]; p.number > number-parts && p.number <= number {
			r.Recent.add(&p.counts)
		}
	}
	return r
}

// gauges are those of rules by their IDs.
type gauges struct {
	mu sync.RWMutex
	by map[string]*gauge
}

// find returns the gauge of a rule, nil if it has none.
func (g *gauges) find(rule string) *gauge {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.by[rule]
}

// of returns the gauge of a rule, a new one if it has none; nil if there are too many.
func (g *gauges) of(rule string) *gauge {
	if found := g.find(rule); found != nil {
		return found
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	found := g.by[rule]
	if found == nil && len(g.by) < MaxRules {
		if g.by == nil {
			g.by = make(map[string]*gauge)
		}
		found = new(gauge)
		g.by[rule] = found
	}
	return found
}

// forget drops the gauges of the rules that keep does not want.
func (g *gauges) forget(keep func(rule string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for rule := range g.by {
		if !keep(rule) {
			delete(g.by, rule)
		}
	}
}
