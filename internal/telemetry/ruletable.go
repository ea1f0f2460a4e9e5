package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/rules"
)

// Values of the label rule that name no rule. Names and paths of rules have
// no parenthesis at their start.
const (
	callerRule   = "(caller)"   // all limits named by callers
	outdatedRule = "(outdated)" // rules no longer in force, decided while they were swapped
)

// counters holds the counters of one rule. Each is resolved once, since looking
// a series up by its labels costs more than the decision, and most of them only
// when they are needed, since a series that stays 0 costs as much as any other.
type counters struct {
	vec    *prometheus.CounterVec
	id     string
	series [outcomes]atomic.Pointer[prometheus.Counter]
}

// inc counts one outcome.
func (c *counters) inc(o outcome) {
	series := c.series[o].Load()
	if series == nil {
		resolved := c.vec.WithLabelValues(c.id, outcomeNames[o])
		series = &resolved
		c.series[o].Store(series) // whoever else resolves it gets the same one
	}
	(*series).Inc()
}

// show makes a series visible before its first event, so that a rate over the
// first one is right.
func (c *counters) show(o outcome) {
	series := c.vec.WithLabelValues(c.id, outcomeNames[o])
	c.series[o].Store(&series)
}

// generation maps the rules of one set to their counters. It is immutable.
type generation struct {
	byRule   map[*rules.Rule]*counters
	byID     map[string]*counters
	caller   *counters
	outdated *counters
	// previous serves the requests under way while the rules are swapped.
	previous map[*rules.Rule]*counters
}

func (g *generation) of(r *rules.Rule) *counters {
	if r == nil {
		return g.caller
	}
	if c, ok := g.byRule[r]; ok {
		return c
	}
	if c, ok := g.previous[r]; ok {
		return c
	}
	return g.outdated
}

// ruleTable holds the generation in force.
type ruleTable struct {
	vec     *prometheus.CounterVec
	current atomic.Pointer[generation]
	swap    sync.Mutex // held while a generation is made
}

func (t *ruleTable) init(vec *prometheus.CounterVec) {
	t.vec = vec
	t.current.Store(&generation{caller: t.counters(callerRule), outdated: t.counters(outdatedRule)})
}

func (t *ruleTable) load() *generation { return t.current.Load() }

func (t *ruleTable) counters(id string) *counters { return &counters{vec: t.vec, id: id} }

// set makes the rules of a set those in force. A rule that keeps its ID keeps
// its series; those of IDs that are gone are dropped here and from also.
func (t *ruleTable) set(inForce []*rules.Rule, also *prometheus.CounterVec) {
	t.swap.Lock()
	defer t.swap.Unlock()
	old := t.current.Load()
	next := &generation{
		byRule:   make(map[*rules.Rule]*counters, len(inForce)),
		byID:     make(map[string]*counters, len(inForce)),
		caller:   old.caller,
		outdated: old.outdated,
		previous: make(map[*rules.Rule]*counters, len(old.byRule)),
	}
	for _, r := range inForce {
		c, ok := old.byID[r.ID]
		if !ok {
			c = t.counters(r.ID)
			c.show(allowed)
			c.show(denied)
		}
		next.byRule[r], next.byID[r.ID] = c, c
	}
	for r, c := range old.byRule {
		if _, stays := next.byID[r.ID]; !stays {
			c = old.outdated
		}
		next.previous[r] = c
	}
	t.current.Store(next)
	for id := range old.byID {
		if _, stays := next.byID[id]; !stays {
			t.vec.DeletePartialMatch(prometheus.Labels{"rule": id})
			also.DeleteLabelValues(id)
		}
	}
}
