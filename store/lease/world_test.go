package lease_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/memstore"
)

// world is a shared store and the nodes around it, in virtual time: it is made
// inside a synctest bubble. All that happens by chance comes from its seed.
type world struct {
	t      testing.TB
	limit  *limit.Limit
	shared *memstore.Store
	// ideal decides the same arrivals one by one, at once and with no network.
	ideal *memstore.Store
	// aside moves the store's clock against that of the nodes.
	aside time.Duration
	// stepAt is when the store's clock is set, by stepBy; zero is never. Both are set
	// before the nodes begin.
	stepAt time.Time
	stepBy time.Duration
	delay  time.Duration // mean time to the store and back
	seed   uint64

	mu     sync.Mutex
	passed []int64 // µs of the store's clock
	left   int64   // the most that the store had left at a denial
	asked  atomic.Int64
	wanted atomic.Int64 // what ideal lets pass
	errs   atomic.Int64
	// denied counts denials, wrong those while the store had hits left.
	denied, wrong atomic.Int64
}

func newWorld(t testing.TB, l *limit.Limit, seed uint64) *world {
	w := &world{t: t, limit: l, seed: seed, aside: 17*time.Second + 300*time.Millisecond, delay: time.Millisecond}
	for _, s := range []**memstore.Store{&w.shared, &w.ideal} {
		opened, err := memstore.New(memstore.Options{MaxBytes: 1 << 20, Now: w.storeNow})
		if err != nil {
			t.Fatal(err)
		}
		*s = opened
	}
	return w
}

func (w *world) storeNow() limit.Micros {
	now := time.Now()
	if !w.stepAt.IsZero() && !now.Before(w.stepAt) {
		now = now.Add(w.stepBy)
	}
	return limit.MicrosOf(now.Add(w.aside))
}

// link is the way of one node to the shared store.
type link struct {
	w    *world
	mu   sync.Mutex
	rand *rand.Rand
	// cut keeps every question from arriving, mute every answer from coming back.
	cut, mute atomic.Bool
	calls     atomic.Int64
	faults    faults // under mu
}

// faults are parts of the questions: loss of those that are lost, half of them
// after they were answered, twice of those that arrive twice, late of those that
// arrive when nobody waits any more.
type faults struct{ loss, twice, late float64 }

var errLost = errors.New("lost")

// asked is put into the context of a take: when the store decided it.
type asked struct{ at atomic.Int64 }

type askedKey struct{}

func (w *world) link(node int) *link {
	return &link{w: w, rand: rand.New(rand.NewPCG(w.seed, uint64(node)))}
}

// trip sleeps half a round trip, or until ctx ends.
func (k *link) trip(ctx context.Context) error {
	k.mu.Lock()
	d := time.Duration(float64(k.w.delay) / 2 * (0.5 + k.rand.ExpFloat64()/2))
	k.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *link) setFaults(f faults) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = f
}

// fate draws what happens to one question.
func (k *link) fate() (lostThere, lostBack, twice, late bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.faults
	if f == (faults{}) {
		return false, false, false, false
	}
	return k.rand.Float64() < f.loss/2, k.rand.Float64() < f.loss/2, k.rand.Float64() < f.twice, k.rand.Float64() < f.late
}

// call runs do at the store, once, twice or not at all, and reports whether its
// answer comes back.
func (k *link) call(ctx context.Context, do func()) error {
	k.calls.Add(1)
	lostThere, lostBack, twice, late := k.fate()
	if err := k.trip(ctx); err != nil {
		return err
	}
	if late {
		time.AfterFunc(k.w.delay*300, do)
	}
	if late || lostThere || k.cut.Load() {
		return k.lose(ctx)
	}
	do()
	if twice {
		do()
	}
	if lostBack || k.mute.Load() {
		return k.lose(ctx)
	}
	return k.trip(ctx)
}

// lose waits for what never comes.
func (k *link) lose(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		return errLost
	}
	<-ctx.Done()
	return errLost
}

func lost(err error) error {
	return &store.Error{Op: "take", Store: "shared", Reason: store.Timeout, Err: err}
}

func (k *link) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	takes = slices.Clone(takes)
	answers := make([]store.Result, len(takes))
	err := k.call(ctx, func() {
		answers = make([]store.Result, len(takes))
		if a, ok := ctx.Value(askedKey{}).(*asked); ok {
			a.at.Store(int64(k.w.storeNow()))
		}
		k.w.shared.Take(ctx, takes, answers)
	})
	for i := range results {
		if results[i] = (store.Result{Err: lost(err)}); err == nil {
			results[i] = answers[i]
		}
	}
}

func (k *link) Lease(ctx context.Context, requests []store.LeaseRequest, grants []store.Grant) {
	requests = slices.Clone(requests)
	answers := make([]store.Grant, len(requests))
	err := k.call(ctx, func() {
		answers = make([]store.Grant, len(requests))
		k.w.shared.Lease(ctx, requests, answers)
	})
	for i := range grants {
		if grants[i] = (store.Grant{Err: lost(err)}); err == nil {
			grants[i] = answers[i]
		}
	}
}

func (k *link) Close() error { return nil }

// node is one node of the fleet.
type node struct {
	w         *world
	link      *link
	store     *lease.Store
	top       store.Store // what is asked: store, or what stands over it
	mode      *store.Mode
	rate      float64 // asks per second
	rand      *rand.Rand
	dead      atomic.Bool
	wg        sync.WaitGroup
	suspended atomic.Pointer[suspension]
}

// suspension is a time in which a machine stands still, and with it its
// monotonic clock.
type suspension struct{ from, to time.Time }

// now is the time as the monotonic clock of the node has it.
func (n *node) now() time.Time {
	now, s := time.Now(), n.suspended.Load()
	switch {
	case s == nil || now.Before(s.from):
		return now
	case now.Before(s.to):
		return s.from
	}
	return now.Add(-s.to.Sub(s.from))
}

func (w *world) node(i, nodes int, mode *store.Mode, rate float64) *node {
	n := &node{w: w, link: w.link(i), mode: mode, rate: rate, rand: rand.New(rand.NewPCG(w.seed, uint64(1000+i)))}
	fleet := func() int { return nodes }
	o := lease.Options{Store: n.link, Nodes: fleet, Now: n.now, Wall: time.Now}
	if mode != nil && mode.AutoLease {
		o.Hot = hotkey.New(hotkey.Options{Nodes: fleet})
	}
	n.store = lease.New(o)
	n.top = n.store
	return n
}

// live asks at random instants, rate times a second, until the time is over.
func (n *node) live(end time.Time) {
	for {
		gap := time.Duration(n.rand.ExpFloat64() / n.rate * float64(time.Second))
		time.Sleep(gap)
		if !time.Now().Before(end) || n.dead.Load() {
			return
		}
		n.w.wanted.Add(b2i(n.w.ideal.TakeOne("k", n.w.limit, 1).Allowed))
		if s := n.suspended.Load(); s != nil {
			time.Sleep(time.Until(s.to))
		}
		n.wg.Go(n.ask)
	}
}

// inWorld runs test with one node of a fleet of nodes, in a bubble.
func inWorld(t *testing.T, nodes int, test func(w *world, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, 1)
		n := w.node(0, nodes, nil, 1)
		test(w, n)
		conserved(t, n.store.Stats())
		n.store.Close()
		time.Sleep(2 * lease.DefaultBudget) // the last questions end
	})
}

// passes takes t and says whether it passes.
func (n *node) passes(t store.Take) bool {
	var results [1]store.Result
	n.store.Take(context.Background(), []store.Take{t}, results[:])
	if results[0].Err != nil {
		n.w.t.Error(results[0].Err)
	}
	return results[0].Allowed
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (n *node) ask() {
	a := new(asked)
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), askedKey{}, a), 50*time.Millisecond)
	defer cancel()
	takes := [1]store.Take{{Key: []byte("k"), Limit: n.w.limit, Hits: 1, Mode: n.mode}}
	var results [1]store.Result
	n.top.Take(ctx, takes[:], results[:])
	n.w.asked.Add(1)
	if results[0].Err != nil {
		n.w.errs.Add(1)
		return
	}
	if !results[0].Allowed {
		n.w.denied.Add(1)
		left := n.w.shared.TakeOne("k", n.w.limit, 0).Remaining
		n.w.wrong.Add(b2i(left > 0))
		n.w.mu.Lock()
		n.w.left = max(n.w.left, left)
		n.w.mu.Unlock()
		return
	}
	at := a.at.Load()
	if at == 0 {
		at = int64(n.w.storeNow())
	}
	n.w.mu.Lock()
	n.w.passed = append(n.w.passed, at)
	n.w.mu.Unlock()
}

// excess is by how many hits the most crowded interval is over what l lets pass
// in its length: the quota or burst and the rate times the length; for the fixed
// window the quota in each window.
func excess(l *limit.Limit, passed []int64) int64 {
	slices.Sort(passed)
	if l.Algorithm == limit.FixedWindow {
		return crowded(l, passed)
	}
	burst := l.Quota
	if l.Algorithm.IsBucket() {
		burst = l.Burst
	}
	// i hits before one at t, j at u: j-i+1 <= burst + rate*(u-t).
	rate := float64(l.Quota) / float64(l.Period.Microseconds())
	least, worst := math.Inf(1), 0.0
	for i, at := range passed {
		f := float64(i) - rate*float64(at-passed[0])
		least = min(least, f)
		worst = max(worst, f-least+1-float64(burst))
	}
	return int64(worst + 1e-6)
}

// crowded is by how many hits the fullest of the windows that are aligned to the
// epoch is over the quota. The hits are in order.
func crowded(l *limit.Limit, passed []int64) (worst int64) {
	count, period := int64(0), l.Period.Microseconds()
	for i, at := range passed {
		if i == 0 || at/period != passed[i-1]/period {
			count = 0
		}
		count++
		worst = max(worst, count-l.Quota)
	}
	return worst
}
