package telemetry

import "github.com/headgate/headgate/repeat"

// WatchCheckIDs adds what came of checks with an id to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchCheckIDs(read func() repeat.Counts) {
	type counts = repeat.Counts
	m.register.MustRegister(sampled[counts]{read, byOutcome("headgate_check_ids_total",
		"Checks that carried an id, by outcome (first: decided and remembered; repeated: got the answer of another one; abandoned: the first one has no answer, so nothing was charged; conflict: the id belongs to another check; forgotten: decided, but the store had no room for the answer or did not confirm it; undecided: the store did not say whether there was another one, so nothing was charged).",
		outcome[counts]{"first", func(c *counts) uint64 { return c.First }},
		outcome[counts]{"repeated", func(c *counts) uint64 { return c.Repeated }},
		outcome[counts]{"abandoned", func(c *counts) uint64 { return c.Abandoned }},
		outcome[counts]{"conflict", func(c *counts) uint64 { return c.Conflicts }},
		outcome[counts]{"forgotten", func(c *counts) uint64 { return c.Forgotten }},
		outcome[counts]{"undecided", func(c *counts) uint64 { return c.Undecided }},
	)})
}
