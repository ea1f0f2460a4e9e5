package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

func TestDurations(t *testing.T) {
	if !slices.IsSorted(store.DurationBounds[:]) {
		t.Fatal("the bounds are not in order")
	}
	var d store.Durations
	if d.Counts() != (store.DurationCounts{}) {
		t.Errorf("before any call: %+v", d.Counts())
	}
	var want store.DurationCounts
	for i, bound := range store.DurationBounds {
		d.Note(bound) // in its bucket
		d.Note(bound + 1)
		want.Buckets[i]++
		want.Buckets[i+1]++
		want.Total += 2*bound + 1
	}
	d.Note(0)
	d.Note(time.Hour)
	want.Buckets[0]++
	want.Buckets[len(want.Buckets)-1]++
	want.Total += time.Hour
	if got := d.Counts(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	sum := want
	sum.Add(&want)
	if sum.Total != 2*want.Total || sum.Buckets[0] != 2*want.Buckets[0] {
		t.Errorf("sum %+v", sum)
	}
}
