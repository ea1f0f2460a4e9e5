// Package describe says in words what rules do: why a request is matched as it is, and
// what is promised to it.
package describe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
)

// Explanation says how a descriptor was matched: what was tried, in order, and
// why.
type Explanation struct {
	Domain string
	// DomainKnown is false when no rule has the domain; nothing limits then.
	DomainKnown bool
	Match       rules.MatchMode
	Consumption rules.Consumption
	Steps       []Step
	// Applies are the rules that apply, the always rules of the domain first.
	Applies []Applied
	// Passed are the rules on the way that do not apply.
	Passed []Applied
	// End says how the walk ended.
	End string
	// Nodes is the number of nodes that String fills into the promises of
	// rules; Explain leaves it 0, for none.
	Nodes int
}

// Step is what one entry of the descriptor led to.
type Step struct {
	Entry descriptor.Entry
	// Tries are the descriptors of the level that were compared, in order, up
	// to the one that was chosen.
	Tries []Try
	// Chosen is the composite path of the descriptor that was chosen, "" for
	// none.
	Chosen string
	// Note says why nothing was tried, if so.
	Note string
}

// Try is one comparison.
type Try struct {
	// Descriptor is the composite path of what was compared; "" where a map
	// was asked and had nothing.
	Descriptor string
	File       string
	Line       int
	Chosen     bool
	// Why says what was compared.
	Why string
}

// Applied is a rule and why it applies or not.
type Applied struct {
	Rule *rules.Rule
	Why  string
	// Entries are those that name the bucket; nil for an always rule.
	Entries []descriptor.Entry
	// Schedule says what the schedule of the rule makes of its limits at that time; ""
	// when it has none.
	Schedule string
}

// Explain says how a descriptor is matched at now. It chooses as AppendMatches
// does.
func Explain(s *rules.Set, domain string, entries []descriptor.Entry, now time.Time) Explanation {
	x := Explanation{Domain: domain}
	d := s.Domain(domain)
	if d == nil {
		x.End = fmt.Sprintf("no file has the domain %q, so nothing is limited", domain)
		return x
	}
	x.DomainKnown, x.Match, x.Consumption = true, d.Match, d.Consumption
	for _, r := range d.Always {
		x.add(r, nil, now, "it applies to every request of the domain")
	}
	n, depth := &d.Root, 0
	for i := range entries {
		if use := d.AsideUse(entries[i].Key); use != "" {
			x.Steps = append(x.Steps, Step{Entry: entries[i], Note: "a rule of the domain " + use + ", so it takes no part in matching"})
			continue
		}
		step, child := walk(n, entries[i])
		x.Steps = append(x.Steps, step)
		if child == nil {
			x.endBefore(d, i, len(entries))
			return x
		}
		n, depth = child, i+1
		if d.Match == rules.Path && n.Rule != nil {
			x.add(n.Rule, entries[:depth], now, "it is on the walked path")
		}
	}
	x.endAt(d, n, entries[:depth], now)
	return x
}

// endBefore notes that the walk found nothing for entry i.
func (x *Explanation) endBefore(d *rules.Domain, i, entries int) {
	x.End = fmt.Sprintf("entry %d of %d finds nothing", i+1, entries)
	if d.Match == rules.Leaf {
		x.End += "; with match: leaf, only the descriptor of the last entry counts, and there is no way back to others"
	} else {
		x.End += "; with match: path, what was walked before it counts"
	}
}

// endAt notes that every entry found a node, the last one n.
func (x *Explanation) endAt(d *rules.Domain, n *rules.Node, entries []descriptor.Entry, now time.Time) {
	switch {
	case n.Parent == nil:
		x.End = "the descriptor has no entries to match"
	case n.Rule == nil:
		x.End = fmt.Sprintf("%s.%s has no rate_limit", d.Name, n.Path())
	default:
		x.End = fmt.Sprintf("the last entry reaches %s.%s", d.Name, n.Path())
		if d.Match == rules.Leaf {
			x.add(n.Rule, entries, now, "the last entry reaches it")
		}
	}
}

// add notes that the walk reached a rule.
func (x *Explanation) add(r *rules.Rule, entries []descriptor.Entry, now time.Time, why string) {
	a := Applied{Rule: r, Why: why, Entries: entries, Schedule: ScheduleText(r, now)}
	if r.InForce(func() time.Time { return now }) {
		x.Applies = append(x.Applies, a)
		return
	}
	a.Why = "it is not in force: " + validity(r)
	x.Passed = append(x.Passed, a)
}

func validity(r *rules.Rule) string {
	var parts []string
	if !r.ValidFrom.IsZero() {
		parts = append(parts, "valid from "+r.ValidFrom.Format(time.RFC3339))
	}
	if !r.ValidUntil.IsZero() {
		parts = append(parts, "valid until "+r.ValidUntil.Format(time.RFC3339))
	}
	return strings.Join(parts, ", ")
}

// walk returns the child of n that e finds, nil for none, with what was tried.
func walk(n *rules.Node, e descriptor.Entry) (Step, *rules.Node) {
	step := Step{Entry: e}
	if len(n.Children) == 0 {
		step.Note = "the descriptor before it has no nested descriptors"
		return step, nil
	}
	choose := func(child *rules.Node, why string) (Step, *rules.Node) {
		step.Tries = append(step.Tries, try(child, true, why))
		step.Chosen = child.Path()
		return step, child
	}
	if child := n.Exact(e); child != nil {
		return choose(child, exactReason(child, &e))
	}
	step.Tries = append(step.Tries, Try{Why: "no descriptor has this key and value"})
	for _, child := range n.Patterns() {
		if child.Fits(e) {
			return choose(child, fmt.Sprintf("the first %s in the file that fits", patternText(child)))
		}
		why := fmt.Sprintf("the value does not fit the %s", patternText(child))
		if child.Key != e.Key {
			why = "another key"
		}
		step.Tries = append(step.Tries, try(child, false, why))
	}
	if child := n.Bare(e.Key); child != nil {
		return choose(child, "the descriptor for any value of the key")
	}
	step.Tries = append(step.Tries, Try{Why: "no descriptor is for any value of the key"})
	return step, nil
}

func exactReason(child *rules.Node, e *descriptor.Entry) string {
	if child.Key == e.Key && child.Value == e.Value {
		return "the same key and value"
	}
	return `the same text when key and value are joined by "_"`
}

// patternText names what the value of an entry is compared with.
func patternText(n *rules.Node) string {
	if n.Match == rules.MatchValue || n.Match == rules.MatchAny {
		return "wildcard " + n.Composite()
	}
	return n.Match.String() + " " + n.Value
}

func try(n *rules.Node, chosen bool, why string) Try {
	return Try{Descriptor: n.Path(), File: n.File, Line: n.Line, Chosen: chosen, Why: why}
}

// String returns the explanation as lines of text.
func (x Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain %s", x.Domain)
	if x.DomainKnown {
		fmt.Fprintf(&b, " (match: %v, consumption: %v)", x.Match, x.Consumption)
	}
	b.WriteByte('\n')
	for i, step := range x.Steps {
		fmt.Fprintf(&b, "entry %d  %s\n", i+1, descriptor.Format([]descriptor.Entry{step.Entry}))
		if step.Note != "" {
			fmt.Fprintf(&b, "  - %s\n", step.Note)
		}
		for _, try := range step.Tries {
			b.WriteString("  " + try.String() + "\n")
		}
	}
	fmt.Fprintf(&b, "end: %s\n", x.End)
	for _, a := range x.Applies {
		fmt.Fprintf(&b, "applies: %s (%s:%d): %s\n", a.Rule.ID, a.Rule.File, a.Rule.Line, a.Why)
		fmt.Fprintf(&b, "  %s\n", Summary(a.Rule))
		if a.Schedule != "" {
			fmt.Fprintf(&b, "  %s\n", a.Schedule)
		}
		if promise := Promise(a.Rule, x.Nodes); promise != "" {
			fmt.Fprintf(&b, "  %s\n", promise)
		}
		if a.Entries != nil {
			fmt.Fprintf(&b, "  counted for %s\n", bucketText(a.Rule, a.Entries))
		}
	}
	for _, a := range x.Passed {
		fmt.Fprintf(&b, "does not apply: %s (%s:%d): %s\n", a.Rule.ID, a.Rule.File, a.Rule.Line, a.Why)
	}
	if len(x.Applies) == 0 {
		b.WriteString("no rule applies: the request is not limited\n")
	}
	return b.String()
}

// String returns the try in one line, beginning with "+" if it was chosen.
func (t Try) String() string {
	if t.Descriptor == "" {
		return "- " + t.Why
	}
	mark := "-"
	if t.Chosen {
		mark = "+"
	}
	return fmt.Sprintf("%s %s (%s:%d): %s", mark, t.Descriptor, t.File, t.Line, t.Why)
}

// bucketText names the bucket of a rule for the entries that it matched: costs
// and holds are left out, and patterns stand for values that share a threshold.
func bucketText(r *rules.Rule, entries []descriptor.Entry) string {
	named := slices.Clone(r.CountedEntries(nil, entries, len(entries)))
	for i, n := range r.Way()[:len(named)] {
		if n.Shared {
			named[i].Value += " (shared)"
		}
	}
	return descriptor.Format(named)
}
