package importer

import (
	"bytes"
	"fmt"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// Test returns a rule test for the rules, which stand in a file called rulesFile beside it.
// For each rule it asks as often as the limits allow at one instant, once more, and again
// when all windows are over.
func (r *Result) Test(rulesFile string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "rules: [%s]\n", quoted(rulesFile))
	if r.Set.Compat() {
		b.WriteString("compat: true\n")
	}
	b.WriteString("tests:\n")
	for _, name := range r.Set.Domains() {
		d := r.Set.Domain(name)
		root := &d.Root
		for n := range root.Below() {
			if n.Rule != nil {
				writeTest(&b, root, n)
			}
		}
	}
	return b.Bytes()
}

// writeTest writes the test of one rule, or a comment where no request is known that
// reaches it.
func writeTest(b *bytes.Buffer, root *rules.Node, n *rules.Node) {
	entries, ok := sample(root, n)
	if !ok {
		fmt.Fprintf(b, "  # %s: no example that reaches it could be made\n", commentText(n.Rule.ID))
		return
	}
	fmt.Fprintf(b, "  - name: %s\n    steps:\n", quoted(n.Rule.ID))
	ask := fmt.Sprintf("domain: %s, descriptors: [%s]", quoted(n.Rule.Domain), quoted(descriptor.Format(entries)))
	room := capacity(n.Rule)
	if n.Rule.Unlimited || n.Rule.Shadow {
		fmt.Fprintf(b, "      - {%s, times: %d, want: {allowed: true}}\n", ask, min(room+1, maxAsked))
		return
	}
	if room > 0 {
		fmt.Fprintf(b, "      - {%s, %s, want: {allowed: true, rule: %s}}\n", ask, howOften(n.Rule, room), quoted(n.Rule.ID))
	}
	fmt.Fprintf(b, "      - {%s, want: {allowed: false, rule: %s}}\n", ask, quoted(n.Rule.ID))
	if room > 0 {
		fmt.Fprintf(b, "      - {at: +%s, %s, want: {allowed: true}}\n", length(after(n.Rule)), ask)
	}
}

// howOften says how room requests are made: those that take slots hold them, and each takes
// one however much it costs.
func howOften(r *rules.Rule, room int64) string {
	for _, l := range r.Limits {
		if l.Role == rules.InFlight {
			return fmt.Sprintf("hold: all, times: %d", room)
		}
	}
	if room > maxAsked {
		return fmt.Sprintf("hits: %d", room)
	}
	return fmt.Sprintf("times: %d", room)
}

// maxAsked is how often a test asks one by one; more is asked for at once.
const maxAsked = 1000

// capacity is how many requests the limits of a rule let pass at one instant from idle.
func capacity(r *rules.Rule) int64 {
	room := int64(maxAsked)
	for i, l := range r.Limits {
		if l.Role == rules.Candidate {
			continue
		}
		if c := l.Capacity(); i == 0 || c < room {
			room = c
		}
	}
	return room
}

// after is a time after which the limits of a rule let a request pass again, whatever they
// let pass before.
func after(r *rules.Rule) time.Duration {
	longest := time.Second
	for _, l := range r.Limits {
		period := l.Period
		if l.Calendar != nil {
			period = 366 * 24 * time.Hour
		}
		longest = max(longest, 2*min(period, limit.MaxPeriod/2))
	}
	return longest
}

// sample returns entries that reach n, and whether there are such.
func sample(root, n *rules.Node) ([]descriptor.Entry, bool) {
	var entries []descriptor.Entry
	reached := root
	for _, step := range n.Way() {
		e := descriptor.Entry{Key: example(step.Key), Value: sampleValue(step)}
		if reached = childOf(reached, e); reached != step {
			return nil, false
		}
		entries = append(entries, e)
	}
	return entries, descriptor.Validate(entries) == nil
}

// childOf is the child of n that an entry finds: as requests do, nil for none.
func childOf(n *rules.Node, e descriptor.Entry) *rules.Node {
	if child := n.Exact(e); child != nil {
		return child
	}
	for _, child := range n.Patterns() {
		if child.Fits(e) {
			return child
		}
	}
	return n.Bare(e.Key)
}

// example is a text that a pattern with '*' fits.
func example(pattern string) string { return strings.ReplaceAll(pattern, "*", "x") }

func sampleValue(n *rules.Node) string {
	switch n.Match {
	case rules.MatchValue:
		return example(n.Value)
	case rules.MatchPrefix:
		return n.Value + "x"
	case rules.MatchCIDR:
		address, _, _ := strings.Cut(n.Value, "/")
		return address
	case rules.MatchRegex:
		parsed, err := syntax.Parse(n.Value, syntax.Perl)
		if err != nil {
			return ""
		}
		var b strings.Builder
		appendMatch(&b, parsed.Simplify(), 0)
		return b.String()
	}
	return "example"
}

// maxSampleDepth and maxSampleBytes bound the example of a regular expression.
const (
	maxSampleDepth = 64
	maxSampleBytes = 4096
)

// appendMatch appends a short text that an expression without assertions matches.
func appendMatch(b *strings.Builder, e *syntax.Regexp, depth int) {
	if depth > maxSampleDepth || b.Len() > maxSampleBytes {
		return
	}
	switch e.Op {
	case syntax.OpLiteral:
		b.WriteString(string(e.Rune))
	case syntax.OpCharClass:
		if len(e.Rune) > 0 {
			b.WriteRune(shownRune(e.Rune))
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpAlternate, syntax.OpPlus, syntax.OpCapture:
		appendMatch(b, e.Sub[0], depth+1)
	case syntax.OpConcat:
		for _, sub := range e.Sub {
			appendMatch(b, sub, depth+1)
		}
	}
}

// shownRune is a character of a class, one that is easily read where there is one.
func shownRune(ranges []rune) rune {
	for i := 0; i+1 < len(ranges); i += 2 {
		for _, r := range "xX1" {
			if ranges[i] <= r && r <= ranges[i+1] {
				return r
			}
		}
	}
	return ranges[0]
}

// quoted is a text in double quotes, as YAML reads it.
func quoted(text string) string {
	if plain(text) {
		return text
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r >= 0x7f && r <= 0xffff:
			fmt.Fprintf(&b, "\\u%04x", r)
		case r > 0xffff:
			fmt.Fprintf(&b, "\\U%08x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
