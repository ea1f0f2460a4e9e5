package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/bench/internal/figures"
)

// results are the measurements of all rounds, by the names of their rows.
type results struct {
	rows   []row
	all    map[string][]measurement
	missed map[string]error
}

// mean returns the mean of the rounds, and how far their CPU per decision lies
// apart, in percent of it.
func mean(rounds []measurement) (m measurement, spread float64) {
	n := float64(len(rounds))
	lowest, highest := rounds[0].total(), rounds[0].total()
	for _, r := range rounds {
		m.rate += r.rate / n
		m.p50 += r.p50 / time.Duration(len(rounds))
		m.p99 += r.p99 / time.Duration(len(rounds))
		m.self += r.self / n
		m.redis += r.redis / n
		m.calls += r.calls / n
		m.undecided += r.undecided / n
		m.keyBytes += r.keyBytes / n
		lowest, highest = min(lowest, r.total()), max(highest, r.total())
	}
	return m, (highest - lowest) / m.total() * 100
}

func (m measurement) total() float64 { return m.self + m.redis }

// print writes the table. The columns that begin with x compare with the row of
// the same workload in which each request asks alone.
func (r *results) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "decisions/s\tp50 us\tp99 us\town us\tRedis us\tsum\tspread\tscript calls\tundecided %\tB/key\tx own\tx Redis\t  workload: how it is asked")
	for _, row := range r.rows {
		rounds := r.all[row.String()]
		switch failed := r.missed[row.String()]; {
		case len(rounds) > 0:
			r.printRow(t, row, rounds)
		case failed != nil:
			fmt.Fprintf(t, "%s  %s (not measured: %s)\n", strings.Repeat("-\t", 12), row, firstLine(failed))
		}
	}
	return t.Flush()
}

func (r *results) printRow(w io.Writer, row row, rounds []measurement) {
	m, spread := mean(rounds)
	own, redis, key := "-", "-", "-"
	if base := r.all[rowOf(row.workload, plain)]; len(base) > 0 {
		b, _ := mean(base)
		own, redis = fmt.Sprintf("%.2f", m.self/b.self), fmt.Sprintf("%.2f", m.redis/b.redis)
	}
	if m.keyBytes > 0 {
		key = fmt.Sprintf("%.0f", m.keyBytes)
	}
	fmt.Fprintf(w, "%.0f\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.0f %%\t%.4f\t%.2f\t%s\t%s\t%s\t  %s\n",
		m.rate, m.p50.Microseconds(), m.p99.Microseconds(), m.self, m.redis, m.total(), spread,
		m.calls, m.undecided*100, key, own, redis, row)
}

func rowOf(w workload, s system) string { return row{w, s}.String() }

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// figures are the rows for a page.
func (r *results) figures(axis string) (rows []figures.Row) {
	for _, row := range r.rows {
		f := figures.Row{Section: "redis", Table: "decisions in Redis", System: row.String()}
		if axis != "" {
			f.Section, f.Table = "scale", "against "+axis
		}
		rounds := r.all[row.String()]
		switch failed := r.missed[row.String()]; {
		case len(rounds) > 0:
			m, spread := mean(rounds)
			f.Values = map[string]float64{
				"rate": m.rate, "p50_us": micros(m.p50), "p99_us": micros(m.p99), "own_us": m.self, "redis_us": m.redis,
				"calls": m.calls, "undecided_percent": m.undecided * 100, "spread_percent": spread,
			}
			if m.keyBytes > 0 {
				f.Values["key_bytes"] = m.keyBytes
			}
		case failed != nil:
			f.Missing = firstLine(failed)
		default:
			continue
		}
		rows = append(rows, f)
	}
	return rows
}
