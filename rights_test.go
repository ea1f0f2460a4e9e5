package headgate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

const rightsRules = `
domain: d
match: leaf
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 5, algorithm: fixed_window}}
- {key: slot, concurrency: {limit: 1, timeout: 1h, hold: id}}
- key: job
  rate_limit: {unit: hour, requests_per_unit: 5, algorithm: fixed_window}
  concurrency: {limit: 1, timeout: 1h, hold: id}
- key: busy
  concurrency: {limit: 1, timeout: 1h, hold: id}
  secondary_limits: [{name: time, concurrency: 1, over: 10s}]
- {key: free, unlimited: true}
`

// bound is a request of descriptors in domain d.
func bound(descriptors ...headgate.Descriptor) []headgate.Request {
	return []headgate.Request{{Domain: "d", Descriptors: descriptors}}
}

func doing(op store.Op, hits int64, text string) headgate.Descriptor {
	d := on(text)
	d.Op, d.Hits = op, hits
	return d
}

// TestRights: every operation, by callers with each set of rights. What is refused asks
// no store.
func TestRights(t *testing.T) {
	named := func(op store.Op, text string) headgate.Descriptor {
		d := doing(op, 1, text)
		d.Limit = limit.Must(limit.PerMinute(100))
		return d
	}
	const none, names, gives = "", headgate.RightNameLimits, headgate.RightGiveBack
	for name, c := range map[string]struct {
		needs string // the right without which it is refused
		ask   []headgate.Descriptor
	}{
		"hit":                                 {none, []headgate.Descriptor{doing(store.Hit, 1, "user:u")}},
		"peek":                                {none, []headgate.Descriptor{doing(store.Hit, 0, "user:u")}},
		"charge":                              {none, []headgate.Descriptor{doing(store.Charge, 9, "user:u")}},
		"renew":                               {none, []headgate.Descriptor{doing(store.Renew, 1, "slot:s,id:a")}},
		"release":                             {none, []headgate.Descriptor{doing(store.Release, 1, "slot:s,id:a")}},
		"refund":                              {gives, []headgate.Descriptor{doing(store.Refund, 1, "user:u")}},
		"refund of nothing":                   {none, []headgate.Descriptor{doing(store.Refund, 0, "user:u")}},
		"refund of a slot":                    {none, []headgate.Descriptor{doing(store.Refund, 1, "slot:s,id:a")}},
		"refund of a slot and time":           {none, []headgate.Descriptor{doing(store.Refund, 1, "busy:s,id:a")}},
		"refund of hits and a slot":           {gives, []headgate.Descriptor{doing(store.Refund, 1, "job:s,id:a")}},
		"refund of a slot, and of hits":       {gives, []headgate.Descriptor{doing(store.Refund, 1, "slot:s,id:a"), doing(store.Refund, 1, "user:u")}},
		"refund beside a hit":                 {gives, []headgate.Descriptor{doing(store.Hit, 1, "user:v"), doing(store.Refund, 1, "user:u")}},
		"refund of what is free":              {none, []headgate.Descriptor{doing(store.Refund, 1, "free:x")}},
		"refund that no rule knows":           {none, []headgate.Descriptor{doing(store.Refund, 1, "other:x")}},
		"reset":                               {gives, []headgate.Descriptor{doing(store.Reset, 0, "user:u")}},
		"reset of a slot":                     {gives, []headgate.Descriptor{doing(store.Reset, 0, "slot:s,id:a")}},
		"a limit":                             {names, []headgate.Descriptor{named(store.Hit, "user:u")}},
		"a limit beside a hit":                {names, []headgate.Descriptor{doing(store.Hit, 1, "user:u"), named(store.Hit, "user:u")}},
		"charge, renew, release of a limit":   {names, []headgate.Descriptor{named(store.Charge, "user:u"), named(store.Renew, "user:u"), named(store.Release, "user:u")}},
		"a limit of an operation on a bucket": {names, []headgate.Descriptor{named(store.Release, "user:u")}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, has := range []headgate.Rights{{Check: true}, {Check: true, NameLimits: true}, {Check: true, GiveBack: true}, {Check: true, NameLimits: true, GiveBack: true}} {
				seen := &recording{}
				b := newBench(t, rightsRules, headgate.Options{Store: seen})
				var told *headgate.RightsError
				door := b.limiter.Door(headgate.DoorOptions{Name: "front", Rights: has, OnRefused: func(_ *headgate.Request, e *headgate.RightsError) { told = e }})
				requests, responses := bound(c.ask...), make([]headgate.Response, 1)
				permitted := door.Permit(requests)
				err := door.Check(context.Background(), requests, responses)
				refused := c.needs == names && !has.NameLimits || c.needs == gives && !has.GiveBack
				var denied *headgate.RightsError
				if errors.As(err, &denied) != refused || (permitted != nil) != refused {
					t.Fatalf("with %+v: %v, and before %v; want refused %v", has, err, permitted, refused)
				}
				if !refused {
					if err != nil || requests[0].Origin.Front != "front" {
						t.Errorf("with %+v: %v, front %q", has, err, requests[0].Origin.Front)
					}
					continue
				}
				if denied.Right != c.needs || denied.Hint == "" || denied != told || denied.Descriptor != len(c.ask)-1 && c.needs == gives {
					t.Errorf("with %+v: %+v, told %+v", has, denied, told)
				}
				if seen.calls != 0 || len(responses[0].Verdicts) != 0 || responses[0].Allowed {
					t.Errorf("with %+v: %d calls of the store, %+v", has, seen.calls, responses[0])
				}
			}
		})
	}
}

// What one request of a batch may not do, none of them does.
func TestRightsOfABatch(t *testing.T) {
	b := newBench(t, rightsRules, headgate.Options{})
	door := b.limiter.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true}})
	requests := append(bound(on("user:u")), bound(on("user:u"), doing(store.Refund, 1, "user:w"))...)
	err := door.Check(context.Background(), requests, make([]headgate.Response, 2))
	var denied *headgate.RightsError
	if !errors.As(err, &denied) || denied.Request != 1 || denied.Descriptor != 1 {
		t.Fatalf("%v", err)
	}
	if left := b.remaining("user:u"); left != 5 {
		t.Errorf("%d left, want 5", left)
	}
	if !strings.Contains(err.Error(), "--caller-limits") {
		t.Errorf("no hint in %v", err)
	}
}

// Envoy frees slots by negative hits, and time in flight is not given back along with
// them.
func TestRightsRefundFreesSlots(t *testing.T) {
	b := newBench(t, rightsRules, headgate.Options{})
	door := b.limiter.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true}})
	ask := func(op store.Op, text string) *headgate.Response {
		t.Helper()
		responses := make([]headgate.Response, 1)
		if err := door.Check(context.Background(), bound(doing(op, 1, text)), responses); err != nil {
			t.Fatal(err)
		}
		return &responses[0]
	}
	timeLeft := func() int64 {
		peek := b.check(doing(store.Hit, 0, "busy:s"))
		return peek.Verdicts[1].Decision.Remaining
	}
	if !ask(store.Hit, "busy:s,id:a").Allowed || ask(store.Hit, "busy:s,id:b").Allowed {
		t.Fatal("not one slot")
	}
	before := timeLeft()
	if ask(store.Refund, "busy:s,id:a"); !ask(store.Hit, "busy:s,id:b").Allowed {
		t.Error("the slot was not freed")
	}
	if after := timeLeft(); after > before {
		t.Errorf("%d ms left, before the refund %d", after, before)
	}
}

// Whoever may reserve settles, and needs no other right.
func TestRightsReservation(t *testing.T) {
	b := newBench(t, rightsRules, headgate.Options{})
	door := b.limiter.Door(headgate.DoorOptions{Name: "front", Rights: headgate.Rights{Reserve: true}})
	req := &bound(doing(store.Hit, 4, "user:u"))[0]
	var resp headgate.Response
	r, err := door.Reserve(t.Context(), req, reservation.Options{}, &resp)
	if err != nil || req.Origin.Front != "front" {
		t.Fatal(err)
	}
	if out, err := door.Commit(t.Context(), r, reservation.Actual{Hits: []int64{1}}, &resp); err != nil || out != reservation.Settled {
		t.Fatal(out, err)
	}
	r, err = door.Reserve(t.Context(), req, reservation.Options{}, &resp)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := door.Cancel(t.Context(), r, &resp); err != nil || out != reservation.Settled {
		t.Fatal(out, err)
	}
	if left := b.remaining("user:u"); left != 4 {
		t.Errorf("%d left, want 4", left)
	}
	req.Descriptors[0].Limit = limit.Must(limit.PerMinute(1))
	if _, err := door.Reserve(t.Context(), req, reservation.Options{}, &resp); !errors.Is(err, reservation.ErrMalformed) {
		t.Errorf("with a limit: %v", err)
	}
}

// A refused call leaves nothing behind for the next one.
func TestRightsAreOfTheDoor(t *testing.T) {
	b := newBench(t, rightsRules, headgate.Options{})
	door := b.limiter.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true}})
	for range 3 {
		if err := door.Check(t.Context(), bound(doing(store.Refund, 1, "user:u")), make([]headgate.Response, 1)); err == nil {
			t.Fatal("a refund passes")
		}
		if !b.check(on("user:u")).Allowed {
			t.Fatal("denied")
		}
		b.by(0, store.Refund, 1, "user:u") // the program itself may
	}
	if left := b.remaining("user:u"); left != 5 {
		t.Errorf("%d left, want 5", left)
	}
	if door.Rules() != b.limiter.Rules() {
		t.Error("other rules")
	}
}

// TestRightsOfCalls: what takes a right as a whole is refused without it, is told, and asks
// no store. The other rights are no substitute.
func TestRightsOfCalls(t *testing.T) {
	every := headgate.Rights{Check: true, NameLimits: true, GiveBack: true, Reserve: true, Explain: true}
	var all headgate.Response
	for right, c := range map[string]struct {
		without headgate.Rights
		call    func(*headgate.Door) error
	}{
		headgate.RightCheck: {headgate.Rights{NameLimits: true, GiveBack: true, Reserve: true, Explain: true}, func(d *headgate.Door) error {
			return d.Check(t.Context(), bound(on("user:u")), make([]headgate.Response, 1))
		}},
		headgate.RightExplain: {headgate.Rights{Check: true, NameLimits: true, GiveBack: true, Reserve: true}, func(d *headgate.Door) error {
			return d.DryRun(t.Context(), &bound(on("user:u"))[0], new(headgate.Response), new(headgate.Response))
		}},
		headgate.RightReserve: {headgate.Rights{Check: true, NameLimits: true, GiveBack: true, Explain: true}, func(d *headgate.Door) error {
			_, err := d.Reserve(t.Context(), &bound(on("user:u"))[0], reservation.Options{}, &all)
			_, err2 := d.Commit(t.Context(), reservation.Reservation{}, reservation.Actual{}, &all)
			_, err3 := d.Cancel(t.Context(), reservation.Reservation{}, &all)
			if (err == nil) == errors.As(err2, new(*headgate.RightsError)) || errors.As(err2, new(*headgate.RightsError)) != errors.As(err3, new(*headgate.RightsError)) {
				t.Errorf("reserve %v, commit %v, cancel %v", err, err2, err3)
			}
			return err
		}},
	} {
		seen := &recording{}
		b := newBench(t, rightsRules, headgate.Options{Store: seen})
		var told []string
		open := func(r headgate.Rights) *headgate.Door {
			return b.limiter.Door(headgate.DoorOptions{Rights: r, OnRefused: func(_ *headgate.Request, e *headgate.RightsError) { told = append(told, e.Right) }})
		}
		for _, lacks := range []headgate.Rights{{}, c.without} {
			var denied *headgate.RightsError
			if err := c.call(open(lacks)); !errors.As(err, &denied) || denied.Right != right || denied.Descriptor != -1 || !strings.Contains(err.Error(), "hint") {
				t.Errorf("%s with %+v: %v", right, lacks, err)
			}
		}
		if seen.calls != 0 || len(told) < 2 || told[0] != right {
			t.Errorf("%s: %d calls of the store, told %q", right, seen.calls, told)
		}
		if err := c.call(open(every)); err != nil {
			t.Errorf("%s with every right: %v", right, err)
		}
	}
}
