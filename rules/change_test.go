package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/diff"
)

const changing = `
domain: d
match: path
descriptors:
- key: user
  on_change: proportional
  max_debt: 50
  rate_limit: {unit: minute, requests_per_unit: 100}
  secondary_limits: [{unit: second, requests_per_unit: 10}]
  concurrency: 5
  candidate:
    rate_limit: {name: stricter, unit: minute, requests_per_unit: 60}
    percent: 10
    tenants: ["user:a", "user:b", "user:c", "user:d"]
    roll_back: {above: 0.5, min_requests: 1}
  schedule:
  - {cron: "0 22 * * *", for: 8h, time_zone: Europe/Berlin, factor: 0.5, tiers: {pro: 2, free: 0.125}}
  - {cron: "0 0 1 * *", for: 1d, factor: 3}
`

func TestSummaryOfChanges(t *testing.T) {
	r := testrules.Load(t, changing).Rules()[0]
	const want = "100 per 1m sliding_window; candidate stricter: 60 per 1m sliding_window; 5 in flight, timeout 1m; secondary: 10 per 1s sliding_window; " +
		"match path; all_or_nothing; fails open; " +
		"schedule 0 22 * * * for 8h in Europe/Berlin: x0.5, free x0.125, pro x2, else 0 0 1 * * for 1d in UTC: x3; " +
		"candidate enforced for 10% and user:a user:b user:c and 1 more, rolled back above 0.5% of 1 request or more in 10m; on change proportional; debt up to 50"
	if got := describe.Summary(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for i, want := range []struct {
		role  rules.Role
		carry limit.Carry
		debt  int64
	}{{rules.Main, limit.CarryShare, 50}, {rules.Candidate, limit.CarryShare, 50}, {rules.InFlight, 0, 0}, {rules.Secondary, limit.CarryShare, 0}} {
		if l := r.Limits[i]; l.Role != want.role || l.Carry != want.carry || l.MaxDebt != want.debt {
			t.Errorf("limit %d: %v, %v, debt %d", i, l.Role, l.Carry, l.MaxDebt)
		}
	}
}

func TestDiffOfChanges(t *testing.T) {
	plain := strings.NewReplacer("proportional", "carry", "  max_debt: 50\n", "", "factor: 3", "factor: 4", "percent: 10", "percent: 20", "requests_per_unit: 60", "requests_per_unit: 70").Replace(changing)
	var lines []string
	for _, c := range diff.Sets(testrules.Load(t, changing), testrules.Load(t, plain)) {
		lines = append(lines, c.String())
	}
	const want = `~ d.user: candidate: candidate stricter: 60 per 1m sliding_window, enforced for 10% and user:a user:b user:c and 1 more, rolled back above 0.5% of 1 request or more in 10m -> candidate stricter: 70 per 1m sliding_window, enforced for 20% and user:a user:b user:c and 1 more, rolled back above 0.5% of 1 request or more in 10m
~ d.user: max_debt: 50 -> none
~ d.user: on_change: proportional -> carry
~ d.user: schedule: 0 22 * * * for 8h in Europe/Berlin: x0.5, free x0.125, pro x2, else 0 0 1 * * for 1d in UTC: x3 -> 0 22 * * * for 8h in Europe/Berlin: x0.5, free x0.125, pro x2, else 0 0 1 * * for 1d in UTC: x4`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Tenants beyond those that a diff names are compared all the same.
func TestDiffOfManyTenants(t *testing.T) {
	other := strings.Replace(changing, `"user:d"`, `"user:e"`, 1)
	changes := diff.Sets(testrules.Load(t, changing), testrules.Load(t, other))
	if len(changes) != 1 || changes[0].Field != "candidate.tenants" {
		t.Errorf("got %v", changes)
	}
}

func TestExplainSaysWhichShiftIsInForce(t *testing.T) {
	set := testrules.Load(t, changing)
	entries := []descriptor.Entry{{Key: "user", Value: "u"}}
	for at, want := range map[string]string{
		"2026-05-15T12:00:00Z": "  no shift of the schedule is in force until 2026-05-15T20:00:00Z at least\n",
		"2026-05-15T20:00:00Z": "  in force until 2026-05-16T04:00:00Z: 0 22 * * * for 8h in Europe/Berlin: x0.5, free x0.125, pro x2\n",
		"2026-05-31T23:00:00Z": "  in force until 2026-06-01T04:00:00Z: 0 22 * * * for 8h in Europe/Berlin: x0.5, free x0.125, pro x2\n",
		"2026-06-01T04:00:00Z": "  in force until 2026-06-01T20:00:00Z: 0 0 1 * * for 1d in UTC: x3\n",
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe.Explain(set, "d", entries, now).String(); !strings.Contains(got, want) {
			t.Errorf("at %s: no %q in\n%s", at, want, got)
		}
	}
}
