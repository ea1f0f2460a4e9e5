package replay

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
)

// clock is how reports write times, in UTC.
const clock = "2006-01-02 15:04:05"

// WriteText writes r as text.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%d requests from %s to %s UTC, compared with %s\n\n", r.Requests, r.From.Format(clock), r.Until.Format(clock), r.against())
	fmt.Fprintf(t, "newly denied\t%d\t%s\t\n", r.NewlyDenied, percent(r.Share(r.NewlyDenied)))
	fmt.Fprintf(t, "newly allowed\t%d\t%s\t\n", r.NewlyAllowed, percent(r.Share(r.NewlyAllowed)))
	fmt.Fprintf(t, "as before\t%d\t%s\t\n", r.Same(), percent(r.Share(r.Same())))
	fmt.Fprintf(t, "denied before\t%d\t%s\t\n", r.DeniedBefore, percent(r.Share(r.DeniedBefore)))
	fmt.Fprintf(t, "denied after\t%d\t%s\t\n", r.DeniedAfter, percent(r.Share(r.DeniedAfter)))
	if r.ShadowDenied > 0 {
		fmt.Fprintf(t, "in shadow mode\t%d\t%s\t\n", r.ShadowDenied, percent(r.Share(r.ShadowDenied)))
	}
	r.writeRules(t)
	if len(r.Domains) > 1 {
		fmt.Fprint(t, "\nrequests\tnewly denied\tnewly allowed\t  domain\n")
		for _, d := range r.Domains {
			fmt.Fprintf(t, "%d\t%d\t%d\t  %s\n", d.Requests, d.NewlyDenied, d.NewlyAllowed, d.Domain)
		}
	}
	writeRanking(t, "newly denied", "tenant", r.DeniedTenants)
	writeRanking(t, "newly denied", "key", r.DeniedKeys)
	writeRanking(t, "newly allowed", "key", r.AllowedKeys)
	r.writeHours(t)
	r.writeReading(t)
	return t.Flush()
}

// against says what the candidate is compared with.
func (r *Report) against() string {
	if r.Recorded {
		return "what was answered"
	}
	return "the rules of today"
}

func (r *Report) writeRules(w io.Writer) {
	if len(r.Rules) == 0 {
		return
	}
	fmt.Fprint(w, "\nnewly denied\tnewly allowed\tdenied before\tdenied after\t  rule\n")
	for _, rule := range r.Rules {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t  %s\n", rule.NewlyDenied, rule.NewlyAllowed, rule.DeniedBefore, rule.DeniedAfter, ruleName(rule.Rule))
	}
}

// ruleName is the name of a rule, where there may be none.
func ruleName(id string) string { return cmp.Or(id, "(not recorded)") }

func writeRanking(w io.Writer, heading, what string, r Ranking) {
	if len(r.Keys) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\tat most too many\t  %s\n", heading, what)
	for _, k := range r.Keys {
		fmt.Fprintf(w, "%d\t%d\t  %s\n", k.Count, k.Error, k.name())
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(w, "%d\t\t  at most, of each other one\n", r.Unlisted)
	}
}

// name names a key with its domain, and its rule where it has one.
func (k KeyRow) name() string {
	key := cmp.Or(k.Key, "(all requests)")
	if k.Rule == "" {
		return k.Domain + " " + key
	}
	return k.Domain + " " + key + " (" + k.Rule + ")"
}

// writeHours writes the hours in which something changes.
func (r *Report) writeHours(w io.Writer) {
	if r.NewlyDenied+r.NewlyAllowed == 0 {
		return
	}
	fmt.Fprint(w, "\nrequests\tnewly denied\tnewly allowed\t  hour (UTC)\n")
	for _, h := range r.Hours {
		if h.NewlyDenied+h.NewlyAllowed > 0 {
			fmt.Fprintf(w, "%d\t%d\t%d\t  %s\n", h.Requests, h.NewlyDenied, h.NewlyAllowed, h.From.Format("2006-01-02 15:04"))
		}
	}
	if r.HoursCut {
		fmt.Fprintf(w, "\t\t\t  further hours are in the totals alone\n")
	}
}

// writeReading says what became of lines that were no requests, and what cannot be told.
func (r *Report) writeReading(w io.Writer) {
	n := &r.Reading
	fmt.Fprintf(w, "\nlines\t%d\t\n", n.Lines)
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"bad", n.Bad}, {"no request", n.Skipped - n.Nobody - n.Refused}, {"of nobody", n.Nobody}, {"credential refused", n.Refused},
		{"there twice", n.Twice}, {"too late", n.Late}, {"no hits", r.Others}, {"no rule", r.Requests - r.Matched},
	} {
		if c.n > 0 {
			fmt.Fprintf(w, "%s\t%d\t\n", c.name, c.n)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", note)
	}
}

// percent writes a share so that a little is never nothing.
func percent(share float64) string {
	switch p := 100 * share; {
	case p == 0:
		return "0 %"
	case p < 0.001:
		return "<0.001 %"
	case p < 1:
		return fmt.Sprintf("%.3f %%", p)
	default:
		return fmt.Sprintf("%.2f %%", p)
	}
}
