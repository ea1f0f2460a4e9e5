package tenant_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
)

const day = 24 * time.Hour

// noon is an instant at which nothing begins or ends by itself.
var noon = time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)

// topUp grants hits for a descriptor, from and until so long after noon.
func topUp(id, of string, hits int64, from, until time.Duration) tenant.TopUp {
	return tenant.TopUp{ID: id, Descriptor: of, Hits: hits, Term: tenant.Term{From: noon.Add(from), Until: noon.Add(until)}}
}

// grants says which top-ups are in force.
func grants(s *tenant.Snapshot, subject tenant.Subject, rest []descriptor.Entry, at time.Duration) string {
	var ids []string
	for _, g := range s.AppendGrants(nil, subject, rest, limit.MicrosOf(noon.Add(at))) {
		ids = append(ids, fmt.Sprintf("%s:%d", g.ID, g.Hits))
	}
	return strings.Join(ids, " ")
}

// TestI5GrantsInForce: those of the descriptor that are in force, the soonest to expire
// first, from the first instant until just before the last.
func TestI5GrantsInForce(t *testing.T) {
	const endpoint = "endpoint:POST /v1/orders"
	s := tenant.NewSnapshot(mustTiers(t), slices.Values([]tenant.Account{
		{Subject: key("k"), TopUps: []tenant.TopUp{
			topUp("long", tenant.Default, 5, -time.Hour, 9*day),
			topUp("orders", endpoint, 7, -time.Hour, time.Hour),
			topUp("short", tenant.Default, 6, 0, time.Hour),
			topUp("past", tenant.Default, 4, -2*day, -day),
			topUp("later", tenant.Default, 3, time.Minute, 2*time.Hour),
		}},
		{Subject: key("other"), Overrides: []tenant.Override{{Quota: quota(1)}}},
	}))
	for _, test := range []struct {
		who  string
		rest []descriptor.Entry
		at   time.Duration
		want string
	}{
		{"k", nil, -time.Microsecond, "long:5"},
		{"k", nil, 0, "short:6 long:5"},
		{"k", nil, time.Minute, "short:6 later:3 long:5"},
		{"k", nil, time.Hour, "later:3 long:5"},
		{"k", nil, 9*day - time.Microsecond, "long:5"},
		{"k", nil, 9 * day, ""},
		{"k", orders(), 0, "orders:7"},
		{"k", orders(), time.Hour, ""},
		{"k", append(orders(), orders()...), 0, ""},
		{"k", []descriptor.Entry{{Key: "endpoint", Value: strings.Repeat("x", 64<<10)}}, 0, ""},
		{"other", nil, 0, ""},
		{"unknown", nil, 0, ""},
	} {
		if got := grants(s, key(test.who), test.rest, test.at); got != test.want {
			t.Errorf("%s %v at %v: %q, want %q", test.who, test.rest, test.at, got, test.want)
		}
	}
}

// A snapshot gives back the top-ups it was given, and With changes those of the
// accounts that it is given alone.
func TestTopUpsOfSnapshots(t *testing.T) {
	of := func(s *tenant.Snapshot) string {
		var all []string
		for a := range s.All() {
			for _, u := range a.TopUps {
				all = append(all, fmt.Sprintf("%s %s %s:%d %v %v", a.Subject.Value, u.ID, u.Descriptor, u.Hits, u.Term.From.Sub(noon), u.Term.Until.Sub(noon)))
			}
		}
		slices.Sort(all)
		return strings.Join(all, "; ")
	}
	first := tenant.NewSnapshot(mustTiers(t), slices.Values([]tenant.Account{
		{Subject: key("k"), TopUps: []tenant.TopUp{topUp("b", "", 5, 0, day), topUp("a", "op:x", 6, 0, day)}},
		{Subject: key("l"), TopUps: []tenant.TopUp{topUp("a", "", 9, 0, day)}},
	}))
	const before = "k a op:x:6 0s 24h0m0s; k b :5 0s 24h0m0s; l a :9 0s 24h0m0s"
	if got := of(first); got != before || first.Len() != 2 {
		t.Errorf("%d accounts: %s", first.Len(), got)
	}
	next := first.With(tenant.Account{Subject: key("k"), TopUps: []tenant.TopUp{topUp("c", "", 1, 0, day)}}, tenant.Account{Subject: key("l")})
	if got := of(next); got != "k c :1 0s 24h0m0s" || next.Len() != 1 {
		t.Errorf("%d accounts after the change: %s", next.Len(), got)
	}
	if got := of(next.With(tenant.Account{Subject: key("k"), Overrides: []tenant.Override{{Quota: quota(1)}}})); got != "" {
		t.Errorf("taken away: %s", got)
	}
	if got := of(first); got != before {
		t.Errorf("the snapshot before has changed: %s", got)
	}
}

func TestTopUpsAreValidated(t *testing.T) {
	valid := topUp("inv-2026-11/7", "op:x", limit.MaxQuota, 0, tenant.MaxTopUpTerm)
	account := func(topUps ...tenant.TopUp) *tenant.Account {
		return &tenant.Account{Subject: key("k"), TopUps: topUps}
	}
	if err := account(valid).Validate(); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*tenant.TopUp)) *tenant.Account {
		u := valid
		change(&u)
		return account(u)
	}
	many := make([]tenant.TopUp, tenant.MaxTopUps+1)
	for i := range many {
		many[i] = topUp(fmt.Sprint(i), "", 1, 0, day)
	}
	if err := account(many[1:]...).Validate(); err != nil {
		t.Error(err)
	}
	for want, a := range map[string]*tenant.Account{
		"257 top-ups":                 account(many...),
		"a second one with the id":    account(valid, valid),
		`top-up 0: id ""`:             with(func(u *tenant.TopUp) { u.ID = "" }),
		`id "a b"`:                    with(func(u *tenant.TopUp) { u.ID = "a b" }),
		`id "ü"`:                      with(func(u *tenant.TopUp) { u.ID = "ü" }),
		`id "\xff"`:                   with(func(u *tenant.TopUp) { u.ID = "\xff" }),
		"1 to 64 printable":           with(func(u *tenant.TopUp) { u.ID = strings.Repeat("x", 65) }),
		"not in its canonical form":   with(func(u *tenant.TopUp) { u.Descriptor = "default" }),
		"0 hits":                      with(func(u *tenant.TopUp) { u.Hits = 0 }),
		"-1 hits":                     with(func(u *tenant.TopUp) { u.Hits = -1 }),
		"1125899906842625 hits":       with(func(u *tenant.TopUp) { u.Hits = limit.MaxQuota + 1 }),
		"it has no begin or no end":   with(func(u *tenant.TopUp) { u.Term.From = time.Time{} }),
		"top-up 0: it has no begin":   with(func(u *tenant.TopUp) { u.Term.Until = time.Time{} }),
		"it begins before 2000-01-01": with(func(u *tenant.TopUp) { u.Term.From = tenant.EarliestTopUp.Add(-1) }),
		"at most 365 days":            with(func(u *tenant.TopUp) { u.Term.Until = u.Term.Until.Add(time.Microsecond) }),
		"it ends before it begins":    with(func(u *tenant.TopUp) { u.Term.Until = u.Term.From }),
	} {
		if err := a.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestI5GrantsCountOnce: whatever its begin, its end and its hits, a grant lets its hits
// pass once while it is in force, also by clocks that are half a day ahead or behind.
func TestI5GrantsCountOnce(t *testing.T) {
	const micros = time.Microsecond
	rapid.Check(t, func(rt *rapid.T) {
		from := tenant.EarliestTopUp.Add(time.Duration(rapid.Int64Range(0, int64(85*365*day/micros)).Draw(rt, "from")) * micros)
		term := time.Duration(rapid.Int64Range(1, int64(tenant.MaxTopUpTerm/micros)).Draw(rt, "term")) * micros
		if rapid.Bool().Draw(rt, "longest") {
			term = tenant.MaxTopUpTerm
		}
		hits := rapid.Int64Range(1, 50).Draw(rt, "hits")
		u := tenant.TopUp{ID: "a", Hits: hits, Term: tenant.Term{From: from, Until: from.Add(term)}}
		account := tenant.Account{Subject: key("k"), TopUps: []tenant.TopUp{u}}
		if err := account.Validate(); err != nil {
			rt.Fatal(err)
		}
		g := tenant.NewSnapshot(mustTiers(t), slices.Values([]tenant.Account{account})).
			AppendGrants(nil, key("k"), nil, limit.MicrosOf(from))[0]
		if g.Shown.Quota != hits || g.Shown.Period != term || g.Until() != limit.MicrosOf(from.Add(term)) {
			rt.Fatalf("shown as %d in %v until %v", g.Shown.Quota, g.Shown.Period, g.Until().Time())
		}
		first, last := limit.MicrosOf(from.Add(-day/2)), limit.MicrosOf(from.Add(term+day/2))
		// Hits at instants in order, the first and the last one among them.
		var passed int64
		var state limit.State
		offsets := rapid.SliceOfN(rapid.Int64Range(0, int64(last-first)), 0, 100).Draw(rt, "at")
		offsets = append(offsets, 0, int64(last-first))
		slices.Sort(offsets)
		for _, at := range offsets {
			var d limit.Decision
			n := rapid.Int64Range(1, 5).Draw(rt, "n")
			if state, d = limit.Decide(g.Ask, state, first+limit.Micros(at), n); d.Allowed {
				passed += n
			}
			if passed > hits || d.Remaining != hits-passed {
				rt.Fatalf("%d of %d hits have passed, %d are left", passed, hits, d.Remaining)
			}
		}
	})
}

// The hits and the term of a top-up may change, and what was used of it counts on.
func TestGrantsCountOnWhenChanged(t *testing.T) {
	grant := func(hits int64, from, until time.Duration) *tenant.Grant {
		return tenant.NewSnapshot(mustTiers(t), slices.Values([]tenant.Account{{Subject: key("k"), TopUps: []tenant.TopUp{topUp("a", "", hits, from, until)}}})).
			AppendGrants(nil, key("k"), nil, limit.MicrosOf(noon))[0]
	}
	now := limit.MicrosOf(noon)
	state, _ := limit.Decide(grant(10, -time.Hour, day).Ask, limit.State{}, now-1, 7)
	for _, changed := range []struct {
		hits        int64
		from, until time.Duration
		left        int64
	}{
		{10, -time.Hour, 9 * day, 3},
		{10, -time.Hour, time.Hour, 3},
		{10, -time.Hour, tenant.MaxTopUpTerm - time.Hour, 3},
		{12, -time.Hour, 2 * day, 5},
		{5, -time.Hour, day, 0},
		{10, 0, day, 3},
		{10, -time.Minute, day, 3},
		{10, -9 * day, day, 3},
		{10, -99 * day, 200 * day, 3},
	} {
		if _, d := limit.Decide(grant(changed.hits, changed.from, changed.until).Ask, state, now, 0); d.Remaining != changed.left {
			t.Errorf("%d hits from %v until %v: %d are left, want %d", changed.hits, changed.from, changed.until, d.Remaining, changed.left)
		}
	}
	// A day later too, when its new window begins after the old one.
	if _, d := limit.Decide(grant(10, -30*day, 30*day).Ask, state, now+limit.Micros(20*day/time.Microsecond), 0); d.Remaining != 3 {
		t.Errorf("later: %d are left, want 3", d.Remaining)
	}
}

// TestI5PoolOfTier: a tenant has the pool of its tier.
func TestI5PoolOfTier(t *testing.T) {
	hourly := func(n int64) tenant.Limit { return tenant.Limit{Limit: limit.Must(limit.PerHour(n))} }
	pool := &tenant.Pool{Limit: hourly(500), PerKey: &tenant.KeyCap{Entry: "api_key", Limit: hourly(100)}}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free"}, {Name: "pro", Pool: pool}}, "")
	if err != nil {
		t.Fatal(err)
	}
	s := tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{{Subject: key("k"), Tiers: []tenant.Assignment{{Tier: "pro"}}}}))
	if s.Standing(key("k"), 0).Pool() != pool || s.Standing(key("l"), 0).Pool() != nil || (tenant.Standing{}).Pool() != nil {
		t.Error("not the pool of the tier")
	}
	for want, bad := range map[string]*tenant.Pool{
		"burst pool: the limit is missing":            {},
		"burst pool: algorithm concurrency":           {Limit: tenant.Limit{Limit: limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 1, Period: time.Second})}},
		"burst pool: per key: the limit is missing":   {Limit: hourly(1), PerKey: &tenant.KeyCap{Entry: "k"}},
		"per key: entry of 0 bytes":                   {Limit: hourly(1), PerKey: &tenant.KeyCap{Limit: hourly(1)}},
		"per key: entry of 257 bytes":                 {Limit: hourly(1), PerKey: &tenant.KeyCap{Entry: strings.Repeat("x", 257), Limit: hourly(1)}},
		"per key: per minute; hint: per hour, as the": {Limit: hourly(1), PerKey: &tenant.KeyCap{Entry: "k", Limit: tenant.Limit{Limit: limit.Must(limit.PerMinute(1))}}},
	} {
		if _, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Pool: bad}}, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestAllocGrants(t *testing.T) {
	s := tenant.NewSnapshot(mustTiers(t), slices.Values([]tenant.Account{
		{Subject: key("k"), TopUps: []tenant.TopUp{topUp("a", "endpoint:POST /v1/orders", 5, 0, day)}},
	}))
	dst, rest, now := make([]*tenant.Grant, 0, 4), orders(), limit.MicrosOf(noon)
	if allocs := alloctest.PerRun(100, func() {
		if dst = s.AppendGrants(dst[:0], key("k"), rest, now); len(dst) != 1 {
			t.Fatal("no grant")
		}
	}); allocs != 0 {
		t.Errorf("allocates %v times, want 0", allocs)
	}
}
