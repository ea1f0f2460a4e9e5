package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
)

// setChange compiles what r says of how its limits change, but for its candidate. It is
// called before there are limits, which take it over.
func (c *compiler) setChange(r *Rule, s *changeSpec) {
	r.Carry = limit.Carry(c.word(s.valueAt, "on_change", s.onChange, "carry", "proportional", "reset"))
	r.MaxDebt = s.maxDebt
}

// apply makes a limit one of a rule that says how its limits change.
func (s *changeSpec) apply(l *limitSpec, r *Rule) {
	l.carry, l.maxDebt = r.Carry, r.MaxDebt
	for key, at := range s.valueAt {
		if key == "on_change" || key == "max_debt" {
			l.fieldAt[key] = at
		}
	}
}

// setSchedule compiles the schedule of r. Its limits and its mode are known by then.
func (c *compiler) setSchedule(r *Rule, spec *descriptorSpec) {
	s := &spec.change
	if len(s.shifts) == 0 {
		return
	}
	if r.Unlimited {
		c.errorf(s.at["schedule"], "delete it, or delete unlimited", "schedule means nothing when unlimited")
		return
	}
	if !spec.tenant && spec.limit == nil && len(spec.limits) == 0 {
		c.errorf(s.at["schedule"], "write a rate_limit beside it", "schedule changes rate_limit and limits, and the descriptor has neither")
		return
	}
	t := &timetable{scaled: make(map[scaledKey]*limit.Limit)}
	for _, one := range s.shifts {
		if shift, ok := c.shift(one); ok {
			t.shifts = append(t.shifts, shift)
			c.scale(r, t, one, &shift, spec)
		}
	}
	r.timetable = t
}

func (c *compiler) shift(s *shiftSpec) (Shift, bool) {
	before := len(c.diagnostics)
	shift := Shift{Cron: s.cron, For: s.lasts, Zone: s.zone, Tiers: s.tiers, Factor: s.factor}
	for _, key := range []string{"cron", "for"} {
		if _, given := s.valueAt[key]; !given {
			c.errorf(s.at, `write both, as in {cron: "0 22 * * *", for: 8h, factor: 0.5}`, "an entry of schedule has no %s", key)
		}
	}
	if at, given := s.valueAt["cron"]; given {
		var err error
		if shift.begins, err = parseCron(s.cron); err != nil {
			c.errorf(at, `write minute, hour, day of the month, month and day of the week, such as "0 22 * * 1-5"`, "cron '%s': %v", shortened(s.cron), err)
		}
	}
	if s.lasts%time.Second != 0 {
		c.errorf(s.valueAt["for"], "round it to seconds", "for %s is no whole number of seconds", DurationText(s.lasts))
	}
	if at, given := s.valueAt["time_zone"]; !given {
		shift.Zone, shift.location = "UTC", time.UTC
	} else if calendar, err := limit.NewCalendar(limit.CalendarDay, s.zone); err != nil || s.zone == "" {
		c.errorf(at, "use a name such as Europe/Berlin or UTC", "time_zone '%s' is unknown on this machine", shortened(s.zone))
	} else if shift.location, err = time.LoadLocation(calendar.Zone); err != nil {
		c.errorf(at, "use a name such as Europe/Berlin or UTC", "time_zone '%s' cannot be read: %v", s.zone, err)
	}
	if _, given := s.valueAt["factor"]; !given {
		shift.Factor = NoFactor
		if len(s.tiers) == 0 && !s.broken {
			c.errorf(s.at, "write factor: 0.5, or tiers: {free: 0.5}", "an entry of schedule has no factor")
		}
	}
	return shift, !s.broken && !c.failedSince(before)
}

// scale makes the limits of r for each factor of a shift.
func (c *compiler) scale(r *Rule, t *timetable, s *shiftSpec, shift *Shift, spec *descriptorSpec) {
	factors := append(slices.Collect(maps.Values(shift.Tiers)), shift.Factor)
	slices.Sort(factors)
	for _, f := range slices.Compact(factors) {
		for i := range r.Limits {
			n := &r.Limits[i]
			if f == NoFactor || !n.Role.IsMain() {
				continue
			}
			d := derivation{n.Spec, f, r.Carry, r.MaxDebt}
			l, err := d.limit()
			if err == nil {
				err = c.fitsMode(l, &r.Mode, &spec.mode)
			} else if broken := (*limit.SpecError)(nil); errors.As(err, &broken) {
				err = fmt.Errorf("%s %s", broken.Field, broken.Problem)
			}
			if err != nil {
				c.errorf(s.at, "choose another factor", "factor %v does not fit %s: %v", f, LimitText(n.Limit), err)
				return
			}
			t.scaled[scaledKey{n.Limit, f}] = l
		}
	}
}

// fitsMode says why a mode does not go with a limit, nil if it does.
func (c *compiler) fitsMode(l *limit.Limit, m *Mode, s *modeSpec) error {
	apart := compiler{reporter: &reporter{}, compat: c.compat, domain: c.domain, set: c.set}
	if apart.checkModeOf(l, m, s); apart.failed() {
		return errors.New(apart.diagnostics[0].Message)
	}
	return nil
}
