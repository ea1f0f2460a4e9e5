package simulate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// figure is a column of all reports.
type figure struct {
	heading string
	of      func(Cell) float64 // a share
}

var (
	wrongAllowed = figure{"wrong allowed", func(c Cell) float64 { return c.Share(c.WrongAllowed) }}
	wrongDenied  = figure{"wrong denied", func(c Cell) float64 { return c.Share(c.WrongDenied) }}
	overshoot    = figure{"overshoot", func(c Cell) float64 { return max(0, c.Overshoot) }}
	lost         = figure{"lost", Cell.Lost}
)

// figures returns what means something: a history of what is asked has no overshoot of the limit.
func figures(o Options) []figure {
	if o.OpenLoop {
		return []figure{wrongAllowed, wrongDenied}
	}
	return []figure{wrongAllowed, lost, overshoot}
}

// WriteTable writes cells as text, a block for each workload.
func WriteTable(w io.Writer, o Options, cells []Cell) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%s\n", title(o))
	for i, c := range cells {
		if i == 0 || cells[i-1].Workload != c.Workload {
			fmt.Fprintf(table, "\n%s: %s\nload\talgorithm\trequests\t", c.Workload, textOf(o, c.Workload))
			for _, f := range figures(o) {
				fmt.Fprintf(table, "%s\t", f.heading)
			}
			fmt.Fprintln(table, "peak\t")
		}
		fmt.Fprintf(table, "%v\t%s\t%d\t", c.Load, c.Algorithm, c.Requests)
		for _, f := range figures(o) {
			fmt.Fprintf(table, "%s\t", percent(f.of(c)))
		}
		fmt.Fprintf(table, "%.1f\t\n", c.Peak)
	}
	return table.Flush()
}

// WriteMarkdown writes one workload as a table of Markdown: a row for each algorithm, and in a
// column for each load all figures.
func WriteMarkdown(w io.Writer, o Options, cells []Cell, workload string) error {
	fmt.Fprint(w, "| |")
	for _, load := range o.Loads {
		fmt.Fprintf(w, " %v |", load)
	}
	fmt.Fprintf(w, "\n|%s\n", strings.Repeat("---|", 1+len(o.Loads)))
	for _, a := range o.Algorithms {
		fmt.Fprintf(w, "| %s |", a.Name)
		for _, c := range cells {
			if c.Workload != workload || c.Algorithm != a.Name {
				continue
			}
			for i, f := range figures(o) {
				fmt.Fprint(w, [...]string{" ", " / "}[min(i, 1)], percent(f.of(c)))
			}
			fmt.Fprint(w, " |")
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return nil
}

// document is what JSON has.
type document struct {
	Limit   string `json:"limit"`
	Sources int    `json:"sources"`
	Periods int    `json:"periods"`
	Nodes   int    `json:"nodes"`
	Open    bool   `json:"open_loop"`
	Seed    uint64 `json:"seed"`
	Cells   []Cell `json:"cells"`
}

// Document is options and cells for programs, as JSON.
func Document(o Options, cells []Cell) any {
	return document{Limit: limitText(o), Sources: o.Sources, Periods: o.Periods, Nodes: o.Nodes, Open: o.OpenLoop, Seed: o.Seed, Cells: cells}
}

func limitText(o Options) string { return fmt.Sprintf("%d in %v", o.Quota, o.Period) }

// title names everything by which the figures can be had again.
func title(o Options) string {
	also := ""
	if o.Nodes > 1 {
		also = fmt.Sprintf(", divided between %d nodes", o.Nodes)
	}
	if o.OpenLoop {
		also += ", denied requests count"
	}
	return fmt.Sprintf("%s%s; %d sources, %d periods, seed %d", limitText(o), also, o.Sources, o.Periods, o.Seed)
}

func textOf(o Options, workload string) string {
	for _, w := range o.Workloads {
		if w.Name == workload {
			return w.Text
		}
	}
	return ""
}

// percent writes a share so that a little is never nothing.
func percent(share float64) string {
	switch p := 100 * share; {
	case p < 0:
		return "-" + percent(-share)
	case p == 0:
		return "0 %"
	case p < 0.01:
		return "<0.01 %"
	case p < 1:
		return fmt.Sprintf("%.2f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}
