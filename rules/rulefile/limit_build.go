package rulefile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// addLimits compiles the limits of a rule: that of rate_limit first, then those
// of limits.
func (c *compiler) addLimits(f *fileSpec, r *rules.Rule, spec *descriptorSpec) {
	specs := spec.limits
	if spec.limit != nil {
		specs = append([]*limitSpec{spec.limit}, specs...)
		if spec.limit.unlimited {
			r.Unlimited = true
		}
	}
	for i, s := range specs {
		if s.name != "" {
			c.checkName(f, s.name, s.nameAt)
		}
		c.addReplaces(r, s)
		spec.change.apply(s, r)
		if s.unlimited {
			c.checkUnlimited(s, i == 0 && spec.limit != nil && len(spec.limits) == 0)
			r.Name = cmp.Or(r.Name, s.name)
			continue
		}
		if l := c.limit(s); l != nil {
			r.Limits = append(r.Limits, rules.NamedLimit{Limit: l, Name: s.name})
		}
	}
	if r.Name == "" && len(specs) == 1 {
		r.Name = specs[0].name
	}
}

func (c *compiler) addReplaces(r *rules.Rule, s *limitSpec) {
	for _, replaced := range s.replaces {
		if replaced.name == s.name {
			c.errorf(replaced.at, "name another limit", "replaces should not contain name of same descriptor")
			continue
		}
		if !slices.Contains(r.Replaces, replaced.name) {
			r.Replaces = append(r.Replaces, replaced.name)
		}
	}
}

func (c *compiler) checkUnlimited(s *limitSpec, alone bool) {
	if _, ok := unitOf(s.unit); ok {
		c.errorf(s.fieldAt["unit"], "delete unit, or delete unlimited", "should not specify rate limit unit when unlimited")
	}
	if !alone {
		c.errorf(s.at, "delete unlimited, or delete the other limits", "unlimited stands beside other limits")
	}
	for key, at := range s.fieldAt {
		if !keys()[key].envoy {
			c.errorf(at, "delete it, or delete unlimited", "%s means nothing when unlimited", key)
		}
	}
}

// unit is a window that rules name by a word, as long as
// envoyproxy/ratelimit's.
type unit struct {
	period   time.Duration
	calendar limit.CalendarUnit // 0 when there are no calendar windows of it
}

const day = 24 * time.Hour

var units = map[string]unit{
	"SECOND": {time.Second, 0},
	"MINUTE": {time.Minute, 0},
	"HOUR":   {time.Hour, 0},
	"DAY":    {day, limit.CalendarDay},
	"WEEK":   {7 * day, limit.CalendarWeek},
	"MONTH":  {30 * day, limit.CalendarMonth},
	"YEAR":   {365 * day, limit.CalendarYear},
}

func unitOf(name string) (unit, bool) {
	u, ok := units[strings.ToUpper(name)]
	return u, ok
}

// limit compiles one limit. It reports what is wrong and returns nil then.
func (c *compiler) limit(s *limitSpec) *limit.Limit {
	before := len(c.diagnostics)
	spec := limit.Spec{
		Quota: s.requests, Burst: s.burst, SubWindows: int(s.subWindows),
		MaxDelay: s.maxDelay, MaxQueue: s.maxQueue, Carry: s.carry, MaxDebt: s.maxDebt,
	}
	c.setAlgorithm(&spec, s)
	c.setWindow(&spec, s)
	c.setMode(&spec, s)
	if s.broken || c.failedSince(before) {
		return nil
	}
	if !s.hasQuota {
		c.warnf(s.at, "write requests_per_unit: 0 if nothing may pass", "requests_per_unit is missing, so every request is denied")
	}
	l, err := limit.New(spec)
	if err != nil {
		c.reportSpec(s.at, s.fieldAt, limitKeys, err)
		return nil
	}
	return l
}

// setAlgorithm sets the algorithm and whether denied hits are charged.
func (c *compiler) setAlgorithm(spec *limit.Spec, s *limitSpec) {
	if s.algorithm != "" {
		a, err := limit.ParseAlgorithm(s.algorithm)
		switch {
		case a == limit.Concurrency:
			c.errorf(s.fieldAt["algorithm"], "write concurrency: 20 on the descriptor, beside rate_limit or in its place", "concurrency is not an algorithm of rate_limit")
		case a == limit.Ban:
			c.errorf(s.fieldAt["algorithm"], "write ban: {after: 20, within: 1m, for: 15m} on the descriptor, beside rate_limit", "ban is not an algorithm of rate_limit")
		case err != nil:
			c.errorf(s.fieldAt["algorithm"], "one of sliding_window, fixed_window, sub_windows, sliding_log, token_bucket, leaky_bucket, leaky_queue, gcra",
				"algorithm '%s' is unknown", s.algorithm)
		}
		spec.Algorithm = a
	} else if c.options.Compat || s.timeZone != "" {
		spec.Algorithm = limit.FixedWindow
	} else {
		spec.Algorithm = limit.SlidingWindow
	}
	switch a := spec.Algorithm; {
	case s.countDenied != nil:
		spec.CountDenied = *s.countDenied
	case c.options.Compat && !c.options.SpareDenied:
		spec.CountDenied = a == limit.FixedWindow || a == limit.SlidingWindow || a == limit.SubWindows
	}
}

// setWindow sets the period or the calendar.
func (c *compiler) setWindow(spec *limit.Spec, s *limitSpec) {
	if s.hasWindow {
		spec.Period = s.window
		if s.hasUnit {
			c.errorf(s.fieldAt["window"], "delete one of them", "a limit has either unit or window")
		}
		if s.timeZone != "" {
			c.errorf(s.fieldAt["time_zone"], "write unit: day, week, month or year instead of window", "time_zone needs a unit of the calendar")
		}
		return
	}
	u, ok := unitOf(s.unit)
	if !ok {
		at, hint := s.fieldAt["unit"], "one of second, minute, hour, day, week, month, year; for other lengths write window, such as window: 10s"
		if at == (position{}) {
			at = s.at
		}
		c.errorf(at, hint, "invalid rate limit unit '%s'", s.unit)
		return
	}
	spec.Period = u.period
	if s.timeZone == "" {
		return
	}
	if u.calendar == 0 {
		c.errorf(s.fieldAt["time_zone"], "delete time_zone: seconds, minutes and hours are the same everywhere", "time_zone is for the units day, week, month and year")
		return
	}
	calendar, err := limit.NewCalendar(u.calendar, s.timeZone)
	if err != nil {
		c.errorf(s.fieldAt["time_zone"], "use a name such as Europe/Berlin or UTC", "time_zone '%s' is unknown on this machine", s.timeZone)
		return
	}
	spec.Calendar = calendar
}

func (c *compiler) setMode(spec *limit.Spec, s *limitSpec) {
	switch s.mode {
	case "strict":
		spec.Strict = true
	case "", "smooth":
	default:
		c.errorf(s.fieldAt["mode"], "write strict (never more than the quota in any window) or smooth", "mode '%s' is unknown", s.mode)
	}
	if s.mode == "smooth" && spec.Algorithm != limit.SubWindows {
		c.errorf(s.fieldAt["mode"], "use algorithm: sub_windows, or delete mode", "mode is not for %v", spec.Algorithm)
	}
}

// limitKeys are the keys of the rule language by the fields of limit.Spec.
var limitKeys = map[string]string{
	"quota": "requests_per_unit", "period": "window", "strict": "mode", "calendar": "time_zone",
}

// reportSpec reports an error of limit.New about the map at at, whose values
// stand at valueAt; keys are the keys of the map by the fields of limit.Spec,
// where they are called differently.
func (c *compiler) reportSpec(at position, valueAt map[string]position, keys map[string]string, err error) {
	spec, ok := errors.AsType[*limit.SpecError](err)
	if !ok {
		c.errorf(at, "", "%v", err)
		return
	}
	key := spec.Field
	if k, ok := keys[key]; ok {
		key = k
	}
	if place, ok := valueAt[key]; ok {
		at = place
	}
	hint := spec.Hint
	if key == "burst" && !strings.Contains(hint, "second limit") {
		hint += ", or pair it with a second limit"
	}
	c.report(rules.SeverityError, at, hint, fmt.Sprintf("%s %s", key, spec.Problem))
}
