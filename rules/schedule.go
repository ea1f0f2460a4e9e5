package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/cron"
	"github.com/headgate/headgate/limit"
)

// Factor is what a shift multiplies limits by, in thousandths: 500 halves them.
type Factor int64

const (
	// NoFactor leaves limits as they are.
	NoFactor Factor = 1000
	// MaxFactor is the largest one: a thousandfold.
	MaxFactor = 1000 * NoFactor
)

// String returns the factor as rules write it, such as "0.5".
func (f Factor) String() string { return thousandths(int64(f)) }

// thousandths returns n/1000 as a decimal number, as short as it is exact.
func thousandths(n int64) string {
	text := strconv.FormatInt(n/1000, 10)
	if n%1000 != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%03d", n%1000), "0")
	}
	return text
}

const (
	// MaxShifts bounds the shifts of one rule.
	MaxShifts = 16
	// MinShift and MaxShift are the lengths that a shift may have, in whole seconds.
	MinShift = time.Minute
	MaxShift = 31 * 24 * time.Hour
	// MaxShiftTiers bounds the tiers of one shift.
	MaxShiftTiers = 256
)

// Schedule is what a rule says of times that come again (`schedule`).
type Schedule []Shift

// String returns the shifts in one line, "" for none.
func (s Schedule) String() string {
	parts := make([]string, len(s))
	for i := range s {
		parts[i] = s[i].String()
	}
	return strings.Join(parts, ", else ")
}

// Shift is one entry of `schedule`: times that come again, in which the limits of a
// rule are others.
type Shift struct {
	// Cron is the expression that says when it begins, on the clocks of Zone, and For
	// how long it lasts from then on.
	Cron string
	For  time.Duration
	// Zone is the name of the time zone in the IANA database.
	Zone string
	// Tiers has the factors of tenants by their tier, and Factor that of all others.
	Tiers  map[string]Factor
	Factor Factor
}

// factorOf returns the factor for tenants with a tier, "" for whoever has none.
func (s *Shift) factorOf(tier string) Factor {
	if f, ok := s.Tiers[tier]; ok {
		return f
	}
	return s.Factor
}

// String returns the shift in one line: "0 22 * * * for 8h in Europe/Berlin: x0.5, pro
// x2".
func (s *Shift) String() string {
	return fmt.Sprintf("%s for %s in %s: %s", s.Cron, DurationText(s.For), s.Zone, s.factors())
}

// Factors returns all factors of s in their order, each once.
func (s *Shift) Factors() []Factor {
	factors := append(slices.Collect(maps.Values(s.Tiers)), s.Factor)
	slices.Sort(factors)
	return slices.Compact(factors)
}

func (s *Shift) factors() string {
	text := "x" + s.Factor.String()
	for _, tier := range slices.Sorted(maps.Keys(s.Tiers)) {
		text += fmt.Sprintf(", %s x%v", tier, s.Tiers[tier])
	}
	return text
}

// scheduleHorizon is how far ahead and behind a shift is looked for while none is in
// force: what is found holds for so long at least.
const scheduleHorizon = 2 * 24 * 60 * 60

// compiledShift is a Shift that can be asked about instants.
type compiledShift struct {
	*Shift
	begins   *cron.Expression
	location *time.Location
}

// at reports whether s is in force at t, and from when until when the answer holds; all
// in seconds since 1970.
func (s *compiledShift) at(t int64) (inForce bool, from, until int64) {
	lasts := int64(s.For / time.Second)
	from, until = t-scheduleHorizon, t+scheduleHorizon
	begin, ok := s.begins.LastBegin(from-lasts, t, s.location)
	if ok && begin+lasts > t {
		return true, begin, begin + lasts
	}
	if ok {
		from = begin + lasts
	}
	if next, ok := s.begins.NextBegin(t, until, s.location); ok {
		until = next
	}
	return false, from, until
}

// timetable is the schedule of a rule.
type timetable struct {
	shifts []compiledShift
	// latest is what was found last: nearly every question is about the same time.
	latest atomic.Pointer[found]
	// scaled has the limits of the rule as shifts make them.
	scaled map[scaledKey]*limit.Limit
}

// newTimetable compiles the schedule of r, which has one.
func newTimetable(r *Rule) (*timetable, error) {
	t := &timetable{shifts: make([]compiledShift, len(r.Schedule)), scaled: make(map[scaledKey]*limit.Limit)}
	for i := range r.Schedule {
		s := &r.Schedule[i]
		begins, err := cron.Parse(s.Cron)
		if err != nil {
			return nil, fmt.Errorf("cron '%s': %w", s.Cron, err)
		}
		location, err := time.LoadLocation(s.Zone)
		if err != nil {
			return nil, err
		}
		t.shifts[i] = compiledShift{s, begins, location}
		for _, f := range s.Factors() {
			for j := range r.Limits {
				n := &r.Limits[j]
				if f == NoFactor || !n.Role.IsMain() {
					continue
				}
				if t.scaled[scaledKey{n.Limit, f}], err = r.Scale(n.Limit, f); err != nil {
					return nil, err
				}
			}
		}
	}
	return t, nil
}

// found is the shift that is in force in [from, until), microseconds since 1970; nil
// for none.
type found struct {
	from, until int64
	shift       *Shift
}

const microsPerSecond = 1_000_000

// at returns what is in force at now. It does not allocate while that is what was found
// last.
func (t *timetable) at(now time.Time) *found {
	micros := now.UnixMicro()
	if f := t.latest.Load(); f != nil && f.from <= micros && micros < f.until {
		return f
	}
	f := t.find(now.Unix())
	t.latest.Store(f)
	return f
}

// find looks for the first shift that is in force at now, in seconds since 1970.
func (t *timetable) find(now int64) *found {
	f := found{from: now - scheduleHorizon, until: now + scheduleHorizon}
	for i := range t.shifts {
		inForce, from, until := t.shifts[i].at(now)
		f.from, f.until = max(f.from, from), min(f.until, until)
		if inForce {
			f.shift = t.shifts[i].Shift
			break
		}
	}
	f.from, f.until = f.from*microsPerSecond, f.until*microsPerSecond
	return &f
}

// ShiftAt returns the shift that is in force at now, nil for none, and an instant until
// which that stays so.
func (r *Rule) ShiftAt(now time.Time) (s *Shift, until time.Time) {
	if r.timetable == nil {
		return nil, now.Add(scheduleHorizon * time.Second)
	}
	f := r.timetable.at(now)
	return f.shift, time.UnixMicro(f.until).UTC()
}

// Scaled returns the limit to decide by in place of l, which is a main or candidate
// limit of r or the quota of a tenant that is decided by r: with the on_change and
// max_debt of r, and with quota and burst times the factor that its schedule has at now
// for that tier, rounded half up. They stay at least 1 unless they were 0, and at most
// what the algorithm can count. tier is "" where no tenant is concerned. It returns the
// same limit for the same question, but for quotas of very many kinds.
func (r *Rule) Scaled(l *limit.Limit, now time.Time, tier string) *limit.Limit {
	factor := NoFactor
	if r.timetable != nil {
		if s := r.timetable.at(now).shift; s != nil {
			factor = s.factorOf(tier)
		}
		if scaled, ok := r.timetable.scaled[scaledKey{l, factor}]; ok {
			return scaled
		}
	}
	if factor == NoFactor && l.Carry == r.Carry && l.MaxDebt == r.MaxDebt || r.derived == nil {
		return l
	}
	return r.derived.of(l, derivation{l.Spec, factor, r.Carry, r.MaxDebt})
}

// Scale returns what a shift with factor f makes of l, a main or candidate limit of r or
// the quota of a tenant that is decided by r. The error is one of limit.New: l cannot be
// so large or small.
func (r *Rule) Scale(l *limit.Limit, f Factor) (*limit.Limit, error) {
	d := derivation{l.Spec, f, r.Carry, r.MaxDebt}
	return d.limit()
}
