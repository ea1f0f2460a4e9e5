package dualrun

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate/internal/view"
)

var begun = time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)

func newTally() *tally {
	return &tally{of: "grpc://old:8081", start: begun, hash: func(domain, text string) string { return "hash of " + domain }, places: map[place]uint64{}, examples: map[Cause][]view.DualRunExample{}}
}

func request(domain, key, value string) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: key, Value: value}, {Key: "route", Value: "a"}}}}}
}

func TestReport(t *testing.T) {
	k, later := newTally(), begun.Add(2*time.Hour)
	for range 3 {
		k.add(request("d", "api_key", "secret-1"), answer(of(ok, 5, 0)), answer(of(ok, 5, 0)), later)
	}
	k.add(request("d", "api_key", "secret-1"), answer(of(over, 5, time.Minute)), answer(of(ok, 5, time.Hour)), later)
	k.add(request("d", "api_key", "secret-2"), answer(of(ok, 5, 0)), answer(of(ok, 6, 0)), later)
	k.count(func(r *Report) *uint64 { return &r.OldFailed })
	r := k.report(later)
	if r.Compared != 5 || r.Different != 1 || r.DifferentInPart != 1 || r.OldDenied != 1 || r.OwnDenied != 0 || r.OldFailed != 1 {
		t.Errorf("%+v", r)
	}
	if r.Causes[Window] != 1 || r.Causes[Limit] != 1 || len(r.Causes) != 2 {
		t.Errorf("causes %v", r.Causes)
	}
	if len(r.Places) != 2 || r.Places[0].Keys != "api_key,route" || r.Places[0].Domain != "d" {
		t.Errorf("places %+v", r.Places)
	}
	if len(r.Examples) != 2 || r.Examples[1].Hash != "hash of d" || r.Examples[1].Old != "OVER_LIMIT, 5/HOUR, 0 left, resets in 1m0s" || r.Examples[1].Own != "OK, 5/HOUR, 0 left, resets in 1h0m0s" || !r.Examples[1].Decides {
		t.Errorf("examples %+v", r.Examples)
	}
	if text := fmt.Sprintf("%+v", r); strings.Contains(text, "secret") {
		t.Errorf("a value is in %s", text)
	}
}

// What is kept is bounded, whatever comes.
func TestReportIsBounded(t *testing.T) {
	k, later := newTally(), begun.Add(2*time.Hour)
	long := strings.Repeat("ü", 1000)
	for i := range 2 * maxPlaces {
		k.add(request(fmt.Sprint("d", i), long, "v"), answer(of(ok, 5, 0)), answer(of(ok, 6, 0)), later)
	}
	r := k.report(later)
	if len(r.Places) != maxPlaces+1 || r.Places[0].Domain != elsewhere || r.Places[0].Count != maxPlaces || r.Causes[Limit] != 2*maxPlaces {
		t.Errorf("%d places, first %+v", len(r.Places), r.Places[0])
	}
	if len(r.Examples) != maxExamples || len(r.Places[1].Keys) > maxKeys+len("…") {
		t.Errorf("%d examples, keys of %d bytes", len(r.Examples), len(r.Places[1].Keys))
	}
}

func TestVerdict(t *testing.T) {
	for name, tt := range map[string]struct {
		r    Report
		want Verdict
		why  string
	}{
		"too few":            {Report{DualRunCounts: view.DualRunCounts{Compared: 999}}, Wait, "999 answers"},
		"alike":              {Report{DualRunCounts: view.DualRunCounts{Compared: 1000}}, Go, "all of 1000"},
		"other limits":       {Report{DualRunCounts: view.DualRunCounts{Compared: 1e6, DifferentInPart: 1}, Causes: map[Cause]uint64{Limit: 1}}, Look, "compare the rules"},
		"other shape":        {Report{DualRunCounts: view.DualRunCounts{Compared: 1e6}, Causes: map[Cause]uint64{Shape: 1}}, Look, "compare the rules"},
		"windows of before":  {Report{DualRunCounts: view.DualRunCounts{Compared: 1e6, Different: 3000}, Causes: map[Cause]uint64{Start: 3000}}, Wait, "start anew"},
		"too many":           {Report{DualRunCounts: view.DualRunCounts{Compared: 1e6, Different: 1001}, Causes: map[Cause]uint64{Counts: 1001}}, Look, "counts: 1001"},
		"as many as chance":  {Report{DualRunCounts: view.DualRunCounts{Compared: 1e6, Different: 1000}, Causes: map[Cause]uint64{Window: 12, Counts: 988}}, Go, "window: 12, counts: 988"},
		"own decisions fail": {Report{DualRunCounts: view.DualRunCounts{Compared: 1e6, OwnFailed: 1001}}, Look, "1001 decisions"},
	} {
		if got, why := tt.r.judge(); got != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %s, %s", name, got, why)
		}
	}
}

// TestLongDomains: what a report keeps of a domain is bounded, whatever callers ask for.
func TestLongDomains(t *testing.T) {
	k := newTally()
	for _, last := range []string{"a", "b"} {
		k.add(request(strings.Repeat("d", 4<<20)+last, "user", "ann"), answer(of(over, 5, time.Minute)), answer(of(ok, 5, time.Hour)), begun.Add(2*time.Hour))
	}
	for at := range k.places {
		if len(at.domain) > 2*maxKeys {
			t.Errorf("a place has a domain of %d bytes", len(at.domain))
		}
	}
	for _, examples := range k.examples {
		for _, e := range examples {
			if len(e.Domain) > 2*maxKeys {
				t.Errorf("an example has a domain of %d bytes", len(e.Domain))
			}
		}
	}
}
