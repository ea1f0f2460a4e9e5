package rls

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

const (
	ok   = rlsv3.RateLimitResponse_OK
	over = rlsv3.RateLimitResponse_OVER_LIMIT
)

// denied is what an enforced limit of 5 per minute says of a request too many.
func denied() headgate.Verdict {
	return headgate.Verdict{
		Limit: limit.Must(limit.PerMinute(5)), Name: "five", Enforced: true, Hits: 1,
		Decision: limit.Decision{Limit: 5, ResetAfter: 55 * time.Second, RetryAfter: 41*time.Second + 1},
	}
}

func with(v headgate.Verdict, change func(*headgate.Verdict)) headgate.Verdict {
	change(&v)
	return v
}

// current builds a status with a limit.
func current(code rlsv3.RateLimitResponse_Code, l *rlsv3.RateLimitResponse_RateLimit, remaining uint32, reset int64) *rlsv3.RateLimitResponse_DescriptorStatus {
	return &rlsv3.RateLimitResponse_DescriptorStatus{
		Code: code, CurrentLimit: l, LimitRemaining: remaining,
		DurationUntilReset: &durationpb.Duration{Seconds: reset},
	}
}

func perUnit(name string, n uint32, unit rlsv3.RateLimitResponse_RateLimit_Unit) *rlsv3.RateLimitResponse_RateLimit {
	return &rlsv3.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: n, Unit: unit}
}

func bare(code rlsv3.RateLimitResponse_Code) *rlsv3.RateLimitResponse_DescriptorStatus {
	return &rlsv3.RateLimitResponse_DescriptorStatus{Code: code}
}

func header1(key, value string) []*corev3.HeaderValue {
	return []*corev3.HeaderValue{{Key: key, Value: value}}
}

func TestStatuses(t *testing.T) {
	five := perUnit("five", 5, rlsv3.RateLimitResponse_RateLimit_MINUTE)
	hundred := perUnit("per-tenant", 100, rlsv3.RateLimitResponse_RateLimit_MINUTE)
	second := func(v headgate.Verdict) headgate.Verdict {
		return with(v, func(v *headgate.Verdict) { v.Descriptor = 1 })
	}
	tests := []struct {
		name     string
		allowed  bool
		verdicts []headgate.Verdict
		// request has two descriptors
		statuses []*rlsv3.RateLimitResponse_DescriptorStatus
		overall  rlsv3.RateLimitResponse_Code
		headers  []*corev3.HeaderValue
	}{{
		name: "no rule matched", allowed: true,
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(ok), bare(ok)},
		overall:  ok,
	}, {
		name: "allowed, and no rule for the second", allowed: true,
		verdicts: []headgate.Verdict{allowedVerdict()},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(ok, hundred, 99, 60), bare(ok)},
		overall:  ok,
	}, {
		name:     "statuses keep the order of the descriptors",
		verdicts: []headgate.Verdict{allowedVerdict(), second(denied())},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(ok, hundred, 99, 60), current(over, five, 0, 42)},
		overall:  over,
		headers:  header1("retry-after", "42"),
	}, {
		name:     "of several limits on a descriptor the denying one speaks",
		verdicts: []headgate.Verdict{denied(), allowedVerdict()},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, five, 0, 42), bare(ok)},
		overall:  over,
		headers:  header1("retry-after", "42"),
	}, {
		name: "a wait of under a second is one second",
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Decision.RetryAfter = time.Microsecond
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, five, 0, 1), bare(ok)},
		overall:  over,
		headers:  header1("retry-after", "1"),
	}, {
		name: "what can never pass is not told to come back",
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Decision.Never, v.Decision.RetryAfter = true, 0
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, five, 0, 55), bare(ok)},
		overall:  over,
	}, {
		name: "the rest of a denial is not offered",
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Decision.Remaining = 3
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, five, 0, 42), bare(ok)},
		overall:  over,
		headers:  header1("retry-after", "42"),
	}, {
		name: "unlimited", allowed: true,
		verdicts: []headgate.Verdict{{Rule: &rules.Rule{Unlimited: true}, Enforced: true, Decision: limit.Decision{Allowed: true}}},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{Code: ok, LimitRemaining: math.MaxUint32}, bare(ok)},
		overall:  ok,
	}, {
		name: "replaced", allowed: true,
		verdicts: []headgate.Verdict{{Rule: &rules.Rule{}, Name: "five", Replaced: true, Enforced: true, Decision: limit.Decision{Allowed: true}}},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(ok), bare(ok)},
		overall:  ok,
	}, {
		name: "shadow rule", allowed: true,
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Rule, v.Enforced = &rules.Rule{Shadow: true}, false
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(ok, five, 0, 42), bare(ok)},
		overall:  ok,
	}, {
		name: "shadow mode for all rules", allowed: true,
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Rule, v.Enforced = &rules.Rule{}, false
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, five, 0, 42), bare(ok)},
		overall:  ok,
	}, {
		name: "quota rule over while another is not", allowed: true,
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) { v.Rule = &rules.Rule{Quota: true} })},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, five, 0, 42), bare(ok)},
		overall:  ok,
	}, {
		name: "failure mode open", allowed: true,
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Degraded, v.Decision = store.Timeout, limit.Decision{Allowed: true, Limit: 5}
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(ok), bare(ok)},
		overall:  ok,
	}, {
		name: "failure mode closed",
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Degraded, v.Decision = store.Timeout, limit.Decision{Limit: 5, RetryAfter: time.Second}
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(over), bare(ok)},
		overall:  over,
		headers:  header1("retry-after", "1"),
	}, {
		name: "numbers above 32 bits are clamped", allowed: true,
		verdicts: []headgate.Verdict{{
			Limit: limit.Must(limit.PerDay(1 << 40)), Enforced: true,
			Decision: limit.Decision{Allowed: true, Limit: 1 << 40, Remaining: 1<<40 - 1, ResetAfter: time.Nanosecond},
		}},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{
			current(ok, perUnit("", math.MaxUint32, rlsv3.RateLimitResponse_RateLimit_DAY), math.MaxUint32, 1), bare(ok),
		},
		overall: ok,
	}, {
		name: "a name that cannot stand in a header is left out", allowed: true,
		verdicts: []headgate.Verdict{with(allowedVerdict(), func(v *headgate.Verdict) { v.Name = "a\"b\r\n" })},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{
			current(ok, perUnit("", 100, rlsv3.RateLimitResponse_RateLimit_MINUTE), 99, 60), bare(ok),
		},
		overall: ok,
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ask(t, newService(Options{Checker: says(test.allowed, test.verdicts...)}),
				request("edge", entries("a", "1"), entries("b", "2")))
			if err != nil {
				t.Fatal(err)
			}
			want := &rlsv3.RateLimitResponse{OverallCode: test.overall, Statuses: test.statuses, ResponseHeadersToAdd: test.headers}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWireUnit(t *testing.T) {
	day := 24 * time.Hour
	tests := []struct {
		period     time.Duration
		unit       int32
		multiplier uint32
	}{
		{time.Second, unitSecond, 1},
		{30 * time.Second, unitSecond, 30},
		{time.Minute, unitMinute, 1},
		{90 * time.Second, unitSecond, 90},
		{5 * time.Minute, unitMinute, 5},
		{time.Hour, unitHour, 1},
		{36 * time.Hour, unitHour, 36},
		{day, unitDay, 1},
		{7 * day, unitWeek, 1},
		{14 * day, unitWeek, 2},
		{30 * day, unitMonth, 1},
		{365 * day, unitYear, 1},
		{500 * time.Millisecond, unitUnknown, 1},
		{1500 * time.Millisecond, unitUnknown, 1},
	}
	for _, test := range tests {
		unit, multiplier := wireUnit(limit.Must(limit.Spec{Quota: 1, Period: test.period}))
		if unit != test.unit || multiplier != test.multiplier {
			t.Errorf("%v: unit %d x %d, want %d x %d", test.period, unit, multiplier, test.unit, test.multiplier)
		}
	}
}

func TestHits(t *testing.T) {
	negative := func(d *ratelimitv3.RateLimitDescriptor) *ratelimitv3.RateLimitDescriptor {
		d.IsNegativeHits = true
		return d
	}
	tests := []struct {
		name       string
		hitsAddend uint32
		descriptor *ratelimitv3.RateLimitDescriptor
		want       int64
		op         store.Op
	}{
		{"nothing said", 0, entries("k", "v"), 1, store.Hit},
		{"the request's", 7, entries("k", "v"), 7, store.Hit},
		{"the largest of a request", math.MaxUint32, entries("k", "v"), math.MaxUint32, store.Hit},
		{"the descriptor's", 7, withHits(entries("k", "v"), 3), 3, store.Hit},
		{"peek", 7, withHits(entries("k", "v"), 0), 0, store.Hit},
		{"the largest", 0, withHits(entries("k", "v"), limit.MaxQuota), limit.MaxQuota, store.Hit},
		{"refund", 7, negative(entries("k", "v")), 7, store.Refund},
		{"refund of the descriptor's", 7, negative(withHits(entries("k", "v"), 3)), 3, store.Refund},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got headgate.Descriptor
			checker := script(func(_ context.Context, req *headgate.Request, resp *headgate.Response) error {
				got, resp.Allowed = req.Descriptors[0], true
				return nil
			})
			req := request("edge", test.descriptor)
			req.HitsAddend = test.hitsAddend
			if _, err := ask(t, newService(Options{Checker: checker}), req); err != nil {
				t.Fatal(err)
			}
			if got.Hits != test.want || got.Op != test.op {
				t.Errorf("asked for %d hits, operation %d; want %d, %d", got.Hits, got.Op, test.want, test.op)
			}
		})
	}
}

// A refund is answered OK though the bucket is still over its limit.
func TestRefundIsNeverOver(t *testing.T) {
	refund := entries("a", "1")
	refund.IsNegativeHits = true
	checker := says(false, denied())
	got, err := ask(t, newService(Options{Checker: checker}), request("edge", refund))
	if err != nil {
		t.Fatal(err)
	}
	if got.OverallCode != ok || got.Statuses[0].Code != ok || len(got.ResponseHeadersToAdd) != 0 {
		t.Errorf("answer to a refund: %v", got)
	}
	// Beside a hit that is over, the request is.
	checker = says(false, denied(), with(denied(), func(v *headgate.Verdict) { v.Descriptor = 1 }))
	got, err = ask(t, newService(Options{Checker: checker}), request("edge", refund, entries("b", "2")))
	if err != nil {
		t.Fatal(err)
	}
	if got.OverallCode != over || got.Statuses[0].Code != ok || got.Statuses[1].Code != over {
		t.Errorf("answer to a refund and a hit: %v", got)
	}
}

func TestOverride(t *testing.T) {
	type want struct {
		algorithm limit.Algorithm
		quota     int64
		period    time.Duration
	}
	override := func(n uint32, unit typev3.RateLimitUnit, multiplier ...uint32) *ratelimitv3.RateLimitDescriptor {
		d := entries("k", "v")
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
		for _, m := range multiplier {
			d.Limit.UnitMultiplier = wrapperspb.UInt32(m)
		}
		return d
	}
	day := 24 * time.Hour
	tests := []struct {
		name       string
		compat     bool
		descriptor *ratelimitv3.RateLimitDescriptor
		want       want
		err        string
	}{
		{"second", false, override(5, typev3.RateLimitUnit_SECOND), want{limit.SlidingWindow, 5, time.Second}, ""},
		{"minute, compatible", true, override(5, typev3.RateLimitUnit_MINUTE), want{limit.FixedWindow, 5, time.Minute}, ""},
		{"hour", false, override(math.MaxUint32, typev3.RateLimitUnit_HOUR), want{limit.SlidingWindow, math.MaxUint32, time.Hour}, ""},
		{"day", false, override(0, typev3.RateLimitUnit_DAY), want{limit.SlidingWindow, 0, day}, ""},
		{"month", false, override(5, typev3.RateLimitUnit_MONTH), want{limit.SlidingWindow, 5, 30 * day}, ""},
		{"year", false, override(5, typev3.RateLimitUnit_YEAR), want{limit.SlidingWindow, 5, 365 * day}, ""},
		{"week, by its number", false, override(5, 7), want{limit.SlidingWindow, 5, 7 * day}, ""},
		{"multiplier", false, override(5, typev3.RateLimitUnit_SECOND, 30), want{limit.SlidingWindow, 5, 30 * time.Second}, ""},
		{"unknown unit", false, override(5, typev3.RateLimitUnit_UNKNOWN), want{}, "unknown unit 0"},
		{"unit beyond the last", true, override(5, 8), want{}, "unknown unit 8"},
		{"negative unit", false, override(5, -1), want{}, "unknown unit -1"},
		{"multiplier 0", false, override(5, typev3.RateLimitUnit_SECOND, 0), want{}, "unit_multiplier 0"},
		{"period too long", false, override(5, typev3.RateLimitUnit_YEAR, 2), want{}, "period"},
		{"period beyond 63 bits", false, override(5, typev3.RateLimitUnit_YEAR, math.MaxUint32), want{}, "unit_multiplier"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got *limit.Limit
			checker := script(func(_ context.Context, req *headgate.Request, resp *headgate.Response) error {
				got, resp.Allowed = req.Descriptors[0].Limit, true
				return nil
			})
			_, err := ask(t, newService(Options{Checker: checker, Compat: test.compat}), request("edge", test.descriptor))
			if test.err != "" {
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want InvalidArgument with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if g := (want{got.Algorithm, got.Quota, got.Period}); g != test.want || got.CountDenied != test.compat {
				t.Errorf("limit %+v, want %+v", got.Spec, test.want)
			}
		})
	}
}

func TestOverridesAreRememberedUpToABound(t *testing.T) {
	o := newOverrides(limit.Spec{})
	first, err := o.limit(override{requests: 1, unit: unitSecond})
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint32(2 * maxOverrides) {
		if _, err := o.limit(override{requests: n, unit: unitSecond}); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.mu.compiled) != maxOverrides {
		t.Errorf("%d limits remembered, want %d", len(o.mu.compiled), maxOverrides)
	}
	// No multiplier and a multiplier of 1 are one limit.
	again, err := o.limit(override{requests: 1, unit: unitSecond, multiplier: 1, hasMultiplier: true})
	if err != nil || again != first {
		t.Errorf("the same limit was compiled again (%v)", err)
	}
}

func TestMalformedRequests(t *testing.T) {
	many := func(n int) (ds []*ratelimitv3.RateLimitDescriptor) {
		for range n {
			ds = append(ds, entries("k", "v"))
		}
		return ds
	}
	tooManyEntries := new(ratelimitv3.RateLimitDescriptor)
	for range maxEntries + 1 {
		tooManyEntries.Entries = append(tooManyEntries.Entries, entries("k", "").Entries...)
	}
	tests := []struct {
		name string
		req  *rlsv3.RateLimitRequest
		want string
	}{
		{"empty domain", request("", entries("k", "v")), "rate limit domain must not be empty"},
		{"no descriptors", request("edge"), "rate limit descriptor list must not be empty"},
		{"empty", request(""), "rate limit domain must not be empty"},
		{"10,000 descriptors", request("edge", many(10_000)...), "10000 descriptors; hint: at most"},
		{"one descriptor too many", request("edge", many(descriptor.MaxDescriptors+1)...), "descriptors; hint: at most"},
		{"too many entries", request("edge", tooManyEntries), "entries; hint: at most"},
		{"empty key", request("edge", entries("k", "v"), entries("a", "b", "", "v")), "descriptor 1: entry 1 has an empty key"},
		{"hits of 2^63", request("edge", withHits(entries("k", "v"), 1<<63)), "hits_addend 9223372036854775808 is out of range"},
		{"hits of 2^64-1", request("edge", withHits(entries("k", "v"), math.MaxUint64)), "out of range"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ask(t, newService(Options{Checker: allow}), test.req)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want InvalidArgument with %q", err, test.want)
			}
		})
	}
}

func TestCheckerRefuses(t *testing.T) {
	checker := script(func(context.Context, *headgate.Request, *headgate.Response) error {
		return errors.New("check: no good")
	})
	_, err := ask(t, newService(Options{Checker: checker}), benchRequest())
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "check: no good" {
		t.Errorf("error %v", err)
	}
}

func TestClosedAsError(t *testing.T) {
	degraded := with(denied(), func(v *headgate.Verdict) {
		v.Degraded, v.Decision = store.Unavailable, limit.Decision{RetryAfter: time.Second}
	})
	tests := []struct {
		name     string
		allowed  bool
		verdicts []headgate.Verdict
		want     codes.Code
	}{
		{"denied by failure mode", false, []headgate.Verdict{degraded}, codes.Unavailable},
		{"denied by a count too", false, []headgate.Verdict{degraded, denied()}, codes.OK},
		{"denied by a count", false, []headgate.Verdict{denied()}, codes.OK},
		{"allowed", true, []headgate.Verdict{allowedVerdict()}, codes.OK},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ask(t, newService(Options{Checker: says(test.allowed, test.verdicts...), ClosedAsError: true}), benchRequest())
			if status.Code(err) != test.want {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if test.want == codes.Unavailable && !strings.Contains(err.Error(), string(store.Unavailable)) {
				t.Errorf("error %v does not say why", err)
			}
		})
	}
}

// F62: a panic in the decision allows the request, and is told.
func TestPanicAllows(t *testing.T) {
	var told any
	s := newService(Options{
		Checker: script(func(context.Context, *headgate.Request, *headgate.Response) error { panic("planted") }),
		OnPanic: func(cause any, stack []byte) {
			told = cause
			if len(stack) == 0 {
				t.Error("no stack")
			}
		},
	})
	got, err := ask(t, s, request("edge", entries("a", "1"), entries("b", "2"), entries("c", "3")))
	if err != nil {
		t.Fatal(err)
	}
	want := &rlsv3.RateLimitResponse{OverallCode: ok, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(ok), bare(ok), bare(ok)}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || told != "planted" {
		t.Errorf("told %v; (-want +got)\n%s", told, diff)
	}
}

func TestResponseHeaders(t *testing.T) {
	modern, err := httpanswer.New(httpanswer.Options{OmitX: true})
	if err != nil {
		t.Fatal(err)
	}
	custom := HeaderNames{Limit: "x-limit", Reset: "x-reset"}
	tests := []struct {
		name    string
		options Options
		allowed bool
		verdict headgate.Verdict
		want    map[string]string
	}{
		{"off, allowed", Options{}, true, allowedVerdict(), map[string]string{}},
		{"off, denied", Options{}, false, denied(), map[string]string{"retry-after": "42"}},
		{"as envoyproxy/ratelimit, allowed", Options{Headers: DefaultHeaderNames()}, true, allowedVerdict(),
			map[string]string{"RateLimit-Limit": "100", "RateLimit-Remaining": "99", "RateLimit-Reset": "60"}},
		{"as envoyproxy/ratelimit, denied", Options{Headers: DefaultHeaderNames()}, false, denied(),
			map[string]string{"RateLimit-Limit": "5", "RateLimit-Remaining": "0", "RateLimit-Reset": "42", "retry-after": "42"}},
		{"other names", Options{Headers: custom}, true, allowedVerdict(), map[string]string{"x-limit": "100", "x-reset": "60"}},
		{"modern, denied", Options{Answer: modern}, false, denied(), map[string]string{
			"ratelimit-policy": `"five";q=5;w=60`, "ratelimit": `"five";r=0;t=42`,
			"retry-after": "42", "cache-control": "no-store",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.options.Checker = says(test.allowed, test.verdict)
			got, err := ask(t, newService(test.options), benchRequest())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, headersOf(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestNoHeadersWhereNothingLimits(t *testing.T) {
	got, err := ask(t, newService(Options{Checker: allow, Headers: DefaultHeaderNames()}), benchRequest())
	if err != nil || len(got.ResponseHeadersToAdd) != 0 {
		t.Errorf("headers %v, error %v", got.GetResponseHeadersToAdd(), err)
	}
}

func TestDynamicMetadata(t *testing.T) {
	first := &rules.Rule{Metadata: map[string]any{
		"team": "core", "nested": map[string]any{"a": 1, "list": []any{true, nil, "x"}},
	}}
	second := &rules.Rule{Metadata: map[string]any{
		"team": "other", "nested": map[string]any{"a": 2, "b": 2.5}, "deep": map[string]any{"c": "d"},
	}}
	overRule := &rules.Rule{Metadata: map[string]any{"never": "told"}}
	verdict := func(v headgate.Verdict, i int, r *rules.Rule) headgate.Verdict {
		v.Descriptor, v.Rule = i, r
		return v
	}
	s := newService(Options{DynamicMetadata: true, Checker: says(false,
		verdict(allowedVerdict(), 0, first),
		verdict(allowedVerdict(), 1, second),
		verdict(denied(), 2, overRule),
	)})
	limited := withHits(entries("b", "2", "c", ""), 4)
	limited.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 42, Unit: typev3.RateLimitUnit_MINUTE}
	req := request("edge", entries("a", "1"), limited, entries("d", "3"))
	req.HitsAddend = 3
	got, err := ask(t, s, req)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"domain": "edge", "hitsAddend": 3.0,
		"descriptors": []any{
			map[string]any{"entries": []any{"a=1"}},
			map[string]any{"entries": []any{"b=2", "c="}, "hitsAddend": 4.0, "limit": "requests_per_unit:42 unit:MINUTE"},
			map[string]any{"entries": []any{"d=3"}},
		},
		"metadata": map[string]any{
			"team":   "core",
			"nested": map[string]any{"a": 1.0, "b": 2.5, "list": []any{true, nil, "x"}},
			"deep":   map[string]any{"c": "d"},
		},
	}
	if diff := cmp.Diff(want, got.DynamicMetadata.AsMap()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, grown := first.Metadata["deep"]; grown || len(first.Metadata["nested"].(map[string]any)) != 2 {
		t.Errorf("the rule's own metadata was changed: %v", first.Metadata)
	}
}

// What a call leaves in the pool must not show in the next one.
func TestCallsShareNothing(t *testing.T) {
	s := newService(Options{DynamicMetadata: true, Headers: DefaultHeaderNames(), Checker: script(
		func(_ context.Context, req *headgate.Request, resp *headgate.Response) error {
			resp.Allowed = req.Domain != "deny"
			v := allowedVerdict()
			if !resp.Allowed {
				v = denied()
			}
			resp.Verdicts = append(resp.Verdicts, v)
			return nil
		})})
	for range 20 {
		got, err := ask(t, s, request("deny", entries("secret", "s"), entries("b", "2")))
		if err != nil || got.OverallCode != over || len(got.Statuses) != 2 {
			t.Fatalf("denied: %v, %v", got, err)
		}
		got, err = ask(t, s, request("allow", entries("k", "v")))
		if err != nil || got.OverallCode != ok || len(got.Statuses) != 1 || got.Statuses[0].CurrentLimit.Name != "per-tenant" {
			t.Fatalf("allowed: %v, %v", got, err)
		}
		if text := got.String(); strings.Contains(text, "secret") {
			t.Fatalf("an answer holds another call's text: %s", text)
		}
	}
}
