package redisstore

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/coalesce"
	"github.com/headgate/headgate/store/spread"
)

var (
	replayed   = flag.Int("replay", 100_000, "decisions that TestReplay compares with the model")
	replaySeed = flag.Uint64("replayseed", 0, "seed of what TestReplay asks for; 0 draws one")
)

const (
	// replayCallers is how many ask at one time, replayKeys how many buckets
	// they meet in, of which every other take is on the first.
	replayCallers, replayKeys = 32, 240
	// replayRound is how many decisions are recorded between two comparisons.
	replayRound = 50_000
)

// recorded is one script call: when it was decided, by Redis's clock, and what
// was asked and answered in it.
type recorded struct {
	now     limit.Micros
	takes   []store.Take
	results []store.Result
}

// recorder notes the script calls of a store.
type recorder struct {
	mu    sync.Mutex
	calls []recorded
	keys  map[string][]byte // one copy of each key
}

// watch puts r between the coalescer of s and its script calls: what it records
// has been joined by the one and is merged by the other.
func (r *recorder) watch(s *Store) {
	r.keys = map[string][]byte{}
	s.only.takes = coalesce.New(coalesce.Takes(costOf), func(ctx context.Context, takes []store.Take, results []store.Result) {
		deadline, _ := ctx.Deadline()
		for part := (spread.Part{Takes: takes, Results: results}); len(part.Takes) > 0; {
			c := s.nextCall(s.only, &part, deadline)
			c.run(ctx)
			s.finish(ctx, c)
			if c.err == nil {
				r.record(c.now, c.body.(*takeBody))
			}
		}
	}, coalesce.Options{MaxCost: maxKeys})
}

// record copies what one call was about.
func (r *recorder) record(now limit.Micros, body *takeBody) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := recorded{now: now, takes: slices.Clone(body.takes), results: slices.Clone(body.results)}
	for i := range call.takes {
		key, ok := r.keys[string(call.takes[i].Key)]
		if !ok {
			key = slices.Clone(call.takes[i].Key)
			r.keys[string(key)] = key
		}
		call.takes[i].Key = key
	}
	r.calls = append(r.calls, call)
}

// ordered returns the calls since the last time in the order of their instants,
// which is that of their execution: a script takes longer than a microsecond.
func (r *recorder) ordered() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	slices.SortStableFunc(calls, func(a, b recorded) int { return cmp.Compare(a.now, b.now) })
	return calls
}

// TestReplay records what many callers are told by a real Redis in real time, and
// demands that each decision is, to the bit, what the plain model says when it
// goes through the script calls in their order at their instants.
func TestReplay(t *testing.T) {
	seed := *replaySeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	server := testserver.Redis(t, testserver.RedisConfig{})
	s := open(t, Options{Addr: server.Addr})
	var r recorder
	r.watch(s)
	model := &replayModel{model: model{states: map[string]limit.State{}}, until: map[string]limit.Micros{}}
	limits := replayLimits()
	start, decisions := time.Now(), *replayed
	if racetest.Enabled {
		decisions /= 10
	}
	for round := uint64(0); model.decisions < decisions; round++ {
		before := model.decisions
		askForReplay(t, s, limits, seed, round, min(replayRound, decisions-before))
		for calls := r.ordered(); len(calls) > 0; {
			n := 1
			for n < len(calls) && calls[n].now == calls[0].now {
				n++
			}
			if err := model.follow(calls[:n]); err != nil {
				t.Fatalf("seed %d, round %d, after %d decisions: %v", seed, round, model.decisions, err)
			}
			calls = calls[n:]
		}
		if model.decisions == before {
			t.Fatal("nothing was recorded")
		}
	}
	if model.denied == 0 || model.grouped == 0 || model.merged == 0 {
		t.Errorf("of %d decisions %d were denials, %d in groups, %d joined with others on their key: the load shows too little",
			model.decisions, model.denied, model.grouped, model.merged)
	}
	stats := s.only.takes.Stats()
	t.Logf("%d decisions of %d callers in %d script calls equal the model: %d denied, %d in groups, %d joined with others on their key, %d calls in the same microsecond as another; seed %d, %v",
		model.decisions, stats.Callers, model.calls, model.denied, model.grouped, model.merged, model.ties, seed, time.Since(start).Round(time.Second))
}

// replayLimits returns limits of all algorithms with periods so short that their
// windows roll over and their buckets drain while the test runs.
func replayLimits() []*limit.Limit {
	calendar, err := limit.NewCalendar(limit.CalendarDay, "Asia/Kolkata")
	if err != nil {
		panic(err)
	}
	specs := []limit.Spec{
		{Quota: 300, Period: 100 * time.Millisecond},
		{Quota: 7, Period: 300 * time.Millisecond, CountDenied: true},
		{Algorithm: limit.FixedWindow, Quota: 40, Period: 50 * time.Millisecond},
		{Algorithm: limit.FixedWindow, Quota: 10_000, Calendar: calendar},
		{Algorithm: limit.SubWindows, Quota: 100, Period: 200 * time.Millisecond, SubWindows: 7},
		{Algorithm: limit.SubWindows, Quota: 30, Period: time.Second, Strict: true},
		{Algorithm: limit.SlidingLog, Quota: 20, Period: 150 * time.Millisecond},
		{Algorithm: limit.TokenBucket, Quota: 100, Period: 97 * time.Millisecond, Burst: 25},
		{Algorithm: limit.LeakyBucket, Quota: 700, Period: time.Second},
		{Algorithm: limit.LeakyQueue, Quota: 300, Period: time.Second, MaxDelay: 20 * time.Millisecond},
		{Algorithm: limit.GCRA, Quota: 1_000, Period: 1_009 * time.Millisecond, Burst: 3},
		{Quota: 1 << 40, Period: time.Hour},
		{Algorithm: limit.Concurrency, Quota: 6, Period: 80 * time.Millisecond},
		{Algorithm: limit.Ban, Quota: 5, Period: 60 * time.Millisecond, BanFor: 40 * time.Millisecond},
	}
	limits := make([]*limit.Limit, len(specs))
	for i, spec := range specs {
		limits[i] = limit.Must(spec)
	}
	return limits
}

// askForReplay has callers ask for about that many decisions and waits for them.
func askForReplay(t *testing.T, s *Store, limits []*limit.Limit, seed, round uint64, decisions int) {
	var (
		group sync.WaitGroup
		left  atomic.Int64
	)
	left.Store(int64(decisions))
	for caller := range uint64(replayCallers) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, round<<16|caller))
			for left.Load() > 0 {
				takes := drawReplayed(random, limits)
				results := make([]store.Result, len(takes))
				s.Take(context.Background(), takes, results)
				left.Add(-int64(len(takes)))
				for i := range results {
					if results[i].Err != nil {
						left.Store(0)
						t.Errorf("a call failed: %v", results[i].Err)
						return
					}
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// drawReplayed draws one batch. A bucket keeps its limit, but for every
// hundredth take, which decides by another.
func drawReplayed(random *rand.Rand, limits []*limit.Limit) []store.Take {
	takes := make([]store.Take, 1+random.IntN(4))
	group := uint32(random.IntN(3) / 2)
	for i := range takes {
		key := 0
		if random.IntN(2) == 0 {
			key = random.IntN(replayKeys)
		}
		which := key
		if random.IntN(100) == 0 {
			which = random.IntN(len(limits))
		}
		takes[i] = store.Take{
			Key: fmt.Appendf(nil, "replayed %d", key), Limit: limits[which%len(limits)], Hits: 1, Group: group,
			Shadow: random.IntN(10) == 0, Hold: limit.Hold(random.IntN(9)),
		}
		switch n := random.IntN(40); {
		case n == 0:
			takes[i].Op = store.Refund
		case n == 1 && random.IntN(10) == 0:
			takes[i].Op = store.Reset
		case n == 2:
			takes[i].Hits = 0
		case n == 3 && random.IntN(3) == 0:
			takes[i].Op = store.Charge
		case n < 6:
			takes[i].Hits = random.Int64N(6)
		case n < 9:
			takes[i].Op = store.Release
		case n == 9:
			takes[i].Op = store.Renew
		case n < 14 && takes[i].Limit.Algorithm == limit.Ban:
			takes[i].Op = store.Charge
		}
	}
	return takes
}

// replayModel is model made fit for many buckets, and counts what it has seen.
//
// A bucket is forgotten when it was as if unused by the limit that wrote it last,
// and a second later. A limit with a longer period that asks then finds nothing.
type replayModel struct {
	model
	until                                           map[string]limit.Micros
	decisions, calls, denied, grouped, merged, ties int
}

// follow decides calls of one instant and compares. The order of two is not
// known: one of both must be right.
func (m *replayModel) follow(calls []recorded) error {
	if len(calls) == 1 {
		_, err := m.call(calls[0])
		return err
	}
	m.ties += len(calls)
	if len(calls) > 2 {
		return fmt.Errorf("%d calls in one microsecond", len(calls))
	}
	undo, err := m.call(calls[0])
	if err == nil {
		var second map[string]limit.State
		if second, err = m.call(calls[1]); err == nil {
			return nil
		}
		m.restore(second)
	}
	m.restore(undo)
	for _, i := range [...]int{1, 0} {
		if _, again := m.call(calls[i]); again != nil {
			return fmt.Errorf("in neither order: %w; %w", err, again)
		}
	}
	return nil
}

// call decides one call and compares. It returns the states that were there
// before.
func (m *replayModel) call(c recorded) (undo map[string]limit.State, err error) {
	m.now = c.now
	undo = map[string]limit.State{}
	for i := range c.takes {
		key := string(c.takes[i].Key)
		if _, ok := undo[key]; !ok {
			undo[key] = m.states[key]
		}
	}
	for i := 0; i < len(c.takes); {
		end := i + 1
		for c.takes[i].Group != 0 && end < len(c.takes) && c.takes[end].Group == c.takes[i].Group {
			end++
		}
		want := m.part(c.takes[i:end])
		for j := range want {
			if got := c.results[i+j].Decision; got != want[j] {
				t := c.takes[i+j]
				return undo, fmt.Errorf("take %d of %d at %d, %s by %s, %d hits, hold %d, op %d, group %d: Redis said %+v, the model %+v",
					i+j, len(c.takes), c.now, t.Key, t.Limit.Algorithm, t.Hits, t.Hold, t.Op, t.Group, got, want[j])
			}
			if !want[j].Allowed {
				m.denied++
			}
		}
		if end > i+1 {
			m.grouped += end - i
		}
		i = end
	}
	m.decisions += len(c.takes)
	m.calls++
	m.merged += len(c.takes) - len(undo)
	return undo, nil
}

// part decides a take alone or a group. The model of a group remembers all
// buckets, so it is given only those of the group.
func (m *replayModel) part(takes []store.Take) []limit.Decision {
	few := model{states: map[string]limit.State{}, now: m.now}
	for i := range takes {
		key := string(takes[i].Key)
		if m.now > m.until[key] {
			delete(m.states, key)
		}
		few.states[key] = m.states[key]
	}
	out := few.take(takes)
	for i := range takes {
		key := string(takes[i].Key)
		before, after := m.states[key], few.states[key]
		if !reflect.DeepEqual(before, after) {
			lasts := limit.Lifetime(takes[i].Limit, after, m.now) + time.Second
			m.until[key] = m.now + limit.Micros(lasts.Microseconds())
			m.states[key] = after
		}
	}
	return out
}

// restore puts states back.
func (m *replayModel) restore(states map[string]limit.State) {
	for key, state := range states {
		m.states[key] = state
	}
}
