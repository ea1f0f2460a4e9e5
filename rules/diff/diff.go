// Package diff says how two sets of rules differ.
package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
)

// ChangeKind says how two sets differ in one thing.
type ChangeKind uint8

const (
	// Added is only in the new set.
	Added ChangeKind = iota
	// Removed is only in the old set.
	Removed
	// Changed is in both, not alike.
	Changed
)

// String returns "added", "removed" or "changed".
func (k ChangeKind) String() string {
	return [...]string{"added", "removed", "changed"}[k]
}

// Change is one difference between two sets.
type Change struct {
	Kind ChangeKind
	// Subject is a rule, by its domain and composite path, or "domain NAME".
	Subject string
	// Field is what changed, such as "limit" or "shadow_mode"; "" for a rule
	// that was added or removed.
	Field string
	// From and To are the values; "" where there was or is none.
	From, To string
}

// String returns the change in one line: "~ api.user: limit: 5 per 1m ... ->
// 6 per 1m ...".
func (c Change) String() string {
	switch c.Kind {
	case Added:
		return fmt.Sprintf("+ %s: %s", c.Subject, c.To)
	case Removed:
		return fmt.Sprintf("- %s: %s", c.Subject, c.From)
	}
	return fmt.Sprintf("~ %s: %s: %s -> %s", c.Subject, c.Field, cmp.Or(c.From, "none"), cmp.Or(c.To, "none"))
}

// Sets returns what b changes in a, sorted by subject. A rule is the same rule
// in both as long as its domain and composite path are; its name may change.
// The order of patterns on one level is compared too, because the first that fits
// wins. Where the match of a domain changes, so does which limits count: that is said of
// every descriptor that it changes for.
func Sets(a, b *rules.Set) []Change {
	changes := diffDomains(a, b)
	before, oldOrder := factsOf(a)
	after, newOrder := factsOf(b)
	for _, parent := range slices.Sorted(maps.Keys(newOrder)) {
		order := newOrder[parent]
		from, to := common(oldOrder[parent], order), common(order, oldOrder[parent])
		if !slices.Equal(from, to) {
			changes = append(changes, Change{Changed, subjectName(parent), "order of patterns", strings.Join(from, " "), strings.Join(to, " ")})
		}
	}
	for _, subject := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[subject]; !ok {
			changes = append(changes, Change{Kind: Removed, Subject: subjectName(subject), From: before[subject].summary})
		}
	}
	for _, subject := range slices.Sorted(maps.Keys(after)) {
		was, ok := before[subject]
		if !ok {
			changes = append(changes, Change{Kind: Added, Subject: subjectName(subject), To: after[subject].summary})
			continue
		}
		changes = was.appendChanges(changes, after[subject], subjectName(subject))
	}
	slices.SortStableFunc(changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.Subject, y.Subject), cmp.Compare(x.Field, y.Field))
	})
	return changes
}

// separator joins the parts of a subject while sets are compared, because keys and
// values may have dots of their own.
const separator = "\x00"

// subjectName returns a subject as people read it.
func subjectName(subject string) string { return strings.ReplaceAll(subject, separator, ".") }

// appendChanges appends how now differs from was.
func (was subjectFacts) appendChanges(changes []Change, now subjectFacts, subject string) []Change {
	if was.limited != now.limited {
		return append(changes, Change{Changed, subject, "limit", was.summary, now.summary})
	}
	both := maps.Clone(was.fields)
	maps.Copy(both, now.fields)
	for _, field := range slices.Sorted(maps.Keys(both)) {
		if from, to := was.fields[field], now.fields[field]; from != to {
			changes = append(changes, Change{Changed, subject, field, from, to})
		}
	}
	return changes
}

// common returns the elements of a that b has too, in the order of a.
func common(a, b []string) []string {
	inB := make(map[string]bool, len(b))
	for _, x := range b {
		inB[x] = true
	}
	var both []string
	for _, x := range a {
		if inB[x] {
			both = append(both, x)
		}
	}
	return both
}

// diffDomains compares what domains say as a whole.
func diffDomains(a, b *rules.Set) []Change {
	var changes []Change
	for _, name := range b.Domains() {
		was, now := a.Domain(name), b.Domain(name)
		if was == nil {
			continue
		}
		for _, field := range []struct{ name, from, to string }{
			{"match", was.Match.String(), now.Match.String()},
			{"consumption", was.Consumption.String(), now.Consumption.String()},
		} {
			if field.from != field.to {
				changes = append(changes, Change{Changed, "domain " + name, field.name, field.from, field.to})
			}
		}
		changes = append(changes, effective(was, now)...)
	}
	return changes
}

// subjectFacts is what Sets compares of one rule, or of one descriptor that
// frees from limits.
type subjectFacts struct {
	limited bool // it has a rule
	summary string
	fields  map[string]string
}

// factsOf returns every rule and every descriptor without one, by domain and
// composite path, and for each descriptor the patterns below it in their order.
func factsOf(s *rules.Set) (all map[string]subjectFacts, order map[string][]string) {
	all, order = make(map[string]subjectFacts), make(map[string][]string)
	for _, name := range s.Domains() {
		d := s.Domain(name)
		for _, r := range d.Always {
			all[r.Domain+separator+"always"+separator+r.Name] = subjectFacts{true, limitsText(r), factsOfRule(r)}
		}
		for n := range d.Root.Below() {
			subject := name
			for _, outer := range n.Parent.Way() {
				subject += separator + outer.Composite()
			}
			if n.IsPattern() {
				order[subject] = append(order[subject], n.Composite())
			}
			f := subjectFacts{summary: "no limit"}
			if n.Rule != nil {
				f = subjectFacts{true, limitsText(n.Rule), factsOfRule(n.Rule)}
			}
			all[subject+separator+n.Composite()] = f
		}
	}
	return all, order
}

// limitsText returns the limits of a rule, joined.
func limitsText(r *rules.Rule) string {
	if r.Unlimited {
		return "unlimited"
	}
	if r.Tenant && len(r.Limits) == 0 {
		return "that of the tenant"
	}
	return textOf(r, rules.Main, rules.Candidate, rules.InFlight, rules.Secondary, rules.Sustained, rules.Banning)
}

// textOf returns the limits of r that have one of some roles, joined.
func textOf(r *rules.Rule, roles ...rules.Role) string {
	var texts []string
	for i := range r.Limits {
		if slices.Contains(roles, r.Limits[i].Role) {
			texts = append(texts, r.Limits[i].String())
		}
	}
	return strings.Join(texts, " and ")
}

// factsOfRule returns what Sets compares of a rule.
func factsOfRule(r *rules.Rule) map[string]string {
	var names []string
	if r.Name != "" {
		names = append(names, r.Name)
	}
	for i := range r.Limits {
		if name := r.Limits[i].Name; r.Limits[i].Role == rules.Main && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	facts := map[string]string{
		"limit":            textOf(r, rules.Main),
		"concurrency":      textOf(r, rules.InFlight),
		"concurrency.hold": r.HoldEntry,
		"secondary_limits": textOf(r, rules.Secondary, rules.Sustained),
		"ban":              textOf(r, rules.Banning),
		"candidate":        candidateText(r),
		"schedule":         r.Schedule.String(),
		"raise_hot_keys":   r.HotRaise.String(),
		"on_change":        r.Carry.String(),
		"soft_limit":       r.Soft.String(),
		"answer":           r.Answer.String(),
		"priority":         r.Priority,
		"name":             strings.Join(names, " "),
		"failure_mode":     r.Failure.String(),
		"cost":             r.Cost.String(),
		"replaces":         strings.Join(r.Replaces, " "),
		"valid_from":       instantText(r.ValidFrom),
		"valid_until":      instantText(r.ValidUntil),
		"value_to_metric":  strings.Join(r.ValueLevels(), " "),
	}
	if r.MaxDebt > 0 {
		facts["max_debt"] = strconv.FormatInt(r.MaxDebt, 10)
	}
	if r.Trial != nil && len(r.Trial.Tenants) > rules.TenantsTold {
		facts["candidate.tenants"] = fmt.Sprint(r.Trial.Tenants)
	}
	if r.Unlimited {
		facts["limit"] = limitsText(r)
	}
	for name, set := range map[string]bool{
		"shadow_mode": r.Shadow, "quota_mode": r.Quota, "sensitive": r.Sensitive, "tenant": r.Tenant, "share_threshold": r.ShareThreshold,
		"detailed_metric": r.DetailedMetric,
	} {
		facts[name] = strconv.FormatBool(set)
	}
	maps.Copy(facts, modeFacts(&r.Mode))
	if len(r.Metadata) > 0 {
		facts["metadata"] = fmt.Sprint(r.Metadata)
	}
	return facts
}

// candidateText returns the candidate limits of r and whom they are enforced for.
func candidateText(r *rules.Rule) string {
	if r.Trial == nil {
		return ""
	}
	return textOf(r, rules.Candidate) + ", " + r.Trial.String()
}

func instantText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}
