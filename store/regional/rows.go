package regional

import (
	"time"

	"github.com/headgate/headgate/store"
)

// MaxRules bounds the rules that are counted one by one; takes of those beyond are counted
// in Stats alone.
const MaxRules = 1 << 12

// RuleStats is what was counted of the takes of one rule (store.Mode.Rule).
type RuleStats struct {
	Rule string
	Counts
	// ReserveLeft is which part of it the reserve of this region had left after the takes of
	// the last LevelSpan, for the key that had the least left: from 0 to 1. LevelKnown says that
	// there were such takes.
	ReserveLeft float64
	LevelKnown  bool
}

// LevelSpan is of how long RuleStats.ReserveLeft is at most, and half of it at least.
const LevelSpan = 20 * time.Second

// row counts the takes of one rule in one shard.
type row struct {
	rule string // "" is that of takes that have no row of their own
	Counts
	level level
}

// level is the least that was left of something in the last two spans of half a LevelSpan,
// as a part of it. The zero value knows nothing.
type level struct {
	span          time.Duration // the number of the present one, from 1 on
	least, before float64
	known, was    bool // least and before are of takes
}

// turn begins the span of now.
func (l *level) turn(now time.Duration) {
	span := now/(LevelSpan/2) + 1
	switch {
	case span <= l.span: // also where another call has read the clock later
		return
	case span == l.span+1:
		l.before, l.was = l.least, l.known
	default:
		l.was = false
	}
	l.span, l.known = span, false
}

// note tells that left of whole is left at now.
func (l *level) note(left, whole int64, now time.Duration) {
	if whole <= 0 {
		return
	}
	l.turn(now)
	part := min(max(float64(left)/float64(whole), 0), 1)
	if !l.known || part < l.least {
		l.least, l.known = part, true
	}
}

// at returns the least at now; false where nothing is known.
func (l *level) at(now time.Duration) (least float64, known bool) {
	l.turn(now)
	switch {
	case l.known && l.was:
		return min(l.least, l.before), true
	case l.known:
		return l.least, true
	}
	return l.before, l.was
}

// row returns where takes of a rule are counted. The lock of sh is held.
func (sh *shard) row(rule string) *row {
	if rule == "" {
		return &sh.rest
	}
	r := sh.rows[rule]
	if r == nil {
		if len(sh.rows) >= MaxRules {
			return &sh.rest
		}
		r = &row{rule: rule}
		sh.rows[rule] = r
	}
	return r
}

// rowOf returns where t is counted, whose bucket is b if there is one. The lock of sh is held.
func (sh *shard) rowOf(t *store.Take, b *bucket) *row {
	switch {
	case b != nil:
		return b.row
	case t.Mode == nil:
		return &sh.rest
	}
	return sh.row(t.Mode.Rule)
}

// rowOfErrand returns where e is counted. The lock of sh is held.
func (sh *shard) rowOfErrand(e *errand) *row {
	if e.b != nil {
		return e.b.row
	}
	return sh.row(e.rule)
}

// Rules returns what was counted of each rule, by its id.
func (s *Store) Rules() map[string]*RuleStats {
	now := s.read()
	all := map[string]*RuleStats{}
	of := func(rule string) *RuleStats {
		r := all[rule]
		if r == nil {
			r = &RuleStats{Rule: rule}
			all[rule] = r
		}
		return r
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, r := range sh.rows {
			one := of(r.rule)
			one.add(&r.Counts)
			if least, known := r.level.at(now); known && (!one.LevelKnown || least < one.ReserveLeft) {
				one.ReserveLeft, one.LevelKnown = least, true
			}
		}
		for _, b := range sh.buckets {
			if b.row.rule != "" {
				of(b.row.rule).addHeld(b, now)
			}
		}
		sh.mu.Unlock()
	}
	return all
}

// Forget ends the rows of the rules that keep does not want, because they are gone, and gives
// back what is held of them. What was counted stays in Stats.
func (s *Store) Forget(keep func(rule string) bool) {
	now := s.read()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, b := range sh.buckets {
			if b.row.rule != "" && !keep(b.row.rule) {
				s.remove(sh, b, now)
				b.row = &sh.rest // a question may be under way
			}
		}
		for rule, r := range sh.rows {
			if !keep(rule) {
				sh.rest.add(&r.Counts)
				delete(sh.rows, rule)
			}
		}
		sh.mu.Unlock()
	}
}
