package headgate_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
)

// An overshoot is a debt, which is paid back before anything passes; what was too much
// comes back at once.
func TestA10Overshoot(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	r, resp := b.reserve(reservation.Options{}, some("user:u", 40))
	if !resp.Allowed || b.remaining("user:u") != 60 {
		t.Fatalf("%+v", resp)
	}
	if resp := b.commit(r, reservation.Settled, used(160)); resp.Verdicts[0].Decision.Remaining != 0 || !resp.Allowed {
		t.Errorf("after an overshoot of 120: %+v", resp)
	}
	if resp := b.check(on("user:u")); resp.Allowed || resp.Verdicts[0].Decision.RetryAfter != 36600*time.Millisecond {
		t.Errorf("while 60 are owed: %+v", resp.Verdicts[0].Decision)
	}
	b.now = b.now.Add(time.Minute)
	if left := b.remaining("user:u"); left != 40 {
		t.Errorf("a minute later %d are left, want 40", left)
	}
	r, _ = b.reserve(reservation.Options{}, some("user:u", 30))
	b.commit(r, reservation.Settled, used(10))
	b.commit(r, reservation.SettledBefore, used(10))
	if left := b.remaining("user:u"); left != 30 {
		t.Errorf("%d are left, want 30", left)
	}
	r, _ = b.reserve(reservation.Options{}, some("user:u", 30))
	if outcome, err := b.limiter.Cancel(t.Context(), r, new(headgate.Response)); outcome != reservation.Settled || err != nil || b.remaining("user:u") != 30 {
		t.Errorf("cancelled: %v, %v", outcome, err)
	}
	b.commit(r, reservation.SettledBefore, used(10))
}

// Debts end at the ceiling of the rule; what is more is forgiven.
//
//promise:max-debt
func TestA10DebtHasACeiling(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	for range 3 {
		r, _ := b.reserve(reservation.Options{}, some("capped:c", 0))
		b.commit(r, reservation.Settled, used(500))
		if resp := b.check(on("capped:c")); resp.Allowed || resp.Verdicts[0].Decision.RetryAfter != 30600*time.Millisecond {
			t.Errorf("%+v", resp.Verdicts[0].Decision)
		}
		if _, resp := b.reserve(reservation.Options{}, some("capped:c", 0)); resp.Allowed {
			t.Error("who owes reserves")
		}
		b.now = b.now.Add(30 * time.Second)
	}
}

// Costs that rules take from elsewhere are settled by what is known then of the same;
// what is not named stays as it was reserved.
func TestA10ReservedCosts(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	request := headgate.Request{
		Domain: "d", Descriptors: []headgate.Descriptor{on("bytes:b"), on("weighed:w,tokens:50")},
		Attributes: []descriptor.Entry{{Key: "content_length", Value: "200"}},
	}
	left := func() [2]int64 { return [2]int64{b.remaining("bytes:b"), b.remaining("weighed:w")} }
	for _, c := range []struct {
		actual reservation.Actual
		want   [2]int64
	}{
		{reservation.Actual{Attributes: []descriptor.Entry{{Key: "content_length", Value: "300"}}}, [2]int64{700, 950}},
		{reservation.Actual{Attributes: []descriptor.Entry{{Key: "tokens", Value: "70"}, {Key: "weighed", Value: "x"}}}, [2]int64{500, 880}},
		{used(1), [2]int64{300, 830}},
		{used(0, 1), [2]int64{300, 780}},
	} {
		var resp headgate.Response
		r, err := b.limiter.Reserve(t.Context(), &request, reservation.Options{}, &resp)
		if err != nil || !resp.Allowed {
			t.Fatalf("%+v, %v", resp, err)
		}
		b.commit(r, reservation.Settled, c.actual)
		if got := left(); got != c.want {
			t.Errorf("%+v: left %v, want %v", c.actual, got, c.want)
		}
	}
}

// Descriptors that are equal at the leaf are charged each, and those that share the
// head of a path once; both are settled as they were charged.
func TestA10SharedBuckets(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	r, _ := b.reserve(reservation.Options{}, some("shared:s,leaf:a", 10), some("shared:s,leaf:b", 20))
	b.commit(r, reservation.Settled, used(1, 2))
	for text, want := range map[string]int64{"shared:s": 98, "shared:s,leaf:a": 49, "shared:s,leaf:b": 48} {
		if left := b.remaining(text); left != want {
			t.Errorf("%s: %d left, want %d", text, left, want)
		}
	}
	leaf := newBench(t, strings.Replace(tokens, "match: path", "match: leaf", 1), headgate.Options{})
	r, _ = leaf.reserve(reservation.Options{}, some("user:u", 10), some("user:u", 20))
	leaf.commit(r, reservation.Settled, used(1, 2))
	if left := leaf.remaining("user:u"); left != 97 {
		t.Errorf("at the leaf: %d left, want 97", left)
	}
}

// A shadow rule that would deny is not charged, and so charged the whole in the end.
func TestA10ShadowIsSettledByWhatItWasCharged(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	r, _ := b.reserve(reservation.Options{}, some("tried:x", 11))
	b.commit(r, reservation.Settled, used(4))
	if left := b.remaining("tried:x"); left != 6 {
		t.Errorf("%d left, want 6", left)
	}
}

// A charge is for what has been used already: it is never denied.
func TestA10Charge(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	charge := some("user:u", 250)
	charge.Op = store.Charge
	if resp := b.check(charge); !resp.Allowed || resp.Verdicts[0].Decision.Remaining != 0 {
		t.Errorf("%+v", resp)
	}
	if resp := b.check(some("user:u", 0)); resp.Allowed {
		t.Error("a peek passes while 150 are owed")
	}
	b.now = b.now.Add(90 * time.Second)
	if resp := b.check(some("user:u", 0)); !resp.Allowed {
		t.Error("a peek is denied when all is paid back")
	}
	busy := some("busy:b", 3)
	busy.Op = store.Charge
	b.check(busy)
	if v := b.check(some("busy:b", 0)).Verdicts; v[0].Decision.Remaining != 97 || v[1].Decision.Remaining != 2 {
		t.Errorf("hits and slots: %+v", v)
	}
}

// Rules change between: what was charged is settled by the limit that is there now;
// a new limit is charged the whole, one that is gone keeps what it has.
func TestA10RulesChangeBetween(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	r, _ := b.reserve(reservation.Options{}, some("shared:s,leaf:a", 10))
	next := strings.Replace(tokens, "key: shared\n  rate_limit: {unit: hour, requests_per_unit: 100}", "key: shared", 1)
	next = strings.Replace(next, "requests_per_unit: 50}", "requests_per_unit: 60}\n    secondary_limits: [{unit: day, requests_per_unit: 1000}]", 1)
	b.limiter.SetRules(load(t, next))
	resp := b.commit(r, reservation.Settled, used(25))
	if got := fmt.Sprint(resp.Verdicts[0].Decision.Remaining, resp.Verdicts[1].Decision.Remaining); got != "35 975" {
		t.Errorf("after the change: %s", got)
	}
	b.limiter.SetRules(load(t, tokens))
	if left := b.remaining("shared:s"); left != 90 {
		t.Errorf("a limit that was gone has %d left, want 90", left)
	}
}

// A reservation that was not made, or says that it has charged more than it has, gives
// nothing back that was not charged for it.
func TestA10ForgedReservations(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	b.check(some("shared:s", 80))
	other := newBench(t, tokens, headgate.Options{})
	forged, _ := other.reserve(reservation.Options{}, some("shared:s", 60))
	b.commit(forged, reservation.Settled, used(5))
	if left := b.remaining("shared:s"); left != 15 {
		t.Errorf("one of another store: %d left, want 15", left)
	}
	b.commit(forged, reservation.SettledBefore, used(0))
	nothing, _ := other.reserve(reservation.Options{}, some("shared:s", 5))
	if outcome, err := b.limiter.Cancel(t.Context(), nothing, new(headgate.Response)); outcome != reservation.Unknown || err != nil || b.remaining("shared:s") != 15 {
		t.Errorf("one of another store, cancelled: %v, %v, %d left", outcome, err, b.remaining("shared:s"))
	}
	b.commit(nothing, reservation.SettledBefore, used(5))

	// The list of what was charged is taken from a larger one.
	small, _ := b.reserve(reservation.Options{ID: "x"}, some("shared:s", 2))
	large, _ := other.reserve(reservation.Options{ID: "x"}, some("shared:s", 30))
	r, err := reservation.Parse(grafted(small, large))
	if err != nil {
		t.Fatal(err)
	}
	b.commit(r, reservation.Settled, used(0))
	if left := b.remaining("shared:s"); left != 15 {
		t.Errorf("one with a list of another: %d left, want 15", left)
	}
}

// grafted is r with what other says that it has charged, as text.
func grafted(r, other reservation.Reservation) string {
	written := func(r reservation.Reservation) (all, charges []byte) {
		all, _ = base64.RawURLEncoding.DecodeString(r.String())
		length, n := binary.Uvarint(all[1:])
		charges = all[1+n+int(length):]
		_, n = binary.Uvarint(charges) // the expiry
		return all, charges[n:]
	}
	all, own := written(r)
	_, charges := written(other)
	return base64.RawURLEncoding.EncodeToString(append(all[:len(all)-len(own)], charges...))
}

// What is not settled in time stays charged.
func TestA10Orphans(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	r, _ := b.reserve(reservation.Options{TTL: 90 * time.Second}, some("shared:s", 40))
	b.now = b.now.Add(90*time.Second - time.Millisecond)
	early := r
	b.now = b.now.Add(time.Millisecond)
	if outcome, err := b.limiter.Commit(t.Context(), r, used(1), new(headgate.Response)); !errors.Is(err, reservation.ErrExpired) || outcome != reservation.Undecided {
		t.Errorf("late: %v, %v", outcome, err)
	}
	if left := b.remaining("shared:s"); left != 60 || !early.Expires().Equal(b.now) {
		t.Errorf("%d left, want 60; expires %v", left, early.Expires())
	}
}

const everyAlgorithm = `
domain: d
descriptors:
- {key: sliding_window, rate_limit: {unit: hour, requests_per_unit: 20}}
- {key: fixed_window, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: fixed_window}}
- {key: smooth, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: sub_windows, sub_windows: 6}}
- {key: strict, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: sub_windows, mode: strict}}
- {key: sliding_log, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: sliding_log}}
- {key: token_bucket, rate_limit: {unit: hour, requests_per_unit: 20, burst: 15, algorithm: token_bucket}}
- {key: gcra, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: gcra}}
- {key: leaky_bucket, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: leaky_bucket}}
- {key: leaky_queue, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: leaky_queue, max_queue: 9}}
- {key: calendar, rate_limit: {unit: day, requests_per_unit: 20, algorithm: fixed_window, time_zone: Europe/Berlin}}
`

// TestA10EveryAlgorithm: what is reserved and then settled, at the same instant or
// later in the same window, leaves a bucket as if what was used had been charged at
// once; where time weighs on it, a bucket is never emptier than that.
func TestA10EveryAlgorithm(t *testing.T) {
	for _, key := range []string{"sliding_window", "fixed_window", "smooth", "strict", "sliding_log", "token_bucket", "gcra", "leaky_bucket", "leaky_queue", "calendar"} {
		t.Run(key, func(test *testing.T) {
			rapid.Check(test, func(t *rapid.T) {
				b := newBench(test, everyAlgorithm, headgate.Options{})
				peek := func(name string) limit.Decision { return b.check(some(key+":"+name, 0)).Verdicts[0].Decision }
				estimate := rapid.Int64Range(0, peek("a").Limit).Draw(t, "estimate")
				actual := rapid.Int64Range(0, 60).Draw(t, "actual")
				later := rapid.SampledFrom([]time.Duration{0, 0, time.Second, 10 * time.Minute}).Draw(t, "later")
				r, resp := b.reserve(reservation.Options{TTL: time.Hour}, some(key+":a", estimate))
				if !resp.Allowed {
					t.Fatalf("%d of %d: %+v", estimate, peek("a").Limit, resp)
				}
				charge := some(key+":b", min(estimate, actual))
				charge.Op = store.Charge
				b.check(charge)
				b.now = b.now.Add(later)
				b.commit(r, reservation.Settled, used(actual))
				if charge.Hits = actual - charge.Hits; charge.Hits > 0 {
					b.check(charge)
				}
				got, want := peek("a"), peek("b")
				if got.Remaining > want.Remaining || got.ResetAfter < want.ResetAfter || (later == 0 || actual >= estimate) && got != want {
					t.Fatalf("reserved %d, used %d: %+v, want %+v", estimate, actual, got, want)
				}
			})
		})
	}
}

// TestA10TenantsQuotas: the quotas that a tenant has in place of the limits of a rule
// are settled.
func TestA10TenantsQuotas(t *testing.T) {
	b := newBench(t, "domain: d\nmatch: path\ndescriptors: [{key: api_key, tenant: true, rate_limit: {unit: minute, requests_per_unit: 5}}]", headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("acme", "pro")))
	r, resp := b.reserve(reservation.Options{}, some("api_key:acme", 60))
	if !resp.Allowed {
		t.Fatalf("%+v", resp)
	}
	b.commit(r, reservation.Settled, used(10))
	if left := b.remaining("api_key:acme"); left != 90 {
		t.Errorf("%d left, want 90", left)
	}
}

// What was used under an override has been used of the tier too when the override ends,
// also where it was reserved: once, and as much as was committed.
func TestA10ReservedUnderAnOverride(t *testing.T) {
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: quota(tenant.Default, "100/minute", "400/hour")}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, used := range map[string]int64{"less than reserved": 10, "more than reserved": 70, "cancelled": 0} {
		b := newBench(t, "domain: d\nmatch: path\ndescriptors: [{key: api_key, tenant: true}]", headgate.Options{})
		b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{{
			Subject: apiKey("a"), Overrides: []tenant.Override{{Descriptor: tenant.Default, Quota: quota(tenant.Default, "200/minute")}},
		}})))
		r, _ := b.reserve(reservation.Options{}, some("api_key:a", 60))
		b.commit(r, reservation.Settled, reservation.Actual{Hits: []int64{used}})
		b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{{Subject: apiKey("a")}})))
		hours := 0
		for _, v := range b.check(some("api_key:a", 0)).Verdicts {
			if v.Limit != nil && v.Limit.Period == time.Hour {
				hours++
				if got := v.Limit.Quota - v.Decision.Remaining; got != used {
					t.Errorf("%s: %d used of the hour, want %d", name, got, used)
				}
			}
		}
		if hours != 1 {
			t.Errorf("%s: the tier has %d hours", name, hours)
		}
	}
}

// A rule that is switched off counts no charges; what it was charged before stays as it
// was reserved.
func TestA10SwitchedOff(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	charge := some("once:o", 10)
	charge.Op = store.Charge
	r, _ := b.reserve(reservation.Options{}, some("once:o", 20))
	switched(t, b, `{"target":"rule:d.once","state":"off"}`)
	b.check(charge)
	b.commit(r, reservation.Unknown, used(50))
	b.limiter.SetSwitches(nil)
	if left := b.remaining("once:o"); left != 80 {
		t.Errorf("%d left, want 80", left)
	}
}

const everyTenSeconds = `
domain: d
descriptors:
- {key: sliding_window, rate_limit: {window: 10s, requests_per_unit: 20}}
- {key: fixed_window, rate_limit: {window: 10s, requests_per_unit: 20, algorithm: fixed_window}}
- {key: smooth, rate_limit: {window: 10s, requests_per_unit: 20, algorithm: sub_windows, sub_windows: 5}}
- {key: strict, rate_limit: {window: 10s, requests_per_unit: 20, algorithm: sub_windows, mode: strict}}
- {key: sliding_log, rate_limit: {window: 10s, requests_per_unit: 20, algorithm: sliding_log}}
- {key: token_bucket, rate_limit: {window: 10s, requests_per_unit: 20, algorithm: token_bucket}}
- {key: gcra, rate_limit: {window: 10s, requests_per_unit: 20, algorithm: gcra}}
- {key: leaky_queue, rate_limit: {window: 10s, requests_per_unit: 20, algorithm: leaky_queue, max_queue: 19}}
`

// Who settles late is given back nothing of what others have used since: what was charged
// then is over by itself.
func TestA10WhatIsOverIsNotGivenBack(t *testing.T) {
	for _, key := range []string{"sliding_window", "fixed_window", "smooth", "strict", "sliding_log", "token_bucket", "gcra", "leaky_queue"} {
		for name, settle := range map[string]func(*bench, reservation.Reservation){
			"told": func(b *bench, r reservation.Reservation) { b.commit(r, reservation.Settled, used(0)) },
			"forged": func(b *bench, r reservation.Reservation) {
				b.commit(dated(t, r, b.now.Add(time.Hour)), reservation.Settled, used(0))
			},
			"untold": func(b *bench, r reservation.Reservation) {
				req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some(key+":x", 20)}}
				named, err := req.Reservation(reservation.Options{ID: "one"})
				if err != nil {
					t.Fatal(err)
				}
				b.commit(named, reservation.Settled, used(0))
			},
		} {
			b := newBench(t, everyTenSeconds, headgate.Options{})
			r, resp := b.reserve(reservation.Options{ID: "one"}, some(key+":x", 20))
			if !resp.Allowed {
				t.Fatalf("%s: %+v", key, resp)
			}
			b.now = b.now.Add(25 * time.Second)
			if resp := b.check(some(key+":x", 20)); !resp.Allowed {
				t.Fatalf("%s: what was reserved is not over: %+v", key, resp)
			}
			settle(b, r)
			if left := b.remaining(key + ":x"); left != 0 {
				t.Errorf("%s, %s: %d left of what others have used", key, name, left)
			}
		}
	}
}

// dated is r with another time at which it expires.
func dated(t *testing.T, r reservation.Reservation, expires time.Time) reservation.Reservation {
	t.Helper()
	all, err := base64.RawURLEncoding.DecodeString(r.String())
	if err != nil {
		t.Fatal(err)
	}
	length, n := binary.Uvarint(all[1:])
	claims := all[:1+n+int(length)]
	_, n = binary.Uvarint(all[len(claims):])
	text := binary.AppendUvarint(slices.Clone(claims), uint64(expires.UnixMilli()))
	late, err := reservation.Parse(base64.RawURLEncoding.EncodeToString(append(text, all[len(claims)+n:]...)))
	if err != nil {
		t.Fatal(err)
	}
	return late
}

// A limit that only watched and was over was not charged, and nobody is believed that it was:
// neither by what a reservation says, nor by what its claims cost.
func TestA10WhatOnlyWatchedGivesNothingBack(t *testing.T) {
	enforced := strings.Replace(tokens, "shadow_mode: true", "shadow_mode: false", 1)
	for name, r := range map[string]func(b, other *bench) reservation.Reservation{
		"grafted": func(b, other *bench) reservation.Reservation {
			own, _ := b.reserve(reservation.Options{ID: "x"}, some("tried:x", 5))
			all, _ := other.reserve(reservation.Options{ID: "x"}, some("tried:x", 5))
			r, err := reservation.Parse(grafted(own, all))
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		"untold": func(b, _ *bench) reservation.Reservation {
			b.reserve(reservation.Options{ID: "x"}, some("tried:x", 5))
			req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("tried:x", 5)}}
			r, err := req.Reservation(reservation.Options{ID: "x"})
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
	} {
		b, other := newBench(t, tokens, headgate.Options{}), newBench(t, tokens, headgate.Options{})
		b.check(some("tried:x", 9))
		reserved := r(b, other)
		b.limiter.SetRules(load(t, enforced))
		b.commit(reserved, reservation.Settled, used(0))
		if left := b.remaining("tried:x"); left != 1 {
			t.Errorf("%s: %d left of ten, 9 were used", name, left)
		}
	}
}
