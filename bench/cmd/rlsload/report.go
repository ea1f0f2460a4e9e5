package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/bench/internal/figures"
)

// cell is a place in the tables.
type cell struct {
	system   string
	workload workload
	axis     string
}

func cellOf(s system, w workload) cell { return cell{s.name, w, s.axis} }

// section is what pages call the kind of table that the cell is in.
func (c cell) section() string {
	switch {
	case c.axis == checkTable:
		return "check"
	case c.axis != "":
		return "scale"
	case c.workload.isPaced():
		return "latency"
	}
	return "grpc"
}

// table is the title of the table.
func (c cell) table() string {
	switch c.axis {
	case "":
		return c.workload.String()
	case checkTable:
		return checkTable
	}
	return "against " + c.axis
}

// results are the measurements of all rounds, in the order of the first.
type results struct {
	order  []cell
	all    map[cell][]measurement
	missed map[cell]error
}

func newResults() *results {
	return &results{all: make(map[cell][]measurement), missed: make(map[cell]error)}
}

func (r *results) seen(c cell) {
	if !slices.Contains(r.order, c) {
		r.order = append(r.order, c)
	}
}

func (r *results) add(c cell, m measurement) {
	r.seen(c)
	r.all[c] = append(r.all[c], m)
}

// withRate returns the workload of c, with the rate that its load comes to.
func (r *results) withRate(c cell) (workload, error) {
	w := c.workload
	if w.load == 0 {
		return w, nil
	}
	c.workload.load = 0
	rounds := r.all[c]
	if len(rounds) == 0 {
		return w, errors.New("how much it answers at most was not measured")
	}
	w.rate = int(rounds[len(rounds)-1].rate) * w.load / 100
	return w, nil
}

// miss says that a round of c could not be measured. It is a row when no other
// round was.
func (r *results) miss(c cell, err error) {
	r.seen(c)
	r.missed[c] = err
}

// reason is one line of why c was not measured.
func (r *results) reason(c cell) string {
	if r.missed[c] == nil {
		return "no rounds"
	}
	line, _, _ := strings.Cut(r.missed[c].Error(), "\n")
	return line
}

func (m measurement) total() float64 { return m.server + m.redis }

// mean returns the mean of the rounds, and how far the CPU per request of the
// rounds lies apart, in percent of it.
func mean(rounds []measurement) (m measurement, spread float64) {
	n := float64(len(rounds))
	lowest, highest := rounds[0].total(), rounds[0].total()
	for _, r := range rounds {
		m.rate += r.rate / n
		m.p50 += r.p50 / time.Duration(len(rounds))
		m.p99 += r.p99 / time.Duration(len(rounds))
		m.p999 += r.p999 / time.Duration(len(rounds))
		m.late += r.late / time.Duration(len(rounds))
		m.unsent += r.unsent / n
		m.resident += r.resident / n
		m.server += r.server / n
		m.redis += r.redis / n
		m.commands += r.commands / n
		m.reads += r.reads / n
		m.bytesPerKey += r.bytesPerKey / n
		m.undecided += r.undecided / n
		m.hasRedis = r.hasRedis
		lowest, highest = min(lowest, r.total()), max(highest, r.total())
	}
	return m, (highest - lowest) / m.total() * 100
}

// columns are those of a section but for the name of the system, which is last.
var columns = map[string][]column{
	"grpc": {
		colRate, colP50, colP99, colServer, colRedis, colSum, colSpread, colConstant, colRatelimit,
		{"Redis reads/req", redisOnly(func(m measurement) string { return fmt.Sprintf("%.3f", m.reads) })},
		{"commands/req", redisOnly(func(m measurement) string { return fmt.Sprintf("%.2f", m.commands) })},
		{"B/key", redisOnly(func(m measurement) string { return fmt.Sprintf("%.0f", m.bytesPerKey) })},
		colUndecided,
	},
	"latency": {
		colRate, colP50, colP99,
		{"p99.9 us", func(_ *results, _ cell, m measurement, _ float64) string { return micro(m.p999) }},
		{"p99 x ratelimit", (*results).latencyRatio},
		{"sent late, p99 us", func(_ *results, _ cell, m measurement, _ float64) string { return micro(m.late) }},
		{"unsent %", func(_ *results, _ cell, m measurement, _ float64) string { return fmt.Sprintf("%.2f", m.unsent*100) }},
		colServer, colRedis, colSum, colConstant, colRatelimit, colUndecided,
	},
	"check": {
		colRate, colP50, colP99, colServer, colRedis, colSum, colSpread,
		{"x gRPC", func(r *results, c cell, m measurement, _ float64) string { return r.ratio(c, m, alike(c.system)) }},
		colUndecided,
	},
	"scale": {
		colRate, colP50, colP99, colServer, colRedis, colSum, colSpread,
		{"memory MB", func(_ *results, _ cell, m measurement, _ float64) string { return fmt.Sprintf("%.0f", m.resident/1e6) }},
		colUndecided,
	},
}

// column is the head of a column and what stands below it.
type column struct {
	head string
	text func(r *results, c cell, m measurement, spread float64) string
}

var (
	colRate = column{"req/s", func(_ *results, _ cell, m measurement, _ float64) string { return fmt.Sprintf("%.0f", m.rate) }}
	colP50  = column{"p50 us", func(_ *results, _ cell, m measurement, _ float64) string { return micro(m.p50) }}
	colP99  = column{"p99 us", func(_ *results, _ cell, m measurement, _ float64) string { return micro(m.p99) }}

	colServer    = column{"server us/req", func(_ *results, _ cell, m measurement, _ float64) string { return fmt.Sprintf("%.1f", m.server) }}
	colRedis     = column{"Redis us/req", redisOnly(func(m measurement) string { return fmt.Sprintf("%.1f", m.redis) })}
	colSum       = column{"sum", func(_ *results, _ cell, m measurement, _ float64) string { return fmt.Sprintf("%.1f", m.total()) }}
	colSpread    = column{"spread", func(_ *results, _ cell, _ measurement, spread float64) string { return fmt.Sprintf("%.0f %%", spread) }}
	colUndecided = column{"undecided %", redisOnly(func(m measurement) string { return fmt.Sprintf("%.2f", m.undecided*100) })}
	colConstant  = column{"x constant", func(r *results, c cell, m measurement, _ float64) string { return r.ratio(c, m, constantName) }}
	colRatelimit = column{"x ratelimit", func(r *results, c cell, m measurement, _ float64) string { return r.ratio(c, m, ratelimitName) }}
)

func micro(d time.Duration) string { return fmt.Sprint(d.Microseconds()) }

func redisOnly(text func(measurement) string) func(*results, cell, measurement, float64) string {
	return func(_ *results, _ cell, m measurement, _ float64) string {
		if !m.hasRedis {
			return "-"
		}
		return text(m)
	}
}

// print writes one table for each workload, and for each axis.
func (r *results) print(w io.Writer) error {
	var printed []string
	for _, first := range r.order {
		if slices.Contains(printed, first.table()) {
			continue
		}
		printed = append(printed, first.table())
		if err := r.printTable(w, first); err != nil {
			return err
		}
	}
	return nil
}

// printTable writes the table that first is in.
func (r *results) printTable(w io.Writer, first cell) error {
	fmt.Fprintf(w, "\n%s\n", first.table())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	shown := columns[first.section()]
	for _, col := range shown {
		fmt.Fprint(t, col.head, "\t")
	}
	fmt.Fprintln(t, "  system")
	for _, c := range r.order {
		if c.table() != first.table() {
			continue
		}
		rounds := r.all[c]
		if len(rounds) == 0 {
			fmt.Fprintf(t, "%s  %s (not measured: %s)\n", strings.Repeat("-\t", len(shown)), c.system, r.reason(c))
			continue
		}
		m, spread := mean(rounds)
		for _, col := range shown {
			fmt.Fprint(t, col.text(r, c, m, spread), "\t")
		}
		fmt.Fprintf(t, "  %s\n", c.system)
	}
	return t.Flush()
}

// reference returns the row of another system that c is compared with; false
// without one. The constant does not care what is over a limit.
func (r *results) reference(c cell, other string) (measurement, bool) {
	c.system = other
	if other == constantName {
		c.workload.over = false
	}
	rounds := r.all[c]
	if len(rounds) == 0 {
		return measurement{}, false
	}
	m, _ := mean(rounds)
	return m, true
}

// ratio returns the CPU per request of m, Redis included, as a multiple of that
// of the other system in this run; "-" without it.
func (r *results) ratio(c cell, m measurement, other string) string {
	base, ok := r.reference(c, other)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2f", m.total()/base.total())
}

// latencyRatio returns the p99 of m as a multiple of that of envoyproxy/ratelimit.
func (r *results) latencyRatio(c cell, m measurement, _ float64) string {
	base, ok := r.reference(c, ratelimitName)
	if !ok || base.p99 == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(m.p99)/float64(base.p99))
}

// rows are the figures for a page.
func (r *results) rows() (rows []figures.Row) {
	for _, c := range r.order {
		row := figures.Row{Section: c.section(), Table: c.table(), System: c.system}
		if rounds := r.all[c]; len(rounds) > 0 {
			m, spread := mean(rounds)
			row.Values = m.values(spread)
		} else {
			row.Missing = r.reason(c)
		}
		rows = append(rows, row)
	}
	return rows
}

func (m measurement) values(spread float64) map[string]float64 {
	v := map[string]float64{
		"rate": m.rate, "p50_us": micros(m.p50), "p99_us": micros(m.p99), "server_us": m.server, "sum_us": m.total(),
		"spread_percent": spread, "resident_bytes": m.resident,
	}
	if m.hasRedis {
		v["redis_us"], v["commands"], v["reads"] = m.redis, m.commands, m.reads
		v["key_bytes"], v["undecided_percent"] = m.bytesPerKey, m.undecided*100
	}
	if m.p999 > 0 {
		v["p999_us"], v["late_us"], v["unsent_percent"] = micros(m.p999), micros(m.late), m.unsent*100
	}
	return v
}
