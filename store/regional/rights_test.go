package regional_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/regional"
)

func newRights() *regional.Rights {
	return regional.NewRights(limit.Must(limit.PerHour(1000)), 0, 0)
}

// grant answers a question that was sent at now and came back so much later.
func grant(r *regional.Rights, id byte, hits int64, now, later time.Duration) {
	r.Answer(&regional.Answer{
		Request: store.LeaseRequest{ID: store.LeaseID{id}, Want: 10, Share: 2},
		Grant:   store.Grant{Hits: hits, TTL: time.Minute, Decision: limit.Decision{Allowed: true, Limit: 1000, Remaining: 500}},
		Sure:    true, Sent: now, Now: now + later,
	})
}

// TestRightsGivenBack: no more than was spent of a lease comes back to it, and nothing of
// another one.
func TestRightsGivenBack(t *testing.T) {
	r, now := newRights(), time.Second
	grant(r, 1, 10, now, 0)
	if spent, ok := r.Spend(11, now); ok {
		t.Errorf("%v are spent of 10", spent)
	}
	r.Spend(4, now)
	if taken := r.GiveBack(6, now); taken != 4 || r.Held(now) != 10 {
		t.Errorf("%d of 6 are given back where 4 were spent, and %d held of 10", taken, r.Held(now))
	}
	spent, ok := r.Spend(10, now)
	grant(r, 2, 7, now, 0)
	if taken := r.PutBack(spent, now); !ok || taken != 0 || r.Held(now) != 7 {
		t.Errorf("%d are put back of a lease that is used up, and %d held of 7", taken, r.Held(now))
	}
	if charged := r.Charge(9, now); charged != 7 || r.Held(now) != 0 {
		t.Errorf("%d of 9 hits are charged to 7", charged)
	}
}

// TestRightsEnd a little before the lease does, as counted from when it was asked for.
func TestRightsEnd(t *testing.T) {
	r := newRights()
	grant(r, 1, 10, time.Second, 30*time.Second)
	for at, want := range map[time.Duration]int64{60 * time.Second: 10, 60*time.Second + 970*time.Millisecond: 0} {
		if got := r.Held(at); got != want && at > time.Minute || got > want {
			t.Errorf("after %v %d are held, want %d", at, got, want)
		}
	}
	r = newRights()
	r.Answer(&regional.Answer{Request: store.LeaseRequest{Want: 10}, Grant: store.Grant{Hits: 10, TTL: time.Minute}, Now: time.Second})
	if n := r.Held(time.Second); n != 0 {
		t.Errorf("%d are held by a grant that is not sure", n)
	}
}

// TestRightsHandedBack are used no more.
func TestRightsHandedBack(t *testing.T) {
	r, now := newRights(), time.Second
	grant(r, 1, 10, now, 0)
	r.Spend(3, now)
	if q, ok := r.HandBack(now); !ok || q.Return != (store.LeaseID{1}) || q.ReturnHits != 7 || r.Held(now) != 0 {
		t.Errorf("%+v, %v, and %d are held", q, ok, r.Held(now))
	}
	r.Note(1, now)
	if r.Idle(now+999*time.Millisecond) || !r.Idle(now+time.Second) {
		t.Error("a second without hits is idle, and less is not")
	}
}

// TestQuestionsForRights: one is under way at one time, and none follows at once where the
// home had nothing left.
func TestQuestionsForRights(t *testing.T) {
	r, now := newRights(), time.Second
	r.Note(1, now)
	r.Starve(1)
	if _, ok := r.Ask(1, now); !ok {
		t.Error("who starves does not ask")
	}
	r.Starve(1)
	if _, ok := r.Ask(1, now); ok || r.Due(now) {
		t.Error("a second question while one is under way")
	}
	r.Answer(&regional.Answer{Request: store.LeaseRequest{Want: 10, Share: 2}, Grant: store.Grant{Decision: limit.Decision{Limit: 1000, RetryAfter: time.Hour}}, Sure: true, Sent: now, Now: now})
	if r.Due(now + 199*time.Millisecond) {
		t.Error("the home is asked at once when it had nothing left")
	}
	if !r.Due(now + 5*time.Second) {
		t.Error("the home is not asked again")
	}
}

// TestKept: what is held is kept until the next hit may be expected, and no longer.
func TestKept(t *testing.T) {
	r := newRights()
	idleAfter := func(what string, from, want time.Duration) {
		t.Helper()
		if r.Idle(from+want-1) || !r.Idle(from+want) {
			t.Errorf("%s: it is not kept for %v", what, want)
		}
	}
	r.Note(1, time.Second)
	idleAfter("a first hit", time.Second, time.Second)
	r.Note(1, 5*time.Second)
	idleAfter("a hit after four seconds", 5*time.Second, 8*time.Second)
	r.Note(1, 65*time.Second)
	idleAfter("a hit after a minute", 65*time.Second, 30*time.Second)
	for range 30 {
		r.Note(1, 66*time.Second)
	}
	idleAfter("many hits at once", 66*time.Second, time.Second)
	r.Starve(1)
	idleAfter("a denial", 66*time.Second, 5*time.Second)
	r.Note(1, 67*time.Second)
	idleAfter("a hit after it", 67*time.Second, 2*time.Second)
}

// TestShareOfLargeHits: hits of one take that were denied are lent to one of many nodes, if there
// are so many.
func TestShareOfLargeHits(t *testing.T) {
	for hits, want := range map[int64]int64{1: 10, 200: 200, 500: 500, 501: 10} {
		r, now := newRights(), time.Second
		r.Answer(&regional.Answer{
			Request: store.LeaseRequest{Share: 2},
			Grant:   store.Grant{Decision: limit.Decision{Allowed: true, Limit: 1000, Remaining: 500, ResetAfter: time.Hour}},
			Sure:    true, Sent: now, Now: now,
		})
		r.Note(hits, now)
		r.Starve(hits)
		q, ok := r.Ask(6, now)
		if most := 500 / max(q.Share, 1); !ok || min(q.Want, most) < min(want, hits) || hits <= 500 && min(q.Want, most) < hits || hits > 500 && q.Want > want {
			t.Errorf("of 500 for a take of %d six nodes ask for %d, %d at most", hits, q.Want, most)
		}
	}
}

// TestPauseOfACalendar: a home that has nothing left of a month is asked as seldom as of 31 days.
func TestPauseOfACalendar(t *testing.T) {
	month, err := limit.NewCalendar(limit.CalendarMonth, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	r, now := regional.NewRights(limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1000, Calendar: month}), 0, 0), time.Second
	r.Note(1, now)
	r.Starve(1)
	if _, ok := r.Ask(1, now); !ok {
		t.Fatal("who starves does not ask")
	}
	r.Answer(&regional.Answer{Request: store.LeaseRequest{Want: 10, Share: 2}, Grant: store.Grant{Decision: limit.Decision{Limit: 1000, RetryAfter: 100 * time.Hour}}, Sure: true, Sent: now, Now: now})
	r.Starve(1)
	if r.Due(now+5*time.Second-1) || !r.Due(now+5*time.Second) {
		t.Error("the pause is not five seconds")
	}
}
