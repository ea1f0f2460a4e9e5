package rlqs

import (
	"testing"
	"time"
)

// A bucket is forgotten by the twelfth report in a row of no request, not before, and a request
// between them begins the count anew.
func TestWhenABucketIsForgotten(t *testing.T) {
	w := newWorld(t, rule("{unit: day, requests_per_unit: 4000, algorithm: fixed_window}"), 1)
	e := w.envoy(0, 5*time.Second)
	e.pass("u")
	idle := func(reports int) {
		for range reports {
			w.now = w.now.Add(5 * time.Second)
			e.tick()
		}
	}
	idle(idleReports - 1)
	e.pass("u") // reported with the next one
	idle(1 + idleReports - 1)
	if len(e.buckets) != 1 || w.nodes[0].Stats().Abandoned != 0 {
		t.Fatalf("forgotten early: %+v", w.nodes[0].Stats())
	}
	idle(1)
	if len(e.buckets) != 0 || w.nodes[0].Stats().Abandoned != 1 {
		t.Errorf("not forgotten: %+v", w.nodes[0].Stats())
	}
}
