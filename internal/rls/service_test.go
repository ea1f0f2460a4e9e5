package rls

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// TestUnfit: who counts errors is told of each call that has one before anything is decided, and
// of no other.
func TestUnfit(t *testing.T) {
	var none, refusal error
	unfit := 0
	s := newService(Options{
		Checker: script(func(_ context.Context, _ *headgate.Request, resp *headgate.Response) error {
			resp.Allowed = true
			return refusal
		}),
		Unanswered: func() error { return none },
		OnUnfit:    func() { unfit++ },
	})
	fit := request("edge", entries("k", "v"))
	for i, step := range []struct {
		req           *rlsv3.RateLimitRequest
		none, refusal error
		want          int
	}{
		{fit, nil, nil, 0},
		{request("", entries("k", "v")), nil, nil, 1},
		{request("edge"), nil, nil, 2},
		{fit, errors.New("no rules"), nil, 3},
		{fit, nil, errors.New("of the Checker"), 3},
	} {
		none, refusal = step.none, step.refusal
		if _, err := ask(t, s, step.req); (err == nil) != (i == 0) || unfit != step.want {
			t.Errorf("step %d: %v, %d unfit, want %d", i, err, unfit, step.want)
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
		{"unit beyond the last", true, override(5, 8), want{}, "unknown unit 8; hint: SECOND 1, MINUTE 2, HOUR 3, DAY 4, MONTH 5, YEAR 6, WEEK 7"},
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

// No multiplier and a multiplier of 1 are one limit.
func TestOverridesAreRemembered(t *testing.T) {
	o := newOverrides(limit.Spec{})
	first, err := o.limit(override{requests: 1, unit: unitSecond})
	if err != nil {
		t.Fatal(err)
	}
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
		v.By, v.Degraded, v.Decision = verdict.ByFailureMode, store.Unavailable, limit.Decision{RetryAfter: time.Second}
	})
	tests := []struct {
		name     string
		allowed  bool
		verdicts []headgate.Verdict
		want     codes.Code
	}{
		{"denied by failure mode", false, []headgate.Verdict{degraded}, codes.Unavailable},
		{"denied by a count too", false, []headgate.Verdict{degraded, denied()}, codes.OK},
		{"denied by the node alone", false, []headgate.Verdict{with(degraded, func(v *headgate.Verdict) { v.By = verdict.ByLocalShare })}, codes.OK},
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

// The largest request that is valid has an answer that no pooled buffer of ours
// holds.
func TestAnswerToTheLargestRequest(t *testing.T) {
	var verdicts []headgate.Verdict
	var descriptors []*ratelimitv3.RateLimitDescriptor
	for i := range descriptor.MaxDescriptors {
		verdicts = append(verdicts, with(allowedVerdict(), func(v *headgate.Verdict) { v.Descriptor = i }))
		descriptors = append(descriptors, entries("k", "v"))
	}
	got, err := ask(t, newService(Options{Checker: says(true, verdicts...)}), request("edge", descriptors...))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Statuses) != descriptor.MaxDescriptors || got.Statuses[descriptor.MaxDescriptors-1].LimitRemaining != 99 {
		t.Errorf("answer %v", got)
	}
}

// A panic in decoding is answered as well.
func TestPanicInDecodingAllows(t *testing.T) {
	told := 0
	s := newService(Options{Checker: allow, OnPanic: func(any, []byte) { told++ }})
	answered, err := handle(s, t.Context(), func(any) error { panic("planted") }, nil)
	if err != nil || told != 1 {
		t.Fatalf("error %v, told %d times", err, told)
	}
	if got := answered.(*call).answer.generated(); got.OverallCode != ok || len(got.Statuses) != 1 {
		t.Errorf("answer %v", got)
	}
}

// What a call leaves in the pool must not show in the next one.
func TestCallsShareNothing(t *testing.T) {
	s := newService(Options{DynamicMetadata: true, Headers: envoyHeaders, Checker: script(
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
