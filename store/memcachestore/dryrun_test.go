package memcachestore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// A group that a dry run denies leaves no trace in the states that the takes after it are
// decided on.
func TestDeniedGroupOfADryRunLeavesNoTrace(t *testing.T) {
	s, _ := openMemcached(t, 1)
	setClock(s)
	none := limit.Must(limit.PerMinute(0))
	for _, spec := range []limit.Spec{
		{Algorithm: limit.FixedWindow, Quota: 9, Period: time.Minute},
		{Algorithm: limit.SlidingWindow, Quota: 9, Period: time.Minute},
	} {
		t.Run(spec.Algorithm.String(), func(t *testing.T) {
			l, key := limit.Must(spec), spec.Algorithm.String()
			if r := takeOne(s, key, l, 2); r.Err != nil || r.Remaining != 7 {
				t.Fatalf("%+v", r)
			}
			group := func(number uint32, takes ...store.Take) []store.Take {
				for i := range takes {
					takes[i].Group, takes[i].DryRun = number, true
				}
				return takes
			}
			batch := group(1, hit(key, l, 3), hit("none", none, 1))
			batch = append(batch, group(2, hit(key, l, 4), hit("none", none, 1))...)
			batch = append(batch, group(0, hit(key, l, 5))...)
			for i, want := range []int64{7, 0, 7, 0, 2} {
				if r := takeAll(s, batch...)[i]; r.Err != nil || r.Allowed != (want > 0) || r.Remaining != want {
					t.Errorf("take %d: %+v, want %d left", i, r, want)
				}
			}
			if r := takeOne(s, key, l, 0); r.Remaining != 7 {
				t.Errorf("%d left after dry runs", r.Remaining)
			}
		})
	}
}
