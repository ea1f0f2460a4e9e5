package telemetry

import "github.com/prometheus/client_golang/prometheus"

// KeyLookup is how many questions there were so far whether an API key was given to someone,
// by what became of them.
type KeyLookup struct{ Answered, Unanswered, Dropped uint64 }

// WatchKeyLookup adds what became of such questions to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchKeyLookup(read func() KeyLookup) {
	m.register.MustRegister(keyLookupCollector(read))
}

type keyLookupCollector func() KeyLookup

var keyLookupsTotal = prometheus.NewDesc("headgate_key_lookups_total",
	"Questions to the service of known API keys, by outcome (answered; unanswered: it did not answer; dropped: not asked, because too many waited).",
	[]string{"outcome"}, nil)

// Describe implements prometheus.Collector.
func (keyLookupCollector) Describe(ch chan<- *prometheus.Desc) { ch <- keyLookupsTotal }

// Collect implements prometheus.Collector.
func (read keyLookupCollector) Collect(ch chan<- prometheus.Metric) {
	c := read()
	ch <- total(keyLookupsTotal, c.Answered, "answered")
	ch <- total(keyLookupsTotal, c.Unanswered, "unanswered")
	ch <- total(keyLookupsTotal, c.Dropped, "dropped")
}
