package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
)

func dry(takes ...store.Take) []store.Take {
	all := make([]store.Take, len(takes))
	for i, t := range takes {
		t.DryRun = true
		all[i] = t
	}
	return all
}

// A dry run says what this node would let pass of what it holds, and changes nothing
// of that; beyond it what the store would.
func TestDryRunOfWhatIsHeld(t *testing.T) {
	for name, mode := range map[string]*store.Mode{"leased": leasedMode, "synced": syncedMode} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, lease.Options{}, func(r *rig) {
				l := limit.Must(limit.PerMinute(1000))
				one := hit("k", l, mode)
				r.warm(500, one)
				before, calls := r.node.Stats(), r.shared.takes.Load()+r.shared.leases.Load()
				first, again := r.take(dry(one, one)...), r.take(dry(one, one)...)
				if first[0] != again[0] || first[1] != again[1] || first[1].Remaining != first[0].Remaining-1 || !first[0].Allowed {
					t.Errorf("dry runs %+v and %+v", first, again)
				}
				if after := r.node.Stats(); after != before {
					t.Errorf("a dry run has made %+v of %+v", after, before)
				}
				if r.shared.takes.Load()+r.shared.leases.Load() != calls {
					t.Error("the store was asked for what is held")
				}
				if real := r.take(one)[0]; real != first[0] {
					t.Errorf("dry %+v, real %+v", first[0], real)
				}
				much := hit("k", l, mode)
				much.Hits = 1000
				if d := r.take(dry(much)...)[0]; d.Allowed || d.RetryAfter <= 0 || d.Err != nil {
					t.Errorf("more than there is: %+v", d)
				}
				if r.shared.leases.Load()+r.shared.takes.Load() != calls+1 {
					t.Error("the store is asked once for what is not held")
				}
			})
		})
	}
}

// What is left of a lease that has ended lets nothing pass in a dry run either, also
// before it is dropped. That is at any time for one of several keys.
func TestDryRunOfEndedLeases(t *testing.T) {
	inBubble(t, lease.Options{}, func(r *rig) {
		l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 100_000, Period: time.Minute})
		mode := &store.Mode{Rule: "leased", Consistency: store.Leased, LeaseTTL: 200 * time.Millisecond}
		takes := make([]store.Take, 16)
		for i := range takes {
			takes[i] = hit(string(rune('a'+i)), l, mode)
		}
		for range 300 {
			r.take(takes...)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		r.shared.fail.Store(true)
		for i, said := range r.take(dry(takes...)...) {
			if !said.Allowed || said.Err != nil {
				t.Errorf("held: %d: %+v", i, said)
			}
		}
		time.Sleep(mode.LeaseTTL)
		for i, said := range r.take(dry(takes...)...) {
			if said.Err == nil {
				t.Errorf("ended: %d: %+v", i, said)
			}
		}
	})
}

// A group of all modes is all or nothing in a dry run too, and changes nothing.
func TestDryRunOfMixedGroup(t *testing.T) {
	here, err := local.New(local.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, lease.Options{Local: here}, func(r *rig) {
		l, two := limit.Must(limit.PerMinute(1000)), limit.Must(limit.PerHour(2))
		r.warm(500, hit("held", l, leasedMode))
		group := []store.Take{hit("held", l, leasedMode), hit("local", two, localMode), hit("local", two, localMode), hit("shared", two, nil)}
		for i := range group {
			group[i].Group = 1
		}
		for range 3 {
			said := r.take(dry(group...)...)
			if !said[0].Allowed || said[2].Remaining != 0 || said[3].Remaining != 1 {
				t.Fatalf("it passes: %+v", said)
			}
		}
		for i, res := range r.take(group...) {
			if !res.Allowed {
				t.Fatalf("take %d of a group that passes: %+v", i, res)
			}
		}
		said := r.take(dry(group...)...)
		if !said[0].Allowed || said[1].Allowed || said[1].RetryAfter < time.Minute || said[3].Remaining != 1 {
			t.Errorf("it is denied: %+v", said)
		}
		if left := r.remaining("shared", two); left != 1 {
			t.Errorf("%d left in the store", left)
		}
	})
}
