package lease_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/memstore"
)

// TestSlotsAndBansAreUntouched: in every mode that a rule could ask for, the store
// below decides on slots and bans, or the local one, take by take.
func TestSlotsAndBansAreUntouched(t *testing.T) {
	slots := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 100, Period: time.Minute})
	ban := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 100, Period: time.Minute, BanFor: time.Minute})
	modes := []*store.Mode{nil, leasedMode, syncedMode, {AutoLease: true}, {Consistency: store.Synced, AutoLease: true}}
	for _, mode := range modes {
		var named atomic.Int64
		o := lease.Options{
			Hot:   hotkey.New(hotkey.Options{Rate: 1}),
			OnHot: func(*store.Take, hotkey.Key, float64) { named.Add(1) },
		}
		inBubble(t, o, func(r *rig) {
			for i := range 150 {
				hold := hit("slots", slots, mode)
				hold.Hold = limit.Hold(1 + i)
				check, denial := hit("ban", ban, mode), hit("ban", ban, mode)
				denial.Op = store.Charge
				res := r.take(hold, check, denial)
				if want := i < 100; res[0].Allowed != want || res[1].Allowed != want || res[2].Remaining != max(int64(99-i), 0) {
					t.Fatalf("mode %+v, request %d: %+v", mode, i, res)
				}
			}
			for i := range 150 {
				release := hit("slots", slots, mode)
				release.Hold, release.Op = limit.Hold(1+i), store.Release
				r.take(release)
			}
			if left := r.remaining("slots", slots); left != 100 {
				t.Errorf("mode %+v: %d slots are free", mode, left)
			}
			if asked := r.shared.takes.Load(); asked != 300 {
				t.Errorf("mode %+v: the store was asked %d times, want 300", mode, asked)
			}
			if n := r.shared.leases.Load() + named.Load(); n != 0 {
				t.Errorf("mode %+v: %d leases and names of hot keys", mode, n)
			}
		})
	}
}

// TestLocalSlotsInGroups: a group that the shared store denies leaves no slot taken
// in the local one, and takes no denial back there.
func TestLocalSlotsInGroups(t *testing.T) {
	now := func() limit.Micros { return limit.MicrosOf(time.Now()) }
	shared, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	here, err := local.New(local.Options{MaxBytes: 1 << 20, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	s := lease.New(lease.Options{Store: shared, Local: here})
	defer s.Close()
	slots := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 2, Period: time.Hour})
	ban := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 9, Period: time.Hour, BanFor: time.Hour})
	none := limit.Must(limit.Spec{Quota: 0, Period: time.Hour})
	slot := store.Take{Key: []byte("slots"), Limit: slots, Hits: 1, Hold: 7, Mode: localMode}
	check := store.Take{Key: []byte("ban"), Limit: ban, Hits: 1, Mode: localMode}
	denial := check
	denial.Op = store.Charge
	take := func(takes ...store.Take) []store.Result {
		results := make([]store.Result, len(takes))
		s.Take(t.Context(), takes, results)
		return results
	}
	take(denial)
	group := []store.Take{slot, check, denial, {Key: []byte("none"), Limit: none, Hits: 1}}
	for i := range group {
		group[i].Group = 1
	}
	res := take(group...)
	if res[0].Remaining != 2 || res[1].Remaining != 8 || res[2].Remaining != 8 || res[3].Allowed {
		t.Errorf("a group that is denied: %+v", res)
	}
	res = take(group[:3]...)
	if res[0].Remaining != 1 || !res[1].Allowed || res[2].Remaining != 7 {
		t.Errorf("a group that passes: %+v", res)
	}
	slot.Op = store.Release
	if res = take(slot, check); res[0].Remaining != 2 || res[1].Remaining != 7 {
		t.Errorf("in the end: %+v", res)
	}
	if n := shared.Stats().Keys; n != 0 {
		t.Errorf("the shared store has %d buckets", n)
	}
}
