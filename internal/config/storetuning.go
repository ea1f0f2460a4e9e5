package config

import (
	"errors"
	"time"
)

// StoreTuning says how long calls of a store may take, and when one of its servers is left
// alone; see package breaker.
type StoreTuning struct {
	Budget          time.Duration
	BreakerFailures int
	BreakerRatio    float64
	// BreakerSlow is 0 for half of Budget.
	BreakerSlow, BreakerPause time.Duration
}

// Tuning returns that of --store.
func (s *Settings) Tuning() StoreTuning {
	return StoreTuning{s.StoreBudget, s.BreakerFailures, s.BreakerRatio, s.BreakerSlow, s.BreakerPause}
}

// Check refuses what is out of range, by the names that a file of stores has for it.
func (t *StoreTuning) Check() error {
	return errors.Join(
		inRange("budget", t.Budget, minBudget, maxBudget),
		inRange("breaker: failures", t.BreakerFailures, 1, maxBreakerFailures),
		aRatio("breaker: ratio", t.BreakerRatio),
		inRange("breaker: slow", t.BreakerSlow, 0, maxBudget),
		inRange("breaker: pause", t.BreakerPause, minBreaker, maxBreaker),
	)
}

func inRange[T int | time.Duration](name string, n, lo, hi T) error {
	return refuse(n < lo || n > hi, "%s: %v is out of range; hint: from %v to %v", name, n, lo, hi)
}

// aRatio refuses 0 too: that would open a breaker without a cause.
func aRatio(name string, x float64) error {
	return refuse(!(x > 0 && x <= 1), "%s: %v is out of range; hint: above 0, up to 1", name, x)
}
