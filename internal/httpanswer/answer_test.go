package httpanswer

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/verdict"
)

func encoder(t testing.TB, o Options) *Encoder {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func fieldsOf(e *Encoder, resp *headgate.Response, now time.Time) (Summary, map[string]string) {
	s := e.Summarize(resp)
	fields := map[string]string{}
	for _, f := range e.AppendFields(nil, nil, resp, &s, now) {
		fields[f.Name] = f.Value
	}
	return s, fields
}

func TestParseNames(t *testing.T) {
	for _, g := range []Generation{Draft8, Draft7, Draft6, Draft6Window, NoDraft} {
		if back, err := ParseGeneration(g.String()); err != nil || back != g {
			t.Errorf("ParseGeneration(%q) = %v, %v", g, back, err)
		}
	}
	for _, b := range []Body{Platform, Flat, Problem} {
		if back, err := ParseBody(b.String()); err != nil || back != b {
			t.Errorf("ParseBody(%q) = %v, %v", b, back, err)
		}
	}
	for _, r := range []ResetFormat{UnixSeconds, DeltaSeconds} {
		if back, err := ParseResetFormat(r.String()); err != nil || back != r {
			t.Errorf("ParseResetFormat(%q) = %v, %v", r, back, err)
		}
	}
	if _, err := ParseGeneration("draft-9"); err == nil || !strings.Contains(err.Error(), "draft-8") {
		t.Errorf("ParseGeneration(draft-9): error %v names no choice", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{{Generation: 9}, {Body: 9}, {Reset: 9}, {Jitter: Jitter{Share: -0.1}}, {Jitter: Jitter{Share: 1.1}}, {Jitter: Jitter{Share: math.NaN()}}} {
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v): no error", o)
		}
	}
}

func TestPolicyOfAlgorithms(t *testing.T) {
	cases := []struct {
		spec  limit.Spec
		limit int64 // of the decision: quota or burst
		want  string
	}{
		{limit.PerMinute(100), 100, `"default";q=100;w=60`},
		{limit.Spec{Quota: 5, Period: 1500 * time.Millisecond}, 5, `"default";q=5;w=2`},
		{limit.Spec{Quota: 5, Period: 999 * time.Millisecond}, 5, `"default";q=5`},
		{limit.Spec{Quota: 0, Period: time.Minute}, 0, `"default";q=0;w=60`},
		{limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Period: time.Second, Burst: 10}, 10, `"default";q=10;w=10`},
		{limit.Spec{Algorithm: limit.GCRA, Quota: 30, Period: time.Minute, Burst: 16}, 16, `"default";q=16;w=32`},
		{limit.Spec{Algorithm: limit.GCRA, Quota: 3, Period: time.Second, Burst: 4}, 4, `"default";q=4;w=2`},
		{limit.Spec{Algorithm: limit.GCRA, Quota: 1000, Period: time.Second, Burst: 10}, 10, `"default";q=10`},
		{limit.Spec{Algorithm: limit.LeakyBucket, Quota: 10, Period: time.Minute}, 1, `"default";q=1;w=6`},
		{limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: limit.MaxPeriod, Burst: 35}, 35, `"default";q=35;w=1106784000`},
	}
	month, err := limit.NewCalendar(limit.CalendarMonth, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	cases = append(cases, struct {
		spec  limit.Spec
		limit int64
		want  string
	}{limit.Spec{Algorithm: limit.FixedWindow, Quota: 9, Calendar: month}, 9, `"default";q=9;w=2678400`})
	e := encoder(t, Options{})
	for _, c := range cases {
		resp := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
			counted(limit.Must(c.spec), "", limit.Decision{Allowed: true, Limit: c.limit}),
		}}
		if _, fields := fieldsOf(e, &resp, exampleNow); fields[policyField] != c.want {
			t.Errorf("%+v: RateLimit-Policy %s, want %s", c.spec, fields[policyField], c.want)
		}
	}
}

// TestWindowOfAbsurdBurst: no number of a Decision overflows w.
func TestWindowOfAbsurdBurst(t *testing.T) {
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1, Period: limit.MaxPeriod})
	if got := windowSeconds(l, math.MaxInt64); got <= 0 || got > maxInteger {
		t.Errorf("window of %d s", got)
	}
}

func TestWindowText(t *testing.T) {
	week, err := limit.NewCalendar(limit.CalendarWeek, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec limit.Spec
		want string
	}{
		{limit.PerSecond(1), "1s"}, {limit.PerMinute(1), "1m"}, {limit.PerHour(1), "1h"}, {limit.PerDay(1), "1d"},
		{limit.Spec{Period: 36 * time.Hour}, "1d12h"}, {limit.Spec{Period: 14 * 24 * time.Hour}, "14d"},
		{limit.Spec{Period: 250 * time.Millisecond}, "250ms"}, {limit.Spec{Period: time.Microsecond}, "1µs"},
		{limit.Spec{Algorithm: limit.FixedWindow, Calendar: week}, "week"},
	} {
		if got := windowText(limit.Must(c.spec)); got != c.want {
			t.Errorf("%+v: %q, want %q", c.spec, got, c.want)
		}
	}
}

func TestNamesOfLimits(t *testing.T) {
	second := limit.Must(limit.PerSecond(10))
	two := &rules.Rule{ID: `edge.user_"é"`, Limits: make([]rules.NamedLimit, 2)}
	resp := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
		{Rule: two, Limit: second, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 5, ResetAfter: time.Second}},
		{Rule: two, Limit: perMinute, Decision: limit.Decision{Allowed: true, Limit: 100, Remaining: 9, ResetAfter: time.Second}},
		{Rule: two, Limit: perMinute, Descriptor: 1, Decision: limit.Decision{Allowed: true, Limit: 100, Remaining: 8, ResetAfter: time.Second}},
		{Rule: &rules.Rule{ID: "shadow"}, Limit: perMinute, Effect: verdict.RuleShadow, Decision: limit.Decision{Limit: 100}},
		{Rule: &rules.Rule{ID: "replaced"}, By: verdict.ByReplacement, Decision: limit.Decision{Allowed: true}},
	}}
	_, fields := fieldsOf(encoder(t, Options{}), &resp, exampleNow)
	if want := `"edge.user_\"%C3%A9\"/1s";q=10;w=1, "edge.user_\"%C3%A9\"/1m";q=100;w=60`; fields[policyField] != want {
		t.Errorf("RateLimit-Policy %s, want %s", fields[policyField], want)
	}
	if want := `"edge.user_\"%C3%A9\"/1s";r=5;t=1`; fields[rateLimitField] != want {
		t.Errorf("RateLimit %s, want %s", fields[rateLimitField], want)
	}
}

// TestManyPolicies: the header stays bounded and still lists the policy that
// RateLimit speaks of.
func TestManyPolicies(t *testing.T) {
	resp := headgate.Response{Allowed: true}
	for i := range 10_000 {
		resp.Verdicts = append(resp.Verdicts, counted(perMinute, "limit"+strconv.Itoa(i),
			limit.Decision{Allowed: true, Limit: 100, Remaining: int64(20_000 - i), ResetAfter: time.Second}))
	}
	_, fields := fieldsOf(encoder(t, Options{}), &resp, exampleNow)
	if n := strings.Count(fields[policyField], ";q="); n != maxPolicies {
		t.Errorf("%d policies listed, want %d", n, maxPolicies)
	}
	if !strings.Contains(fields[policyField], `"limit9999"`) || !strings.HasPrefix(fields[rateLimitField], `"limit9999"`) {
		t.Errorf("RateLimit-Policy %s\nmisses the decisive policy of RateLimit %s", fields[policyField], fields[rateLimitField])
	}
}

// TestUnusedLimitTellsNoTime: beside a full quota t would be 0.
func TestUnusedLimitTellsNoTime(t *testing.T) {
	resp := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
		counted(perMinute, "", limit.Decision{Allowed: true, Limit: 100, Remaining: 100}),
	}}
	_, fields := fieldsOf(encoder(t, Options{}), &resp, exampleNow)
	if want := `"default";r=100`; fields[rateLimitField] != want {
		t.Errorf("RateLimit %s, want %s", fields[rateLimitField], want)
	}
	if want := "1706000018"; fields[xResetField] != want {
		t.Errorf("X-RateLimit-Reset %s, want %s", fields[xResetField], want)
	}
	_, fields = fieldsOf(encoder(t, Options{Generation: Draft7}), &resp, exampleNow)
	if want := "limit=100, remaining=100, reset=1"; fields[rateLimitField] != want {
		t.Errorf("RateLimit %s, want %s", fields[rateLimitField], want)
	}
}

// TestQuotaModeAllowed: a denying verdict in an answer that is allowed all the
// same (Envoy's quota_mode) must not make it look denied.
func TestQuotaModeAllowed(t *testing.T) {
	resp := exampleDenied()
	resp.Allowed = true
	s, fields := fieldsOf(encoder(t, Options{}), &resp, exampleNow)
	if s.Status != http.StatusOK || fields[retryAfterField] != "" || fields[cacheField] != "" {
		t.Errorf("status %d, fields %v; want 200 without Retry-After", s.Status, fields)
	}
}

func TestXResetRoundsUp(t *testing.T) {
	resp := exampleAllowed()
	for _, c := range []struct {
		now  time.Time
		want string
	}{
		{time.Unix(1706000018, 0), "1706000060"},
		{time.Unix(1706000018, 1), "1706000061"},
		{time.Unix(1706000017, 999_999_999), "1706000060"},
	} {
		if _, fields := fieldsOf(encoder(t, Options{}), &resp, c.now); fields[xResetField] != c.want {
			t.Errorf("at %v: X-RateLimit-Reset %s, want %s", c.now, fields[xResetField], c.want)
		}
	}
}

// anyRules are rules that say all that a rule can say of answers, and none.
var anyRules = []*rules.Rule{
	nil,
	{ID: "plain"},
	{ID: "warns", Limits: make([]rules.NamedLimit, 2), Telling: rules.Telling{Soft: &rules.Soft{Percent: 1}}},
	{ID: "answers", Telling: rules.Telling{Soft: &rules.Soft{Percent: 50}, Answer: &rules.Answer{Body: "problem", XRateLimit: "on", XRateLimitReset: "delta", Message: sentence("Ask \"us\" for more.")}}},
}

// anyResponse draws a response with verdicts of every kind.
func anyResponse(t *rapid.T) headgate.Response {
	amount := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, limit.MaxQuota), rapid.Int64Range(0, math.MaxInt64))
	wait := rapid.OneOf(rapid.Int64Range(0, 3_000_000), rapid.Int64Range(0, math.MaxInt64/1000))
	micros := func(label string) time.Duration { return time.Duration(wait.Draw(t, label)) * time.Microsecond }
	one := rapid.Custom(func(t *rapid.T) headgate.Verdict {
		v := headgate.Verdict{
			Name:   rapid.String().Draw(t, "name"),
			Limit:  limit.Must(limit.PerSecond(1 + rapid.Int64Range(0, 99).Draw(t, "quota"))),
			Effect: rapid.SampledFrom([]verdict.Effect{verdict.Enforced, verdict.RuleShadow}).Draw(t, "effect"),
			Role:   rapid.SampledFrom([]rules.Role{rules.Main, rules.Main, rules.InFlight, rules.Secondary, rules.Sustained, rules.Banning}).Draw(t, "role"),
			Rule:   rapid.SampledFrom(anyRules).Draw(t, "rule"),
		}
		if v.Role == rules.InFlight {
			v.Limit = inFlight
		}
		v.Decision = limit.Decision{
			Allowed: rapid.Bool().Draw(t, "allowed"), Limit: amount.Draw(t, "limit"),
			Remaining: amount.Draw(t, "remaining"), ResetAfter: micros("reset"),
		}
		if !v.Decision.Allowed {
			if v.Decision.Never = rapid.Bool().Draw(t, "never"); !v.Decision.Never {
				v.Decision.RetryAfter = micros("retry") + time.Microsecond
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "degraded") == 0 {
			v.Degraded, v.By = "store_timeout", rapid.SampledFrom([]verdict.Decider{verdict.ByFailureMode, verdict.ByLocalShare, verdict.ByLocalWhole}).Draw(t, "by")
		}
		return v
	})
	resp := headgate.Response{Allowed: true, Verdicts: rapid.SliceOfN(one, 0, 6).Draw(t, "verdicts")}
	for i := range resp.Verdicts {
		resp.Allowed = resp.Allowed && !resp.Verdicts[i].OverLimit()
	}
	return resp
}

// TestFieldsParse holds the hand-written encoder against a full parser of RFC
// 9651: what is sent parses, is in canonical form, and keeps the promises of the
// draft on rounding and on Retry-After.
func TestFieldsParse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := Options{
			Generation: rapid.SampledFrom([]Generation{Draft8, Draft7, Draft6, Draft6Window, NoDraft}).Draw(rt, "generation"),
			Reset:      rapid.SampledFrom([]ResetFormat{UnixSeconds, DeltaSeconds}).Draw(rt, "format"),
			Jitter:     Jitter{rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(rt, "jitter"), func() float64 { return 0.999 }},
		}
		resp := anyResponse(rt)
		e, err := New(o)
		if err != nil {
			rt.Fatal(err)
		}
		s, fields := fieldsOf(e, &resp, exampleNow)
		verifyFields(rt, o, &resp, &s, fields)
	})
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func verifyFields(t fataler, o Options, resp *headgate.Response, s *Summary, fields map[string]string) {
	retry, hasRetry := fields[retryAfterField]
	seconds, _ := strconv.ParseInt(retry, 10, 64)
	if resp.Allowed && hasRetry {
		t.Fatalf("allowed with Retry-After %s", retry)
	}
	if v := s.Verdict; !resp.Allowed && v != nil {
		if v.Decision.Never == hasRetry {
			t.Fatalf("never %v with Retry-After %q", v.Decision.Never, retry)
		}
		if hasRetry && !isConcurrency(v) && (seconds < 1 || time.Duration(seconds) < v.Decision.RetryAfter/time.Second) {
			t.Fatalf("Retry-After %s is before %v", retry, v.Decision.RetryAfter)
		}
	}
	if (fields[cacheField] == "no-store") == resp.Allowed {
		t.Fatalf("allowed %v with Cache-Control %q", resp.Allowed, fields[cacheField])
	}
	if _, sent := fields[xRemainingField]; sent != (s.plain != nil) || sent && !s.Counted {
		t.Fatalf("counted %v, X-RateLimit-Remaining sent %v", s.Counted, sent)
	}
	told := int64(0) // the time that RateLimit tells
	switch o.Generation {
	case Draft8:
		told = verifyDraft8(t, s, fields)
	case Draft7:
		canonicalList(t, fields[policyField])
		if value, sent := fields[rateLimitField]; sent {
			dict, err := httpsfv.UnmarshalDictionary([]string{value})
			if err != nil {
				t.Fatalf("%s: %v", value, err)
			}
			member, _ := dict.Get("reset")
			told = member.(httpsfv.Item).Value.(int64)
		}
	case Draft6:
		canonicalList(t, fields[policyField])
		told, _ = strconv.ParseInt(fields[resetField], 10, 64)
	}
	if hasRetry && told > seconds {
		t.Fatalf("Retry-After %s is before t=%d", retry, told)
	}
}

// canonicalList parses value as a List and holds it against the parser's own
// serialization.
func canonicalList(t fataler, value string) httpsfv.List {
	if value == "" {
		return nil
	}
	list, err := httpsfv.UnmarshalList([]string{value})
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	if again, err := httpsfv.Marshal(list); err != nil || again != value {
		t.Fatalf("not canonical: %s\nwant %s (%v)", value, again, err)
	}
	return list
}

func verifyDraft8(t fataler, s *Summary, fields map[string]string) (told int64) {
	canonicalList(t, fields[warningField])
	listed := map[any]bool{}
	for _, member := range canonicalList(t, fields[policyField]) {
		item := member.(httpsfv.Item)
		listed[item.Value] = true
		if q, _ := item.Params.Get("q"); q == nil || q.(int64) < 0 {
			t.Fatalf("q=%v in %s", q, fields[policyField])
		}
		if w, sent := item.Params.Get("w"); sent && w.(int64) < 1 {
			t.Fatalf("w=%v in %s", w, fields[policyField])
		}
	}
	list := canonicalList(t, fields[rateLimitField])
	if (len(list) == 1) != (s.told != nil) {
		t.Fatalf("told %v, RateLimit %q", s.told, fields[rateLimitField])
	}
	if len(list) == 0 {
		return 0
	}
	item := list[0].(httpsfv.Item)
	if !listed[item.Value] {
		t.Fatalf("RateLimit %s speaks of no policy of %s", fields[rateLimitField], fields[policyField])
	}
	if r, _ := item.Params.Get("r"); r.(int64) != min(s.Remaining, maxInteger) {
		t.Fatalf("r=%v, remaining %d", r, s.Remaining)
	}
	if value, sent := item.Params.Get("t"); sent {
		told = value.(int64)
		if told < 1 {
			t.Fatalf("t=%d", told)
		}
	}
	return told
}

// TestBodiesParse: every body of a denial is JSON, whatever the names in it.
func TestBodiesParse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		resp := anyResponse(rt)
		if resp.Allowed {
			rt.Skip("bodies are for denials")
		}
		e, err := New(Options{Body: rapid.SampledFrom([]Body{Platform, Flat, Problem}).Draw(rt, "body")})
		if err != nil {
			rt.Fatal(err)
		}
		s := e.Summarize(&resp)
		body := e.AppendBody(nil, &exampleRequest, &resp, &s)
		var parsed map[string]any
		if err := json.Unmarshal(body, &parsed); err != nil {
			rt.Fatalf("%s: %v", body, err)
		}
		if strings.Contains(string(body), "abc123") {
			rt.Fatalf("the key stands in the body: %s", body)
		}
	})
}

// TestAppendFieldsAllocates holds the price of the header fields: one string
// for all values.
func TestAppendFieldsAllocates(t *testing.T) {
	e := encoder(t, Options{})
	resp := exampleDenied()
	fields := make([]Field, 0, 8)
	if n := alloctest.PerRun(100, func() {
		s := e.Summarize(&resp)
		fields = e.AppendFields(fields[:0], nil, &resp, &s, exampleNow)
	}); n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
}

func BenchmarkAppendFields(b *testing.B) {
	e := encoder(b, Options{})
	resp := exampleDenied()
	fields := make([]Field, 0, 8)
	b.ReportAllocs()
	for b.Loop() {
		s := e.Summarize(&resp)
		fields = e.AppendFields(fields[:0], nil, &resp, &s, exampleNow)
	}
}

// FuzzNames: no name of a limit breaks out of its field.
func FuzzNames(f *testing.F) {
	f.Add("default", int64(17), int64(42))
	f.Add(`a"b\c`, int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add("a\r\nSet-Cookie: x\x00\xff", int64(0), int64(0))
	f.Fuzz(func(t *testing.T, name string, remaining, reset int64) {
		resp := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{
			counted(perMinute, name, limit.Decision{Allowed: true, Limit: 100, Remaining: remaining, ResetAfter: time.Duration(reset)}),
		}}
		s, fields := fieldsOf(encoder(t, Options{}), &resp, exampleNow)
		verifyFields(t, Options{}, &resp, &s, fields)
	})
}

// FuzzJSONString holds AppendJSONString against encoding/json.
func FuzzJSONString(f *testing.F) {
	f.Add("plain")
	f.Add("\"\\\n\x00\x7f\u2028é\xff\xc3")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(AppendJSONString(nil, s), &back); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back != want {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}
