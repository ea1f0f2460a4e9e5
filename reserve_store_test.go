package headgate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

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
// every reservation is settled exactly once, also where its first answer got lost, and whether or
// not somebody has asked for it again; of several never twice, and what a part
// could not do is all that is missing.
func TestA10NeverTwice(t *testing.T) {
	for _, parts := range []int{1, 3} {
		t.Run(fmt.Sprint(parts, " parts"), rapid.MakeCheck(func(t *rapid.T) {
			shared, calm := lossy(t, parts)
			l, err := headgate.New(headgate.Options{Store: shared, Rules: loadIn(t, "d", tokens)})
			if err != nil {
				t.Fatal(err)
			}
			req := &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{some("shared:s,leaf:b", 20)}}
			reserve := func() reservation.Reservation {
				r, err := l.Reserve(context.Background(), req, reservation.Options{ID: "job"}, new(headgate.Response))
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			*calm = parts > 1
			r := reserve()
			if *calm = true; rapid.Bool().Draw(t, "again") {
				reserve()
			}
			*calm = false
			actual := rapid.Int64Range(0, 45).Draw(t, "actual")
			for tries := 0; ; tries++ {
				*calm = tries > 20
				outcome, err := l.Commit(context.Background(), r, used(actual), new(headgate.Response))
				if err != nil {
					t.Fatal(err)
				}
				if outcome != reservation.Undecided {
					break
				}
			}
			*calm = true
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
		got := 0
		eventually.Holds(func() bool { // what was leased may still be on its way back
			got += b.admitted(key+":x", 60)
			return got >= 33
		})
		if got > 40 || got < 33 {
			t.Errorf("%s: %d of the 40 that are left are admitted", key, got)
		}
	}
}
