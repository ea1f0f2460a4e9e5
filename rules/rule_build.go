package rules

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// newRule returns the rule of a node, nil when its descriptor has no limit.
func (c *compiler) newRule(f *fileSpec, n *node, spec *descriptorSpec) *Rule {
	if spec.name != "" {
		c.checkName(f, spec.name, spec.nameAt)
	}
	if !spec.isLimited() {
		for _, flag := range spec.flags {
			c.warnf(flag.at, "add a rate_limit, or delete the key", "key '%s' has no effect on a descriptor without a rate_limit", flag.name)
		}
		return nil
	}
	r := &Rule{
		Domain: c.domain.Name, Shadow: spec.shadow, Quota: spec.quota, Sensitive: spec.sensitive,
		ValidFrom: spec.validFrom, ValidUntil: spec.validUntil, Metadata: spec.metadata,
		DetailedMetric: spec.detailedMetric, ValueToMetric: spec.valueToMetric, ShareThreshold: spec.share,
		File: f.name, Line: spec.at.line,
		name: spec.name, domain: c.domain, node: n,
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
	c.setSchedule(r, spec)
	c.setResponse(r, spec)
	r.finish()
	return r
}

// addAlways adds a rule that no entry has to reach.
func (c *compiler) addAlways(f *fileSpec, spec *descriptorSpec) {
	switch {
	case spec.key != "" || spec.match != matchAny || len(spec.nested) > 0 || spec.share:
		c.errorf(spec.alwaysAt, "delete key, value and descriptors", "an always rule applies to every request, and so matches nothing")
	case spec.tenant:
		c.errorf(spec.tenantAt, "move it to a descriptor with a key, such as api_key", "an always rule has no entry that could name a tenant")
	case spec.name == "":
		c.errorf(spec.alwaysAt, "write name: NAME beside always", "an always rule needs a name")
	case !spec.isLimited():
		c.errorf(spec.alwaysAt, "write a rate_limit or limits beside always", "an always rule needs a limit")
	case spec.limit != nil && spec.limit.unlimited:
		c.errorf(spec.alwaysAt, "delete it", "an always rule that is unlimited does nothing")
	case slices.ContainsFunc(c.domain.always, func(r *Rule) bool { return r.name == spec.name }):
		c.errorf(spec.nameAt, "choose another name", "duplicate always rule '%s' in domain '%s'", spec.name, c.domain.Name)
	default:
		r := c.newRule(f, nil, spec)
		r.Always = true
		r.finish()
		c.domain.always = append(c.domain.always, r)
		c.set.rules = append(c.set.rules, r)
	}
}

func (c *compiler) failure(spec *descriptorSpec) FailureMode {
	switch spec.failureMode {
	case "open":
		return Open
	case "closed":
		return Closed
	case "local":
		return FailLocal
	case "open_unbounded":
		return OpenUnbounded
	case "":
	default:
		c.errorf(spec.failureAt, "write open (each node lets pass up to the limit), closed (deny), local (each node decides by its share) or open_unbounded (let everything pass)", "failure_mode '%s' is unknown", spec.failureMode)
	}
	if spec.sensitive {
		return Closed
	}
	return Open
}

// costSources are the words of `from`, with the attribute that they stand for
// and whether they need a name.
var costSources = map[string]struct {
	source    CostSource
	attribute string
	named     bool
}{
	"hits":           {CostHits, "", false},
	"entry":          {CostEntry, "", true},
	"content_length": {CostAttribute, "content_length", false},
	"header":         {CostAttribute, "header:", true},
	"claim":          {CostAttribute, "claim:", true},
}

func (c *compiler) cost(spec *costSpec) Cost {
	cost := Cost{Max: limit.MaxQuota}
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
	if from.source == CostEntry {
		cost.Name = spec.name
		c.domain.addAside(aside{spec.name, c.file, spec.nameAt, usedForCost})
	} else if from.source == CostAttribute {
		cost.Name = from.attribute + attributeName(spec.from, spec.name)
	}
	return cost
}

// checkName warns of names that some systems do not show as they are, and
// refuses them where no file can rely on them.
func (c *compiler) checkName(f *fileSpec, name string, at position) {
	for i := range len(name) {
		b := name[i]
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-' {
			continue
		}
		const hint = "use letters, digits, '.', '_' and '-' only: names stand in header fields and metrics as they are"
		if f.usesHeadgate && !c.compat {
			c.errorf(at, hint, "name '%s' has a character that is not allowed", name)
		} else {
			c.warnf(at, hint, "name '%s' has a character that Envoy writes into header fields unescaped", name)
		}
		return
	}
}

// finish prepares what AppendKey needs.
func (r *Rule) finish() {
	r.numberLimits()
	if r.Always {
		r.keyStart = descriptor.AppendKeyStart(nil, descriptor.KindAlways, r.Domain)
		r.keyStart = descriptor.AppendKeyEntry(r.keyStart, descriptor.Entry{Key: r.name})
		return
	}
	r.keyStart = descriptor.AppendKeyStart(nil, descriptor.KindRule, r.Domain)
	if r.node == nil {
		return
	}
	if r.Tenant {
		r.tenantStart = descriptor.AppendKeyStart(nil, descriptor.KindTenant, r.Domain)
	}
	r.shared = make([]string, r.node.depth)
	for n := r.node; n.parent != nil; n = n.parent {
		if n.share {
			r.shared[n.depth-1] = sharedPattern(n)
			r.hasShared = true
		}
	}
}

// sharedPattern is what stands in a key for all values of a node that share a
// bucket. The kind keeps equal texts of different kinds apart.
func sharedPattern(n *node) string {
	return matchWords[n.match] + ":" + n.value
}
