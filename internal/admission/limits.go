package admission

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// Limit is a limit without a rule.
type Limit struct {
	limit *limit.Limit
	// mark follows the entries of its descriptors, so that limits do not share
	// buckets.
	mark descriptor.Entry
	// name is what answers call it.
	name string
}

// windowKey is the entry key that keeps the buckets of several limits apart.
const windowKey = "window"

// NewLimits returns the limits of a list whose periods differ. A nameless one is
// called by its period where there are several.
func NewLimits(list []rules.NamedLimit) ([]Limit, error) {
	var limits []Limit
	seen := make(map[string]bool, len(list))
	for _, l := range list {
		if l.Limit == nil {
			return nil, errors.New("a limit is nil; hint: limit.New makes one")
		}
		period := rules.DurationText(l.Period)
		if l.Calendar != nil {
			period = l.Calendar.Unit.String()
		}
		if seen[period] {
			return nil, fmt.Errorf("two limits per %s; hint: the smaller one is enough", period)
		}
		seen[period] = true
		name := l.Name
		if name == "" && len(list) > 1 {
			name = period
		}
		limits = append(limits, Limit{l.Limit, descriptor.Entry{Key: windowKey, Value: period}, name})
	}
	return limits, nil
}

// DomainOf returns the domain to ask in: that of the rules, or that of limits
// without rules. There is one of them, not both.
func DomainOf(domain string, limits []Limit) (string, error) {
	switch {
	case domain == "" && len(limits) == 0:
		return "", errors.New("no Domain; hint: name the domain of the rules, or give Limits")
	case domain != "" && len(limits) > 0:
		return "", fmt.Errorf("domain %q beside Limits; hint: limits without rules have the domain %q", domain, headgate.CallerDomain)
	case domain == "":
		return headgate.CallerDomain, nil
	}
	return domain, nil
}

// nameVerdicts gives the limits of p their names, which the engine does not
// know. Add made a descriptor for each of them.
func (p *Pass) nameVerdicts() {
	resp := p.Response()
	for i := range resp.Verdicts {
		if v := &resp.Verdicts[i]; v.Rule == nil && v.Limit != nil {
			v.Name = p.Limits[v.Descriptor%len(p.Limits)].name
		}
	}
}
