package rules

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/descriptor"
)

// Set is a compiled, immutable set of rules. Many goroutines may use it. The
// zero Set has no rules.
type Set struct {
	domains  map[string]*Domain
	names    []string
	rules    []*Rule
	warnings []Diagnostic
	badRows  []RowError
	version  string
	compat   bool
}

// Domain is the rules of one domain.
type Domain struct {
	Name        string
	Match       MatchMode
	Consumption Consumption

	root   *node
	always []*Rule
	// tenants says that a rule has Tenant.
	tenants bool
	// asides are the keys of entries that take no part in matching: those that
	// measure a request (CostEntry) or name it (Rule.HoldEntry).
	asides []aside
	// hold is the one that names requests; the zero value is none.
	hold aside
}

// Domain returns the rules of a domain, or nil if there are none.
func (s *Set) Domain(name string) *Domain { return s.domains[name] }

// Domains returns the names of the domains, sorted.
func (s *Set) Domains() []string { return slices.Clone(s.names) }

// Rules returns all rules in the order of the files and of the lines in them.
func (s *Set) Rules() []*Rule { return slices.Clone(s.rules) }

// Index returns the position of r among the Rules of its Set.
func (r *Rule) Index() int { return r.index }

// NumRules returns the number of rules.
func (s *Set) NumRules() int { return len(s.rules) }

// Version names the content of the set: 16 hexadecimal digits that are equal
// for equal files and options, whatever the files are called.
func (s *Set) Version() string { return s.version }

// Compat reports whether the files were read as envoyproxy/ratelimit does.
func (s *Set) Compat() bool { return s.compat }

// Warnings returns what is odd in the files, though they were loaded.
func (s *Set) Warnings() []Diagnostic { return slices.Clone(s.warnings) }

// Always returns the rules that apply to every request of the domain. The
// caller must not change the slice.
func (d *Domain) Always() []*Rule { return d.always }

// assignIDs names every rule: by its own name where no other rule has it, else
// by domain and composite path, with a number where that is not unique either.
func assignIDs(rules []*Rule) {
	named := make(map[string]int)
	for _, r := range rules {
		named[r.name]++
	}
	used := make(map[string]bool, len(rules))
	for _, r := range rules {
		if r.name != "" && named[r.name] == 1 {
			r.ID = r.name
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
		return r.Domain + ".always." + r.name
	}
	return r.Domain + "." + r.node.path()
}

// AppendOverrideKey appends the bucket key of a limit that the caller named
// itself. It never equals the key of a rule.
func AppendOverrideKey(dst []byte, domain string, entries []descriptor.Entry) []byte {
	return descriptor.AppendKey(dst, descriptor.KindCaller, domain, entries, 0)
}
