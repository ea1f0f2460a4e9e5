package storetest

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// twice bans for a quarter of an hour who is denied twice in a minute.
var twice = limit.Spec{Algorithm: limit.Ban, Quota: 2, Period: time.Minute, BanFor: 15 * time.Minute}

// testBan bans: for as long as said from the denial that made the ban, and not a
// microsecond longer, whatever happens meanwhile but a reset.
func testBan(t *testing.T, h Harness) {
	l := h.need(t, twice)
	minute, ban := micros(time.Minute), micros(l.BanFor)
	for _, step := range []struct {
		at   limit.Micros
		take store.Take
		want limit.Decision
	}{
		{0, take("key", l, 1), limit.Decision{Allowed: true, Remaining: 2}},
		{0, charge("key", l, 1), limit.Decision{Allowed: true, Remaining: 1, ResetAfter: time.Minute}},
		{0, take("key", l, 1000), limit.Decision{Allowed: true, Remaining: 1, ResetAfter: time.Minute}},
		{minute, take("key", l, 1), limit.Decision{Allowed: true, Remaining: 2}},
		{minute, charge("key", l, 1), limit.Decision{Allowed: true, Remaining: 1, ResetAfter: time.Minute}},
		{2*minute - 1, charge("key", l, 1), limit.Decision{Allowed: true, ResetAfter: l.BanFor}},
		{2*minute - 1, take("key", l, 0), limit.Decision{Allowed: true, ResetAfter: l.BanFor}},
		{2*minute + ban - 2, charge("key", l, 5), limit.Decision{Allowed: true, ResetAfter: time.Microsecond}},
		{2*minute + ban - 2, take("key", l, 1), limit.Decision{ResetAfter: time.Microsecond, RetryAfter: time.Microsecond}},
		{2*minute + ban - 1, take("key", l, 1), limit.Decision{Allowed: true, Remaining: 2}},
		{2*minute + ban - 1, charge("key", l, 2), limit.Decision{Allowed: true, ResetAfter: l.BanFor}},
	} {
		h.SetNow(noon + step.at)
		step.want.Limit = 2
		if d := h.batch(t, step.take)[0].Decision; d != step.want {
			t.Fatalf("%d µs on, op %d, hits %d: %+v, want %+v", step.at, step.take.Op, step.take.Hits, d, step.want)
		}
	}
	results := h.batch(t, op(store.Refund, "key", l, 5), take("key", l, 1), op(store.Reset, "key", l, 0), take("key", l, 1))
	if results[0].Remaining != 0 || results[1].Allowed || results[2].Remaining != 2 || !results[3].Allowed {
		t.Errorf("a refund and a reset of a ban: %+v", results)
	}
}

// testBanDenials counts denials, takes them back, and has a busy store and a clock
// that steps back over the end of the count and of the ban.
func testBanDenials(t *testing.T, h Harness) {
	l := h.need(t, twice)
	results := h.batch(t, charge("key", l, 1), op(store.Refund, "key", l, 1), charge("key", l, 1), take("key", l, 1), charge("key", l, 0))
	for i, want := range [...]int64{1, 2, 1, 1, 1} {
		if r := results[i]; !r.Allowed || r.Remaining != want {
			t.Errorf("take %d: %+v, want remaining=%d", i, r, want)
		}
	}
	for _, end := range [...]limit.Micros{micros(l.Period), micros(l.BanFor)} {
		h.SetNow(noon + end + stepMargin - 2)
		h.others(t, l.Algorithm.String()+end.Time().String())
		h.SetNow(noon + end - 1)
		if d := h.hit(t, "key", l, 0); d.ResetAfter != time.Microsecond {
			t.Errorf("after a step back over its end: %+v", d)
		}
		h.SetNow(noon)
		h.batch(t, op(store.Reset, "key", l, 0), charge("key", l, 2))
	}
}

// testBanInGroup: a ban denies the group, which then counts nothing, not even the
// denials; and what is denied elsewhere takes no denial back.
func testBanInGroup(t *testing.T, h Harness) {
	l := h.need(t, twice)
	hour := limit.Must(limit.PerHour(5))
	h.batch(t, charge("a", l, 2))
	results := h.batch(t, grouped(1, take("hour", hour, 1), take("a", l, 1), charge("b", l, 1))...)
	if results[0].Remaining != 5 || results[1].Allowed || results[1].RetryAfter != l.BanFor || results[2].Remaining != 2 {
		t.Errorf("a group that is banned: %+v", results)
	}
	results = h.batch(t, grouped(1, take("hour", hour, 1), take("b", l, 1), charge("b", l, 1))...)
	if results[0].Remaining != 4 || !results[1].Allowed || results[2].Remaining != 1 {
		t.Errorf("a group that is not: %+v", results)
	}
	h.hit(t, "full", hour, 5)
	results = h.batch(t, grouped(1, charge("b", l, 1), take("full", hour, 1))...)
	if results[0].Remaining != 1 || results[1].Allowed {
		t.Errorf("a charge with a hit that is denied: %+v", results)
	}
	h.remaining(t, "b", l, 1)
}
