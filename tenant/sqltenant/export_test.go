package sqltenant

import (
	"iter"
	"time"
)

// PastPrefix is for its test.
func PastPrefix(prefix string) string { return pastPrefix(prefix) }

// Statements returns the statements of Find, each with its parameters, for the test
// of how they are planned.
func (d *DB) Statements(o ListOptions) iter.Seq2[string, []any] {
	return func(yield func(string, []any) bool) {
		s := o.selection(d.postgres())
		if !yield(accountsOf(s), s.args) {
			return
		}
		records := []Record{{Subject: o.Prefix}, {Subject: o.Prefix}}
		belonging := partsOf(records, s)
		for i := range parts {
			if !yield(parts[i].statement+belonging.text, belonging.args) {
				return
			}
		}
	}
}

// RepairEvery makes w compare what it holds with the database more often. It must not
// run yet.
func (w *Watcher) RepairEvery(pause time.Duration) { w.repairEvery = pause }
