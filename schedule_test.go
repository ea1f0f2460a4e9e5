package headgate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
)

// nights halve the limits of everybody from 22 to 6 o'clock in Berlin, which is 21 to 5
// in UTC in winter, but double those of tier pro.
const nights = `
domain: d
match: path
descriptors:
- key: api_key
  tenant: true
  on_change: proportional
  max_debt: 7
  rate_limit: {unit: minute, requests_per_unit: 5}
  schedule: [{cron: "0 22 * * *", for: 8h, time_zone: Europe/Berlin, factor: 0.5, tiers: {pro: 2}}]
  descriptors:
  - {key: op, value: write, rate_limit: {unit: minute, requests_per_unit: 2}}
- key: user
  rate_limit: {unit: day, requests_per_unit: 10, algorithm: fixed_window}
  candidate: {rate_limit: {unit: day, requests_per_unit: 8, algorithm: fixed_window}}
  secondary_limits: [{unit: hour, requests_per_unit: 100}]
  schedule: [{cron: "0 22 * * *", for: 8h, time_zone: Europe/Berlin, factor: 0.5}]
`

var (
	beforeNight = time.Date(2026, 1, 1, 20, 59, 59, 999_999_000, time.UTC)
	night       = beforeNight.Add(time.Microsecond)
	morning     = time.Date(2026, 1, 2, 5, 0, 0, 0, time.UTC)
)

// The schedule of a rule changes its main and candidate limits and the quotas of tenants
// that it decides, nothing else, from the instant at which a shift begins until it ends.
//
//promise:safe-changes
func TestSchedules(t *testing.T) {
	b := newBench(t, nights, headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("p", "pro"), tiered("b", "bare")))
	for _, c := range []struct {
		text       string
		day, night string
	}{
		{"api_key:free", "api_key 10/minute tier free", "api_key 5/minute tier free"},
		{"api_key:p", "api_key 100/minute tier pro; api_key 1000/hour tier pro", "api_key 200/minute tier pro; api_key 2000/hour tier pro"},
		{"api_key:b", "api_key 5/minute rule bare", "api_key 3/minute rule bare"},
		// The quota for writes is decided by the rule for them, which has no schedule.
		{"api_key:p,op:write", "api_key 100/minute tier pro; api_key 1000/hour tier pro; api_key.op_write 20/minute tier pro",
			"api_key 200/minute tier pro; api_key 2000/hour tier pro; api_key.op_write 20/minute tier pro"},
		{"user:u", "user 10/day rule; user 8/day(candidate) rule; user 100/hour(secondary) rule", "user 5/day rule; user 4/day(candidate) rule; user 100/hour(secondary) rule"},
	} {
		for _, at := range []struct {
			now  time.Time
			want string
		}{{beforeNight, c.day}, {night, c.night}, {morning.Add(-time.Microsecond), c.night}, {morning, c.day}, {night, c.night}} {
			b.now = at.now
			d := on(c.text)
			d.Hits = 0
			if got := counted(b.check(d)); got != at.want {
				t.Errorf("%s at %v: got %s, want %s", c.text, at.now, got, at.want)
			}
		}
	}
}

// What was used counts on when a shift begins.
func TestAScheduleKeepsTheBucket(t *testing.T) {
	b := newBench(t, nights, headgate.Options{})
	b.now = beforeNight
	for range 4 {
		if !b.check(on("user:u")).Allowed {
			t.Fatal("denied by day")
		}
	}
	b.now = night
	if r := b.check(on("user:u")); !r.Allowed || r.Speaker().Decision.Remaining != 0 || r.Speaker().Decision.Limit != 5 {
		t.Errorf("the fifth: %+v", r.Speaker())
	}
	if b.check(on("user:u")).Allowed {
		t.Error("the sixth of five passes")
	}
}

// Quotas of tenants are decided by the on_change and max_debt of their rule.
func TestQuotasTakeWhatTheRuleSays(t *testing.T) {
	b := newBench(t, nights, headgate.Options{})
	b.limiter.SetTenants(snapshot(t))
	r := b.check(on("api_key:free"))
	v := &r.Verdicts[0]
	if v.Source != tenant.FromTier || v.Limit.Carry != limit.CarryShare || v.Limit.MaxDebt != 7 {
		t.Errorf("got %+v", v.Limit.Spec)
	}
	if again := b.check(on("api_key:other")).Verdicts[0].Limit; again != v.Limit {
		t.Error("tenants with one quota do not share its limit")
	}
}

// By the limit's own on_change the use is kept in proportion when a shift begins.
func TestAScheduleInProportion(t *testing.T) {
	b := newBench(t, `
domain: d
match: path
descriptors:
- key: user
  on_change: proportional
  rate_limit: {unit: day, requests_per_unit: 10, algorithm: token_bucket}
  schedule: [{cron: "0 22 * * *", for: 8h, time_zone: Europe/Berlin, factor: 0.5}]
`, headgate.Options{})
	b.now = night.Add(-time.Second)
	for range 4 {
		b.check(on("user:u"))
	}
	b.now = night
	if got := b.remaining("user:u"); got != 3 {
		t.Errorf("%d left of 5 after two fifths were used", got)
	}
}

// A denial that is remembered by day holds nobody back when the night allows more.
func TestARememberedDenialEndsWithTheShift(t *testing.T) {
	b := &bench{t: t, now: night.Add(-time.Millisecond)}
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(b.now) }})
	if err != nil {
		t.Fatal(err)
	}
	b.limiter, err = headgate.New(headgate.Options{
		Store: denial.New(buckets, denial.Options{Now: func() time.Time { return b.now }}), Now: func() time.Time { return b.now },
		Rules: load(t, strings.ReplaceAll(nights, "factor: 0.5}]", "factor: 2}]")),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		b.check(on("user:u"))
	}
	for range 2 { // the second time it is remembered
		if b.check(on("user:u")).Allowed {
			t.Fatal("the eleventh of ten passes by day")
		}
	}
	b.now = night
	if r := b.check(on("user:u")); !r.Allowed || r.Speaker().Decision.Limit != 20 {
		t.Errorf("by night: %+v", r.Speaker())
	}
}
