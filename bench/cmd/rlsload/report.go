package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// cell is a place in the table.
type cell struct {
	system   string
	workload workload
}

// results are the measurements of all rounds, in the order of the first.
type results struct {
	order []cell
	all   map[cell][]measurement
}

func newResults() *results { return &results{all: make(map[cell][]measurement)} }

func (r *results) add(system string, w workload, m measurement) {
	c := cell{system, w}
	if r.all[c] == nil {
		r.order = append(r.order, c)
	}
	r.all[c] = append(r.all[c], m)
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

// print writes one table for each workload.
func (r *results) print(w io.Writer) error {
	for _, load := range []workload{one, three, oneOver} {
		if !slices.ContainsFunc(r.order, func(c cell) bool { return c.workload == load }) {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", load)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "req/s\tp50 us\tp99 us\tserver us/req\tRedis us/req\tsum\tspread\tx constant\tx ratelimit\tRedis reads/req\tcommands/req\tB/key\tundecided %\t  system")
		for _, c := range r.order {
			if c.workload == load {
				r.printRow(t, c)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (r *results) printRow(w io.Writer, c cell) {
	m, spread := mean(r.all[c])
	redis := "-\t"
	if m.hasRedis {
		redis = fmt.Sprintf("%.1f\t", m.redis)
	}
	fmt.Fprintf(w, "%.0f\t%d\t%d\t%.1f\t%s%.1f\t%.0f %%\t%s\t%s\t", m.rate, m.p50.Microseconds(), m.p99.Microseconds(),
		m.server, redis, m.total(), spread, r.ratio(c, m, constantName), r.ratio(c, m, ratelimitName))
	if m.hasRedis {
		fmt.Fprintf(w, "%.3f\t%.2f\t%.0f\t%.2f\t", m.reads, m.commands, m.bytesPerKey, m.undecided*100)
	} else {
		fmt.Fprint(w, "-\t-\t-\t-\t")
	}
	fmt.Fprintf(w, "  %s\n", c.system)
}

// ratio returns the CPU per request of m, Redis included, as a multiple of that
// of the other system in this run; "-" without it. The constant does not care
// what is over a limit.
func (r *results) ratio(c cell, m measurement, other string) string {
	reference := cell{other, c.workload}
	if other == constantName {
		reference.workload.over = false
	}
	rounds := r.all[reference]
	if len(rounds) == 0 {
		return "-"
	}
	base, _ := mean(rounds)
	return fmt.Sprintf("%.2f", m.total()/base.total())
}
