package tenant_test

import (
	"errors"
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

func quota(perMinute int64) *tenant.Quota {
	return &tenant.Quota{Limits: []tenant.Limit{{Limit: limit.Must(limit.PerMinute(perMinute))}}}
}

func instant(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func key(name string) tenant.Subject { return tenant.Subject{Key: "api_key", Value: name} }

func orders() []descriptor.Entry {
	return []descriptor.Entry{{Key: "endpoint", Value: "POST /v1/orders"}}
}

func mustTiers(t testing.TB) *tenant.Tiers {
	t.Helper()
	set, err := tenant.NewTiers([]tenant.Tier{
		{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: quota(100)}},
		{Name: "pro", Quotas: map[string]*tenant.Quota{tenant.Default: quota(1000), "endpoint:POST /v1/orders": quota(50)}},
		{Name: "bare", Quotas: nil},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestI2Resolution walks the order of I2: override of key and descriptor, tier and
// descriptor; for the default quota override, then tier, then the rule.
func TestI2Resolution(t *testing.T) {
	accounts := []tenant.Account{
		{Subject: key("pro"), Tiers: []tenant.Assignment{{Tier: "pro"}}},
		{Subject: key("raised"), Tiers: []tenant.Assignment{{Tier: "pro"}}, Overrides: []tenant.Override{
			{Descriptor: "endpoint:POST /v1/orders", Quota: quota(70)}, {Descriptor: tenant.Default, Quota: quota(2000)},
		}},
		{Subject: key("bare"), Tiers: []tenant.Assignment{{Tier: "bare"}}},
		{Subject: key("gone"), Tiers: []tenant.Assignment{{Tier: "a tier of last year"}}},
		{Subject: key("later"), Tiers: []tenant.Assignment{{Tier: "pro", Term: tenant.Term{From: instant(1000)}}}},
	}
	s := tenant.NewSnapshot(mustTiers(t), slices.Values(accounts))
	for _, test := range []struct {
		name string
		rest []descriptor.Entry
		want string
	}{
		{"unknown", nil, "100 by tier of free"},
		{"unknown", orders(), "none by rule of free"},
		{"pro", nil, "1000 by tier of pro"},
		{"pro", orders(), "50 by tier of pro"},
		{"raised", nil, "2000 by override of pro"},
		{"raised", orders(), "70 by override of pro"},
		{"raised", append(orders(), orders()...), "none by rule of pro"},
		{"raised", []descriptor.Entry{{Key: "endpoint", Value: strings.Repeat("x", 64<<10)}}, "none by rule of pro"},
		{"bare", nil, "none by rule of bare"},
		{"gone", nil, "100 by tier of free"},
		{"later", nil, "100 by tier of free"},
	} {
		if got := text(s.Resolve(key(test.name), test.rest, limit.MicrosOf(instant(10)))); got != test.want {
			t.Errorf("%s %v: %s, want %s", test.name, test.rest, got, test.want)
		}
	}
	if got := text(s.Resolve(key("later"), nil, limit.MicrosOf(instant(1000)))); got != "1000 by tier of pro" {
		t.Errorf("from its first instant: %s", got)
	}
	if got := text(tenant.NewSnapshot(new(tenant.Tiers), slices.Values(accounts)).Resolve(key("pro"), nil, 0)); got != "none by rule of " {
		t.Errorf("without tiers: %s", got)
	}
}

func text(r tenant.Resolution) string {
	n := "none"
	if r.Quota != nil && r.Quota.Unlimited() {
		n = "unlimited"
	} else if r.Quota != nil {
		n = fmt.Sprint(r.Quota.Limits[0].Quota)
	}
	return fmt.Sprintf("%s by %v of %s", n, r.Source, r.Tier)
}

// TestI1NewestInForce: when the newest override ends, the previous one is back.
func TestI1NewestInForce(t *testing.T) {
	s := tenant.NewSnapshot(mustTiers(t), slices.Values([]tenant.Account{{Subject: key("k"), Overrides: []tenant.Override{
		{Quota: quota(1)},
		{Quota: quota(2), Term: tenant.Term{From: instant(10), Until: instant(40)}},
		{Quota: quota(3), Term: tenant.Term{From: instant(20), Until: instant(30)}},
		{Quota: &tenant.Quota{}, Term: tenant.Term{From: instant(50)}},
	}}}))
	for _, test := range []struct {
		at   limit.Micros
		want string
	}{
		{0, "1"},
		{limit.MicrosOf(instant(10)) - 1, "1"},
		{limit.MicrosOf(instant(10)), "2"},
		{limit.MicrosOf(instant(20)), "3"},
		{limit.MicrosOf(instant(30)) - 1, "3"},
		{limit.MicrosOf(instant(30)), "2"},
		{limit.MicrosOf(instant(40)), "1"},
		{limit.MicrosOf(instant(50)), "unlimited"},
	} {
		if got := text(s.Resolve(key("k"), nil, test.at)); got != test.want+" by override of free" {
			t.Errorf("at %v: %s, want %s", test.at.Time(), got, test.want)
		}
	}
}

// naive resolves by looking at everything.
func naive(tiers *tenant.Tiers, accounts map[tenant.Subject]tenant.Account, subject tenant.Subject, text string, now limit.Micros) *tenant.Quota {
	a := accounts[subject]
	var best *tenant.Override
	for i := range a.Overrides {
		o := &a.Overrides[i]
		if o.Descriptor == text && o.Term.InForce(now) && (best == nil || o.Term.From.After(best.Term.From)) {
			best = o
		}
	}
	if best != nil {
		return best.Quota
	}
	name, since := "", time.Time{}
	for _, t := range a.Tiers {
		if t.Term.InForce(now) && (name == "" || t.Term.From.After(since)) {
			name, since = t.Tier, t.Term.From
		}
	}
	if !tiers.Has(name) {
		name = tiers.Fallback()
	}
	return tiers.Tier(name).Quotas[text]
}

// TestSnapshotAgainstModel changes accounts at random, by With and by building
// anew, and compares every answer with a model that looks at everything. Older
// snapshots do not change.
func TestSnapshotAgainstModel(t *testing.T) {
	tiers := mustTiers(t)
	texts := []string{tenant.Default, "endpoint:POST /v1/orders", "endpoint:GET /"}
	rests := [][]descriptor.Entry{nil, orders(), {{Key: "endpoint", Value: "GET /"}}}
	term := rapid.Custom(func(t *rapid.T) (m tenant.Term) {
		if from := rapid.IntRange(0, 6).Draw(t, "from"); from > 0 {
			m.From = instant(10 * from)
		}
		if rapid.Bool().Draw(t, "ends") {
			m.Until = instant(10*rapid.IntRange(1, 6).Draw(t, "length") + 10*m.From.Second())
		}
		return m
	})
	assignment := rapid.Custom(func(t *rapid.T) tenant.Assignment {
		return tenant.Assignment{Tier: rapid.SampledFrom([]string{"free", "pro", "bare", "none"}).Draw(t, "tier"), Term: term.Draw(t, "term")}
	})
	override := rapid.Custom(func(t *rapid.T) tenant.Override {
		return tenant.Override{
			Descriptor: rapid.SampledFrom(texts).Draw(t, "descriptor"),
			Quota:      quota(int64(rapid.IntRange(1, 9).Draw(t, "quota"))), Term: term.Draw(t, "term"),
		}
	})
	account := rapid.Custom(func(t *rapid.T) tenant.Account { // of a kind no two begin at one instant
		return tenant.Account{
			Subject:   key(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "key"))),
			Tiers:     rapid.SliceOfNDistinct(assignment, 0, 3, func(a tenant.Assignment) string { return a.Term.From.String() }).Draw(t, "tiers"),
			Overrides: rapid.SliceOfNDistinct(override, 0, 6, func(o tenant.Override) string { return o.Descriptor + o.Term.From.String() }).Draw(t, "overrides"),
		}
	})

	rapid.Check(t, func(t *rapid.T) {
		model := map[tenant.Subject]tenant.Account{}
		s := tenant.NewSnapshot(tiers, slices.Values([]tenant.Account(nil)))
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			before, length := s, s.Len()
			changed := rapid.SliceOfN(account, 1, 3).Draw(t, "accounts")
			s = s.With(changed...)
			if before.Len() != length {
				t.Fatalf("an older snapshot has %d accounts, had %d", before.Len(), length)
			}
			for _, a := range changed {
				if delete(model, a.Subject); len(a.Tiers)+len(a.Overrides) > 0 {
					model[a.Subject] = a
				}
			}
			if s.Len() != len(model) {
				t.Fatalf("%d accounts, want %d", s.Len(), len(model))
			}
		}
		// What All returns is the whole of it.
		s = tenant.NewSnapshot(tiers, s.All())
		if s.Len() != len(model) {
			t.Fatalf("%d accounts of All, want %d", s.Len(), len(model))
		}
		for i := range 6 {
			for j, text := range texts {
				now := limit.MicrosOf(instant(rapid.IntRange(0, 130).Draw(t, "now")))
				got := s.Resolve(key(fmt.Sprint(i)), rests[j], now).Quota
				if want := naive(tiers, model, key(fmt.Sprint(i)), text, now); got != want {
					t.Fatalf("key %d, %q at %v: %+v, want %+v", i, text, now.Time(), got, want)
				}
			}
		}
	})
}

func TestValidateRefuses(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, test := range []struct {
		want    string
		account tenant.Account
	}{
		{"subject", tenant.Account{}},
		{"begins", tenant.Account{Subject: key("k"), Overrides: []tenant.Override{{Quota: quota(1), Term: tenant.Term{From: instant(2), Until: instant(2)}}}}},
		{"override 1: a second one of default", tenant.Account{Subject: key("k"), Overrides: []tenant.Override{{Quota: quota(1)}, {Quota: quota(2)}}}},
		{"quota is missing", tenant.Account{Subject: key("k"), Overrides: []tenant.Override{{}}}},
		{"canonical", tenant.Account{Subject: key("k"), Overrides: []tenant.Override{{Descriptor: `a:\x41`, Quota: quota(1)}}}},
		{"at most 256", tenant.Account{Subject: key("k"), Overrides: []tenant.Override{{Descriptor: "a:" + long, Quota: quota(1)}}}},
		{"tier 0: name", tenant.Account{Subject: key("k"), Tiers: []tenant.Assignment{{Tier: "a b"}}}},
		{"tier 1: a second one", tenant.Account{Subject: key("k"), Tiers: []tenant.Assignment{{Tier: "a"}, {Tier: "b"}}}},
		{"tier 0: it ends", tenant.Account{Subject: key("k"), Tiers: []tenant.Assignment{{Tier: "a", Term: tenant.Term{From: instant(9), Until: instant(1)}}}}},
		{"at most 4096", tenant.Account{Subject: key("k"), Overrides: make([]tenant.Override, 4097)}},
		{"4097 overrides", tenant.Account{Subject: key("k"), Overrides: append(make([]tenant.Override, 4090), tenant.Override{Quota: &tenant.Quota{Limits: make([]tenant.Limit, 7)}})}},
	} {
		if err := test.account.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
	day, err := limit.NewCalendar(limit.CalendarDay, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	second := tenant.Limit{Limit: limit.Must(limit.PerMinute(5))}
	for want, q := range map[string]tenant.Quota{
		"a second one per minute": {Limits: []tenant.Limit{second, second}},
		"whole seconds":           {Limits: []tenant.Limit{{Limit: limit.Must(limit.Spec{Quota: 1, Period: 1500 * time.Millisecond})}}},
		"no quota over time":      {Limits: []tenant.Limit{{Limit: limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 1, Period: time.Minute})}}},
		"none of a calendar":      {Limits: []tenant.Limit{{Limit: limit.Must(limit.Spec{Quota: 1, Algorithm: limit.FixedWindow, Calendar: day})}}},
		"at most 8":               {Limits: make([]tenant.Limit, 9)},
		"is missing":              {Limits: make([]tenant.Limit, 1)},
		"printable":               {Limits: []tenant.Limit{{Limit: second.Limit, Name: "a\n"}}},
	} {
		if err := q.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestNewTiersRefuses(t *testing.T) {
	free := tenant.Tier{Name: "free"}
	for want, tiers := range map[string][]tenant.Tier{
		"two of that name":     {free, free},
		"tier: name":           {{Name: "<b>"}},
		"no tier free":         {{Name: "pro"}},
		"quota is missing":     {{Name: "free", Quotas: map[string]*tenant.Quota{"": nil}}},
		"canonical":            {{Name: "free", Quotas: map[string]*tenant.Quota{"default": quota(1)}}},
		"hint: at most 256":    make([]tenant.Tier, 257),
		"tier free: default: ": {{Name: "free", Quotas: map[string]*tenant.Quota{"": {Limits: make([]tenant.Limit, 1)}}}},
	} {
		if _, err := tenant.NewTiers(tiers, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestParseDescriptor(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "default": "", "endpoint:POST /v1/orders": "endpoint:POST /v1/orders", "a:b,c:d": "a:b,c:d", `a:\x41`: "a:A",
	} {
		if got, err := tenant.ParseDescriptor(text); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"orders", ":x", "a:b,", strings.Repeat("a:b,", 40) + "a:b", "a:" + strings.Repeat("b", 256)} {
		if got, err := tenant.ParseDescriptor(text); err == nil {
			t.Errorf("%q was taken as %q", text, got)
		}
	}
	if got := tenant.DescriptorText(tenant.Default); got != "default" {
		t.Errorf("default is written %q", got)
	}
}

func TestAllocResolve(t *testing.T) {
	s := tenant.NewSnapshot(mustTiers(t), slices.Values([]tenant.Account{
		{Subject: key("raised"), Overrides: []tenant.Override{{Descriptor: "endpoint:POST /v1/orders", Quota: quota(70)}}},
	}))
	rest := orders()
	if n := alloctest.PerRun(100, func() {
		s.Resolve(key("raised"), rest, 0)
		s.Resolve(key("unknown"), rest, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParseDescriptor: what is taken is canonical, and stays as it is.
func FuzzParseDescriptor(f *testing.F) {
	f.Add("endpoint:POST /v1/orders")
	f.Add(`a:\x41,b\:c:`)
	f.Fuzz(func(t *testing.T, text string) {
		once, err := tenant.ParseDescriptor(text)
		if err != nil {
			return
		}
		if again, err := tenant.ParseDescriptor(once); again != once || err != nil || len(once) > tenant.MaxDescriptor {
			t.Errorf("%q became %q, then %q, %v", text, once, again, err)
		}
	})
}

// What no store can decide is told with its place, and what is not of a tier's buckets is asked
// of the usual stores.
func TestUnfitTiers(t *testing.T) {
	minute := limit.Must(limit.PerMinute(9))
	quota := func() *tenant.Quota { return &tenant.Quota{Limits: []tenant.Limit{{Name: "m", Limit: minute}}} }
	tiers, err := tenant.NewTiers([]tenant.Tier{
		{Name: "gone", Store: "gone", Quotas: map[string]*tenant.Quota{tenant.Default: quota()}},
		{Name: "home", Store: "home", Quotas: map[string]*tenant.Quota{tenant.Default: quota()}, Pool: &tenant.Pool{Limit: tenant.Limit{Name: tenant.PoolName, Limit: minute}}},
		{Name: "usual", Quotas: map[string]*tenant.Quota{tenant.Default: quota()}},
	}, "usual")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for where, err := range tiers.Unfit(func(store string, l *limit.Limit) error {
		if store == "gone" || l != nil && store == "" {
			return errors.New("no")
		}
		return nil
	}) {
		got = append(got, where+": "+err.Error())
	}
	if want := []string{"tier gone, store: no", "tier home, the burst pool: no", "tier usual, default: no"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for where := range tiers.Unfit(func(string, *limit.Limit) error { return errors.New("no") }) {
		if where != "tier gone, store" {
			t.Errorf("went on to %s", where)
		}
		break
	}
}
