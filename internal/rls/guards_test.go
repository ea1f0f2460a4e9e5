package rls

import (
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/rules/rulefile"
)

// Limits beside the main ones, as Envoy sees them.
var guardScripts = []serviceScript{{
	name: "slots are held by an entry and freed by what is given back when a stream is done",
	rules: `
domain: d
descriptors:
- {key: user, concurrency: {limit: 2, timeout: 10s, hold: request_id}}
`,
	steps: []step{
		{0, "d: user=u request_id=1", "OK: OK  2/unknown left=1 reset=10"},
		{0, "d+9: user=u request_id=2", "OK: OK  2/unknown left=0 reset=10"},
		{time.Second, "d: user=u request_id=3", "OVER: OVER  2/unknown left=0 reset=1"},
		{time.Second, "d: user=u request_id=2", "OK: OK  2/unknown left=0 reset=10"},
		{time.Second, "d: user=u request_id=1 -1", "OK: OK  2/unknown left=1 reset=10"},
		{2 * time.Second, "d: user=u request_id=3", "OK: OK  2/unknown left=0 reset=10"},
		{11 * time.Second, "d: user=u request_id=4", "OK: OK  2/unknown left=0 reset=10"}, // 2 ended
		{11 * time.Second, "d: user=u", "OVER: OVER  2/unknown left=0 reset=1"},
	},
}, {
	name: "a denial by the main limit speaks before one for want of a slot",
	rules: `
domain: d
descriptors:
- {key: user, concurrency: {limit: 1, hold: request_id}, rate_limit: {name: rate, unit: minute, requests_per_unit: 1, algorithm: fixed_window}}
`,
	steps: []step{
		{0, "d: user=u request_id=1", "OK: OK rate 1/minute left=0 reset=30"},
		{0, "d: user=u request_id=2", "OVER: OVER rate 1/minute left=0 reset=30"},
		{30 * time.Second, "d: user=u request_id=2", "OVER: OVER  1/unknown left=0 reset=1"},
	},
}, {
	name: "a ban speaks before what led to it",
	rules: `
domain: d
descriptors:
- {key: user, rate_limit: {name: rate, unit: minute, requests_per_unit: 1, algorithm: fixed_window}, ban: {after: 2, within: 1m, for: 2m}}
`,
	steps: []step{
		{0, "d: user=u", "OK: OK rate 1/minute left=0 reset=30"},
		{0, "d: user=u", "OVER: OVER rate 1/minute left=0 reset=30"},
		{0, "d: user=u", "OVER: OVER rate 1/minute left=0 reset=30"},
		{0, "d: user=u", "OVER: OVER  2/unknown left=0 reset=120"},
		{31 * time.Second, "d: user=u", "OVER: OVER  2/unknown left=0 reset=89"},
		{31 * time.Second, "d: user=w", "OK: OK rate 1/minute left=0 reset=59"},
		{2 * time.Minute, "d: user=u", "OK: OK rate 1/minute left=0 reset=30"},
	},
}, {
	name: "secondary limits speak when they deny",
	rules: `
domain: d
descriptors:
- key: user
  rate_limit: {name: rate, unit: minute, requests_per_unit: 10, algorithm: fixed_window}
  secondary_limits: [{name: pacing, unit: second, requests_per_unit: 1, algorithm: fixed_window}]
`,
	steps: []step{
		{0, "d: user=u", "OK: OK rate 10/minute left=9 reset=30"},
		{0, "d: user=u", "OVER: OVER pacing 1/second left=0 reset=1"},
	},
}}

func TestGuards(t *testing.T) {
	for _, sc := range guardScripts {
		t.Run(sc.name, func(t *testing.T) { runScript(t, sc) })
	}
}

func TestRetryAfterForWantOfASlot(t *testing.T) {
	now := noon
	l := limiter(t, "domain: d\ndescriptors:\n- {key: user, concurrency: {limit: 1, timeout: 1h, hold: id}}\n", rulefile.Options{}, false, &now)
	s := newService(Options{Checker: l})
	var got *rlsv3.RateLimitResponse
	for _, text := range []string{"d: user=u id=1", "d: user=u id=2"} {
		var err error
		if got, err = ask(t, s, parseRequest(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]string{"retry-after": "1"}, headersOf(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

const softRules = `
domain: d
descriptors:
- key: tenant
  rate_limit: {unit: hour, requests_per_unit: 2}
  soft_limit: {at: 50%, action: degrade, header: X-Degraded, value: "tenant"}
- key: user
  rate_limit: {unit: hour, requests_per_unit: 2}
  soft_limit: {at: 50%, action: degrade, header: X-Degraded, value: "user"}
- key: bot
  rate_limit: {unit: hour, requests_per_unit: 2}
  soft_limit: {at: 90%, action: challenge, challenge: captcha}
- key: late
  rate_limit: {unit: hour, requests_per_unit: 2}
  soft_limit: {at: 50%, action: warn}
`

// What is soft goes to the upstream with the request, and to the client only when
// header fields are on.
func TestSoftLimitsAddHeadersToTheRequest(t *testing.T) {
	now := noon
	s := newService(Options{Checker: limiter(t, softRules, rulefile.Options{}, false, &now)})
	for _, c := range []struct {
		request string
		want    map[string]string
	}{
		{"d: bot=b", map[string]string{}},
		{"d: tenant=t", map[string]string{"x-degraded": "tenant"}},
		{"d: tenant=t | user=u | bot=b", map[string]string{"x-degraded": "tenant", "x-ratelimit-challenge": "captcha"}},
		{"d: tenant=t | bot=c", map[string]string{}}, // denied
		{"d: late=x", map[string]string{}},
	} {
		got, err := ask(t, s, parseRequest(t, c.request))
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for _, h := range got.RequestHeadersToAdd {
			headers[h.Key] = h.Value
		}
		if diff := cmp.Diff(c.want, headers); diff != "" || headersOf(got)["x-ratelimit-warning"] != "" {
			t.Errorf("%s: headers to the client %v, to the upstream (-want +got)\n%s", c.request, headersOf(got), diff)
		}
	}
	answer, err := httpanswer.New(httpanswer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"as HTTP": {Answer: answer}, "as envoyproxy/ratelimit": {Headers: envoyHeaders}} {
		o.Checker = limiter(t, softRules, rulefile.Options{}, false, &now)
		got, err := ask(t, newService(o), parseRequest(t, "d: late=x"))
		if err != nil {
			t.Fatal(err)
		}
		if warning := headersOf(got)["x-ratelimit-warning"]; warning != `"d.late";percent=50` {
			t.Errorf("%s: the client is warned by %q in %v", name, warning, headersOf(got))
		}
	}
}
