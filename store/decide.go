package store

import "github.com/headgate/headgate/limit"

// Decide decides t, as if it stood alone, on a bucket that holds s at now, and
// returns the state to store and the answer. It says which function of package
// limit stands behind each Op; a store that decides elsewhere, such as in a script,
// gives the same answers. As limit.Decide, it may reuse the memory of s.Wide when
// it changes the state.
func (t *Take) Decide(s limit.State, now limit.Micros) (limit.State, limit.Decision) {
	if t.Op == Reset {
		return limit.Decide(t.Limit, limit.State{}, now, 0)
	}
	if t.Limit.Algorithm == limit.Concurrency {
		return t.decideSlots(s, now)
	}
	switch t.Op {
	case Hit:
		return limit.Decide(t.Limit, s, now, t.Hits)
	case Refund:
		return limit.Refund(t.Limit, s, now, t.Hits)
	case Charge:
		return limit.Charge(t.Limit, s, now, t.Hits)
	}
	return limit.Decide(t.Limit, s, now, 0)
}

// decideSlots is Decide for concurrency, but for a Reset.
func (t *Take) decideSlots(s limit.State, now limit.Micros) (limit.State, limit.Decision) {
	switch {
	case t.Op == Hit && t.Hits > 0:
		return limit.Acquire(t.Limit, s, now, t.Hold)
	case t.Op == Renew:
		return limit.Renew(t.Limit, s, now, t.Hold)
	case t.Op == Release, t.Op == Refund && t.Hits > 0:
		return limit.Release(t.Limit, s, now, t.Hold)
	}
	return limit.Decide(t.Limit, s, now, 0)
}

// Undo returns the take that gives back what t, a hit that stood alone and passed,
// has charged: a Refund, which frees a slot too. Of a ban, where a hit charges
// nothing and a refund would take denials back, it is a peek.
func (t *Take) Undo() Take {
	u := Take{Key: t.Key, Limit: t.Limit, Hits: t.Hits, Hold: t.Hold, Op: Refund, DryRun: t.DryRun, Mode: t.Mode}
	if t.Limit.Algorithm == limit.Ban {
		u.Op, u.Hits = Hit, 0
	}
	return u
}
