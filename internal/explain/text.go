package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
)

// text is e as people read it in a terminal.
func (x *explainer) text(e *view.Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain %s", e.Domain)
	if d := x.set.Domain(x.req.Domain); d != nil {
		fmt.Fprintf(&b, " (match: %v, consumption: %v)", d.Match, d.Consumption)
	}
	b.WriteByte('\n')
	if e.Unknown {
		fmt.Fprintf(&b, "unknown, because the store does not answer; by failure mode %s ", e.Failure)
	}
	fmt.Fprintf(&b, "the request would be %s", word(e.Allowed))
	if v := x.after.Speaker(); v != nil && !e.Allowed {
		fmt.Fprintf(&b, " by %s: %s", ruleName(v), limitText(v))
	}
	b.WriteByte('\n')
	for i := range e.Descriptors {
		descriptorText(&b, i, &e.Descriptors[i])
	}
	return b.String()
}

func descriptorText(b *strings.Builder, i int, e *view.ExplainedDescriptor) {
	fmt.Fprintf(b, "\ndescriptor %d  %s  %s\n", i+1, e.Descriptor, rules.CountText(e.Hits, "hit"))
	depth := 0
	for _, s := range e.Steps {
		if s.Depth != depth {
			depth = s.Depth
			fmt.Fprintf(b, "  entry %d  %s\n", depth, s.Entry)
		}
		mark := "-"
		if s.Matched {
			mark = "+"
		}
		if s.Tried != "" {
			mark += " " + s.Tried + ":"
		}
		fmt.Fprintf(b, "    %s %s\n", mark, s.Note)
	}
	fmt.Fprintf(b, "  end: %s\n", e.Ended)
	for _, note := range e.Notes {
		fmt.Fprintf(b, "  note: %s\n", note)
	}
	for j := range e.Limits {
		limitLines(b, &e.Limits[j])
	}
	if len(e.Limits) == 0 {
		b.WriteString("  nothing limits it\n")
	}
}

func limitLines(b *strings.Builder, e *view.ExplainedLimit) {
	fmt.Fprintf(b, "  %s", cmp.Or(e.Rule, ofCaller))
	if e.File != "" {
		fmt.Fprintf(b, " (%s:%d)", e.File, e.Line)
	}
	b.WriteString(": ")
	if e.Role == rules.Secondary.String() || e.Role == rules.Candidate.String() {
		b.WriteString(e.Role + " ")
	}
	if e.Name != "" {
		b.WriteString(e.Name + " ")
	}
	b.WriteString(e.Limit)
	if e.Source != "rule" {
		fmt.Fprintf(b, ", by %s", e.Source)
	}
	fmt.Fprintf(b, "\n    counts %s\n    %s\n", e.Key, e.Arithmetic)
	if e.Before.Limit > 0 {
		fmt.Fprintf(b, "    before %s\n    after  %s\n", countersText(&e.Before), countersText(&e.After))
	}
	for _, note := range e.Notes {
		fmt.Fprintf(b, "    note: %s\n", note)
	}
	if e.Promise != "" {
		fmt.Fprintf(b, "    promise: %s\n", e.Promise)
	}
}

// ofCaller is what limits are called that belong to no rule.
const ofCaller = "a limit of the caller"

func ruleName(v *headgate.Verdict) string {
	if v.Rule == nil {
		return ofCaller
	}
	return v.Rule.ID
}

func countersText(c *view.Counters) string {
	return fmt.Sprintf("%d used, %d left of %d", c.Used, c.Remaining, c.Limit)
}
