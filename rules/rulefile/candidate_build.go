package rulefile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
)

// addCandidate compiles the candidate limits of r. Its main limits are known by then,
// the others are not.
func (c *compiler) addCandidate(f *fileSpec, r *rules.Rule, spec *descriptorSpec) {
	s := spec.change.candidate
	if s == nil {
		return
	}
	keyAt := spec.change.at["candidate"]
	switch {
	case r.Unlimited:
		c.errorf(keyAt, "delete it, or delete unlimited", "candidate means nothing when unlimited")
		return
	case r.Quota:
		c.errorf(keyAt, "delete one of them", "candidate does not go with quota_mode, whose denials alone deny nothing")
		return
	case spec.limit == nil && len(spec.limits) == 0:
		c.errorf(keyAt, "write a rate_limit beside it", "candidate is compared with rate_limit and limits, and the descriptor has neither")
		return
	case len(s.limits) == 0:
		if !s.broken {
			c.errorf(s.at, "write rate_limit or limits in it, as in {rate_limit: {unit: minute, requests_per_unit: 50}}", "candidate has no limit")
		}
		return
	}
	for _, one := range s.limits {
		c.addCandidateLimit(f, r, one, spec)
	}
	r.Trial = &rules.Trial{Percent: int(s.percent), Tenants: c.candidateTenants(s), RollBack: c.rollBack(s)}
}

func (c *compiler) addCandidateLimit(f *fileSpec, r *rules.Rule, s *limitSpec, spec *descriptorSpec) {
	for _, key := range slices.Sorted(maps.Keys(s.fieldAt)) {
		switch {
		case key == "unlimited" && s.unlimited:
			c.errorf(s.fieldAt[key], "write a limit that is large enough", "a candidate cannot be unlimited")
			return
		case key == "replaces" && len(s.replaces) > 0:
			c.errorf(s.fieldAt[key], "write it into rate_limit of the descriptor", "replaces means nothing in a candidate")
			return
		}
	}
	if s.name != "" {
		c.checkName(f, s.name, s.nameAt)
	}
	spec.change.apply(s, r)
	if l := c.limit(s); l != nil {
		r.Limits = append(r.Limits, rules.NamedLimit{Limit: l, Name: s.name, Role: rules.Candidate})
	}
}

// candidateTenants reads tenants as KEY:VALUE.
func (c *compiler) candidateTenants(s *candidateSpec) []descriptor.Entry {
	if at, given := s.valueAt["tenants"]; given && !s.broken && len(s.tenants) == 0 {
		c.errorf(at, `write tenants: ["tenant:acme"], or delete it`, "tenants is empty")
	}
	if len(s.tenants) > rules.MaxCandidateTenants {
		c.errorf(s.valueAt["tenants"], "a percentage reaches more", "%d tenants, more than %d", len(s.tenants), rules.MaxCandidateTenants)
		return nil
	}
	var tenants []descriptor.Entry
	for _, one := range s.tenants {
		key, value, _ := strings.Cut(one.text, ":")
		e := descriptor.Entry{Key: key, Value: value}
		switch {
		case key == "" || value == "":
			c.errorf(one.at, `write the entry of its requests, such as "tenant:acme"`, "'%s' names no tenant", shortened(one.text))
		case slices.Contains(tenants, e):
			c.errorf(one.at, "delete one of them", "tenant '%s' stands twice", shortened(one.text))
		}
		tenants = append(tenants, e)
	}
	if c.names != nil {
		return c.concealed(tenants)
	}
	return tenants
}

func (c *compiler) rollBack(s *candidateSpec) *rules.RollBack {
	b := s.rollBack
	if b == nil || b.broken {
		return nil
	}
	roll := &rules.RollBack{Above: b.above, Over: b.over, MinRequests: b.minRequests}
	if _, given := b.valueAt["above"]; !given {
		c.errorf(b.at, "write above: 5, the percentage of requests that only the candidate denies", "roll_back has no above")
	}
	if s.percent == 0 && len(s.tenants) == 0 {
		c.warnf(b.at, "write percent or tenants when it shall be enforced", "roll_back waits for a candidate that is enforced: this one only watches")
	}
	roll.Over = cmp.Or(roll.Over, rules.DefaultTrial)
	roll.MinRequests = cmp.Or(roll.MinRequests, rules.DefaultMinRequests)
	return roll
}
