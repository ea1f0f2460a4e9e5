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
	role rules.Role
}

// windowKey is the entry key that keeps the buckets of several limits apart.
const windowKey = "window"

// concurrencyWindow stands for the period of a limit on concurrency, which has none.
const concurrencyWindow = "concurrency"

// NewLimits returns the limits of a list whose periods differ; one of them may be on
// concurrency. A nameless one is called by its period where there are several.
func NewLimits(list []rules.NamedLimit) ([]Limit, error) {
	var limits []Limit
	seen := make(map[string]bool, len(list))
	for _, l := range list {
		if l.Limit == nil {
			return nil, errors.New("a limit is nil; hint: limit.New makes one")
		}
		period, role := rules.DurationText(l.Period), rules.Main
		switch {
		case l.Algorithm == limit.Ban:
			return nil, errors.New("a ban without rules would count nothing; hint: `ban` of a rule counts its denials")
		case l.Algorithm == limit.Concurrency:
			period, role = concurrencyWindow, rules.InFlight
		case l.Calendar != nil:
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
		limits = append(limits, Limit{l.Limit, descriptor.Entry{Key: windowKey, Value: period}, name, role})
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

// nameVerdicts gives the limits of p their names and roles, which the engine does
// not know. Add made a descriptor for each of them.
func (p *Pass) nameVerdicts() {
	resp := p.Response()
	for i := range resp.Verdicts {
		if v := &resp.Verdicts[i]; v.Rule == nil && v.Limit != nil {
			l := &p.Limits[v.Descriptor%len(p.Limits)]
			v.Name, v.Role = l.name, l.role
		}
	}
}
