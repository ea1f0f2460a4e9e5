package tenant_test

import (
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

// TestSharerSharesSeveralLimits: equal quotas are one value, also of several limits; those
// that differ in any of them are not.
func TestSharerSharesSeveralLimits(t *testing.T) {
	quotaOf := func(numbers ...int64) *tenant.Quota {
		q := &tenant.Quota{}
		for i, n := range numbers {
			l := limit.Must([]limit.Spec{limit.PerMinute(n), limit.PerHour(n), {Algorithm: limit.TokenBucket, Quota: n, Period: 1e9, Burst: n + 1}}[i])
			q.Limits = append(q.Limits, tenant.Limit{Limit: l, Name: tenant.LimitName(tenant.Default, l)})
		}
		return q
	}
	var s tenant.Sharer
	shared := func(q *tenant.Quota) *tenant.Quota {
		a := tenant.Account{Overrides: []tenant.Override{{Quota: q}}}
		s.Share(&a)
		return a.Overrides[0].Quota
	}
	known := map[*tenant.Quota]bool{}
	for _, numbers := range [][]int64{{}, {1}, {1, 2}, {1, 3}, {2, 3}, {1, 2, 3}, {1, 2, 4}} {
		first := quotaOf(numbers...)
		if got := shared(first); got != first {
			t.Errorf("%v: another one is put in its place", numbers)
		}
		if got := shared(quotaOf(numbers...)); got != first {
			t.Errorf("%v: equal ones are two", numbers)
		}
		known[first] = true
	}
	if len(known) != 7 {
		t.Errorf("%d quotas", len(known))
	}
}
