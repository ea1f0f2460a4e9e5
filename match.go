package headgate

import (
	"slices"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// matcher finds what applies to requests: rules, quotas of tenants, and what operators
// have switched. It makes no keys and asks no store.
type matcher struct {
	rules   *ruleset
	tenants *tenant.Snapshot
	// switches are what operators have switched; nil: nothing.
	switches *switches.Set
	// keyRaises says which hot keys are raised; nil: none.
	keyRaises KeyRaises
	clock     func() time.Time
	// shadow says that this process enforces nothing.
	shadow bool
	// now is the instant for which tenants and switches are looked up, one for the
	// whole batch; 0 until it is needed.
	now limit.Micros

	// request is the one that was matched last, and matches are what was found.
	request *Request
	matches []match
	// anyReplaces says that a rule in matches takes the place of others.
	anyReplaces bool
	// matched, rest and grants are working memory: the rules that apply to a descriptor, its
	// entries after the tenant that name a quota, and the top-ups for that.
	matched []rules.Matched
	rest    []descriptor.Entry
	grants  []*tenant.Grant
	// asked is what switches are asked about descriptor askedOf-1 of the request.
	asked   switches.Asked
	askedOf int
}

// reset drops all but working memory, and what is in force: begin writes that anew. What matched
// may stay in working memory, as takes do (batch.empty): it refers to rules and to tenants. Each field
// is written by itself, because a pointer that is written costs most while garbage is collected.
func (x *matcher) reset() {
	clear(x.rest)
	x.matches, x.matched, x.rest = x.matches[:0], x.matched[:0], x.rest[:0]
	x.now, x.request, x.anyReplaces = 0, nil, false
	if x.askedOf != 0 {
		x.asked, x.askedOf = switches.Asked{}, 0
	}
}

// match is a rule that applies to a descriptor of the request being planned.
type match struct {
	rules.Matched
	descriptor int
	// innermost says that no rule further in applies to the descriptor.
	innermost bool
	effect    verdict.Effect
	stance    stance
	grant
}

func (x *matcher) domain(name string) *rules.Domain {
	if x.rules.set == nil {
		return nil
	}
	return x.rules.set.Domain(name)
}

// find collects the rules that apply to each descriptor of req, in the order of
// the descriptors; the rules that always apply come first and speak for
// descriptor 0.
func (x *matcher) find(domain *rules.Domain, req *Request) {
	x.request, x.askedOf = req, 0
	x.matches, x.anyReplaces = x.matches[:0], false
	if domain == nil {
		return
	}
	for _, rule := range domain.Always {
		if rule.InForce(x.clock) {
			m := x.newMatch()
			m.Rule = rule
			x.addMatch(m)
		}
	}
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		if d.Limit != nil {
			continue
		}
		x.matched = domain.AppendMatches(x.matched[:0], d.Entries, x.clock)
		if x.matchTenant(domain, i, d.Entries) {
			continue
		}
		for j := range x.matched {
			m := x.newMatch()
			m.Matched, m.descriptor, m.innermost = x.matched[j], i, j == len(x.matched)-1
			x.addMatch(m)
		}
	}
}

// instant is the one for which the whole batch is decided, as far as no store says
// another.
func (x *matcher) instant() limit.Micros {
	if x.now == 0 {
		x.now = limit.MicrosOf(x.clock())
	}
	return x.now
}

// newMatch returns an unused match, which is one of matches once addMatch has added it. Matches,
// takes and verdicts are filled in where they are: copying what has just been written by small
// fields makes the processor wait for it.
func (x *matcher) newMatch() *match {
	n := len(x.matches)
	x.matches = append(x.matches, match{})[:n]
	return &x.matches[:n+1][n]
}

// addMatch adds m, which newMatch has returned last, unless it is switched off.
func (x *matcher) addMatch(m *match) {
	shadow := m.Rule.Shadow
	if x.switches != nil {
		if state, ok := x.switches.Of(x.askedFor(m)); ok {
			if state == switches.Off && charges(x.request.Descriptors[m.descriptor].Op) {
				return
			}
			shadow = state != switches.On
		}
	}
	m.effect = x.effect(shadow)
	m.stance = x.stanceOf(m)
	x.anyReplaces = x.anyReplaces || len(m.Rule.Replaces) > 0
	x.matches = x.matches[:len(x.matches)+1]
}

// effect returns how a limit counts, given whether its rule is in shadow mode.
func (x *matcher) effect(shadow bool) verdict.Effect {
	switch {
	case shadow:
		return verdict.RuleShadow
	case x.shadow:
		return verdict.AllShadow
	}
	return verdict.Enforced
}

// replaced reports whether a rule that matched the same request takes the place
// of the limits called name.
func (x *matcher) replaced(name string) bool {
	if name == "" || !x.anyReplaces {
		return false
	}
	for i := range x.matches {
		if slices.Contains(x.matches[i].Rule.Replaces, name) {
			return true
		}
	}
	return false
}

// stanceOf returns what the candidate limits of m are to the request being planned.
func (x *matcher) stanceOf(m *match) stance {
	t := x.rules.trials[m.Rule.Index()]
	if t == nil || m.quota != nil {
		return noCandidate
	}
	asked := x.askedFor(m)
	state, switched := x.switches.OfCandidate(asked)
	switch {
	case switched && state == switches.Off:
		return noCandidate
	case switched && state == switches.Shadow, t.RolledBack() && !switched:
		return watches
	}
	if asked.Share < m.Rule.Trial.Percent || slices.ContainsFunc(x.request.Descriptors[m.descriptor].Entries, func(e descriptor.Entry) bool {
		return slices.Contains(m.Rule.Trial.Tenants, e)
	}) {
		return stands
	}
	return watches
}

// askedFor returns what switches and canaries are asked about m: the tenant that its
// descriptor names, and the share of that tenant. Where no rule says which entry that
// is, it is one that has a switch, and the share is that of the whole descriptor.
func (x *matcher) askedFor(m *match) *switches.Asked {
	if x.askedOf != m.descriptor+1 {
		x.askedOf = m.descriptor + 1
		entries := x.request.Descriptors[m.descriptor].Entries
		x.asked = switches.Asked{Now: x.instant()}
		if by, ok := x.domain(m.Rule.Domain).Tenant(entries, x.clock); ok {
			entries = entries[by.Depth-1 : by.Depth]
			x.asked.Tenant = entries[0]
		} else if i := slices.IndexFunc(entries, x.switches.Names); i >= 0 {
			x.asked.Tenant = entries[i]
		}
		x.asked.Share = switches.ShareOf(entries)
	}
	x.asked.Rule = m.Rule.ID
	return &x.asked
}

// callerLimits returns what the switches make of limits that callers name.
func (x *matcher) callerLimits(op store.Op) switches.State {
	if x.switches == nil {
		return switches.On
	}
	state, _ := x.switches.Of(&switches.Asked{Now: x.instant()})
	if state == switches.Off && !charges(op) {
		return switches.Shadow
	}
	return state
}

// charges reports whether op is for hits that a limit which is off does not count.
func charges(op store.Op) bool { return op == store.Hit || op == store.Charge }
