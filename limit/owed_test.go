package limit

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What a bucket owes is ceil(beyond / emission interval), exactly, where beyond is what it
// takes to drain less its tolerance, less the microsecond of rounding.
func TestOwed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Must(Spec{
			Algorithm: rapid.SampledFrom([]Algorithm{TokenBucket, LeakyBucket, LeakyQueue, GCRA}).Draw(t, "algorithm"),
			Quota:     rapid.Int64Range(1, 1_000_000).Draw(t, "quota"),
			Period:    time.Duration(rapid.Int64Range(1_000, 100_000_000_000).Draw(t, "period")) * time.Microsecond,
		})
		reset := rapid.Int64Range(0, 1<<50).Draw(t, "reset")
		whole, part := l.Tolerance()
		num, den := l.EmissionInterval()
		beyond := new(big.Rat).SetInt64(reset - 1 - whole)
		beyond.Sub(beyond, big.NewRat(part, den))
		hits := new(big.Rat).Quo(beyond, big.NewRat(num, den))
		want := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(hits.Num()), hits.Denom())).Int64()
		if got := l.Owed(time.Duration(reset) * time.Microsecond); got != max(want, 0) {
			t.Fatalf("%v: %d us owe %d, want %d", l.Spec, reset, got, want)
		}
	})
	if owed := Must(PerMinute(5)).Owed(time.Hour); owed != 0 {
		t.Errorf("a window owes %d", owed)
	}
}
