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
