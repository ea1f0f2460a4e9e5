package telemetry

// Refused is how many calls of one front were refused for want of a right.
type Refused struct {
	// Front is the name of a way in, Right that of the right: both come from the
	// program.
	Front, Right string
	Calls        uint64
}

// WatchRefused adds the calls that were refused for want of a right to the metrics. read
// is called once for each collection.
func (m *Metrics) WatchRefused(read func() []Refused) {
	m.register.MustRegister(newListed(read, []string{"front", "right"}, func(r *Refused) []string { return []string{r.Front, r.Right} }, []listedMetric[Refused]{
		{totalValue, "headgate_refused_calls_total", "Calls that were refused because their callers lack a right.", func(r *Refused) float64 { return float64(r.Calls) }, nil},
	}...))
}
