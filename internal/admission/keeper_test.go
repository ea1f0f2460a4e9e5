package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// newLimiter decides by rules, or without any, by the time of the bubble that it is
// made in.
func newLimiter(t *testing.T, text string) *headgate.Limiter {
	t.Helper()
	var set *rules.Set
	if text != "" {
		var err error
		if set, err = rulefile.Load([]rulefile.File{{Name: "test.yaml", Data: []byte(text)}}, rulefile.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	buckets, err := memstore.New(memstore.Options{MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newGate(t *testing.T, o Options) *Gate {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// admit asks for user in domain api.
func admit(t *testing.T, g *Gate, user string) *Pass {
	t.Helper()
	p := &Pass{}
	p.Request().Domain = "api"
	p.Add(descriptor.Entry{Key: "user", Value: user})
	if err := g.Admit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// watched is a Checker on a line that can be watched and cut.
type watched struct {
	Checker
	mu       sync.Mutex
	cut      func(op store.Op) bool // nil: the line stands
	sizes    map[store.Op][]int     // of the calls that got through
	onReturn func(op store.Op)
}

func (w *watched) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	op := requests[0].Descriptors[0].Op
	w.mu.Lock()
	lost, onReturn := w.cut != nil && w.cut(op), w.onReturn
	if !lost {
		if w.sizes == nil {
			w.sizes = map[store.Op][]int{}
		}
		w.sizes[op] = append(w.sizes[op], len(requests))
	}
	w.mu.Unlock()
	if lost {
		return errors.New("connection reset")
	}
	err := w.Checker.Check(ctx, requests, responses)
	if onReturn != nil {
		onReturn(op)
	}
	return err
}

func (w *watched) setCut(cut func(store.Op) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

func (w *watched) setOnReturn(f func(store.Op)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onReturn = f
}

// oneSlot has a slot for each user, which ends three seconds after its holder has
// fallen silent.
const oneSlot = "domain: api\ndescriptors: [{key: user, concurrency: {limit: 1, timeout: 3s}}]\n"

// TestSlotIsHeldWhileTheCallRuns: however long that is; and it is free at its end.
func TestSlotIsHeldWhileTheCallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Options{Checker: newLimiter(t, oneSlot)})
		long := admit(t, g, "ada")
		if !long.Response().Allowed || g.Stats().Held != 1 {
			t.Fatalf("the first: %+v, %+v", long.Response(), g.Stats())
		}
		for second := range 60 {
			time.Sleep(time.Second)
			if p := admit(t, g, "ada"); p.Response().Allowed {
				t.Fatalf("after %d s another one has a slot", second+1)
			}
		}
		if other := admit(t, g, "bob"); !other.Response().Allowed {
			t.Error("bob has no slot of his own")
		} else {
			g.Release(t.Context(), other)
		}
		g.Release(t.Context(), long)
		g.Release(t.Context(), long) // once more does nothing
		next := admit(t, g, "ada")
		if !next.Response().Allowed {
			t.Error("the slot is not free at the end")
		}
		g.Release(t.Context(), next)
		if s := g.Stats(); s.Renewed < 50 || s.Renewed > 90 || s.RenewalsFailed != 0 || s.Released != 3 || s.Held != 0 {
			t.Errorf("stats %+v, want 50 to 90 renewals in 60 s and 3 released", s)
		}
	})
}

// TestRenewalThatFailsIsRepeated: a line that fails now and then loses no slot, and
// one that is cut loses it after the timeout and not before.
func TestRenewalThatFailsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := &watched{Checker: newLimiter(t, oneSlot)}
		g := newGate(t, Options{Checker: line})
		p := admit(t, g, "ada")
		renewals := 0
		line.setCut(func(op store.Op) bool {
			if op == store.Renew {
				renewals++
			}
			return op == store.Renew && renewals%2 == 0
		})
		time.Sleep(30 * time.Second)
		if admit(t, g, "ada").Response().Allowed {
			t.Error("the slot is lost though every second renewal worked")
		}
		line.setCut(func(op store.Op) bool { return op == store.Renew })
		cut := time.Now()
		for !admit(t, g, "ada").Response().Allowed {
			time.Sleep(100 * time.Millisecond)
		}
		if lasted := time.Since(cut); lasted < time.Second || lasted > 3*time.Second {
			t.Errorf("the slot of a cut line lasted %v, want 1 to 3 s", lasted)
		}
		g.Release(t.Context(), p)
		if s := g.Stats(); s.RenewalsFailed < 10 || s.Renewed < 10 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestRenewalsShareCalls: those that are due at about the same time.
func TestRenewalsShareCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := &watched{Checker: newLimiter(t, oneSlot)}
		g := newGate(t, Options{Checker: line})
		var passes []*Pass
		for i := range 250 {
			passes = append(passes, admit(t, g, fmt.Sprint("user", i)))
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(1500 * time.Millisecond)
		for _, p := range passes {
			g.Release(t.Context(), p)
		}
		if got := fmt.Sprint(line.sizes[store.Renew]); got != "[100 100 50]" {
			t.Errorf("renewals by calls of %s, want 100, 100 and 50", got)
		}
		if s := g.Stats(); s.Held != 0 || s.Released != 250 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestEndDuringRenewal: a renewal that arrives after the release would take the
// slot again.
func TestEndDuringRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := &watched{Checker: newLimiter(t, oneSlot)}
		g := newGate(t, Options{Checker: line})
		p := admit(t, g, "ada")
		released := false
		line.setOnReturn(func(op store.Op) {
			if op == store.Renew { // its answer is still on its way
				go func() {
					g.Release(t.Context(), p)
					released = true
				}()
				synctest.Wait()
				if released {
					t.Error("released before the end of the renewal")
				}
			}
		})
		time.Sleep(1200 * time.Millisecond)
		synctest.Wait()
		if !released {
			t.Error("the end of the call is held back")
		}
		if s := g.Stats(); s.Released != 1 || s.Held != 0 {
			t.Errorf("stats %+v", s)
		}
		next := admit(t, g, "ada")
		if !next.Response().Allowed {
			t.Error("the slot is not free")
		}
		line.setOnReturn(nil)
		g.Release(t.Context(), next)
	})
}

// TestReleaseIsTriedAgain: calls that end while the store is away leave no slots
// behind that are taken when it is back, and are charged the time until their end.
func TestReleaseIsTriedAgain(t *testing.T) {
	const text = `
domain: api
descriptors:
  - key: user
    concurrency: {limit: 1, timeout: 1m}
    secondary_limits: [{name: sustained, concurrency: 1, over: 1h}]
`
	synctest.Test(t, func(t *testing.T) {
		line := &watched{Checker: newLimiter(t, text)}
		g := newGate(t, Options{Checker: line})
		p, other := admit(t, g, "ada"), admit(t, g, "bob")
		time.Sleep(5 * time.Second)
		line.setCut(func(op store.Op) bool { return op == store.Release })
		g.Release(t.Context(), p)
		if s := g.Stats(); s.Held != 1 || s.Released != 0 || s.ReleasesDropped != 0 {
			t.Errorf("the store is away: %+v", s)
		}
		time.Sleep(30 * time.Second)
		if admit(t, g, "ada").Response().Allowed {
			t.Fatal("the slot is free though nobody could free it")
		}
		line.setCut(nil)
		time.Sleep(releaseAgainEvery)
		synctest.Wait()
		next := admit(t, g, "ada")
		if s := g.Stats(); !next.Response().Allowed || s.Held != 2 || s.Released != 1 || s.ReleasesDropped != 0 {
			t.Fatalf("the store is back: %+v, %+v", next.Response(), s)
		}
		for _, v := range next.Response().Verdicts {
			// A millisecond for each admission; sliding windows round up.
			if used := v.Decision.Limit - v.Decision.Remaining; v.Role == rules.Sustained && (used < 5_000 || used > 5_050) {
				t.Errorf("%d ms are charged of a call of 5 s", used)
			}
		}
		g.Release(t.Context(), next)
		g.Release(t.Context(), other)
	})
}

// TestReleaseIsGivenUp when the slots have ended by themselves, and when more wait
// for it than are kept.
func TestReleaseIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := &watched{Checker: newLimiter(t, oneSlot)}
		line.setCut(func(op store.Op) bool { return op == store.Release })
		g := newGate(t, Options{Checker: line})
		g.Release(t.Context(), admit(t, g, "ada"))
		g.keeper.mu.Lock()
		g.keeper.mu.ended += maxEnded - 1
		g.keeper.mu.Unlock()
		g.Release(t.Context(), admit(t, g, "bob"))
		if s := g.Stats(); s.ReleasesDropped != 1 {
			t.Errorf("one too many: %+v", s)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s := g.Stats(); s.ReleasesDropped != 2 || g.keeper.mu.calls.Len() != 0 || g.keeper.mu.ended != maxEnded-1 {
			t.Errorf("after the timeout: %+v, %d are left", s, g.keeper.mu.calls.Len())
		}
	})
}

// TestTooManyReleases: a store that hangs holds back so many ends of calls and no
// more; the other slots end by their timeout.
func TestTooManyReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t, oneSlot)
		hung := stuck{limiter, store.Release}
		g := newGate(t, Options{Checker: hung, MaxRefunds: 2, RefundTimeout: 70 * time.Millisecond})
		start := time.Now()
		took := map[time.Duration]int{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range 5 {
			p := admit(t, g, fmt.Sprint("user", i))
			group.Go(func() {
				g.Release(t.Context(), p)
				mu.Lock()
				defer mu.Unlock()
				took[time.Since(start)]++
			})
		}
		group.Wait()
		if took[0] != 3 || took[70*time.Millisecond] != 2 || g.Stats().ReleasesDropped != 0 {
			t.Errorf("ends took %v, want three at once and two 70 ms; %+v", took, g.Stats())
		}
		if admit(t, g, "user0").Response().Allowed {
			t.Error("a slot is free before its timeout")
		}
		time.Sleep(3 * time.Second)
		if !admit(t, g, "user0").Response().Allowed {
			t.Error("the slot is not free after its timeout")
		}
		time.Sleep(renewalTimeout) // of the last try
		synctest.Wait()
		if s := g.Stats(); s.ReleasesDropped != 5 {
			t.Errorf("stats %+v, want 5 releases given up", s)
		}
	})
}

// stuck is a Checker that does not answer one operation.
type stuck struct {
	Checker
	op store.Op
}

func (s stuck) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	if requests[0].Descriptors[0].Op == s.op {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Checker.Check(ctx, requests, responses)
}

// TestGivingUpFreesTheSlot: a call that may not wait, and one whose client goes away
// while it waits, hold nothing.
func TestGivingUpFreesTheSlot(t *testing.T) {
	const queue = `
domain: api
descriptors:
  - key: user
    rate_limit: {algorithm: leaky_queue, unit: second, requests_per_unit: 1, max_delay: 10s}
    concurrency: {limit: 2, timeout: 3s}
`
	free := func(t *testing.T, l *headgate.Limiter) int64 {
		t.Helper()
		peek := []headgate.Request{{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: "ada"}}}}}}
		resp := make([]headgate.Response, 1)
		if err := l.Check(t.Context(), peek, resp); err != nil {
			t.Fatal(err)
		}
		for _, v := range resp[0].Verdicts {
			if v.Role == rules.InFlight {
				return v.Decision.Remaining
			}
		}
		t.Fatal("no limit on concurrency")
		return 0
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, queue)
		g := newGate(t, Options{Checker: l, MaxWait: -1})
		first := admit(t, g, "ada")
		if p := admit(t, g, "ada"); p.Response().Allowed || free(t, l) != 1 || g.Stats().Held != 1 {
			t.Errorf("denied for the wait: %+v, %d free, %+v", p.Response(), free(t, l), g.Stats())
		}
		part := &Pass{Rides: true}
		part.Request().Domain, part.Request().Hold = "api", first.Request().Hold
		part.Add(descriptor.Entry{Key: "user", Value: "ada"})
		if err := g.Admit(t.Context(), part); err != nil || part.Response().Allowed || free(t, l) != 1 {
			t.Errorf("part of a call, denied for the wait: %v, %+v, %d free: the call has lost its slot", err, part.Response(), free(t, l))
		}
		patient := newGate(t, Options{Checker: l})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		p := &Pass{}
		p.Request().Domain = "api"
		p.Add(descriptor.Entry{Key: "user", Value: "ada"})
		if err := patient.Admit(ctx, p); !errors.Is(err, context.DeadlineExceeded) || free(t, l) != 1 || patient.Stats().Held != 0 {
			t.Errorf("gone while it waits: %v, %d free, %+v", err, free(t, l), patient.Stats())
		}
		g.Release(t.Context(), first)
		if got := free(t, l); got != 2 {
			t.Errorf("%d free at the end, want 2", got)
		}
	})
}

// TestPatienceAsksAnew: a call with patience that was given its hits back is charged by the next
// try, and that one alone is what is told of it.
func TestPatienceAsksAnew(t *testing.T) {
	const queue = "domain: api\ndescriptors: [{key: user, rate_limit: {algorithm: leaky_queue, unit: second, requests_per_unit: 1, max_delay: 10s}}]\n"
	user := func() *Pass {
		p := &Pass{}
		p.Request().Domain = "api"
		p.Add(descriptor.Entry{Key: "user", Value: "ada"})
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, Options{Checker: newLimiter(t, queue), MaxWait: -1})
		if p := admit(t, g, "ada"); !p.Response().Allowed {
			t.Fatalf("the first: %+v", p.Response())
		}
		p, start := user(), time.Now()
		if err := g.AdmitWithin(t.Context(), p, 3*time.Second); err != nil || !p.Response().Allowed || time.Since(start) != time.Second {
			t.Fatalf("with patience: %v, %+v after %v, want it to pass after 1s", err, p.Response(), time.Since(start))
		}
		if p := admit(t, g, "ada"); p.Response().Allowed {
			t.Error("what waited was not charged: the next one passes at the same time")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		line := &watched{Checker: newLimiter(t, queue), cut: func(store.Op) bool { return true }}
		time.AfterFunc(time.Second/2, func() { line.setCut(nil) })
		g, p := newGate(t, Options{Checker: line, FailClosed: true}), user()
		if err := g.AdmitWithin(t.Context(), p, 3*time.Second); err != nil || !p.Response().Allowed || p.Failure() != nil {
			t.Errorf("the line is back: %v, %+v, failure %v", err, p.Response(), p.Failure())
		}
	})
}

// TestTimeInFlightIsCharged: in full, however often it was renewed, and also where
// renewals were lost.
func TestTimeInFlightIsCharged(t *testing.T) {
	const sustained = "domain: api\ndescriptors: [{key: user, secondary_limits: [{name: sustained, concurrency: 1, over: 100s}]}]\n"
	for _, lossy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			line := &watched{Checker: newLimiter(t, sustained)}
			if lossy {
				n := 0
				line.setCut(func(op store.Op) bool { n++; return op == store.Renew && n%2 == 0 })
			}
			g := newGate(t, Options{Checker: line})
			p := admit(t, g, "ada")
			time.Sleep(47 * time.Second)
			g.Release(t.Context(), p)
			v := admit(t, g, "ada").Response().Verdicts[0]
			// One millisecond for each admission; sliding windows round up.
			if used := v.Decision.Limit - v.Decision.Remaining; used < 47_000 || used > 47_050 {
				t.Errorf("lossy %v: %d ms charged, want 47 s; %+v", lossy, used, g.Stats())
			}
		})
	}
}

// TestMaxHeld: one more call than can be renewed is let in and releases its slot.
func TestMaxHeld(t *testing.T) {
	g := newGate(t, Options{Checker: newLimiter(t, oneSlot)})
	never := time.Now().Add(1000 * time.Hour)
	for range maxHeld {
		g.keeper.mu.calls.Push(&held{due: never, every: time.Hour})
	}
	p := admit(t, g, "ada")
	if s := g.Stats(); !p.Response().Allowed || s.Unrenewed != 1 || s.Held != maxHeld {
		t.Errorf("%+v, stats %+v", p.Response(), s)
	}
	g.Release(t.Context(), p)
	if p := admit(t, g, "ada"); !p.Response().Allowed || g.Stats().Released != 1 {
		t.Errorf("after it: %+v, stats %+v", p.Response(), g.Stats())
	}
}

// TestLimitsWithoutRulesHold: a list of limits may have one on concurrency, which
// needs no period of its own, and no ban.
func TestLimitsWithoutRulesHold(t *testing.T) {
	limits, err := NewLimits([]rules.NamedLimit{
		{Limit: limit.Must(limit.PerMinute(100))},
		{Limit: limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 1, Period: time.Minute})},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, Options{Checker: newLimiter(t, "")})
	ask := func() *Pass {
		p := &Pass{Limits: limits}
		p.Request().Domain = headgate.CallerDomain
		p.Add(descriptor.Entry{Key: "user", Value: "ada"})
		if err := g.Admit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second := ask(), ask()
	v := second.Response().Speaker()
	if !first.Response().Allowed || second.Response().Allowed || v.Name != "concurrency" || v.Role != rules.InFlight {
		t.Errorf("first %+v\nsecond %+v", first.Response(), second.Response())
	}
	g.Release(t.Context(), first)
	if p := ask(); !p.Response().Allowed {
		t.Errorf("after the release: %+v", p.Response())
	}
	ban := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 1, Period: time.Minute, BanFor: time.Minute})
	if _, err := NewLimits([]rules.NamedLimit{{Limit: ban}}); err == nil {
		t.Error("a ban without rules is taken")
	}
}

// TestNothingIsHeldWhereRulesHoldNothing: no number is drawn, nothing is released.
func TestNothingIsHeldWhereRulesHoldNothing(t *testing.T) {
	l := newLimiter(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]\n")
	g := newGate(t, Options{Checker: l})
	p := admit(t, g, "ada")
	if p.Request().Hold != 0 || p.held != nil {
		t.Errorf("hold %d of rules that hold nothing", p.Request().Hold)
	}
	g.Release(t.Context(), p)
	set := testrules.Load(t, oneSlot)
	l.SetRules(set) // and now they do
	if p := admit(t, g, "ada"); p.Request().Hold == 0 || p.held == nil {
		t.Error("new rules hold, but nothing is held")
	}
}
