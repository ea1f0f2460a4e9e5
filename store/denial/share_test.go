package denial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// pool is what store.Sharer promises, in memory, at the clock of a bench. Redis has a
// test of its own for the same.
type pool struct {
	clock  *clock
	aside  time.Duration // by which its clock is ahead
	salt   byte
	all    map[store.SharedName]store.Shared
	fail   error
	calls  int
	delay  time.Duration // of each half of a call
	broken bool          // texts are of another form
}

func (p *pool) now() limit.Micros { return limit.MicrosOf(p.clock.now().Add(p.aside)) }

func (p *pool) Share(_ context.Context, told []store.Shared) (store.Sharing, error) {
	p.calls++
	p.clock.advance(p.delay)
	defer p.clock.advance(p.delay)
	if p.fail != nil {
		return store.Sharing{}, p.fail
	}
	for _, one := range told {
		if known, found := p.all[one.Name]; !found || known.Until < one.Until {
			p.all[one.Name] = one
		}
	}
	maps.DeleteFunc(p.all, func(_ store.SharedName, one store.Shared) bool { return one.Until <= p.now() })
	sharing := store.Sharing{Now: p.now(), Salt: [16]byte{p.salt, 1}}
	for _, one := range p.all {
		if p.broken {
			one.Text = append([]byte{99}, one.Text...)
		}
		sharing.All = append(sharing.All, one)
	}
	return sharing, nil
}

// crew is some nodes that share denials, over one memory store at one clock.
type crew struct {
	t      testing.TB
	clock  *clock
	shared *memstore.Store
	pool   *pool
	nodes  []*bench
}

func newCrew(t testing.TB, nodes int) *crew {
	c := &crew{t: t, clock: new(clock)}
	c.shared = newMemstore(t, c.clock)
	c.pool = &pool{clock: c.clock, all: map[store.SharedName]store.Shared{}, aside: 1234 * time.Second}
	for range nodes {
		inner := &counted{Store: c.shared}
		c.nodes = append(c.nodes, &bench{Store: New(inner, Options{Now: c.clock.now, Sharer: c.pool, MaxEntries: 1024}), inner: inner, clock: c.clock, t: t})
	}
	c.clock.advance(time.Second)
	c.exchange() // from here on all know the store's clock
	return c
}

func (c *crew) exchange() {
	for _, n := range c.nodes {
		n.Exchange(c.t.Context())
	}
}

// attack uses the key k up and has the first node denied for it often.
func (c *crew) attack() {
	c.nodes[0].batch(hit("k", fixedDay, fixedDay.Capacity()))
	for range shareAfter + 2 {
		if c.nodes[0].batch(hit("k", fixedDay, 1))[0].Allowed {
			c.t.Fatal("a hit beyond the limit passes")
		}
	}
}

var (
	fixedDay = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: 24 * time.Hour})
	otherDay = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 11, Period: 24 * time.Hour})
	sameDay  = limit.Must(fixedDay.Spec)
)

// A node that was never asked for the key denies it without a call, for as long as the
// node that has asked.
func TestD5DenialsAreShared(t *testing.T) {
	c := newCrew(t, 2)
	a, b := c.nodes[0], c.nodes[1]
	c.attack()
	c.clock.advance(300 * time.Millisecond)
	c.exchange()
	if res := b.batch(hit("k", sameDay, 1))[0]; res.Allowed || b.inner.takes != 0 {
		t.Fatalf("the other node asked %d times: %+v", b.inner.takes, res)
	}
	want, got := a.batch(hit("k", fixedDay, 1))[0], b.batch(hit("k", sameDay, 1))[0]
	if early := want.RetryAfter - got.RetryAfter; early < 0 || early > 10*time.Millisecond {
		t.Errorf("the other node says %+v, and the first %+v", got, want)
	}
	c.clock.advance(2*time.Second - 300*time.Millisecond)
	b.batch(hit("k", sameDay, 1))
	if b.inner.takes != 1 {
		t.Errorf("two seconds after the question the other node asked %d times, want 1", b.inner.takes)
	}
	if st := b.Stats(); st.Heard != 1 || a.Stats().Told != 1 {
		t.Errorf("heard %d, told %d", st.Heard, a.Stats().Told)
	}
}

// What is not a denial of the store that lasts and is asked for often is not told, and
// who asks for another thing hears nothing.
func TestWhatIsNotShared(t *testing.T) {
	countDenied := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: 24 * time.Hour, CountDenied: true})
	short := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: 400 * time.Millisecond})
	mode := func(m store.Mode) func(*store.Take) { return func(t *store.Take) { t.Mode = &m } }
	for name, tt := range map[string]struct {
		l    *limit.Limit
		told func(*store.Take)
		ask  func(*store.Take)
		asks int // 0 is often
		want int // takes that are asked on the other node
	}{
		"all is well":         {l: fixedDay, want: 0},
		"more hits":           {l: fixedDay, ask: func(t *store.Take) { t.Hits = 5 }, want: 0},
		"another key":         {l: fixedDay, ask: func(t *store.Take) { t.Key = []byte("j") }, want: 1},
		"another limit":       {l: fixedDay, ask: func(t *store.Take) { t.Limit = otherDay }, want: 1},
		"few asks":            {l: fixedDay, asks: shareAfter - 1, want: 1},
		"a short denial":      {l: short, want: 1},
		"counts what denied":  {l: countDenied, want: 1},
		"leased":              {l: fixedDay, told: mode(store.Mode{Consistency: store.Leased}), want: 1},
		"synced":              {l: fixedDay, told: mode(store.Mode{Consistency: store.Synced}), want: 1},
		"local":               {l: fixedDay, told: mode(store.Mode{Consistency: store.Local}), want: 1},
		"local hears nothing": {l: fixedDay, ask: mode(store.Mode{Consistency: store.Local}), want: 1},
		"asks always":         {l: fixedDay, ask: mode(store.Mode{AskAlways: true}), want: 1},
		"a peek":              {l: fixedDay, ask: func(t *store.Take) { t.Hits = 0 }, want: 1},
		"a dry run":           {l: fixedDay, ask: func(t *store.Take) { t.DryRun = true }, want: 1},
		"exact mode":          {l: fixedDay, told: mode(store.Mode{Rule: "r"}), ask: mode(store.Mode{Rule: "r", AutoLease: true}), want: 0},
	} {
		c := newCrew(t, 2)
		take := hit("k", tt.l, 1)
		if tt.told != nil {
			tt.told(&take)
		}
		c.nodes[0].batch(hit("k", tt.l, 10))
		asks := tt.asks
		if asks == 0 {
			asks = 2 * shareAfter
		}
		for range asks + 1 { // the first is asked
			c.nodes[0].batch(take)
		}
		c.exchange()
		take = hit("k", tt.l, 1)
		if tt.ask != nil {
			tt.ask(&take)
		}
		if c.nodes[1].batch(take); c.nodes[1].inner.takes != tt.want {
			t.Errorf("%s: the other node asked %d times, want %d", name, c.nodes[1].inner.takes, tt.want)
		}
	}
}

// Refunds and resets through the hearing node count at once, and those through another
// within the time for which a denial is remembered.
func TestSharedDenialsEndWithARefund(t *testing.T) {
	for _, op := range []store.Op{store.Refund, store.Reset} {
		for node := range 3 {
			c := newCrew(t, 3)
			c.attack()
			c.exchange()
			give := store.Take{Key: []byte("k"), Limit: fixedDay, Hits: 10, Op: op}
			c.nodes[node].batch(give)
			c.exchange()
			if res := c.nodes[node].batch(hit("k", fixedDay, 1))[0]; !res.Allowed {
				t.Errorf("op %d through node %d is not seen there: %+v", op, node, res)
			}
			c.clock.advance(2 * time.Second)
			for i, n := range c.nodes {
				c.exchange()
				if !n.batch(hit("k", fixedDay, 1))[0].Allowed {
					t.Errorf("op %d through node %d is not seen by node %d after two seconds", op, node, i)
				}
			}
		}
	}
}

// A node whose lease lets hits pass knows better than those that the store denies.
func TestLeasesAreBelievedBeforeOthers(t *testing.T) {
	c := newCrew(t, 2)
	c.attack()
	b := c.nodes[1]
	leases := &ahead{basis: store.OnAdvance}
	served := New(passing{leases}, Options{Now: c.clock.now, Sharer: c.pool})
	served.Exchange(t.Context())
	served.Take(t.Context(), []store.Take{hit("k", fixedDay, 1)}, make([]store.Result, 1))
	c.exchange()
	served.Exchange(t.Context())
	served.Take(t.Context(), []store.Take{hit("k", fixedDay, 1)}, make([]store.Result, 1))
	if leases.calls != 2 {
		t.Errorf("%d of 2 hits were decided by the lease", leases.calls)
	}
	if b.batch(hit("k", fixedDay, 1)); b.inner.takes != 0 {
		t.Error("a node without a lease asks")
	}
}

// passing lets all pass as a lease does.
type passing struct{ *ahead }

func (p passing) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	p.ahead.Take(ctx, takes, results)
	for i := range results {
		results[i].Allowed = true
	}
}

// An attack by way of all nodes costs one call in a second or so, whoever is asked, and a
// node that dies is followed by another.
func TestD5AttackOnAllNodes(t *testing.T) {
	c := newCrew(t, 5)
	c.attack()
	c.exchange()
	asked := func() (n int) {
		for _, node := range c.nodes {
			n += node.inner.takes
		}
		return n
	}
	run := func(seconds int) int {
		before := asked()
		for i := range seconds * 200 {
			c.clock.advance(5 * time.Millisecond)
			for j, n := range c.nodes {
				if n.batch(hit("k", fixedDay, 1))[0].Allowed {
					t.Fatal("a denied key passes")
				}
				if (i+16*j)%80 == 0 { // each 400 ms
					n.Exchange(t.Context())
				}
			}
		}
		return asked() - before
	}
	run(4)
	if calls := run(60); calls > 62 {
		t.Errorf("%d calls in a minute", calls)
	}
	c.nodes = c.nodes[1:] // the first one dies
	run(4)
	if calls := run(60); calls > 62 {
		t.Errorf("%d calls in a minute when one has died", calls)
	}
}

// An exchange that fails, and one that speaks another language, change nothing.
func TestExchangesMayFail(t *testing.T) {
	c := newCrew(t, 2)
	c.attack()
	c.exchange()
	c.pool.fail = errors.New("away")
	if _, err := c.nodes[1].Exchange(t.Context()); err == nil {
		t.Error("no error")
	}
	if c.nodes[1].batch(hit("k", fixedDay, 1)); c.nodes[1].inner.takes != 0 {
		t.Error("what was heard is forgotten since the next exchange failed")
	}
	c.clock.advance(2 * time.Second)
	if c.nodes[1].batch(hit("k", fixedDay, 1)); c.nodes[1].inner.takes != 1 {
		t.Error("what was heard does not end")
	}
	if st := c.nodes[1].Stats(); st.ShareFailures != 1 {
		t.Errorf("%d failures", st.ShareFailures)
	}
	d := newCrew(t, 2)
	d.pool.broken = true
	d.attack()
	d.exchange()
	if d.nodes[1].batch(hit("k", fixedDay, 1)); d.nodes[1].inner.takes != 1 {
		t.Error("a text of another version is believed")
	}
}

// A store whose clock is set, or that has another salt, is heard anew.
func TestSharedDenialsAndTheStoresClock(t *testing.T) {
	for name, change := range map[string]func(p *pool){
		"forward":  func(p *pool) { p.aside += time.Hour },
		"back":     func(p *pool) { p.aside -= time.Hour },
		"a little": func(p *pool) { p.aside -= 400 * time.Millisecond },
		"salt":     func(p *pool) { p.salt++ },
		"slow":     func(p *pool) { p.delay = 100 * time.Millisecond },
	} {
		c := newCrew(t, 2)
		change(c.pool)
		began := c.clock.nanos.Load()
		c.attack()
		c.exchange()
		change(c.pool)
		c.exchange()
		for c.nodes[1].inner.takes == 0 {
			c.nodes[1].batch(hit("k", fixedDay, 1))
			c.clock.advance(time.Millisecond)
		}
		if took := time.Duration(c.clock.nanos.Load() - began); took > 2*DefaultLongest+2*time.Second {
			t.Errorf("%s: a denial is believed for %v", name, took)
		}
	}
}

// Whatever nodes ask and give back: where nothing has made room for as long as a denial is
// remembered, no node denies what the store would let pass.
func TestSharedDenialsAreTheStores(t *testing.T) {
	limits := []*limit.Limit{fixedDay, bucket, limit.Must(limit.PerMinute(10)), limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: 3 * time.Second})}
	heard := uint64(0)
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := newCrew(t, 3)
		c.pool.delay = time.Duration(r.IntN(20)) * time.Millisecond
		room := map[string]int64{} // when something made room last
		for range 4000 {
			c.clock.advance(time.Duration(r.IntN(15)) * time.Millisecond)
			n := c.nodes[r.IntN(len(c.nodes))]
			k := r.IntN(len(limits))
			key, l, now := fmt.Sprint("k", k), limits[k], c.clock.nanos.Load()
			switch r.IntN(40) {
			case 0, 1, 2:
				n.Exchange(t.Context())
			case 3:
				n.batch(store.Take{Key: []byte(key), Limit: l, Hits: 1 + r.Int64N(3), Op: store.Refund})
				room[key] = now
			case 4:
				if r.IntN(5) == 0 {
					n.batch(store.Take{Key: []byte(key), Limit: l, Op: store.Reset})
					room[key] = now
				}
			default:
				before := n.inner.takes
				dry := c.shared.TakeOne(key, l, 0)
				var res store.Result
				for range 1 + r.IntN(30) {
					dry = c.shared.TakeOne(key, l, 0)
					before = n.inner.takes
					res = n.batch(hit(key, l, 1))[0]
				}
				since := time.Duration(now - room[key])
				if !res.Allowed && n.inner.takes == before && dry.Remaining > 0 && since > DefaultLongest {
					t.Fatalf("seed %d: %v after the last refund %s is denied, and the store has %d left", seed, since, key, dry.Remaining)
				}
			}
		}
		for _, n := range c.nodes {
			heard += n.Stats().Heard
		}
	}
	if heard < 10 {
		t.Errorf("others were heard %d times", heard)
	}
}

func TestNamesTellLimitsApart(t *testing.T) {
	spec := limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour}
	base, names := limit.Must(spec), map[store.SharedName]string{}
	month, err := limit.NewCalendar(limit.CalendarMonth, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	day, err := limit.NewCalendar(limit.CalendarDay, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]limit.Spec{
		"base": spec, "quota": {Algorithm: limit.FixedWindow, Quota: 11, Period: time.Hour}, "period": {Algorithm: limit.FixedWindow, Quota: 10, Period: time.Minute},
		"algorithm": {Quota: 10, Period: time.Hour}, "burst": {Algorithm: limit.GCRA, Quota: 10, Period: time.Hour, Burst: 3}, "gcra": {Algorithm: limit.GCRA, Quota: 10, Period: time.Hour},
		"month": {Algorithm: limit.FixedWindow, Quota: 10, Calendar: month}, "day": {Algorithm: limit.FixedWindow, Quota: 10, Calendar: day},
		"parts": {Algorithm: limit.SubWindows, Quota: 10, Period: time.Hour}, "strict": {Algorithm: limit.SubWindows, Quota: 10, Period: time.Hour, Strict: true},
		"counted": {Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour, CountDenied: true}, "carry": {Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour, Carry: limit.CarryShare},
	} {
		n := nameUnder(&[16]byte{1}, []byte("k"), limit.Must(s))
		if other, found := names[n]; found {
			t.Errorf("%s and %s have one name", name, other)
		}
		names[n] = name
	}
	for _, salt := range []byte{1, 2} {
		for _, key := range []string{"k", "j", string(slices.Repeat([]byte("k"), 300))} {
			n := nameUnder(&[16]byte{salt}, []byte(key), base)
			if salt == 1 && key == "k" != (names[n] == "base") {
				t.Errorf("salt %d, key %.9s: the name of %q", salt, key, names[n])
			}
		}
	}
}

func FuzzParseDenial(f *testing.F) {
	f.Add(appendDenial(nil, 7, &entry{until: int64(2 * time.Second), hits: 3, decision: limit.Decision{Limit: 10, RetryAfter: time.Hour, ResetAfter: time.Minute}}))
	f.Add([]byte{toldVersion, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		teller, e, err := parseDenial(b)
		if err != nil {
			return
		}
		again, e2, err := parseDenial(appendDenial(nil, teller, e))
		if err != nil || again != teller || e2.hits != e.hits || e2.until != e.until || e2.decision != e.decision {
			t.Errorf("%x is read as %+v, and then as %+v, %v", b, e, e2, err)
		}
	})
}
