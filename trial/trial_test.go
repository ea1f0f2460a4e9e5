package trial_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/trial"
)

const tried = `
domain: d
descriptors:
- {key: plain, rate_limit: &l {unit: minute, requests_per_unit: 4}}
- {key: user, name: user, rate_limit: *l, candidate: {rate_limit: {unit: minute, requests_per_unit: %d}, percent: %d, roll_back: {above: 25%%, over: 10m, min_requests: 4}}}
`

var noon = limit.MicrosOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

func counters(t *testing.T, quota, percent int, before []*trial.Counter) []*trial.Counter {
	t.Helper()
	set := testrules.Load(t, fmt.Sprintf(tried, quota, percent))
	return trial.Counters(set.Rules(), before)
}

func TestCountsTakeTheCandidateBackOnce(t *testing.T) {
	list := counters(t, 2, 10, nil)
	if len(list) != 2 || list[0] != nil || list[1] == nil {
		t.Fatalf("%v", list)
	}
	c := list[1]
	for i, step := range []struct{ denied, candidateDenied, back bool }{
		{true, true, false}, {true, false, false}, {false, true, false},
		{false, false, false}, // 1 of 4 is not above 25 %
		{false, true, true}, {false, true, false},
	} {
		if got := c.Count(step.denied, step.candidateDenied, noon); got != step.back {
			t.Errorf("request %d: taken back %t", i+1, got)
		}
	}
	got := c.Report(noon)
	got.Tenants = nil
	if want := fmt.Sprint(trial.Report{
		Rule: "user", Domain: "d", Limits: "4 per 1m sliding_window", Candidate: "2 per 1m sliding_window", Percent: 10, Over: 10 * time.Minute,
		Decided: 6, Denied: 2, CandidateDenied: 4, Added: 3, Avoided: 1, AddedPercent: 50, RolledBack: noon.Time(),
	}); fmt.Sprint(got) != want || !c.RolledBack() {
		t.Errorf("got  %+v\nwant %s", got, want)
	}
}

// Counts are of a span up to now, and of what steps back no further than that.
func TestCountsForget(t *testing.T) {
	c := counters(t, 2, 10, nil)[1]
	const minute = limit.Micros(time.Minute / time.Microsecond)
	for _, step := range []struct {
		at   limit.Micros
		want int64
	}{{0, 1}, {5 * minute, 2}, {4 * minute, 3}, {9 * minute, 4}, {11 * minute, 4}, {15 * minute, 3}, {0, 1}, {60 * minute, 1}} {
		c.Count(false, false, noon+step.at)
		if got := c.Report(noon + step.at).Decided; got != step.want {
			t.Errorf("at %d min: %d, want %d", step.at/minute, got, step.want)
		}
	}
}

func TestCountersGoOn(t *testing.T) {
	before := counters(t, 2, 10, nil)
	before[1].Count(true, true, noon)
	for _, next := range []struct {
		quota, percent int
		goesOn         bool
	}{{2, 10, true}, {3, 10, false}, {2, 11, false}} {
		if c := counters(t, next.quota, next.percent, before)[1]; (c == before[1]) != next.goesOn || c.Report(noon).Decided == 1 != next.goesOn {
			t.Errorf("%+v: %+v", next, c.Report(noon))
		}
	}
}

// A candidate that is enforced for nobody has nothing to be taken back from.
func TestWatchedOnlyIsNeverTakenBack(t *testing.T) {
	text := fmt.Sprintf(strings.Replace(tried, "percent: %d, ", "", 1), 2)
	set := testrules.Load(t, text)
	c := trial.Counters(set.Rules(), nil)[1]
	for range 10 {
		if c.Count(false, true, noon) {
			t.Fatal("taken back")
		}
	}
	if got := c.Report(noon); c.RolledBack() || !got.RolledBack.IsZero() || got.Added != 10 || got.Percent != 0 {
		t.Errorf("%+v", got)
	}
}
