package rulefile

import (
	"slices"
	"time"

	"github.com/headgate/headgate/rules"
)

// hotRaiseSpec is raise_hot_keys as it is written.
type hotRaiseSpec struct {
	block
	keyAt      position
	by         int64
	lasts, gap time.Duration
}

// hotRaiseField decodes raise_hot_keys.
func (d *decoder) hotRaiseField(s *descriptorSpec, f field) bool {
	if f.name != "raise_hot_keys" {
		return false
	}
	if !d.hasValue(f) {
		return true
	}
	h := &hotRaiseSpec{keyAt: f.at}
	h.block = d.block(f.value, inHotRaise, func(f field) {
		switch f.name {
		case "by":
			h.by = d.number(f, 1, rules.MaxRaise)
		case "for":
			h.lasts = d.durationWithin(f, rules.MinHotRaise, rules.MaxHotRaise)
		case "pause":
			h.gap = d.durationWithin(f, rules.MinHotRaise, rules.MaxHotRaise)
		}
	})
	s.hotRaise, s.flags = h, append(s.flags, f)
	return true
}

// hotRaise compiles when hot keys of r are raised. Its limits and its mode are known by
// then.
func (c *compiler) hotRaise(r *rules.Rule, s *hotRaiseSpec) rules.HotRaise {
	if s == nil || s.broken {
		return rules.HotRaise{}
	}
	for _, key := range []string{"by", "for"} {
		if _, given := s.valueAt[key]; !given {
			c.errorf(s.at, "write raise_hot_keys: {by: 20, for: 10m}, in per cent of the limit", "raise_hot_keys has no '%s'", key)
			return rules.HotRaise{}
		}
	}
	isMain := func(l rules.NamedLimit) bool { return l.Role == rules.Main }
	switch {
	case r.Sensitive:
		c.errorf(s.keyAt, "delete raise_hot_keys: who guesses fast must not get more guesses", "limits of sensitive rules are never raised")
	case r.Unlimited:
		c.errorf(s.keyAt, "delete it, or delete unlimited", "raise_hot_keys means nothing when unlimited")
	case r.Mode.Consistency != rules.Exact:
		c.errorf(s.keyAt, "delete one of them", "raise_hot_keys is for consistency: exact, not %v", r.Mode.Consistency)
	case r.Mode.SubBuckets > 0:
		c.errorf(s.keyAt, "delete one of them", "raise_hot_keys does not go with sub_buckets, whose parts are not seen to be hot")
	case !r.Tenant && !slices.ContainsFunc(r.Limits, isMain):
		c.errorf(s.keyAt, "write a rate_limit beside it, or delete raise_hot_keys", "raise_hot_keys has no rate_limit beside it that it could raise")
	}
	return rules.HotRaise{By: int(s.by), For: s.lasts, Pause: s.gap}
}
