package rulefile

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/internal/cron"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// setChange compiles what r says of how its limits change, but for its candidate. It is
// called before there are limits, which take it over.
func (c *compiler) setChange(r *rules.Rule, s *changeSpec) {
	r.Carry = limit.Carry(c.word(s.valueAt, "on_change", s.onChange, "carry", "proportional", "reset"))
	r.MaxDebt = s.maxDebt
}

// apply makes a limit one of a rule that says how its limits change.
func (s *changeSpec) apply(l *limitSpec, r *rules.Rule) {
	l.carry, l.maxDebt = r.Carry, r.MaxDebt
	for key, at := range s.valueAt {
		if key == "on_change" || key == "max_debt" {
			l.fieldAt[key] = at
		}
	}
}

// setSchedule compiles the schedule of r. Its limits and its mode are known by then.
func (c *compiler) setSchedule(r *rules.Rule, spec *descriptorSpec) {
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
	for _, one := range s.shifts {
		if shift, ok := c.shift(one); ok {
			r.Schedule = append(r.Schedule, shift)
			c.checkScale(r, one, &shift, spec)
		}
	}
}

func (c *compiler) shift(s *shiftSpec) (rules.Shift, bool) {
	before := len(c.diagnostics)
	shift := rules.Shift{Cron: s.cron, For: s.lasts, Zone: s.zone, Tiers: s.tiers, Factor: s.factor}
	for _, key := range []string{"cron", "for"} {
		if _, given := s.valueAt[key]; !given {
			c.errorf(s.at, `write both, as in {cron: "0 22 * * *", for: 8h, factor: 0.5}`, "an entry of schedule has no %s", key)
		}
	}
	if at, given := s.valueAt["cron"]; given {
		if _, err := cron.Parse(s.cron); err != nil {
			c.errorf(at, `write minute, hour, day of the month, month and day of the week, such as "0 22 * * 1-5"`, "cron '%s': %v", shortened(s.cron), err)
		}
	}
	if s.lasts%time.Second != 0 {
		c.errorf(s.valueAt["for"], "round it to seconds", "for %s is no whole number of seconds", rules.DurationText(s.lasts))
	}
	if at, given := s.valueAt["time_zone"]; !given {
		shift.Zone = "UTC"
	} else if _, err := limit.NewCalendar(limit.CalendarDay, s.zone); err != nil || s.zone == "" {
		c.errorf(at, "use a name such as Europe/Berlin or UTC", "time_zone '%s' is unknown on this machine", shortened(s.zone))
	}
	if _, given := s.valueAt["factor"]; !given {
		shift.Factor = rules.NoFactor
		if len(s.tiers) == 0 && !s.broken {
			c.errorf(s.at, "write factor: 0.5, or tiers: {free: 0.5}", "an entry of schedule has no factor")
		}
	}
	return shift, !s.broken && !c.failedSince(before)
}

// checkScale refuses factors of a shift that do not go with a limit of r.
func (c *compiler) checkScale(r *rules.Rule, s *shiftSpec, shift *rules.Shift, spec *descriptorSpec) {
	for _, f := range shift.Factors() {
		for i := range r.Limits {
			n := &r.Limits[i]
			if f == rules.NoFactor || !n.Role.IsMain() {
				continue
			}
			l, err := r.Scale(n.Limit, f)
			if err == nil {
				err = c.fitsMode(l, &r.Mode, &spec.mode)
			} else if broken, ok := errors.AsType[*limit.SpecError](err); ok {
				err = fmt.Errorf("%s %s", broken.Field, broken.Problem)
			}
			if err != nil {
				c.errorf(s.at, "choose another factor", "factor %v does not fit %s: %v", f, rules.LimitText(n.Limit), err)
				return
			}
		}
	}
}

// fitsMode says why a mode does not go with a limit, nil if it does.
func (c *compiler) fitsMode(l *limit.Limit, m *rules.Mode, s *modeSpec) error {
	apart := compiler{reporter: &reporter{}, options: c.options}
	if apart.checkModeOf(l, m, s); apart.failed() {
		return errors.New(apart.diagnostics[0].Message)
	}
	return nil
}
