package telemetry

// KeyLookup is how many questions there were so far whether an API key was given to someone,
// by what became of them.
type KeyLookup struct{ Answered, Unanswered, Dropped uint64 }

// WatchKeyLookup adds what became of such questions to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchKeyLookup(read func() KeyLookup) {
	m.register.MustRegister(sampled[KeyLookup]{read, byOutcome("headgate_key_lookups_total",
		"Questions to the service of known API keys, by outcome (answered; unanswered: it did not answer; dropped: not asked, because too many waited).",
		outcome[KeyLookup]{"answered", func(l *KeyLookup) uint64 { return l.Answered }},
		outcome[KeyLookup]{"unanswered", func(l *KeyLookup) uint64 { return l.Unanswered }},
		outcome[KeyLookup]{"dropped", func(l *KeyLookup) uint64 { return l.Dropped }},
	)})
}
