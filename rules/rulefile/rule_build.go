package rulefile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// newRule returns the rule of a node, nil when its descriptor has no limit.
func (c *compiler) newRule(f *fileSpec, n *rules.Node, spec *descriptorSpec) *rules.Rule {
	if spec.name != "" {
		c.checkName(f, spec.name, spec.nameAt)
	}
	if !spec.isLimited() {
		for _, flag := range spec.flags {
			c.warnf(flag.at, "add a rate_limit, or delete the key", "key '%s' has no effect on a descriptor without a rate_limit", flag.name)
		}
		return nil
	}
	r := &rules.Rule{
		Domain: c.domain.Name, Shadow: spec.shadow, Quota: spec.quota || c.options.QuotaMode, Sensitive: spec.sensitive,
		Validity: rules.Validity{ValidFrom: spec.validFrom, ValidUntil: spec.validUntil}, Metadata: spec.metadata,
		DetailedMetric: spec.detailedMetric, ShareThreshold: spec.share,
		File: f.name, Line: spec.at.line,
		Name: spec.name,
	}
	if !r.ValidUntil.IsZero() && !r.ValidFrom.Before(r.ValidUntil) {
		c.errorf(spec.validAt, "the rule applies from valid_from until just before valid_until", "valid_until is not after valid_from")
	}
	if spec.tenant {
		r.Tenant = c.tenant(n, spec)
	}
	r.Failure = c.failure(spec)
	r.Cost = c.cost(spec.cost)
	c.setChange(r, &spec.change)
	c.addLimits(f, r, spec)
	c.addCandidate(f, r, spec)
	c.addGuards(f, r, spec)
	r.Mode = c.mode(r, &spec.mode)
	r.HotRaise = c.hotRaise(r, spec.hotRaise)
	c.setSchedule(r, spec)
	c.checkRegions(r, &spec.mode)
	c.setResponse(r, spec)
	return r
}

// addAlways adds a rule that no entry has to reach.
func (c *compiler) addAlways(f *fileSpec, spec *descriptorSpec) {
	switch {
	case spec.key != "" || spec.match != rules.MatchAny || len(spec.nested) > 0 || spec.share:
		c.errorf(spec.alwaysAt, "delete key, value and descriptors", "an always rule applies to every request, and so matches nothing")
	case spec.tenant:
		c.errorf(spec.tenantAt, "move it to a descriptor with a key, such as api_key", "an always rule has no entry that could name a tenant")
	case spec.name == "":
		c.errorf(spec.alwaysAt, "write name: NAME beside always", "an always rule needs a name")
	case !spec.isLimited():
		c.errorf(spec.alwaysAt, "write a rate_limit or limits beside always", "an always rule needs a limit")
	case spec.limit != nil && spec.limit.unlimited:
		c.errorf(spec.alwaysAt, "delete it", "an always rule that is unlimited does nothing")
	case slices.ContainsFunc(c.domain.Always, func(r *rules.Rule) bool { return r.Name == spec.name }):
		c.errorf(spec.nameAt, "choose another name", "duplicate always rule '%s' in domain '%s'", spec.name, c.domain.Name)
	default:
		r := c.newRule(f, nil, spec)
		r.Always = true
		c.domain.Always = append(c.domain.Always, r)
		*c.rules = append(*c.rules, r)
	}
}

func (c *compiler) failure(spec *descriptorSpec) rules.FailureMode {
	if mode, known := rules.FailureModeOf(spec.failureMode); known {
		return mode
	}
	if spec.failureMode != "" {
		c.errorf(spec.failureAt, "write open (each node lets pass up to the limit), closed (deny), local (each node decides by its share) or open_unbounded (let everything pass)", "failure_mode '%s' is unknown", spec.failureMode)
	}
	if spec.sensitive {
		return rules.Closed
	}
	return c.options.Failure
}

// costSources are the words of `from`, with the attribute that they stand for
// and whether they need a name.
var costSources = map[string]struct {
	source    rules.CostSource
	attribute string
	named     bool
}{
	"hits":           {rules.CostHits, "", false},
	"entry":          {rules.CostEntry, "", true},
	"content_length": {rules.CostAttribute, "content_length", false},
	"header":         {rules.CostAttribute, "header:", true},
	"claim":          {rules.CostAttribute, "claim:", true},
}

func (c *compiler) cost(spec *costSpec) rules.Cost {
	cost := rules.Cost{Max: limit.MaxQuota}
	if spec == nil {
		return cost
	}
	if spec.max > 0 {
		cost.Max = min(spec.max, limit.MaxQuota)
	}
	from, ok := costSources[spec.from]
	switch {
	case !ok:
		c.errorf(spec.fromAt, "one of hits, entry, content_length, header, claim", "cost from '%s' is unknown", spec.from)
	case from.named && spec.name == "":
		c.errorf(spec.at, fmt.Sprintf("write name: NAME, the name of the %s", spec.from), "cost from %s needs a name", spec.from)
	case !from.named && spec.name != "":
		c.errorf(spec.nameAt, "delete it", "cost from %s takes no name", spec.from)
	}
	cost.Source = from.source
	if from.source == rules.CostEntry {
		cost.Name = spec.name
		c.domain.addAside(aside{spec.name, c.file, spec.nameAt, usedForCost})
	} else if from.source == rules.CostAttribute {
		cost.Name = from.attribute + spec.name
		if spec.from == "header" {
			cost.Name = strings.ToLower(cost.Name)
		}
	}
	return cost
}

// checkName warns of names that some systems do not show as they are, and
// refuses them where no file can rely on them.
func (c *compiler) checkName(f *fileSpec, name string, at position) {
	const hint = "use letters, digits, '.', '_' and '-' only: names stand in header fields and metrics as they are"
	switch {
	case ascii.Only(name, "._-"):
	case f.usesHeadgate && !c.options.Compat:
		c.errorf(at, hint, "name '%s' has a character that is not allowed", name)
	default:
		c.warnf(at, hint, "name '%s' has a character that Envoy writes into header fields unescaped", name)
	}
}

// tenant reports whether a descriptor may be one of tenants, and what is wrong
// with it if not. n is nil for an always rule, which is refused elsewhere.
func (c *compiler) tenant(n *rules.Node, spec *descriptorSpec) bool {
	if n == nil {
		return false
	}
	if n.Shared || n.IsPattern() {
		c.errorf(spec.tenantAt, "delete the pattern: an entry of any value names a tenant, one value names one",
			"tenant does not go with patterns and share_threshold, by which many values are one")
		return false
	}
	for outer := n.Parent; outer != nil; outer = outer.Parent {
		if outer.Rule != nil && outer.Rule.Tenant {
			c.errorf(spec.tenantAt, "keep one of the two: one entry of a request names its tenant",
				"tenant stands below %s on line %d, which is one of tenants too", outer.Path(), outer.Line)
			return false
		}
	}
	return true
}
