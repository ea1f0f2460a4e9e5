package regional_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/regional"
)

// TestLimitsThatAreNotCut are refused with the reason.
func TestLimitsThatAreNotCut(t *testing.T) {
	for want, spec := range map[string]limit.Spec{
		"count_denied":            {Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute, CountDenied: true},
		"on_change":               {Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute, Carry: limit.CarryNothing},
		"debts":                   {Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute, MaxDebt: 5},
		"too short":               {Algorithm: limit.FixedWindow, Quota: 100, Period: 999 * time.Millisecond},
		"a reserve of none":       {Algorithm: limit.FixedWindow, Quota: 9, Period: time.Minute},
		"cannot be leased":        {Algorithm: limit.SlidingLog, Quota: 100, Period: time.Minute},
		"not be evenly spaced":    {Algorithm: limit.LeakyBucket, Quota: 100, Period: time.Minute},
		"its leases end after 25": {Algorithm: limit.TokenBucket, Quota: 1000, Period: time.Second, Burst: 1000},
	} {
		if _, err := halves.CutFor("here", limit.Must(spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", spec, err, want)
		}
	}
}

// TestSmallestLimit: the hint of a refusal names the smallest limit that is not refused in any region.
func TestSmallestLimit(t *testing.T) {
	for _, y := range []regional.Layout{
		{Weights: map[string]int64{"a": 2, "b": 1, "c": 1}, Reserve: 100_000},
		{Weights: map[string]int64{"a": 1}, Reserve: 1000},
		{Weights: map[string]int64{"a": 3, "b": 2}, Reserve: 333_333},
		{Weights: map[string]int64{"a": 1, "b": regional.MaxWeight}, Reserve: regional.MaxReserve},
	} {
		of := func(n int64) *limit.Limit {
			return limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: n, Period: time.Hour})
		}
		var smallest int64
		err := y.Check(of(1))
		if err == nil {
			t.Fatalf("%+v: 1 is not refused", y)
		}
		_, named, _ := strings.Cut(err.Error(), "(of ")
		if _, scan := fmt.Sscanf(named, "%d or more each region has a hit)", &smallest); scan != nil {
			t.Fatalf("%+v: %v", y, err)
		}
		if less, enough := y.Check(of(smallest-1)), y.Check(of(smallest)); less == nil || enough != nil {
			t.Errorf("%+v: %d is named; of one less %v, of that %v", y, smallest, less, enough)
		}
	}
	none := regional.Layout{Weights: map[string]int64{"a": 1}}
	if err := none.Check(limit.Must(limit.PerHour(limit.MaxQuota))); err == nil || strings.Contains(err.Error(), "or more") {
		t.Errorf("without a reserve no limit is large enough: %v", err)
	}
}

// TestReserveLooksBack: the reserve of a fixed window admits no more in any window, because the
// clocks of regions do not agree on when one begins.
func TestReserveLooksBack(t *testing.T) {
	day, err := limit.NewCalendar(limit.CalendarDay, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for period, spec := range map[time.Duration]limit.Spec{
		time.Minute:    {Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute},
		25 * time.Hour: {Algorithm: limit.FixedWindow, Quota: 100, Calendar: day},
	} {
		c, err := halves.CutFor("here", limit.Must(spec))
		if err != nil {
			t.Fatal(err)
		}
		if own := c.Own; own.Algorithm != limit.SubWindows || !own.Strict || own.Period != period || own.Quota != 10 || c.Home.Quota != 80 {
			t.Errorf("%+v is %+v and %+v", spec, own.Spec, c.Home.Spec)
		}
	}
}

// TestHomesEpoch: a home lends when it has not forgotten for as long as a limit looks back,
// and one that does not answer is left alone for longer each time.
func TestHomesEpoch(t *testing.T) {
	var h regional.Home
	now := time.Minute
	if h.Lends(0, now) {
		t.Error("a home lends that was never heard of")
	}
	h.Heard(store.Epoch{ID: 1, Age: 4 * time.Second}, now, now)
	for later, want := range map[time.Duration]bool{0: false, 6 * time.Second: false, 6*time.Second + 4*time.Millisecond: true} {
		if got := h.Lends(10*time.Second, now+later); got != want {
			t.Errorf("%v after an epoch of 4s: lends %v, want %v", later, got, want)
		}
	}
	for i, want := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		h.Failed(now)
		if quiet := want * time.Millisecond; h.Answers(now+quiet-1) || !h.Answers(now+quiet) {
			t.Errorf("failure %d is not followed by %v of quiet", i+1, quiet)
		}
	}
	if h.Heard(store.Epoch{ID: 1}, now, now); !h.Answers(now) {
		t.Error("a home that has answered is left alone")
	}
}

// TestBucketsOfRegionsAreBounded: beyond the bound keys have the reserve alone.
func TestBucketsOfRegionsAreBounded(t *testing.T) {
	home, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	own, err := memstore.New(memstore.Options{MaxBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	far := &farHome{Store: home}
	far.down.Store(true)
	s, err := regional.New(regional.Options{Home: far, Own: own, Layout: halves, Region: "here", MaxBuckets: 64})
	if err != nil {
		t.Fatal(err)
	}
	var results [1]store.Result
	for i := range 500 {
		if s.Take(t.Context(), []store.Take{hit(fmt.Sprint("key ", i), 1)}, results[:]); !results[0].Allowed {
			t.Fatalf("key %d: %+v", i, results[0])
		}
	}
	if crowded := s.Stats().Crowded; crowded < 500-64 {
		t.Errorf("%d keys of 500 have no bucket, where 64 have one", crowded)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
