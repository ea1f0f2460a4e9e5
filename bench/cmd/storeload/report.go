package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

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
		lowest, highest = min(lowest, r.total()), max(highest, r.total())
	}
	return m, (highest - lowest) / m.total() * 100
}

func (m measurement) total() float64 { return m.self + m.redis }

// report writes the table. The last two columns compare with the row of the same
// workload in which each request asks alone.
func report(w io.Writer, all map[string][]measurement) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "decisions/s\tp50 us\tp99 us\town us\tRedis us\tsum\tspread\tscript calls\tundecided %\tx own\tx Redis\t  workload: how it is asked")
	for _, r := range rows {
		rounds := all[r.String()]
		if len(rounds) == 0 {
			continue
		}
		m, spread := mean(rounds)
		own, redis := "-", "-"
		if base := all[row{r.workload, plain}.String()]; len(base) > 0 {
			b, _ := mean(base)
			own, redis = fmt.Sprintf("%.2f", m.self/b.self), fmt.Sprintf("%.2f", m.redis/b.redis)
		}
		fmt.Fprintf(t, "%.0f\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.0f %%\t%.4f\t%.2f\t%s\t%s\t  %s\n",
			m.rate, m.p50.Microseconds(), m.p99.Microseconds(), m.self, m.redis, m.total(), spread,
			m.calls, m.undecided*100, own, redis, r)
	}
	return t.Flush()
}
