package loadgen

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
)

var usual = Options{Shape: Steady, Rate: 100, For: 10 * time.Second, Keys: 10, UnderWay: 100}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"":                      func(*Options) {},
		"shape \"zigzag\"":      func(o *Options) { o.Shape = "zigzag" },
		"a rate of 0":           func(o *Options) { o.Rate = 0 },
		"a rate of NaN":         func(o *Options) { o.Rate = math.NaN() },
		"a rate of 2.5":         func(o *Options) { o.Shape, o.Rate = Burst, 2.5 },
		"--unguarded":           func(o *Options) { o.Rate = 1001 },
		"1m0.001s is more than": func(o *Options) { o.For = time.Minute + time.Millisecond },
		"0s long":               func(o *Options) { o.For = 0 },
		"0 keys":                func(o *Options) { o.Keys = 0 },
		"a share of 1.5":        func(o *Options) { o.Hot = 1.5 },
		"0 under way":           func(o *Options) { o.UnderWay = 0 },
		"100001 under way":      func(o *Options) { o.UnderWay = maxUnderWay + 1 },
		"a rate of 100001":      func(o *Options) { o.Rate, o.Unguarded = 100_001, true },
		"8640000000 requests":   func(o *Options) { o.Rate, o.For, o.Unguarded = maxRate, maxTime, true },
		"25h0m0s long":          func(o *Options) { o.For, o.Unguarded = 25*time.Hour, true },
	} {
		o := usual
		change(&o)
		if err := o.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestTimes: when requests are sent: none before another, none after the end, and as many as the
// shape says up to any time.
func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Shape: rapid.SampledFrom([]Shape{Steady, Ramp, Burst}).Draw(t, "shape"), Rate: float64(rapid.IntRange(1, 500).Draw(t, "rate")),
			For: time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second,
		}
		n := o.requests()
		at := time.Duration(rapid.Float64Range(0, o.For.Seconds()).Draw(t, "at") * float64(time.Second))
		sent, before := 0, time.Duration(-1)
		for i := range n {
			due := o.at(i)
			if due < before || due >= o.For {
				t.Fatalf("request %d of %d at %v, after %v", i, n, due, before)
			}
			if before = due; due <= at {
				sent++
			}
		}
		s := at.Seconds()
		want := map[Shape]float64{Steady: o.Rate * s, Ramp: o.Rate * s * s / (2 * o.For.Seconds()), Burst: o.Rate * (math.Floor(s) + 1)}[o.Shape]
		if want = min(want, float64(n)); math.Abs(float64(sent)-want) > 1.001 {
			t.Fatalf("%d were sent until %v, want %v", sent, at, want)
		}
	})
}

// TestRun: requests are sent when it is their time, whoever has not answered yet, and latencies
// are counted from then.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var late atomic.Int64
		o := usual
		o.UnderWay = 1000
		// The server stalls for the first second.
		r := Run(t.Context(), o, func(ctx context.Context, key int) Answer {
			if sent := time.Since(began); sent%(10*time.Millisecond) != 0 {
				late.Add(1)
			}
			// In the time of the bubble: the rest of the first second, and what an answer takes.
			_ = sleep.For(ctx, max(time.Second-time.Since(began), 0)+time.Millisecond)
			return Answer{Code: "200", Decided: true, Allowed: key%2 == 0, Degraded: key == 0, Slow: key == 3}
		})
		if late.Load() != 0 || r.Sent != 1000 || r.Unsent != 0 || r.Codes["200"] != 1000 || r.Decided != 1000 || r.Lasted != o.For-10*time.Millisecond+time.Millisecond {
			t.Errorf("%d were late; %d sent, %d not, %v, %d decided in %v", late.Load(), r.Sent, r.Unsent, r.Codes, r.Decided, r.Lasted)
		}
		if len(r.Took) >= r.Sent || !slices.IsSorted(r.Took) || r.Percentile(0.5) != time.Millisecond || r.Percentile(1) < 900*time.Millisecond || r.Percentile(1) > time.Second+time.Millisecond {
			t.Errorf("latencies of %d: half within %v, all within %v", len(r.Took), r.Percentile(0.5), r.Percentile(1))
		}
		for key, n := range r.Allowed {
			if key%2 != 0 || n == 0 {
				t.Errorf("%d of key %d were let pass", n, key)
			}
		}
		if r.TotalAllowed() < 300 || r.Degraded == 0 || r.Degraded >= r.TotalAllowed() {
			t.Errorf("%d were let pass, %d degraded", r.TotalAllowed(), r.Degraded)
		}
	})
}

// TestUnderWay: what would be too many is not sent, and is counted; and a run can be ended.
func TestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usual
		o.UnderWay = 7
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second-time.Millisecond, cancel)
		r := Run(ctx, o, func(ctx context.Context, _ int) Answer {
			<-ctx.Done()
			return Answer{Code: "cancelled"}
		})
		if r.Sent != 7 || r.Unsent != 493 || r.Codes["cancelled"] != 7 || r.Decided != 0 || r.Percentile(0.99) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestHotKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usual
		o.Hot, o.Keys, o.For = 0.5, 1000, 60*time.Second
		r := Run(t.Context(), o, func(context.Context, int) Answer { return Answer{Code: "200", Decided: true, Allowed: true} })
		// 6000 draws of a half: 39 are a standard deviation, and the seed is always the same.
		if n := r.Allowed[0]; n < 2800 || n > 3200 {
			t.Errorf("%d of 6000 went to the first key", n)
		}
	})
}

// TestMostIn: no limit lets more pass than is said, whatever is asked when.
func TestMostIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := limit.Spec{
			Algorithm: limit.Algorithm(rapid.IntRange(int(limit.SlidingWindow), int(limit.GCRA)).Draw(t, "algorithm")),
			Quota:     rapid.Int64Range(1, 20).Draw(t, "quota"), Period: time.Duration(rapid.IntRange(1, 100).Draw(t, "period")) * time.Second,
		}
		if spec.Algorithm == limit.TokenBucket || spec.Algorithm == limit.GCRA {
			spec.Burst = rapid.Int64Range(0, 30).Draw(t, "burst")
		}
		l, err := limit.New(spec)
		if err != nil {
			t.Skip(err)
		}
		lasts := time.Duration(rapid.Int64Range(0, 400).Draw(t, "lasts")) * time.Second
		most, ok := mostIn(l, lasts)
		if ok == (spec.Algorithm == limit.LeakyQueue) {
			t.Fatalf("bounded: %t", ok)
		}
		if !ok {
			return
		}
		// Some use before, then as much as is let pass from begin on.
		var s limit.State
		now := limit.Micros(1_000_000_000_000_000)
		take := func() bool {
			var d limit.Decision
			s, d = limit.Decide(l, s, now, 1)
			return d.Allowed
		}
		for range rapid.IntRange(0, 30).Draw(t, "before") {
			take()
			now += limit.Micros(rapid.Int64Range(0, 30_000_000).Draw(t, "pause"))
		}
		passed, end := int64(0), now+limit.Micros(lasts.Microseconds())
		for now <= end {
			for take() {
				if passed++; passed > most {
					t.Fatalf("%d in %v by %+v, but at most %d may", passed, lasts, spec, most)
				}
			}
			now += limit.Micros(rapid.Int64Range(1, 5_000_000).Draw(t, "step"))
		}
	})
	if most, _ := mostIn(limit.Must(limit.Spec{Quota: 1 << 50, Period: time.Second}), 366*24*time.Hour); most != math.MaxInt64 && most < 1<<50 {
		t.Errorf("it overflows to %d", most)
	}
}

// TestJudge: requests of several keys that share a bucket are judged together, and each bucket by
// its own limit.
func TestJudge(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte(`
domain: d
match: path
descriptors:
- key: team
  rate_limit: {unit: hour, requests_per_unit: 10, algorithm: fixed_window}
  descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 3, algorithm: fixed_window}}
- {key: near, consistency: synced, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: tenant, tenant: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: many, concurrency: 1}
`)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	judge := func(key string, hits int64, allowed map[int]int) []Bucket {
		t.Helper()
		j, err := NewJudge(set, func(n int) headgate.Request {
			entries, err := descriptor.Parse(fmt.Sprintf(key, n))
			if err != nil {
				t.Fatal(err)
			}
			return headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: hits}}}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		list, err := j.Buckets(t.Context(), &Report{Allowed: allowed, Lasted: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	// A minute touches two windows of an hour at most.
	got := judge("team:a,user:%d", 1, map[int]int{1: 6, 2: 7, 3: 8})
	if len(got) != 4 || got[0].Key != "team:a" || got[0].Passed != 21 || got[0].Most != 20 || !got[0].Broken() || got[1].Key != "team:a,user:2" || got[1].Passed != 7 || got[1].Most != 6 || got[2].Passed != 8 || got[3].Passed != 6 || got[3].Broken() {
		t.Errorf("%+v", got)
	}
	if got := judge("team:%d", 4, map[int]int{1: 5, 2: 6}); len(got) != 2 || got[0].Key != "team:2" || got[0].Passed != 24 || !got[0].Broken() || got[1].Broken() {
		t.Errorf("of hits: %+v", got)
	}
	for _, key := range []string{"near:%d", "tenant:%d", "many:%d", "other:%d"} {
		if got := judge(key, 1, map[int]int{1: 1000}); len(got) != 0 {
			t.Errorf("%s is judged: %+v", key, got)
		}
	}
}

// TestMatches: a rule is for what it limits, and for what tenants may have quotas for.
func TestMatches(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte(`
domain: d
match: path
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}
- {key: tenant, tenant: true}
`)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]bool{"d user:1": true, "d tenant:1": true, "d tenant:1,op:read": true, "d other:1": false, "e tenant:1": false} {
		j, err := NewJudge(set, func(int) headgate.Request {
			domain, text, _ := strings.Cut(of, " ")
			entries, err := descriptor.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return headgate.Request{Domain: domain, Descriptors: []headgate.Descriptor{{Entries: entries, Hits: 1}}}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if got, err := j.Matches(t.Context(), 1); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", of, got, err, want)
		}
	}
}

func TestReport(t *testing.T) {
	r := &Report{
		Sent: 9, Unsent: 1, Codes: map[string]int{"200": 7, "429": 2}, Decided: 9, Took: []time.Duration{time.Millisecond, 2 * time.Millisecond, 30 * time.Millisecond},
		Allowed: map[int]int{1: 7}, Lasted: 1234567 * time.Microsecond,
	}
	var text strings.Builder
	WriteText(&text, Options{Shape: Burst, Rate: 5, Keys: 3, Hot: 0.5, UnderWay: 4}, r, true, []Bucket{{"d.user", "3 per hour", "user:1", 7, 6}, {"d.user", "3 per hour", "user:2", 1, 6}})
	const want = `sent       9 in 1.235s, burst at 5/s, of 3 keys, 0.5 of them to the first besides
not sent   1, because 4 were under way
answers    200: 7, 429: 2
allowed    7 of 9
latency    p50 2ms, p90 30ms, p99 30ms, p99.9 30ms, max 30ms, from when each was to be sent
bounds     1 of 2 buckets broken
  rule d.user, user:1: 7 hits passed, at most 6 may, by 3 per hour
`
	if text.String() != want {
		t.Errorf("%s", text.String())
	}
	r.Degraded = 2
	if n := r.Undecided(); n != 3 {
		t.Errorf("%d undecided, want one that was not sent and two without the store", n)
	}
	text.Reset()
	WriteText(&text, Options{}, r, true, nil)
	if !strings.Contains(text.String(), "for 2 of them the store did not decide") || !strings.Contains(text.String(), "not judged") {
		t.Errorf("%s", text.String())
	}
	text.Reset()
	WriteText(&text, Options{}, &Report{Codes: map[string]int{"cannot dial": 3}, Sent: 3}, false, nil)
	if !strings.Contains(text.String(), "allowed    0 of 0\n") || strings.Contains(text.String(), "latency") {
		t.Errorf("where nothing was decided: %s", text.String())
	}
	text.Reset()
	WriteText(&text, Options{}, &Report{Decided: 3, Unmatched: 2, Allowed: map[int]int{1: 3}}, false, nil)
	if !strings.Contains(text.String(), "allowed    3 of 3; no rule is for 2 of them\n") {
		t.Errorf("where no rule is for some: %s", text.String())
	}
}
