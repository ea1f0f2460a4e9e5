package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/memstore"
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
			f.Add(r.String()[:9] + "\n" + r.String()[9:])
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
