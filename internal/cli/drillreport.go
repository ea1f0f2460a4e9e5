package cli

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/internal/drill"
)

// printDrill prints what is known of a drill.
func printDrill(std *stdio, w drill.Whole, asJSON bool) error {
	if asJSON {
		return printJSON(std.out, &w)
	}
	return writeDrill(std.out, &w)
}

// writeDrill writes a drill as tables.
func writeDrill(out io.Writer, w *drill.Whole) error {
	o := w.Order
	fmt.Fprintf(out, "drill %s  %s\n", o.Fault, drillState(w))
	fmt.Fprintf(out, "begun %s by %s, for %v, aborted above %s errors%s\n", o.BeganAt.Format(time.RFC3339), oneLine(o.Actor), o.Lasts(), drill.Percent(o.AbortAbove), drillDetail(o))
	if e := o.Ended; e != nil && e.Detail != "" {
		fmt.Fprintf(out, "%s\n", oneLine(e.Detail))
	}
	if w.Error != "" {
		fmt.Fprintf(out, "not all that nodes report can be read: %s\n", oneLine(w.Error))
	}
	if len(w.Nodes) == 0 {
		_, err := fmt.Fprintln(out, "no node has reported yet")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "\nNODE\tSTATE\tLASTED\tDECIDED\tSTORE\tRESERVE\tLOCAL\tOPEN\tPASSED\tFAILED\tUNCHECKED\tDENIED\tP50\tP99\tMAX")
	for i := range w.Nodes {
		r := &w.Nodes[i]
		writeDrillRow(table, oneLine(r.Node), string(r.State), (time.Duration(r.LastedMS) * time.Millisecond).Round(100*time.Millisecond).String(), &r.Counts, &r.Latency)
	}
	writeDrillRow(table, "all", "", "", &w.Sum, &w.Latency)
	if err := table.Flush(); err != nil {
		return err
	}
	return writeAway(out, w)
}

// drillState says where a drill is.
func drillState(w *drill.Whole) string {
	switch e := w.Order.Ended; {
	case !w.UnderWay && w.Nobody():
		return "nobody took part"
	case w.UnderWay:
		return "under way, " + (time.Duration(w.LeftMS) * time.Millisecond).Round(time.Second).String() + " left"
	case e != nil && e.By != "":
		return fmt.Sprintf("%s, %s", e.Why, oneLine(e.By))
	case e != nil:
		return string(e.Why)
	}
	return string(drill.Expired)
}

// drillDetail says what of the order is not in the name of its fault.
func drillDetail(o *drill.Order) string {
	text := ""
	if o.Store != "" {
		text += ", of store " + oneLine(o.Store)
	}
	if o.Shard != "" {
		text += ", of " + oneLine(o.Shard)
	}
	if o.DelayMS > 0 {
		text += ", " + o.Delay().String() + " more"
	}
	if o.SkewMS != 0 {
		text += ", " + drill.SkewText(o.Skew())
	}
	if o.Node != "" {
		text += ", of node " + oneLine(o.Node)
	}
	if o.Reason != "" {
		text += ": " + oneLine(o.Reason)
	}
	return text
}

func writeDrillRow(table io.Writer, node, state, lasted string, c *drill.Counts, l *drill.Latency) {
	fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", node, state, lasted,
		c.Decided, c.Store, c.Reserve, c.Local, c.Open, c.Passed, c.Failed, c.Unchecked, c.Denied, microseconds(l.P50), microseconds(l.P99), microseconds(l.Max))
}

func microseconds(us int64) string {
	if us == 0 {
		return "-"
	}
	return (time.Duration(us) * time.Microsecond).String()
}

// writeAway writes what was away, and what else nodes say.
func writeAway(out io.Writer, w *drill.Whole) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	head := false
	for i := range w.Nodes {
		for _, a := range w.Nodes[i].Away {
			if !head {
				fmt.Fprintln(table, "\nAWAY\tON\tAFTER\tTIMES\tFOR\tBACK")
				head = true
			}
			back := "before the end"
			switch {
			case a.Still:
				back = "not yet"
			case a.BackMS > 0:
				back = (time.Duration(a.BackMS) * time.Millisecond).String() + " after it"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", oneLine(a.Name), oneLine(w.Nodes[i].Node), time.Duration(a.AfterMS)*time.Millisecond, a.Times, time.Duration(a.ForMS)*time.Millisecond, back)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range w.Nodes {
		if r := &w.Nodes[i]; r.Detail != "" {
			if _, err := fmt.Fprintf(out, "%s: %s\n", oneLine(r.Node), oneLine(cmp.Or(r.Detail, string(r.Why)))); err != nil {
				return err
			}
		}
	}
	return nil
}
