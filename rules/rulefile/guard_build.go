package rulefile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// addGuards compiles the limits of a rule that stand beside the main ones. Its
// main limits are known by then.
func (c *compiler) addGuards(f *fileSpec, r *rules.Rule, spec *descriptorSpec) {
	g := &spec.guards
	if r.Unlimited {
		c.refuseKeys(g.at, "delete it, or delete unlimited", "%s means nothing when unlimited")
		return
	}
	if r.Quota {
		c.refuseKeys(g.at, "delete one of them", "%s does not go with quota_mode, whose denials alone deny nothing")
	}
	if g.concurrency != nil {
		c.addConcurrency(r, g.concurrency)
	}
	for _, s := range g.secondary {
		c.addSecondary(f, r, s)
	}
	if g.ban == nil {
		return
	}
	if !spec.tenant && spec.limit == nil && len(spec.limits) == 0 && g.concurrency == nil && len(g.secondary) == 0 {
		c.errorf(g.ban.at, "write a rate_limit beside it, or move ban to the descriptor that has one", "ban has no other limit beside it whose denials it could count")
		return
	}
	c.addBan(r, g.ban)
}

// refuseKeys reports an error for each of the keys that stand somewhere; format
// has room for the key.
func (c *compiler) refuseKeys(at map[string]position, hint, format string) {
	for _, key := range slices.Sorted(maps.Keys(at)) {
		c.errorf(at[key], hint, format, key)
	}
}

// addLimit appends a limit of spec to r, or reports what is wrong with it where
// that stands. keys are those of b by the fields of limit.Spec.
func (c *compiler) addLimit(r *rules.Rule, named rules.NamedLimit, b *block, keys map[string]string, spec limit.Spec) {
	if b.broken {
		return
	}
	l, err := limit.New(spec)
	if err != nil {
		c.reportSpec(b.at, b.valueAt, keys, err)
		return
	}
	named.Limit = l
	r.Limits = append(r.Limits, named)
}

func (c *compiler) addConcurrency(r *rules.Rule, s *concurrencySpec) {
	c.addLimit(r, rules.NamedLimit{Role: rules.InFlight}, &s.block, map[string]string{"quota": "limit", "period": "timeout"},
		limit.Spec{Algorithm: limit.Concurrency, Quota: s.limit, Period: s.timeout})
	if s.hold != "" {
		r.HoldEntry = s.hold
		c.setHold(aside{s.hold, c.file, s.valueAt["hold"], usedForHold})
	}
}

// setHold makes an entry name the requests of the domain. They have one name, by
// which all rules are held and released together.
func (c *compiler) setHold(a aside) {
	d := c.domain
	if d.hold.key != "" && d.hold.key != a.key {
		c.errorf(a.at, fmt.Sprintf("write hold: %s, as %s:%d does", d.hold.key, d.hold.file, d.hold.at.line),
			"hold is '%s', but a request has one name for all rules of the domain", a.key)
		return
	}
	d.hold = a
	d.addAside(a)
}

// addSecondary compiles one of secondary_limits: an ordinary limit, or one on
// time in flight when it has the keys of that.
func (c *compiler) addSecondary(f *fileSpec, r *rules.Rule, s *limitSpec) {
	if s.name != "" {
		c.checkName(f, s.name, s.nameAt)
	}
	_, inFlight := s.fieldAt["concurrency"]
	_, over := s.fieldAt["over"]
	if !inFlight && !over {
		s.carry = r.Carry
		if l := c.limit(s); l != nil {
			r.Limits = append(r.Limits, rules.NamedLimit{Limit: l, Name: s.name, Role: rules.Secondary})
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.fieldAt)) {
		if key != "name" && key != "concurrency" && key != "over" {
			c.errorf(s.fieldAt[key], "write two entries", "%s does not go with concurrency: the entry limits either hits or the time in flight", key)
		}
	}
	if !inFlight || !over {
		c.errorf(s.at, "write {concurrency: 10, over: 10m}: ten in flight on average over ten minutes", "a secondary limit on concurrency needs concurrency and over")
		return
	}
	c.addSustained(r, s)
}

// addSustained compiles a limit on time in flight: as many milliseconds per
// `over` as so many requests take that are in flight all the while.
func (c *compiler) addSustained(r *rules.Rule, s *limitSpec) {
	if s.broken {
		return
	}
	const unit = time.Millisecond
	most := int64(limit.MaxQuota)
	switch {
	case s.over%unit != 0 || s.over < rules.MinHoldTimeout:
		c.errorf(s.fieldAt["over"], "write a longer time, such as 10m", "over %s is below %s, or no whole number of milliseconds", rules.DurationText(s.over), rules.DurationText(rules.MinHoldTimeout))
		return
	case s.inFlight > most/int64(s.over/unit):
		c.errorf(s.fieldAt["concurrency"], "lower it, or shorten over", "concurrency %d over %s is more than can be counted", s.inFlight, rules.DurationText(s.over))
		return
	}
	c.addLimit(r, rules.NamedLimit{Name: s.name, Role: rules.Sustained}, &block{at: s.at, valueAt: s.fieldAt}, map[string]string{"quota": "concurrency", "period": "over"},
		limit.Spec{Quota: s.inFlight * int64(s.over/unit), Period: s.over})
}

func (c *compiler) addBan(r *rules.Rule, s *banSpec) {
	for _, key := range []string{"after", "within", "for"} {
		if _, given := s.valueAt[key]; !given && !s.broken {
			c.errorf(s.at, "write all three, as in {after: 20, within: 1m, for: 15m}", "ban has no %s", key)
			return
		}
	}
	c.addLimit(r, rules.NamedLimit{Role: rules.Banning}, &s.block, map[string]string{"quota": "after", "period": "within", "ban_for": "for"},
		limit.Spec{Algorithm: limit.Ban, Quota: s.after, Period: s.within, BanFor: s.lasts})
}
