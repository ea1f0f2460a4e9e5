package rules

import "time"

// InForce reports whether r applies at now(). The clock is only read when r has
// a validity.
func (r *Rule) InForce(now func() time.Time) bool {
	if r.ValidFrom.IsZero() && r.ValidUntil.IsZero() {
		return true
	}
	t := now()
	return !t.Before(r.ValidFrom) && (r.ValidUntil.IsZero() || t.Before(r.ValidUntil))
}
