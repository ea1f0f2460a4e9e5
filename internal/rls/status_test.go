package rls

import (
	"math"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

const (
	ok   = rlsv3.RateLimitResponse_OK
	over = rlsv3.RateLimitResponse_OVER_LIMIT
)

// denied is what an enforced limit of 5 per minute says of a request too many.
func denied() headgate.Verdict {
	return headgate.Verdict{
		Limit: limit.Must(limit.PerMinute(5)), Name: "five", Hits: 1,
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
		name: "of several denials the longest wait speaks",
		verdicts: []headgate.Verdict{denied(), with(denied(), func(v *headgate.Verdict) {
			v.Name, v.Decision.RetryAfter = "long", 50*time.Second
		}), denied()},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, perUnit("long", 5, rlsv3.RateLimitResponse_RateLimit_MINUTE), 0, 50), bare(ok)},
		overall:  over,
		headers:  header1("retry-after", "50"),
	}, {
		name: "of several denials the one for ever speaks",
		verdicts: []headgate.Verdict{denied(), with(denied(), func(v *headgate.Verdict) {
			v.Name, v.Decision.RetryAfter, v.Decision.Never = "never", 0, true
		}), denied()},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, perUnit("never", 5, rlsv3.RateLimitResponse_RateLimit_MINUTE), 0, 55), bare(ok)},
		overall:  over,
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
		verdicts: []headgate.Verdict{{Rule: &rules.Rule{Unlimited: true}, Decision: limit.Decision{Allowed: true}}},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{Code: ok, LimitRemaining: math.MaxUint32}, bare(ok)},
		overall:  ok,
	}, {
		name: "unlimited by a quota", allowed: true,
		verdicts: []headgate.Verdict{{Rule: &rules.Rule{Tenant: true}, Decision: limit.Decision{Allowed: true}}},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{Code: ok, LimitRemaining: math.MaxUint32}, bare(ok)},
		overall:  ok,
	}, {
		name: "replaced", allowed: true,
		verdicts: []headgate.Verdict{{Rule: &rules.Rule{}, Name: "five", By: verdict.ByReplacement, Decision: limit.Decision{Allowed: true}}},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(ok), bare(ok)},
		overall:  ok,
	}, {
		name: "shadow rule", allowed: true,
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Rule, v.Effect = &rules.Rule{}, verdict.RuleShadow
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(ok, five, 0, 42), bare(ok)},
		overall:  ok,
	}, {
		name: "shadow mode for all rules", allowed: true,
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Rule, v.Effect = &rules.Rule{}, verdict.AllShadow
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
			v.By, v.Degraded, v.Decision = verdict.ByFailureMode, store.Timeout, limit.Decision{Allowed: true, Limit: 5}
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(ok), bare(ok)},
		overall:  ok,
	}, {
		name: "failure mode closed",
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.By, v.Degraded, v.Decision = verdict.ByFailureMode, store.Timeout, limit.Decision{Limit: 5, RetryAfter: time.Second}
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(over), bare(ok)},
		overall:  over,
		headers:  header1("retry-after", "1"),
	}, {
		name: "failure mode local, denied by the node's share",
		verdicts: []headgate.Verdict{with(denied(), func(v *headgate.Verdict) {
			v.Degraded, v.By = store.Timeout, verdict.ByLocalShare
		})},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{current(over, five, 0, 42), bare(ok)},
		overall:  over,
		headers:  header1("retry-after", "42"),
	}, {
		name: "a limit that was not looked at beside a denial",
		verdicts: []headgate.Verdict{
			{Limit: denied().Limit, By: verdict.BySkipping, Decision: limit.Decision{Allowed: true, Limit: 5}},
			with(denied(), func(v *headgate.Verdict) { v.Descriptor = 1 }),
		},
		statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{bare(ok), current(over, five, 0, 42)},
		overall:  over,
		headers:  header1("retry-after", "42"),
	}, {
		name: "numbers above 32 bits are clamped", allowed: true,
		verdicts: []headgate.Verdict{{
			Limit:    limit.Must(limit.PerDay(1 << 40)),
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
	for calendarUnit, want := range map[limit.CalendarUnit]int32{
		limit.CalendarDay: unitDay, limit.CalendarWeek: unitWeek, limit.CalendarMonth: unitMonth, limit.CalendarYear: unitYear,
	} {
		calendar, err := limit.NewCalendar(calendarUnit, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		unit, multiplier := wireUnit(limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1, Calendar: calendar}))
		if unit != want || multiplier != 1 {
			t.Errorf("calendar %v: unit %d x %d, want %d x 1", calendarUnit, unit, multiplier, want)
		}
	}
}
