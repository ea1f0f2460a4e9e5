package dualrun

import (
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate/internal/view"
)

const (
	ok   = rlsv3.RateLimitResponse_OK
	over = rlsv3.RateLimitResponse_OVER_LIMIT
)

// of returns a status; n is the limit by the hour, 0 none.
func of(code rlsv3.RateLimitResponse_Code, n uint32, resets time.Duration) *rlsv3.RateLimitResponse_DescriptorStatus {
	s := &rlsv3.RateLimitResponse_DescriptorStatus{Code: code}
	if n > 0 {
		s.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: n, Unit: rlsv3.RateLimitResponse_RateLimit_HOUR}
		s.DurationUntilReset = durationpb.New(resets)
	}
	return s
}

// answer returns that of these statuses.
func answer(statuses ...*rlsv3.RateLimitResponse_DescriptorStatus) *rlsv3.RateLimitResponse {
	m := &rlsv3.RateLimitResponse{OverallCode: ok, Statuses: statuses}
	for _, s := range statuses {
		if s.Code == over {
			m.OverallCode = over
		}
	}
	return m
}

func TestCompare(t *testing.T) {
	start := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	long, soon := start.Add(2*time.Hour), start.Add(time.Minute)
	minute := answer(of(over, 5, time.Minute))
	minute.Statuses[0].CurrentLimit.Unit = rlsv3.RateLimitResponse_RateLimit_MINUTE
	named := answer(of(ok, 5, time.Minute))
	named.Statuses[0].CurrentLimit.Name = "other"
	for name, tt := range map[string]struct {
		theirs, ours *rlsv3.RateLimitResponse
		now          time.Time
		want         difference
	}{
		"the same":            {answer(of(ok, 5, time.Minute)), answer(of(ok, 5, time.Minute)), long, difference{Same, false, -1}},
		"another name":        {answer(of(ok, 5, time.Minute)), named, long, difference{Same, false, -1}},
		"no limit":            {answer(of(ok, 0, 0)), answer(of(ok, 0, 0)), long, difference{Same, false, -1}},
		"no status":           {answer(of(ok, 0, 0)), answer(), long, difference{Shape, false, -1}},
		"the whole alone":     {answer(of(ok, 5, 0)), &rlsv3.RateLimitResponse{OverallCode: over, Statuses: answer(of(ok, 5, 0)).Statuses}, long, difference{Shape, true, -1}},
		"a limit there":       {answer(of(ok, 0, 0), of(over, 5, 0)), answer(of(ok, 0, 0), of(ok, 0, 0)), long, difference{Limit, true, 1}},
		"a limit here":        {answer(of(ok, 0, 0)), answer(of(ok, 5, 0)), long, difference{Limit, false, 0}},
		"another number":      {answer(of(over, 5, 0)), answer(of(ok, 6, 0)), long, difference{Limit, true, 0}},
		"another unit":        {answer(of(over, 5, 0)), minute, long, difference{Limit, false, 0}},
		"a window of before":  {answer(of(over, 5, time.Minute)), answer(of(ok, 5, time.Minute)), soon, difference{Start, true, 0}},
		"ours was before":     {answer(of(ok, 5, time.Minute)), answer(of(over, 5, time.Minute)), soon, difference{Counts, true, 0}},
		"another window":      {answer(of(over, 5, time.Minute)), answer(of(ok, 5, 3*time.Minute)), long, difference{Window, true, 0}},
		"the same window":     {answer(of(over, 5, time.Minute)), answer(of(ok, 5, time.Minute+time.Second)), long, difference{Counts, true, 0}},
		"in part":             {answer(of(over, 5, 0), of(ok, 7, 0)), answer(of(over, 5, 0), of(over, 7, 0)), long, difference{Counts, false, 1}},
		"a limit goes before": {answer(of(over, 5, 0), of(ok, 7, 0)), answer(of(ok, 5, 0), of(ok, 8, 0)), long, difference{Limit, true, 1}},
	} {
		if got := compare(tt.theirs, tt.ours, start, tt.now); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// Two answers of the same bytes do not differ, whatever they are, and two of any bytes differ
// by one of the causes.
func FuzzCompare(f *testing.F) {
	seed := func(a, b *rlsv3.RateLimitResponse) {
		one, err1 := proto.Marshal(a)
		two, err2 := proto.Marshal(b)
		if err1 != nil || err2 != nil {
			f.Fatal(err1, err2)
		}
		f.Add(one, two)
	}
	seed(answer(of(ok, 5, time.Minute), of(over, 7, time.Hour)), answer(of(over, 5, time.Minute), of(over, 7, time.Hour)))
	seed(answer(), answer(of(ok, 0, 0)))
	start := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		a, b := new(rlsv3.RateLimitResponse), new(rlsv3.RateLimitResponse)
		if proto.Unmarshal(one, a) != nil || proto.Unmarshal(two, b) != nil {
			t.Skip()
		}
		if d := compare(a, a, start, start); d.cause != Same || d.decides {
			t.Fatalf("an answer differs from itself: %+v", d)
		}
		d := compare(a, b, start, start.Add(time.Hour))
		if d.decides != (a.GetOverallCode() != b.GetOverallCode()) || d.decides && d.cause == Same {
			t.Fatalf("%+v of %v and %v", d, a, b)
		}
		kept := tally{start: start, hash: func(string, string) string { return "" }, places: map[place]uint64{}, examples: map[Cause][]view.DualRunExample{}}
		kept.add(&rlsv3.RateLimitRequest{}, a, b, start)
		kept.report(start)
	})
}
