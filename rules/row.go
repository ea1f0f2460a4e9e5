package rules

import "time"

const (
	// MaxRoute bounds the route of a row, in bytes, and MaxWeightField its weight field, of
	// which the table keeps no more characters.
	MaxRoute, MaxWeightField = 1024, 256
)

// Row is a rule as a table of a database holds it: one limit on whoever asks, for an
// endpoint or for all.
type Row struct {
	// ID names the row, from 1.
	ID int64
	// Scope is whom the limit counts by: "user", "ip" or "apikey", the entries user,
	// remote_address and api_key.
	Scope string
	// Route and Method are what it is for: the value of the entry endpoint is "METHOD
	// ROUTE". nil means any; all routes or methods that a row is for count together.
	// '*' in Route stands for any characters.
	Route, Method *string
	// LimitCount hits pass in WindowMS milliseconds.
	LimitCount, WindowMS int64
	// WeightField says where the cost of a request comes from: "content_length",
	// "header:NAME", "claim:NAME", or the key of an entry; "" is one hit for each.
	WeightField string
	// Algorithm, FailureMode and Burst are as in files; "" and 0 mean the default.
	Algorithm, FailureMode string
	Burst                  int64
	// Active is false for a row that does not count.
	Active bool
	// CreatedAt and UpdatedAt are set by the database. They are zero where somebody else
	// than Headgate has written into a file of SQLite, and mean nothing to the rule.
	CreatedAt, UpdatedAt time.Time
}

// Alike reports whether w and o make the same rule under the same ID: all but the times.
func (w *Row) Alike(o *Row) bool {
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	return w.ID == o.ID && w.Scope == o.Scope && same(w.Route, o.Route) && same(w.Method, o.Method) &&
		w.LimitCount == o.LimitCount && w.WindowMS == o.WindowMS && w.WeightField == o.WeightField &&
		w.Algorithm == o.Algorithm && w.FailureMode == o.FailureMode && w.Burst == o.Burst && w.Active == o.Active
}

// Equal reports whether w and o say the same, times included.
func (w *Row) Equal(o *Row) bool {
	return w.Alike(o) && w.CreatedAt.Equal(o.CreatedAt) && w.UpdatedAt.Equal(o.UpdatedAt)
}
