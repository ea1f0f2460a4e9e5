package fleetusage

import "time"

// meter makes a rate of totals that only grow. It reads no clock. The zero value
// has seen none.
type meter struct {
	seen  bool
	total int64
	at    time.Duration
}

// read notes the total of the fleet as a node was told at an instant of its own
// monotonic clock. It returns by how much that grew since the one before, per
// second; false while there is none to compare it with. One that is more than
// longest ago is none: the process has slept. A total that is lower than before
// was counted anew, by a new window of the counter or by a store that has lost
// it.
func (m *meter) read(total int64, at, longest time.Duration) (perSecond float64, ok bool) {
	before := *m
	*m = meter{seen: true, total: total, at: at}
	elapsed := at - before.at
	if !before.seen || total < before.total || elapsed <= 0 || elapsed > longest {
		return 0, false
	}
	return float64(total-before.total) / elapsed.Seconds(), true
}
