package switches

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// State is what a switch makes of the rules that it is for.
type State uint8

const (
	// On enforces, also a rule that is in shadow mode by itself.
	On State = iota
	// Shadow counts and reports, and enforces nothing.
	Shadow
	// Off neither counts nor denies.
	Off
	// Raised raises the limits; it is for targets with Raise alone.
	Raised
)

var stateNames = [...]string{On: "on", Shadow: "shadow", Off: "off", Raised: "raised"}

const hintStates = "on, off, shadow, or for a target raise:ID raised"

// String returns the word for JSON, tables and logs.
func (s State) String() string { return stateNames[s] }

// ParseState is the inverse of String.
func ParseState(text string) (State, error) {
	for s, name := range stateNames {
		if name == text {
			return State(s), nil
		}
	}
	return 0, fmt.Errorf("%.40q is no state of a switch; hint: %s", text, hintStates)
}

// Target is what a switch is for: one rule by its ID, the candidate limits of one
// rule, how large the limits of one rule are, one tenant by the entry that names it, or
// everything when all are empty. At most one is given.
type Target struct {
	Rule, Candidate, Raise string
	Tenant                 descriptor.Entry
}

// maxTarget bounds the text of a target, in bytes.
const maxTarget = 600

// The words before the colon of a target.
const (
	targetAll       = "all"
	targetRule      = "rule"
	targetCandidate = "candidate"
	targetRaise     = "raise"
	targetTenant    = "tenant"
)

// String returns the target as operators write it: "all", "rule:api.tenant",
// "candidate:api.tenant", "raise:api.tenant", "tenant:org:acme" (key and value of the
// entry).
func (t Target) String() string {
	switch {
	case t.Rule != "":
		return targetRule + ":" + t.Rule
	case t.Candidate != "":
		return targetCandidate + ":" + t.Candidate
	case t.Raise != "":
		return targetRaise + ":" + t.Raise
	case t.Tenant.Key != "":
		return targetTenant + ":" + t.Tenant.Key + ":" + t.Tenant.Value
	}
	return targetAll
}

// ParseTarget is the inverse of Target.String.
func ParseTarget(text string) (Target, error) {
	var t Target
	kind, name, _ := strings.Cut(text, ":")
	switch {
	case len(text) > maxTarget:
		return t, fmt.Errorf("target of %d bytes; hint: at most %d", len(text), maxTarget)
	case text == targetAll:
		return t, nil
	case kind == targetRule && name != "":
		t.Rule = name
	case kind == targetCandidate && name != "":
		t.Candidate = name
	case kind == targetRaise && name != "":
		t.Raise = name
	case kind == targetTenant:
		t.Tenant.Key, t.Tenant.Value, _ = strings.Cut(name, ":")
		if t.Tenant.Value == "" {
			return t, fmt.Errorf("target %.80q names no tenant; hint: tenant:KEY:VALUE, the entry of its requests, such as tenant:tenant:acme", text)
		}
	default:
		return t, fmt.Errorf("%.80q is no target of a switch; hint: all, rule:ID, candidate:ID, raise:ID or tenant:KEY:VALUE", text)
	}
	return t, nil
}

// Switch is one decision of an operator.
type Switch struct {
	Target Target
	State  State
	// Percent makes it a canary: it is for that share of the tenants, or where a
	// request names none for that share of what it is limited on, always the same
	// ones; from 1 to 100. 0 means all of them, but with Tenants none beside those.
	Percent int
	// Tenants are tenants that it is for whatever the share.
	Tenants []descriptor.Entry
	// Raise is by how many per cent the limits of Target.Raise are larger, from 1 to
	// MaxRaise; 0 for all other targets. Tenants are then the keys whose limits
	// are: entries of the buckets of the rule. Without any all keys have it.
	Raise int
	// Until, when not zero, is the instant from which it does not count any more. Where
	// limits are raised there is one.
	Until time.Time
	// Reason is for people.
	Reason string
}

const (
	// MaxSwitches bounds a Set.
	MaxSwitches = 10_000
	// MaxTenants bounds the tenants of a canary.
	MaxTenants = 1000
	// MaxReason bounds a reason, in bytes.
	MaxReason = 500
)

// Validate refuses a switch that cannot be.
func (s *Switch) Validate() error {
	switch {
	case int(s.State) >= len(stateNames):
		return fmt.Errorf("state %d; hint: %s", s.State, hintStates)
	case s.Percent < 0 || s.Percent > 100:
		return fmt.Errorf("percent %d; hint: from 1 to 100, or left out for all", s.Percent)
	case len(s.Tenants) > MaxTenants:
		return fmt.Errorf("%d tenants; hint: at most %d; a percentage reaches more", len(s.Tenants), MaxTenants)
	case len(s.Reason) > MaxReason:
		return fmt.Errorf("reason of %d bytes; hint: at most %d", len(s.Reason), MaxReason)
	case !showable(s.Until):
		return fmt.Errorf("until %w", errUntil)
	case s.Target.Tenant.Key != "" && (s.Percent > 0 || len(s.Tenants) > 0):
		return errors.New("a canary of one tenant; hint: leave percent and tenants out")
	}
	return s.validateRaise()
}

var errUntil = errors.New("after the year 9999; hint: leave it out for ever")

// showable reports whether JSON can show an end: one may come out of range by its zone.
func showable(until time.Time) bool { return until.UTC().Year() <= 9999 }

// Set is what is switched. It is immutable and safe for concurrent use; the nil Set
// switches nothing. Make one with NewSet.
type Set struct {
	all        *Switch
	rules      map[string]*Switch
	candidates map[string]*Switch
	raises     map[string]*Switch
	tenants    map[descriptor.Entry]*Switch
	// named are all tenants that a switch names, in its target or in its canary.
	named map[descriptor.Entry]bool
}

// NewSet returns the set of switches, nil when there are none. The error names the
// target of one that cannot be, or that is there twice.
func NewSet(list []Switch) (*Set, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > MaxSwitches {
		return nil, fmt.Errorf("%d switches; hint: at most %d", len(list), MaxSwitches)
	}
	s := &Set{
		rules: map[string]*Switch{}, candidates: map[string]*Switch{}, raises: map[string]*Switch{},
		tenants: map[descriptor.Entry]*Switch{}, named: map[descriptor.Entry]bool{},
	}
	for i := range list {
		one := list[i]
		if err := cmp.Or(one.Validate(), s.add(&one)); err != nil {
			return nil, fmt.Errorf("switch %s: %w", one.Target, err)
		}
	}
	return s, nil
}

func (s *Set) add(one *Switch) error {
	t, twice := one.Target, errors.New("it is there twice")
	for _, e := range append(one.Tenants[:len(one.Tenants):len(one.Tenants)], t.Tenant) {
		if e.Key != "" {
			s.named[e] = true
		}
	}
	switch {
	case t.Rule != "":
		if s.rules[t.Rule] != nil {
			return twice
		}
		s.rules[t.Rule] = one
	case t.Candidate != "":
		if s.candidates[t.Candidate] != nil {
			return twice
		}
		s.candidates[t.Candidate] = one
	case t.Raise != "":
		if s.raises[t.Raise] != nil {
			return twice
		}
		s.raises[t.Raise] = one
	case t.Tenant.Key != "":
		if s.tenants[t.Tenant] != nil {
			return twice
		}
		s.tenants[t.Tenant] = one
	default:
		if s.all != nil {
			return twice
		}
		s.all = one
	}
	return nil
}

// Asked is what a rule is asked about.
type Asked struct {
	// Rule is the ID of the rule.
	Rule string
	// Tenant is the entry that names the tenant, zero for none.
	Tenant descriptor.Entry
	// Share is where in [0, 100) the request stands in canaries; see ShareOf.
	Share int
	// Now is the instant.
	Now limit.Micros
}

// Of returns what the switches make of a rule for a request, and false when none is
// for it: that of the tenant speaks first, then that of the rule, then that of all.
// It does not allocate.
func (s *Set) Of(a *Asked) (State, bool) {
	if s == nil {
		return On, false
	}
	for _, one := range [...]*Switch{s.tenants[a.Tenant], s.rules[a.Rule], s.all} {
		if one.isFor(a) {
			return one.State, true
		}
	}
	return On, false
}

// OfCandidate is Of for the candidate limits of a rule.
func (s *Set) OfCandidate(a *Asked) (State, bool) {
	if s == nil {
		return On, false
	}
	if one := s.candidates[a.Rule]; one.isFor(a) {
		return one.State, true
	}
	return On, false
}

// Names reports whether a switch, or its canary, is for the tenant that an entry names.
func (s *Set) Names(e descriptor.Entry) bool { return s != nil && s.named[e] }

// isFor reports whether s, which may be nil, is for a request.
func (s *Switch) isFor(a *Asked) bool {
	if s == nil || !s.Until.IsZero() && a.Now >= limit.MicrosOf(s.Until) {
		return false
	}
	return s.Percent == 0 && len(s.Tenants) == 0 || a.Share < s.Percent || slices.Contains(s.Tenants, a.Tenant)
}
