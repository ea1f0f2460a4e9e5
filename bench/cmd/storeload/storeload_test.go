package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// TestScaleRowsHaveNamesOfTheirOwn: a name is a place in a table.
func TestScaleRowsHaveNamesOfTheirOwn(t *testing.T) {
	for _, axis := range []string{axisKeys, axisLimits, axisCallers} {
		few, err := scaleRows(axis, false)
		if err != nil {
			t.Fatal(err)
		}
		all, err := scaleRows(axis, true)
		if err != nil || len(all) <= len(few) {
			t.Errorf("%s: %d rows in all and %d of a few, %v", axis, len(all), len(few), err)
		}
		for _, rows := range [][]row{few, all} {
			seen := make(map[string]bool)
			for _, r := range rows {
				if seen[r.String()] {
					t.Errorf("%s: %s is there twice", axis, r)
				}
				seen[r.String()] = true
			}
		}
	}
	if _, err := scaleRows("height", true); err == nil {
		t.Error("there is an axis of height")
	}
}

// TestFillMakesAllKeys: of each take of a request, and each once.
func TestFillMakesAllKeys(t *testing.T) {
	opened, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	const keys = 1000
	r := row{workload{spec: sliding, takes: 3}, inMemory}
	if _, err := r.fill(t.Context(), keys, nil, opened, 0); err != nil {
		t.Fatal(err)
	}
	if got := opened.Stats().Keys; got != 3*keys {
		t.Errorf("%d keys, want %d", got, 3*keys)
	}
}

// flaky fails two of three takes.
type flaky struct {
	store.Store
	asked int
}

func (f *flaky) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	f.Store.Take(ctx, takes, results)
	for i := range takes {
		if f.asked++; f.asked%3 != 0 {
			results[i] = store.Result{Err: errors.New("too late")}
		}
	}
}

// TestFillAsksAgain: what has failed is made all the same, and what always fails
// is an error.
func TestFillAsksAgain(t *testing.T) {
	opened, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	r := row{workload{spec: sliding, takes: 1}, inMemory}
	if err := r.fillPart(t.Context(), &flaky{Store: opened}, 0, 500); err != nil {
		t.Fatal(err)
	}
	if got := opened.Stats().Keys; got != 500 {
		t.Errorf("%d keys, want 500", got)
	}
	if err := r.fillPart(t.Context(), broken{}, 0, 1); err == nil {
		t.Error("a store that is gone was filled")
	}
}

// broken fails every take.
type broken struct{ store.Store }

func (broken) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i].Err = errors.New("gone")
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 12: "12", 999: "999", 1000: "1,000", 10_000_000: "10,000,000"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestWhatIsNotMeasuredSaysSo: in the table, and in the figures.
func TestWhatIsNotMeasuredSaysSo(t *testing.T) {
	measured, failed := row{one, plain}, row{one, coalesced}
	r := &results{
		rows:   []row{measured, failed, {three, plain}},
		all:    map[string][]measurement{measured.String(): {{rate: 1, self: 2, redis: 3, p50: time.Millisecond}}},
		missed: map[string]error{failed.String(): errors.New("it is gone\nwith output")},
	}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), failed.String()+" (not measured: it is gone)") || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%s", out.String())
	}
	rows := r.figures("")
	if len(rows) != 2 || rows[0].Values["redis_us"] != 3 || rows[1].Missing != "it is gone" || rows[0].Section != "redis" {
		t.Errorf("%+v", rows)
	}
	if scaled := r.figures(axisKeys); scaled[0].Section != "scale" || scaled[0].Table != "against keys" {
		t.Errorf("%+v", scaled[0])
	}
}
