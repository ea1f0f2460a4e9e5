package telemetry

import (
	"strings"
	"testing"
)

func TestJ5Shedding(t *testing.T) {
	m := New(Build{}, Options{})
	state := Shedding{
		Priorities: []ShedPriority{
			{Name: "P0", Admitted: 1, AtHardCap: 2, UpTo: 3, Share: 1},
			{Name: "P1", Admitted: 4, ByFleet: 5, ByWorker: 6, AtHardCap: 7, UpTo: 8, Share: .25},
		},
		Served: 9, Ignored: 10, Overloaded: 11,
		Worker: &ShedWorker{InFlight: 12, Critical: 13, Limit: 14.5, Latency: .015, BaseLatency: .016},
		Fleet:  &ShedFleet{Known: true, Used: 17, Capacity: 18, Reports: 19, Failed: 20},
	}
	m.WatchShedding(func() Shedding { return state })
	expect(t, m, map[string]float64{
		`headgate_shed_admitted_total{priority="P0"}`: 1, `headgate_shed_admitted_total{priority="P1"}`: 4,
		`headgate_shed_total{priority="P0",reason="hard_cap"}`: 2, `headgate_shed_total{priority="P0",reason="fleet"}`: 0,
		`headgate_shed_total{priority="P1",reason="fleet"}`: 5, `headgate_shed_total{priority="P1",reason="worker"}`: 6,
		`headgate_shed_total{priority="P1",reason="hard_cap"}`: 7,
		`headgate_worker_admits_up_to{priority="P0"}`:          3, `headgate_worker_admits_up_to{priority="P1"}`: 8,
		`headgate_fleet_admitted_share{priority="P0"}`: 1, `headgate_fleet_admitted_share{priority="P1"}`: .25,
		`headgate_shed_outcomes_total{outcome="served"}`: 9, `headgate_shed_outcomes_total{outcome="ignored"}`: 10, `headgate_shed_outcomes_total{outcome="overloaded"}`: 11,
		`headgate_worker_in_flight{class="others"}`: 12, `headgate_worker_in_flight{class="critical"}`: 13,
		"headgate_worker_limit": 14.5, "headgate_worker_latency_seconds": .015, "headgate_worker_base_latency_seconds": .016,
		"headgate_fleet_usage_known": 1, "headgate_fleet_requests_per_second": 17, "headgate_fleet_capacity_requests_per_second": 18,
		"headgate_fleet_reports_total": 19, "headgate_fleet_reports_failed_total": 20,
	})

	state.Fleet.Known = false
	if got := scrape(t, m); got["headgate_fleet_usage_known"] != 0 || has(got, "headgate_fleet_requests_per_second") {
		t.Errorf("an unknown usage is shown as a figure: %v", got)
	}
	state.Fleet, state.Worker = nil, nil
	if got := scrape(t, m); has(got, "headgate_worker_") || has(got, "headgate_fleet_") || has(got, "headgate_shed_total") {
		t.Errorf("shedders that are off have series: %v", got)
	}
}

// has reports whether there is a series whose name begins with prefix.
func has(series map[string]float64, prefix string) bool {
	for name := range series {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
