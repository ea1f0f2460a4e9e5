package h2load

import (
	"slices"
	"time"
)

// Latencies are the times that answers took.
type Latencies struct {
	micros []uint32
	sorted bool
}

// Add counts one answer.
func (l *Latencies) Add(d time.Duration) {
	l.micros = append(l.micros, uint32(min(d.Microseconds(), 1<<32-1)))
	l.sorted = false
}

func (l *Latencies) merge(other *Latencies) {
	l.micros = append(l.micros, other.micros...)
	l.sorted = false
}

// Quantile returns the time within which the fraction q of the answers came,
// from 0 (the fastest) to 1 (the slowest), to the microsecond; 0 without
// answers.
func (l *Latencies) Quantile(q float64) time.Duration {
	if len(l.micros) == 0 {
		return 0
	}
	if !l.sorted {
		slices.Sort(l.micros)
		l.sorted = true
	}
	i := int(q * float64(len(l.micros)))
	return time.Duration(l.micros[min(max(i, 0), len(l.micros)-1)]) * time.Microsecond
}
