package rules

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/descriptor"
)

// Set is a compiled, immutable set of rules. Many goroutines may use it. The
// zero Set has no rules.
type Set struct {
	spec    Spec
	domains map[string]*Domain
}

// Spec is what a Set is made of. New takes over all that it points to.
type Spec struct {
	// Domains are sorted by their names, which differ.
	Domains []*Domain
	// Rules are those of all Domains, in the order that Set.Rules returns.
	Rules []*Rule
	// Compat makes matching that of envoyproxy/ratelimit: key and value of an entry are
	// compared joined by "_".
	Compat bool
	// Version names the content of the set.
	Version string
	// Warnings and BadRows are what Set tells of how it was made.
	Warnings []Diagnostic
	BadRows  []RowError
}

// Domain is the rules of one domain.
type Domain struct {
	Name        string
	Match       MatchMode
	Consumption Consumption
	// Root has the descriptors of the first level for children, and says nothing else.
	Root Node
	// Always are the rules that apply to every request of the domain.
	Always []*Rule

	// tenants says that a rule has Tenant.
	tenants bool
	// asides are the keys of entries that take no part in matching.
	asides []aside
	// hold is the one that names requests, "" for none.
	hold string
}

// aside is the key of entries that a rule of the domain reads for something else than
// whom the request is counted for: they measure a request (CostEntry) or name it
// (Rule.HoldEntry), and take no part in matching, nor in any key.
type aside struct{ key, use string }

// New makes a Set. It says what is wrong with a spec that no request could be matched
// by as it says, so that what matches need not ask.
func New(spec Spec) (*Set, error) {
	s := &Set{spec: spec, domains: make(map[string]*Domain, len(spec.Domains))}
	for i, d := range spec.Domains {
		if i > 0 && spec.Domains[i-1].Name >= d.Name {
			return nil, fmt.Errorf("rules: domain %s is not in its place by name", d.Name)
		}
		s.domains[d.Name] = d
	}
	for i, r := range spec.Rules {
		r.index, r.domain = i, s.domains[r.Domain]
		if r.domain == nil {
			return nil, fmt.Errorf("rules: rule %d is of domain %s, which there is not", i, r.Domain)
		}
	}
	left := len(spec.Rules)
	for _, d := range spec.Domains {
		n, err := d.seal(spec.Compat)
		if err != nil {
			return nil, fmt.Errorf("rules: domain %s: %w", d.Name, err)
		}
		left -= n
	}
	if left != 0 {
		return nil, fmt.Errorf("rules: %d rules stand nowhere, or nodes have rules that are not listed", left)
	}
	for _, r := range spec.Rules {
		if err := r.domain.addAsides(r); err != nil {
			return nil, err
		}
	}
	assignIDs(spec.Rules)
	var derived *derivedLimits
	raises := new(derivedLimits)
	for _, r := range spec.Rules {
		if r.domain.tenants && derived == nil {
			derived = new(derivedLimits)
		}
		r.raises = raises
		if err := r.finish(derived); err != nil {
			return nil, fmt.Errorf("rules: rule %s: %w", r.ID, err)
		}
	}
	return s, nil
}

// seal readies the tree of d to be walked, tells its rules where they stand and returns
// how many there are.
func (d *Domain) seal(compat bool) (count int, err error) {
	if err := d.Root.seal(compat); err != nil {
		return 0, err
	}
	for n := range d.Root.Below() {
		if r := n.Rule; r != nil {
			if r.Always || r.domain != d {
				return 0, fmt.Errorf("the rule at %s is one of another place", n.Path())
			}
			r.node, r.way = n, n.Way()
			d.tenants = d.tenants || r.Tenant
			count++
		}
	}
	names := make(map[string]bool, len(d.Always))
	for _, r := range d.Always {
		if !r.Always || r.domain != d || r.Name == "" || names[r.Name] {
			return 0, fmt.Errorf("always rule '%s' has no name of its own, or is one of another place", r.Name)
		}
		names[r.Name] = true
		count++
	}
	return count, nil
}

// addAsides notes the entries that r reads for something else.
func (d *Domain) addAsides(r *Rule) error {
	if r.Cost.Source == CostEntry {
		d.addAside(aside{r.Cost.Name, "takes its cost from this entry"})
	}
	if r.HoldEntry == "" {
		return nil
	}
	if d.hold != "" && d.hold != r.HoldEntry {
		return fmt.Errorf("rules: domain %s: requests are named by entry %s, and by entry %s", d.Name, d.hold, r.HoldEntry)
	}
	d.hold = r.HoldEntry
	d.addAside(aside{r.HoldEntry, "names the request by this entry"})
	return nil
}

func (d *Domain) addAside(a aside) {
	if a.key != "" && !d.Aside(a.key) {
		d.asides = append(d.asides, a)
	}
}

// Aside reports whether entries with that key take no part in matching nor in any
// bucket's key: they measure a request or name it.
func (d *Domain) Aside(key string) bool { return len(d.asides) > 0 && d.AsideUse(key) != "" }

// AsideUse says what a rule of d does with entries of a key that take no part in
// matching, such as "takes its cost from this entry"; "" for entries that do.
func (d *Domain) AsideUse(key string) string {
	for i := range d.asides {
		if d.asides[i].key == key {
			return d.asides[i].use
		}
	}
	return ""
}

// HasTenants reports whether a rule of the domain is one of tenants.
func (d *Domain) HasTenants() bool { return d.tenants }

// Domain returns the rules of a domain, or nil if there are none.
func (s *Set) Domain(name string) *Domain { return s.domains[name] }

// Domains returns the names of the domains, sorted.
func (s *Set) Domains() []string {
	names := make([]string, len(s.spec.Domains))
	for i, d := range s.spec.Domains {
		names[i] = d.Name
	}
	return names
}

// Rules returns all rules in the order of the files and of the lines in them.
func (s *Set) Rules() []*Rule { return slices.Clone(s.spec.Rules) }

// Rule returns the rule with that ID, nil where there is none; a nil Set has none.
func (s *Set) Rule(id string) *Rule {
	if s == nil {
		return nil
	}
	for _, r := range s.spec.Rules {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// NumRules returns the number of rules.
func (s *Set) NumRules() int { return len(s.spec.Rules) }

// Version names the content of the set: 16 hexadecimal digits that are equal
// for equal files and options, whatever the files are called.
func (s *Set) Version() string { return s.spec.Version }

// Compat reports whether the files were read as envoyproxy/ratelimit does.
func (s *Set) Compat() bool { return s.spec.Compat }

// Warnings returns what is odd in the files, though they were loaded.
func (s *Set) Warnings() []Diagnostic { return slices.Clone(s.spec.Warnings) }

// BadRows returns why rows of a database do not count, in the order of their IDs.
func (s *Set) BadRows() []RowError { return slices.Clone(s.spec.BadRows) }

// assignIDs names every rule: by its own name where no other rule has it, else
// by domain and composite path, with a number where that is not unique either.
func assignIDs(rules []*Rule) {
	named := make(map[string]int)
	for _, r := range rules {
		named[r.Name]++
	}
	used := make(map[string]bool, len(rules))
	for _, r := range rules {
		r.ID = ""
		if r.Name != "" && named[r.Name] == 1 {
			r.ID = r.Name
			used[r.ID] = true
		}
	}
	for _, r := range rules {
		if r.ID != "" {
			continue
		}
		base := r.identity()
		r.ID = base
		for i := 2; used[r.ID]; i++ {
			r.ID = fmt.Sprintf("%s#%d", base, i)
		}
		used[r.ID] = true
	}
}

// identity is the rule's domain and composite path, which stay the same when
// the rule is renamed. It is unique in its domain up to the ways in which keys
// with dots may be read.
func (r *Rule) identity() string {
	if r.node == nil {
		return r.Domain + ".always." + r.Name
	}
	return r.Domain + "." + r.node.Path()
}

// finish readies what decisions ask of r. derived is for its domain's tenants.
func (r *Rule) finish(derived *derivedLimits) error {
	r.settleHold()
	if r.domain.tenants {
		r.derived = derived
	}
	r.setKeyStart()
	if len(r.Limits) >= 1<<roleShift {
		return fmt.Errorf("%d limits are more than keys tell apart", len(r.Limits))
	}
	r.numberLimits()
	if len(r.Schedule) == 0 {
		return nil
	}
	var err error
	r.timetable, err = newTimetable(r)
	return err
}

// settleHold tells r the entry that names the requests of its domain, if it has a limit
// that holds them.
func (r *Rule) settleHold() {
	if r.LimitOf(InFlight) != nil || r.LimitOf(Sustained) != nil {
		r.HoldEntry = r.domain.hold
	}
}

// setKeyStart makes the beginnings of the keys of r.
func (r *Rule) setKeyStart() {
	if r.Always {
		r.keyStart = descriptor.AppendKeyStart(nil, descriptor.KindAlways, r.Domain)
		r.keyStart = descriptor.AppendKeyEntry(r.keyStart, descriptor.Entry{Key: r.Name})
		return
	}
	r.keyStart = descriptor.AppendKeyStart(nil, descriptor.KindRule, r.Domain)
	if r.Tenant {
		r.tenantStart = descriptor.AppendKeyStart(nil, descriptor.KindTenant, r.Domain)
	}
	r.shares = slices.ContainsFunc(r.way, func(n *Node) bool { return n.Shared })
}
