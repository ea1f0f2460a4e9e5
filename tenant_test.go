package headgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// quota makes the quota for a descriptor from texts such as "5/minute"; none is
// unlimited.
func quota(of string, limits ...string) *tenant.Quota {
	q := &tenant.Quota{}
	for _, text := range limits {
		number, unit, _ := strings.Cut(text, "/")
		var n int64
		if _, err := fmt.Sscan(number, &n); err != nil {
			panic(err)
		}
		period, err := tenant.ParseUnit(unit)
		if err != nil {
			panic(err)
		}
		l := limit.Must(limit.Spec{Quota: n, Period: period})
		q.Limits = append(q.Limits, tenant.Limit{Limit: l, Name: tenant.LimitName(of, l)})
	}
	return q
}

const writes = "op:write"

// someTiers are free, with a default quota, and pro, with two limits and one for
// writes.
func someTiers(t testing.TB) *tenant.Tiers {
	t.Helper()
	tiers, err := tenant.NewTiers([]tenant.Tier{
		{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: quota(tenant.Default, "10/minute")}},
		{Name: "pro", Quotas: map[string]*tenant.Quota{
			tenant.Default: quota(tenant.Default, "100/minute", "1000/hour"), writes: quota(writes, "20/minute"),
		}},
		{Name: "bare"},
		{Name: "open", Quotas: map[string]*tenant.Quota{tenant.Default: quota(tenant.Default)}},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	return tiers
}

func apiKey(name string) tenant.Subject { return tenant.Subject{Key: "api_key", Value: name} }

func tiered(name, tier string, overrides ...tenant.Override) tenant.Account {
	return tenant.Account{Subject: apiKey(name), Tiers: []tenant.Assignment{{Tier: tier}}, Overrides: overrides}
}

func snapshot(t testing.TB, accounts ...tenant.Account) *tenant.Snapshot {
	t.Helper()
	for i := range accounts {
		if err := accounts[i].Validate(); err != nil {
			t.Fatal(err)
		}
	}
	return tenant.NewSnapshot(someTiers(t), slices.Values(accounts))
}

// counted says what counts for a response: rule, limit, where it comes from.
func counted(r *headgate.Response) string {
	var parts []string
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		what := "unlimited"
		if v.Limit != nil {
			what = fmt.Sprintf("%d/%s", v.Limit.Quota, tenant.UnitText(v.Limit.Period))
		}
		if v.By == verdict.ByReplacement {
			what = "replaced"
		}
		if v.Role != rules.Main {
			what += "(" + v.Role.String() + ")"
		}
		part := fmt.Sprintf("%s %s %v", strings.TrimPrefix(v.Rule.ID, "d."), what, v.Source)
		if v.Tier != "" {
			part += " " + v.Tier
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

const tenants = `
domain: d
descriptors:
- always: true
  name: all
  rate_limit: {unit: second, requests_per_unit: 999}
- key: api_key
  tenant: true
  rate_limit: {unit: minute, requests_per_unit: 5}
  concurrency: 3
  descriptors:
  - {key: op, value: write, rate_limit: {unit: minute, requests_per_unit: 2}, secondary_limits: [{unit: hour, requests_per_unit: 50}]}
  - {key: op, value: free, rate_limit: {unlimited: true}}
  - {key: op, value: slow, concurrency: 2}
- key: plain
  rate_limit: {unit: minute, requests_per_unit: 5}
`

func tenantAccounts() []tenant.Account {
	return []tenant.Account{
		tiered("pro", "pro"), tiered("bare", "bare"), tiered("open", "open"),
		tiered("raised", "pro",
			tenant.Override{Quota: quota(tenant.Default, "700/minute")},
			tenant.Override{Descriptor: "op:write", Quota: quota("op:write", "70/minute")},
			tenant.Override{Descriptor: "op:free", Quota: quota("op:free", "7/minute")},
			tenant.Override{Descriptor: "op:read,path:/a", Quota: quota("op:read,path:/a", "9/minute")}),
		tiered("freed", "pro", tenant.Override{Descriptor: "op:write", Quota: quota("op:write")}),
	}
}

func TestI2QuotasTakeThePlaceOfLimits(t *testing.T) {
	const all = "all 999/second rule; "
	for _, test := range []struct{ match, request, want string }{
		{"path", "plain:x", "plain 5/minute rule"},
		{"path", "api_key:new", "api_key 10/minute tier free; api_key 3/minute(concurrency) rule free"},
		{"path", "api_key:new,op:write", "api_key 10/minute tier free; api_key 3/minute(concurrency) rule free; api_key.op_write 2/minute rule free; api_key.op_write 50/hour(secondary) rule free"},
		{"path", "api_key:pro,op:write", "api_key 100/minute tier pro; api_key 1000/hour tier pro; api_key 3/minute(concurrency) rule pro; api_key.op_write 20/minute tier pro; api_key.op_write 50/hour(secondary) rule pro"},
		{"path", "api_key:bare", "api_key 5/minute rule bare; api_key 3/minute(concurrency) rule bare"},
		{"path", "api_key:open,op:write", "api_key unlimited tier open; api_key 3/minute(concurrency) rule open; api_key.op_write 2/minute rule open; api_key.op_write 50/hour(secondary) rule open"},
		{"path", "api_key:raised,op:free", "api_key 700/minute override pro; api_key 3/minute(concurrency) rule pro; api_key.op_free 7/minute override pro"},
		{"path", "api_key:raised,op:read,path:/a", "api_key 700/minute override pro; api_key 3/minute(concurrency) rule pro; api_key 9/minute override pro"},
		{"path", "api_key:freed,op:write", "api_key 100/minute tier pro; api_key 1000/hour tier pro; api_key 3/minute(concurrency) rule pro; api_key.op_write unlimited override pro; api_key.op_write 50/hour(secondary) rule pro"},

		{"leaf", "api_key:new", "api_key 10/minute tier free; api_key 3/minute(concurrency) rule free"},
		{"leaf", "api_key:new,op:write", "api_key.op_write 2/minute rule free; api_key.op_write 50/hour(secondary) rule free"},
		{"leaf", "api_key:new,op:read", "api_key 10/minute tier free"},
		{"leaf", "api_key:new,op:slow", "api_key 10/minute tier free; api_key.op_slow 2/minute(concurrency) rule free"},
		{"leaf", "api_key:bare,op:slow", "api_key.op_slow 2/minute(concurrency) rule bare"},
		{"leaf", "api_key:new,op:free", "api_key.op_free unlimited rule free"},
		{"leaf", "api_key:pro,op:write", "api_key.op_write 20/minute tier pro; api_key.op_write 50/hour(secondary) rule pro"},
		{"leaf", "api_key:bare,op:read", ""},
		{"leaf", "api_key:raised,op:read,path:/a", "api_key 9/minute override pro"},
		{"leaf", "api_key:raised,op:read,path:/b", "api_key 700/minute override pro"},
		{"leaf", "api_key:open,op:read", "api_key unlimited tier open"},
	} {
		b := newBench(t, "match: "+test.match+tenants, headgate.Options{})
		b.limiter.SetTenants(snapshot(t, tenantAccounts()...))
		want := strings.TrimSuffix(all+test.want, "; ")
		if got := counted(b.check(on(test.request))); got != want {
			t.Errorf("%s %s:\n got %s\nwant %s", test.match, test.request, got, want)
		}
		b.limiter.SetTenants(nil)
		if got := counted(b.check(on(test.request))); strings.Contains(got, "tier") || strings.Contains(got, "override") {
			t.Errorf("%s %s without tenants: %s", test.match, test.request, got)
		}
	}
}

// What a rule of the request replaces is replaced whoever says how much it is, and a
// quota is decided as its rule says.
func TestQuotasAreDecidedAsTheirRule(t *testing.T) {
	b := newBench(t, `
domain: d
match: path
descriptors:
- key: api_key
  tenant: true
  shadow_mode: true
  descriptors:
  - {key: size, sensitive: true, cost: {from: header, name: x-cost}, rate_limit: {unit: minute, requests_per_unit: 2, name: sized}}
- {key: big, rate_limit: {unit: minute, requests_per_unit: 2, replaces: [{name: sized}]}}
`, headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("k", "pro", tenant.Override{Descriptor: "size:big", Quota: quota("size:big", "30/minute")})))
	requests := []headgate.Request{{
		Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:k,size:big")},
		Attributes: []descriptor.Entry{{Key: "header:x-cost", Value: "7"}},
	}}
	responses := make([]headgate.Response, 1)
	if err := b.limiter.Check(t.Context(), requests, responses); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		hits     int64
		enforced bool
		name     string
	}{{1, false, "default/minute"}, {1, false, "default/hour"}, {7, true, "size:big/minute"}} {
		v := &responses[0].Verdicts[i]
		if v.Hits != want.hits || v.Enforced() != want.enforced || v.Name != want.name {
			t.Errorf("verdict %d: %q of %d hits, enforced %t, want %+v", i, v.Name, v.Hits, v.Enforced(), want)
		}
	}
	if got := counted(b.check(on("api_key:k,size:big"), on("big:x"))); !strings.Contains(got, "sized replaced override pro") {
		t.Errorf("beside what replaces it: %s", got)
	}
}

// A counter lives on when the quota changes from tier to override, and back, at the
// very instants at which the override begins and ends.
func TestI1InForceToTheInstant(t *testing.T) {
	b := newBench(t, "match: path"+tenants, headgate.Options{})
	from, until := noon.Add(10*time.Second), noon.Add(20*time.Second)
	b.limiter.SetTenants(snapshot(t, tiered("k", "pro", tenant.Override{
		Quota: quota(tenant.Default, "700/minute"), Term: tenant.Term{From: from, Until: until},
	})))
	used := int64(0)
	for _, step := range []struct {
		at    time.Time
		quota int64
	}{
		{noon, 100}, {from.Add(-time.Microsecond), 100}, {from, 700}, {until.Add(-time.Microsecond), 700}, {until, 100}, {until.Add(time.Second), 100},
	} {
		b.now = step.at
		v := b.check(on("api_key:k")).Verdicts[1]
		used++
		if v.Limit.Quota != step.quota || v.Decision.Remaining != step.quota-used {
			t.Errorf("at %v: %d, %d left, want %d, %d left", step.at, v.Limit.Quota, v.Decision.Remaining, step.quota, step.quota-used)
		}
	}
}

// Two limits of a quota count apart, and a denial of one charges none.
func TestQuotaIsAllOrNothing(t *testing.T) {
	b := newBench(t, "match: path"+tenants, headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("k", "pro", tenant.Override{Descriptor: writes, Quota: quota(writes, "1/minute")})))
	b.check(on("api_key:k,op:write"))
	if r := b.check(on("api_key:k,op:write")); r.Allowed || r.Speaker().Name != "op:write/minute" || r.Speaker().Source != tenant.FromOverride {
		t.Fatalf("the second write: allowed %t, %+v", r.Allowed, r.Speaker())
	}
	peek := on("api_key:k")
	peek.Hits = 0
	r := b.check(peek)
	for i, want := range map[int]int64{1: 99, 2: 999} {
		if got := r.Verdicts[i].Decision.Remaining; got != want {
			t.Errorf("%s has %d left, want %d", r.Verdicts[i].Name, got, want)
		}
	}
	if d := b.check(on("api_key:k,op:read"), on("api_key:k,op:write")); len(d.Verdicts) == 0 {
		t.Fatal("no verdicts")
	}
	if got := b.check(peek).Verdicts[1].Decision.Remaining; got != 99 {
		t.Errorf("a request denied for one of two descriptors left %d, want 99", got)
	}
	if b.check(on("api_key:k,op:read"), on("api_key:k,op:list")); b.check(peek).Verdicts[1].Decision.Remaining != 98 {
		t.Errorf("two descriptors of one tenant left %d, want 98: they are charged there once", b.check(peek).Verdicts[1].Decision.Remaining)
	}
}

// The limits of one quota have a bucket each, by their length.
func TestLimitsOfAQuotaCountApart(t *testing.T) {
	b := newBench(t, "match: path"+tenants, headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("k", "pro", tenant.Override{Quota: quota(tenant.Default, "9/second", "50/10s", "90/11s", "900/day")})))
	b.check(on("api_key:k"))
	b.now = b.now.Add(2 * time.Second)
	r := b.check(on("api_key:k"))
	for i, want := range []int64{8, 48, 88, 898} {
		if got := r.Verdicts[1+i].Decision.Remaining; got != want {
			t.Errorf("%s has %d left, want %d", r.Verdicts[1+i].Name, got, want)
		}
	}
}

// A reset forgets the innermost bucket, a refund gives back to all.
func TestResetAndRefundReachQuotas(t *testing.T) {
	for _, test := range []struct {
		name, request string
		accounts      []tenant.Account
	}{
		{"of a tier", "api_key:k", []tenant.Account{tiered("k", "pro")}},
		{"of an override where a rule stands", "api_key:k,op:write", []tenant.Account{tiered("k", "pro", tenant.Override{Descriptor: writes, Quota: quota(writes, "7/minute")})}},
		{"of an override where none stands", "api_key:k,op:none", []tenant.Account{tiered("k", "pro", tenant.Override{Descriptor: "op:none", Quota: quota("op:none", "7/minute")})}},
	} {
		for _, match := range []string{"path", "leaf"} {
			b := newBench(t, "match: "+match+tenants, headgate.Options{})
			b.limiter.SetTenants(snapshot(t, test.accounts...))
			left := func() string {
				d := on(test.request)
				d.Hits = 0
				var parts []string
				for _, v := range b.check(d).Verdicts {
					if v.Source != tenant.FromRule {
						parts = append(parts, fmt.Sprint(v.Decision.Remaining))
					}
				}
				return strings.Join(parts, " ")
			}
			act := func(op store.Op, hits int64) {
				d := on(test.request)
				d.Op, d.Hits = op, hits
				b.check(d)
			}
			unused := left()
			act(store.Hit, 3)
			used := left()
			act(store.Refund, 3)
			if got := left(); got != unused || used == unused {
				t.Errorf("%s, %s: %s, used %s, refunded %s", test.name, match, unused, used, got)
			}
			act(store.Hit, 3)
			act(store.Reset, 0)
			want := unused
			if match == "path" && test.request != "api_key:k" {
				want = strings.Join(append(strings.Fields(used)[:2:2], strings.Fields(unused)[2]), " ")
			}
			if got := left(); got != want {
				t.Errorf("%s, %s: after a reset %s, want %s", test.name, match, got, want)
			}
		}
	}
}

// A reset of a tenant that nothing limits resets nothing else.
func TestResetOfNothing(t *testing.T) {
	b := newBench(t, "match: leaf"+tenants, headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("bare", "bare")))
	b.check(on("plain:x"))
	d := on("api_key:bare,op:none")
	d.Op = store.Reset
	if r := b.check(d); len(r.Verdicts) != 0 {
		t.Errorf("a reset reached %s", counted(r))
	}
}

// Denials of a quota count towards the ban of its rule.
func TestQuotaDenialsBan(t *testing.T) {
	b := newBench(t, `
domain: d
match: path
descriptors:
- {key: api_key, tenant: true, ban: {after: 2, within: 1m, for: 1h}}
`, headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("k", "pro", tenant.Override{Quota: quota(tenant.Default, "1/minute")})))
	for range 3 {
		b.check(on("api_key:k"))
	}
	if v := b.check(on("api_key:k")).Speaker(); v.Role != rules.Banning {
		t.Errorf("after three denials %+v speaks", v)
	}
}
