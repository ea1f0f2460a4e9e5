package rules

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

// TestScaling compares what factors make of quotas with rational arithmetic in plain
// terms: a factor is n thousandths, halves are rounded up.
func TestScaling(t *testing.T) {
	for _, c := range []struct {
		n       int64
		f       Factor
		most    int64
		want    int64
		because string
	}{
		{100, 500, 1 << 50, 50, "half"},
		{5, 500, 1 << 50, 3, "2.5 is rounded up"},
		{5, 499, 1 << 50, 2, "2.495 is rounded down"},
		{1, 1, 1 << 50, 1, "at least 1"},
		{0, 2000, 1 << 50, 0, "nothing stays nothing"},
		{1 << 50, 1000_000, 1 << 50, 1 << 50, "at most what can be counted"},
		{1 << 49, 2000, 1 << 50, 1 << 50, "just that"},
		{3, 333, 1 << 50, 1, "0.999"},
		{10_000, 1500, limit.MaxLogQuota, limit.MaxLogQuota, "the log's bound"},
		{999_999_999_999, 1001, 1 << 50, 1_000_999_999_999, "exact, however large"},
	} {
		if got := c.f.of(c.n, c.most); got != c.want {
			t.Errorf("%d x %v: got %d, want %d: %s", c.n, c.f, got, c.want, c.because)
		}
	}
}

// However many quotas there are, they are scaled right, in bounded memory: no more than
// the places of derivedLimits keep one each.
func TestVeryManyQuotasAreScaled(t *testing.T) {
	m := new(derivedLimits)
	for round := range 2 {
		for i := int64(1); i <= 3*derivedSets*derivedWays; i++ {
			l := limit.Must(limit.Spec{Quota: 2 * i, Period: time.Second})
			if got := m.of(l, derivation{l.Spec, 500, limit.CarryNothing, 0}); got.Quota != i || got.Carry != limit.CarryNothing {
				t.Fatalf("round %d: half of %d is %d", round, 2*i, got.Quota)
			}
		}
	}
}

// A quota that cannot be as the factor has it stays as it is.
func TestAQuotaThatCannotBeScaled(t *testing.T) {
	l := limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Burst: 35, Period: 365 * 24 * time.Hour})
	got := new(derivedLimits).of(l, derivation{l.Spec, 1400, limit.CarryNothing, 0})
	if got.Quota != 1 || got.Burst != 35 || got.Carry != limit.CarryNothing {
		t.Errorf("got %s, %v", LimitText(got), got.Carry)
	}
}
