package headgate_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/spread"
	"github.com/headgate/headgate/tenant"
)

const tokens = `
domain: d
match: path
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 100, algorithm: token_bucket}
- key: capped
  max_debt: 50
  rate_limit: {unit: minute, requests_per_unit: 100, algorithm: token_bucket}
- key: bytes
  cost: {from: content_length}
  rate_limit: {unit: hour, requests_per_unit: 1000, algorithm: fixed_window}
- key: weighed
  cost: {from: entry, name: tokens}
  rate_limit: {unit: hour, requests_per_unit: 1000}
- key: busy
  concurrency: 2
  rate_limit: {unit: hour, requests_per_unit: 100}
- key: once
  rate_limit: {window: 366d, requests_per_unit: 100, algorithm: fixed_window}
- key: tried
  shadow_mode: true
  rate_limit: {unit: hour, requests_per_unit: 10}
- key: quota
  quota_mode: true
  rate_limit: {unit: hour, requests_per_unit: 10}
- key: shared
  rate_limit: {unit: hour, requests_per_unit: 100}
  descriptors:
  - key: leaf
    rate_limit: {unit: hour, requests_per_unit: 50}
`

// some makes a descriptor of so many hits.
func some(text string, hits int64) headgate.Descriptor {
	d := on(text)
	d.Hits = hits
	return d
}

func (b *bench) reserve(o reservation.Options, descriptors ...headgate.Descriptor) (reservation.Reservation, *headgate.Response) {
	b.t.Helper()
	resp := new(headgate.Response)
	r, err := b.limiter.Reserve(context.Background(), &headgate.Request{Domain: "d", Descriptors: descriptors}, o, resp)
	if err != nil {
		b.t.Fatal(err)
	}
	if (r != reservation.Reservation{}) != resp.Allowed {
		b.t.Fatalf("%+v with reservation %q", resp, r)
	}
	return r, resp
}

func (b *bench) commit(r reservation.Reservation, want reservation.Outcome, actual reservation.Actual) *headgate.Response {
	b.t.Helper()
	resp := new(headgate.Response)
	if outcome, err := b.limiter.Commit(context.Background(), r, actual, resp); outcome != want || err != nil {
		b.t.Fatalf("commit: %v, %v, want %v", outcome, err, want)
	}
	return resp
}

func used(hits ...int64) reservation.Actual { return reservation.Actual{Hits: hits} }

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

// The first answer may get lost: asked again by the same id, nothing more is reserved,
// even where there is no room any more and the denial is remembered.
func TestA10ReservedOnceByID(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := reservation.Options{ID: "job-1"}
	b := newBench(t, tokens, headgate.Options{Store: denial.New(buckets, denial.Options{})})
	first, _ := b.reserve(o, some("once:o", 100))
	for range 3 {
		if resp := b.check(on("once:o")); resp.Allowed {
			t.Fatal("there is room")
		}
		again, resp := b.reserve(o, some("once:o", 100))
		if !resp.Allowed || again.ID() != "job-1" || again.Expires().After(first.Expires().Add(time.Minute)) {
			t.Fatalf("again: %+v, %v", resp, again.Expires())
		}
		first = again
	}
	if _, resp := b.reserve(o, some("once:o", 99)); resp.Allowed {
		t.Error("the same id for something else is let in")
	}
	b.commit(first, reservation.Settled, used(30))
	if _, resp := b.reserve(o, some("once:o", 100)); !resp.Allowed {
		t.Error("what is settled was let in before, and is answered so")
	}
	if left := b.remaining("once:o"); left != 70 {
		t.Errorf("%d left, want 70", left)
	}
}

// A reservation that is asked for again never seems to last longer than the store
// remembers it.
func TestA10AskedAgainItLastsAsLongAsTheStoreRemembers(t *testing.T) {
	const step = 5 * time.Second
	b := newBench(t, tokens, headgate.Options{})
	o := reservation.Options{ID: "job-1", TTL: time.Minute}
	var latest time.Time
	for range 100 {
		r, _ := b.reserve(o, some("once:o", 10))
		if b.remaining("once:o") < 90 {
			if latest.After(b.now) {
				t.Errorf("it was to last until %v, and is forgotten at %v", latest, b.now)
			}
			return
		}
		latest = r.Expires()
		b.now = b.now.Add(step)
	}
	t.Error("it was never forgotten")
}

// What is denied reserves nothing, by whichever way, and may be asked again.
func TestA10DeniedReservesNothing(t *testing.T) {
	b := newBench(t, strings.Replace(tokens, "match: path", "match: path\nconsumption: independent", 1), headgate.Options{})
	for _, c := range []struct {
		name        string
		full        string
		descriptors []headgate.Descriptor
	}{
		{"one of several, though each counts on its own", "shared:t", []headgate.Descriptor{some("user:u", 10), some("shared:t", 1)}},
		{"all quotas together", "quota:q", []headgate.Descriptor{some("user:u", 10), some("quota:q", 1)}},
		{"for want of a slot", "", []headgate.Descriptor{some("user:u", 10), some("busy:b", 1)}},
	} {
		if c.full != "" {
			b.check(some(c.full, b.remaining(c.full)))
		} else {
			for range 2 {
				held := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("busy:b")}, Hold: limit.NewHold()}
				if err := b.limiter.Check(t.Context(), []headgate.Request{held}, make([]headgate.Response, 1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		o := reservation.Options{ID: c.name}
		for range 2 {
			if _, resp := b.reserve(o, c.descriptors...); resp.Allowed {
				t.Errorf("%s: allowed", c.name)
			}
		}
		if left := b.remaining("user:u"); left != 100 {
			t.Errorf("%s: %d left, want 100", c.name, left)
		}
		b.check(headgate.Descriptor{Entries: c.descriptors[1].Entries, Op: store.Reset})
		if r, resp := b.reserve(o, c.descriptors...); !resp.Allowed {
			t.Errorf("%s: denied when there is room: %+v", c.name, resp)
		} else if b.remaining("user:u") != 90 {
			t.Errorf("%s: not charged when there is room", c.name)
		} else {
			b.commit(r, reservation.Settled, used(0))
		}
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

// Reservations of a Request are those of Reserve; one that is not known is left
// alone.
func TestA10ReservationOf(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	request := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("shared:s", 40)}}
	r, err := request.Reservation(reservation.Options{ID: "stream"})
	if err != nil {
		t.Fatal(err)
	}
	b.commit(r, reservation.Unknown, used(7))
	b.reserve(reservation.Options{ID: "stream"}, request.Descriptors...)
	b.commit(r, reservation.Settled, used(7))
	b.commit(r, reservation.SettledBefore, used(8))
	if left := b.remaining("shared:s"); left != 93 || !r.Expires().IsZero() {
		t.Errorf("%d left, want 93", left)
	}
	if _, err := request.Reservation(reservation.Options{}); !errors.Is(err, reservation.ErrMalformed) {
		t.Errorf("without an id: %v", err)
	}
}

// A reservation takes a slot as a check does, and leaves it to be released.
func TestA10ReservationHoldsItsSlot(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	var resp headgate.Response
	request := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("busy:b", 10)}, Hold: limit.NewHold()}
	r, err := b.limiter.Reserve(t.Context(), &request, reservation.Options{}, &resp)
	if err != nil || resp.Hold != request.Hold {
		t.Fatalf("%+v, %v", resp, err)
	}
	b.commit(r, reservation.Settled, used(3))
	peek := b.check(some("busy:b", 0))
	if got := fmt.Sprint(peek.Verdicts[0].Decision.Remaining, peek.Verdicts[1].Decision.Remaining); got != "97 1" {
		t.Errorf("hits and slots left: %s", got)
	}
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

// A store that is away when something is reserved has charged nothing, so that all of it
// is charged in the end; one that is away then is asked again.
func TestA10StoreAway(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	away := &unreliable{Store: buckets, fails: constantly(true)}
	b := newBench(t, tokens, headgate.Options{Store: away})
	r, resp := b.reserve(reservation.Options{}, some("shared:s", 40))
	if resp.Degraded() == store.NoReason {
		t.Fatalf("%+v", resp)
	}
	if resp := b.commit(r, reservation.Undecided, used(25)); resp.Degraded() == store.NoReason {
		t.Errorf("%+v", resp)
	}
	away.fails = constantly(false)
	b.commit(r, reservation.Settled, used(25))
	if left := b.remaining("shared:s"); left != 75 {
		t.Errorf("%d left, want 75", left)
	}
	closed := newBench(t, strings.Replace(tokens, "key: shared", "key: shared\n  failure_mode: closed", 1), headgate.Options{Store: away})
	away.fails = constantly(true)
	if _, resp := closed.reserve(reservation.Options{}, some("shared:s", 1)); resp.Allowed {
		t.Error("reserved by a rule that fails closed")
	}
}

func constantly(v bool) func() bool { return func() bool { return v } }

// unreliable is a store of which some answers are lost, and some questions do not
// arrive.
type unreliable struct {
	store.Store
	fails func() bool // the question does not arrive
	loses func() bool // the answer does not
}

func (u *unreliable) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	fails := u.fails()
	if !fails {
		u.Store.Take(ctx, takes, results)
		fails = u.loses != nil && u.loses()
	}
	for i := range results {
		if fails {
			results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Timeout}}
		}
	}
}

// TestA10NeverTwice loses questions and answers, of one store and of each of several
// that a group falls apart into, and asks again until there is an answer. Of one store
// every reservation is settled exactly once; of several never twice, and what a part
// could not do is all that is missing.
func TestA10NeverTwice(t *testing.T) {
	for _, parts := range []int{1, 3} {
		t.Run(fmt.Sprint(parts, " parts"), rapid.MakeCheck(func(t *rapid.T) {
			var all []store.Store
			calm := false
			for range parts {
				buckets, err := memstore.New(memstore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				// The parts are asked side by side: each has its own chances.
				chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				bad := func() bool { return !calm && chance.IntN(3) == 0 }
				all = append(all, &unreliable{Store: buckets, fails: bad, loses: bad})
			}
			shared, err := spread.New(func(take *store.Take) int { return int(take.Key[len(take.Key)-3]) % parts }, all...)
			if err != nil {
				t.Fatal(err)
			}
			l, err := headgate.New(headgate.Options{Store: shared, Rules: loadIn(t, "d", tokens)})
			if err != nil {
				t.Fatal(err)
			}
			calm = true
			req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("shared:s,leaf:b", 20)}}
			r, err := l.Reserve(context.Background(), req, reservation.Options{}, new(headgate.Response))
			if err != nil {
				t.Fatal(err)
			}
			calm = false
			actual := rapid.Int64Range(0, 45).Draw(t, "actual")
			for tries := 0; ; tries++ {
				calm = tries > 20
				outcome, err := l.Commit(context.Background(), r, used(actual), new(headgate.Response))
				if err != nil {
					t.Fatal(err)
				}
				if outcome != reservation.Undecided {
					break
				}
			}
			calm = true
			var resp [1]headgate.Response
			if err := l.Peek(context.Background(), []headgate.Request{*req}, resp[:]); err != nil {
				t.Fatal(err)
			}
			for i, quota := range []int64{100, 50} {
				got := quota - resp[0].Verdicts[i].Decision.Remaining
				if got != actual && (parts == 1 || got != 20) {
					t.Fatalf("limit %d: %d used, reserved 20, used %d", i, got, actual)
				}
			}
		}))
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

func TestA10MalformedReservations(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	named, refund := on("user:u"), on("user:u")
	named.Limit = limit.Must(limit.PerHour(1))
	refund.Op = store.Refund
	long := on("user:" + strings.Repeat("x", 4000))
	for _, c := range []struct {
		o    reservation.Options
		d    []headgate.Descriptor
		want error
	}{
		{reservation.Options{ID: strings.Repeat("x", 129)}, []headgate.Descriptor{on("user:u")}, reservation.ErrMalformed},
		{reservation.Options{TTL: time.Millisecond}, []headgate.Descriptor{on("user:u")}, reservation.ErrMalformed},
		{reservation.Options{TTL: time.Hour + 1}, []headgate.Descriptor{on("user:u")}, reservation.ErrMalformed},
		{reservation.Options{}, nil, headgate.ErrNoDescriptors},
		{reservation.Options{}, []headgate.Descriptor{named}, reservation.ErrMalformed},
		{reservation.Options{}, []headgate.Descriptor{refund}, reservation.ErrMalformed},
		{reservation.Options{}, []headgate.Descriptor{some("user:u", -1)}, headgate.ErrHits},
		{reservation.Options{}, []headgate.Descriptor{long}, reservation.ErrMalformed},
	} {
		r, err := b.limiter.Reserve(t.Context(), &headgate.Request{Domain: "d", Descriptors: c.d}, c.o, new(headgate.Response))
		if !errors.Is(err, c.want) || r != (reservation.Reservation{}) {
			t.Errorf("%+v: %v, want %v", c.o, err, c.want)
		}
	}
	if left := b.remaining("user:u"); left != 100 {
		t.Errorf("something was charged: %d left", left)
	}
	r, _ := b.reserve(reservation.Options{}, on("user:u"), on("shared:s"))
	for _, c := range []struct {
		r      reservation.Reservation
		actual reservation.Actual
		want   error
	}{
		{reservation.Reservation{}, used(1), reservation.ErrMalformed},
		{r, used(-1), headgate.ErrHits},
		{r, used(limit.MaxQuota + 1), headgate.ErrHits},
		{r, used(1, 2, 3), headgate.ErrHits},
	} {
		if _, err := b.limiter.Commit(t.Context(), c.r, c.actual, new(headgate.Response)); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.actual, err, c.want)
		}
	}
	b.commit(r, reservation.Settled, used(1, 0))
}

// Where nothing is limited there is nothing to settle, and nothing is written.
func TestA10NothingLimited(t *testing.T) {
	b := newBench(t, tokens, headgate.Options{})
	r, resp := b.reserve(reservation.Options{}, on("unknown:x"))
	if !resp.Allowed {
		t.Fatal("denied")
	}
	b.commit(r, reservation.Settled, used(9))
	b.commit(r, reservation.Settled, used(9))
}

func FuzzParseReservation(f *testing.F) {
	b := newBench(f, tokens, headgate.Options{})
	for _, d := range [][]headgate.Descriptor{{on("user:u")}, {some("shared:s,leaf:a", 1<<40), on("unknown:\xff")}, {some("bytes:x", 0)}} {
		if r, _ := b.reserve(reservation.Options{}, d...); r != (reservation.Reservation{}) {
			f.Add(r.String())
		}
	}
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := reservation.Parse(text)
		if err != nil {
			if !errors.Is(err, reservation.ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if r.String() != text {
			t.Fatalf("%q is written %q", text, r.String())
		}
		var resp headgate.Response
		if _, err := b.limiter.Cancel(t.Context(), r, &resp); err != nil && !errors.Is(err, reservation.ErrExpired) {
			t.Fatal(err)
		}
	})
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

// TestA10ReservationsInEveryMode: however a rule is decided, what is left afterwards is
// what was not used.
func TestA10ReservationsInEveryMode(t *testing.T) {
	b := layered(t, shared(t), 1, layerRules)
	for _, key := range []string{"exact", "leased", "synced", "local", "whole", "hot", "spread", "asks"} {
		for i := range 15 {
			r, resp := b.reserve(reservation.Options{}, some(key+":x", 4))
			if !resp.Allowed {
				t.Fatalf("%s: reservation %d: %+v", key, i, resp)
			}
			actual := used(6)
			if i >= 10 {
				actual = used(0)
			}
			b.commit(r, reservation.Settled, actual)
			b.commit(r, reservation.SettledBefore, actual)
		}
		if got := b.admitted(key+":x", 60); got > 40 || got < 33 {
			t.Errorf("%s: %d of the 40 that are left are admitted", key, got)
		}
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

// BenchmarkReserveAndCommit is one reservation and its commit, in memory.
func BenchmarkReserveAndCommit(b *testing.B) {
	bench := newBench(b, tokens, headgate.Options{})
	req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("shared:s", 1)}}
	var resp headgate.Response
	back := used(0)
	b.ReportAllocs()
	for b.Loop() {
		r, err := bench.limiter.Reserve(b.Context(), &req, reservation.Options{}, &resp)
		if err != nil {
			b.Fatal(err)
		}
		if outcome, err := bench.limiter.Commit(b.Context(), r, back, &resp); outcome != reservation.Settled || err != nil {
			b.Fatal(outcome, err)
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
	b.commit(r, reservation.Settled, used(50))
	b.limiter.SetSwitches(nil)
	if left := b.remaining("once:o"); left != 80 {
		t.Errorf("%d left, want 80", left)
	}
}
