package httpanswer

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// memoVerdicts bounds the verdicts of answers whose policies are remembered.
const memoVerdicts = 4

// memo is a RateLimit-Policy: nearly all answers of a front list the same limits.
type memo struct {
	generation Generation
	count      int
	of         [memoVerdicts]policySource
	value      string
	// name and quota are what RateLimit begins with and what X-RateLimit-Limit is where
	// count is 1.
	name, quota string
}

// tellsOne reports whether m is there and about one limit, so that name and quota are those of
// whatever is told.
func (m *memo) tellsOne() bool { return m != nil && m.count == 1 }

// policySource is all that a policy is made of. Limits and rules are immutable.
type policySource struct {
	limit *limit.Limit
	rule  *rules.Rule
	name  string
	quota int64
	role  rules.Role
}

// missesToForget is how many answers have other policies before these are
// remembered in place of the last: where answers alternate, remembering each
// would cost more than it saves.
const missesToForget = 32

// remember notes that verdicts, of which told is the one that RateLimit speaks of,
// make value in a generation. It is not empty.
func (e *Encoder) remember(verdicts []headgate.Verdict, told *headgate.Verdict, g Generation, value []byte) {
	if e.policy.Load() != nil && e.misses.Add(1)%missesToForget != 0 {
		return
	}
	m := &memo{generation: g}
	var last *headgate.Verdict
	for i := range verdicts {
		v := &verdicts[i]
		if !listed(v, told) {
			continue
		}
		if m.count == memoVerdicts {
			return
		}
		m.of[m.count] = policySource{v.Limit, v.Rule, v.Name, v.Decision.Limit, v.Role}
		m.count++
		last = v
	}
	m.value = string(value)
	if m.count == 1 {
		var w Writer
		w.quoted(nameOfLimit(last))
		name := len(w.text)
		w.integer(max(m.of[0].quota, 0))
		m.name, m.quota = string(w.text[:name]), string(w.text[name:])
	}
	e.policy.Store(m)
}

// remembers reports whether the value of m is that of verdicts in a generation.
func (m *memo) remembers(verdicts []headgate.Verdict, told *headgate.Verdict, g Generation) bool {
	if m.generation != g {
		return false
	}
	at := 0
	for i := range verdicts {
		v := &verdicts[i]
		if !listed(v, told) {
			continue
		}
		if at == m.count {
			return false
		}
		of := &m.of[at]
		if of.limit != v.Limit || of.rule != v.Rule || of.quota != v.Decision.Limit || of.name != v.Name || of.role != v.Role {
			return false
		}
		at++
	}
	return at == m.count
}
