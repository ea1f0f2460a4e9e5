package coalesce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

var (
	perMinute = limit.Must(limit.PerMinute(40))
	perHour   = limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 30, Period: time.Hour})
	inFlight  = limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 30, Period: time.Hour})
	ban       = limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 30, Period: time.Hour, BanFor: time.Hour})
)

// newTakes joins takes that cost 1 each.
func newTakes(fly Fly[store.Take, store.Result], o Options) *Coalescer[store.Take, store.Result] {
	return New(Takes(func(*limit.Limit) int { return 1 }), fly, o)
}

func fixedStore(t *testing.T) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{Now: func() limit.Micros { return 1_763_666_315_123_456 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// logbook flies one batch at a time and remembers them in order, without their
// groups: the Mode of each take names it.
type logbook struct {
	mu    sync.Mutex
	store store.Store
	names []*store.Mode
	most  int
}

func (l *logbook) fly(ctx context.Context, takes []store.Take, results []store.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store.Take(ctx, takes, results)
	for i := range takes {
		l.names = append(l.names, takes[i].Mode)
	}
	l.most = max(l.most, len(takes))
	runtime.Gosched()
}

// What concurrent callers are told is what they would have been told one after
// the other, in the order of the flights.
func TestEqualsOneAtATime(t *testing.T) {
	book := &logbook{store: fixedStore(t)}
	c := newTakes(book.fly, Options{})
	type call struct {
		takes   []store.Take
		results []store.Result
	}
	const callers, rounds = 32, 60
	var all [callers][]call
	owner := make(map[*store.Mode]*call) // by the first take
	for id := range callers {
		random := rand.New(rand.NewPCG(uint64(id), 11))
		all[id] = make([]call, rounds)
		for r := range all[id] {
			one := &all[id][r]
			one.takes = randomTakes(random)
			one.results = make([]store.Result, len(one.takes))
			owner[one.takes[0].Mode] = one
		}
	}
	var group sync.WaitGroup
	for id := range callers {
		group.Go(func() {
			for r := range all[id] {
				if err := c.Ask(t.Context(), all[id][r].takes, all[id][r].results); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	alone := fixedStore(t)
	allowed, denied := 0, 0
	for at := 0; at < len(book.names); {
		one := owner[book.names[at]]
		if one == nil {
			t.Fatalf("take %d in the order of flights is not the first of a call: calls are mixed", at)
		}
		want := make([]store.Result, len(one.takes))
		alone.Take(t.Context(), one.takes, want)
		for i := range want {
			if book.names[at+i] != one.takes[i].Mode {
				t.Fatalf("take %d of a call has left its place", i)
			}
			if want[i] != one.results[i] {
				t.Fatalf("take %+v: got %+v, one at a time %+v", one.takes[i], one.results[i], want[i])
			}
			if want[i].Allowed {
				allowed++
			} else {
				denied++
			}
		}
		at += len(want)
	}
	s := c.Stats()
	if s.Callers != callers*rounds || s.Questions != uint64(len(book.names)) || s.Largest != book.most || s.Waiting != 0 {
		t.Errorf("counted %+v; there were %d takes, at most %d in a flight", s, len(book.names), book.most)
	}
	if allowed == 0 || denied == 0 || book.most < 6 {
		t.Errorf("%d allowed, %d denied, at most %d takes together: not all cases were met", allowed, denied, book.most)
	}
}

// randomTakes are those of one caller, with groups numbered from 0 as all do.
func randomTakes(random *rand.Rand) []store.Take {
	takes := make([]store.Take, 1+random.IntN(4))
	for i := range takes {
		key := random.IntN(12)
		takes[i] = store.Take{
			Key:    fmt.Appendf(nil, "key %d", key),
			Limit:  perMinute,
			Hits:   random.Int64N(4),
			Hold:   limit.Hold(random.IntN(100)),
			Group:  uint32(random.IntN(3)),
			Shadow: random.IntN(5) == 0,
			Mode:   new(store.Mode),
		}
		if key%3 == 0 {
			takes[i].Limit = perHour
		}
		more := []store.Op{store.Refund, store.Reset}
		switch key {
		case 1:
			takes[i].Limit = inFlight
			more = append(more, store.Renew, store.Release, store.Release, store.Release)
		case 2:
			takes[i].Limit = ban
			more = append(more, store.Charge, store.Charge, store.Charge)
		}
		if n := random.IntN(60); n < len(more) {
			takes[i].Op = more[n]
		}
	}
	return takes
}

// slow is a Fly that takes a while and counts.
type slow struct {
	lasts  time.Duration
	flying atomic.Int32
	mu     sync.Mutex
	sizes  []int
}

func (s *slow) fly(ctx context.Context, takes []store.Take, results []store.Result) {
	s.flying.Add(1)
	defer s.flying.Add(-1)
	s.mu.Lock()
	s.sizes = append(s.sizes, len(takes))
	s.mu.Unlock()
	timer := time.NewTimer(s.lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
		for i := range results {
			results[i] = store.Result{Decision: limit.Decision{Allowed: true, Remaining: takes[i].Hits}}
		}
	case <-ctx.Done():
		for i := range results {
			results[i] = store.Result{Err: ctx.Err()}
		}
	}
}

// Nobody waits while there is a free place; those who come when there is none
// leave together at the moment a flight is back.
func TestNobodyWaitsWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{lasts: 10 * time.Millisecond}
		c := newTakes(s.fly, Options{})
		start := time.Now()
		var group sync.WaitGroup
		come := func(id int, after, want time.Duration) {
			group.Go(func() {
				time.Sleep(after)
				takes := []store.Take{{Key: fmt.Append(nil, id), Limit: perMinute, Hits: int64(id)}}
				results := make([]store.Result, 1)
				if err := c.Ask(t.Context(), takes, results); err != nil || results[0].Remaining != int64(id) {
					t.Errorf("caller %d: %+v, %v", id, results[0], err)
				}
				if took := time.Since(start); took != want {
					t.Errorf("caller %d was answered after %v, want %v", id, took, want)
				}
			})
		}
		const ms = time.Millisecond
		come(1, 0, 10*ms)
		come(2, 4*ms, 14*ms)
		// Two are in the air.
		for id := 3; id < 8; id++ {
			come(id, 5*ms, 20*ms)
		}
		come(8, 12*ms, 24*ms)
		come(9, 13*ms, 24*ms)
		// All are back at 24 ms.
		come(10, 30*ms, 40*ms)
		group.Wait()
		if got, want := fmt.Sprint(s.sizes), "[1 1 5 2 1]"; got != want {
			t.Errorf("flights of %s takes, want %s", got, want)
		}
		if s := c.Stats(); s.Flights != 5 || s.Questions != 10 || s.Callers != 10 || s.Largest != 5 || s.Left != 0 || s.Waiting != 0 {
			t.Errorf("counted %+v", s)
		}
	})
}

// A caller with little time left does not shorten the time of others.
func TestHurriedCallersFlyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{lasts: 10 * time.Millisecond}
		c := newTakes(s.fly, Options{Flights: 1})
		var group sync.WaitGroup
		come := func(id int, patience time.Duration, want error) {
			group.Go(func() {
				time.Sleep(time.Duration(id) * time.Microsecond)
				ctx := t.Context()
				if patience > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, patience)
					defer cancel()
				}
				results := make([]store.Result, 1)
				err := c.Ask(ctx, []store.Take{{Key: fmt.Append(nil, id), Limit: perMinute}}, results)
				if err == nil {
					err = results[0].Err
				}
				if !errors.Is(err, want) {
					t.Errorf("caller %d: %v, want %v", id, err, want)
				}
			})
		}
		const ms = time.Millisecond
		come(0, 100*ms, nil)
		come(1, 100*ms, nil)                     // 10 to 20 ms
		come(2, 18*ms, context.DeadlineExceeded) // would end that flight: gone while it waits
		come(3, 80*ms, nil)                      // with 1
		come(4, 0, nil)                          // endless: after them
		come(5, 45*ms, nil)                      // after it
		come(6, 0, nil)                          // with 4
		group.Wait()
		if got, want := fmt.Sprint(s.sizes), "[1 2 2 1]"; got != want {
			t.Errorf("flights of %s takes, want %s", got, want)
		}
	})
}

// A joint flight ends by the earliest deadline aboard, and everyone is told.
func TestFlightHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{lasts: time.Hour}
		c := newTakes(s.fly, Options{Flights: 1})
		start := time.Now()
		var group sync.WaitGroup
		for id := range 6 {
			group.Go(func() {
				time.Sleep(time.Duration(id) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				results := make([]store.Result, 1)
				err := c.Ask(ctx, []store.Take{{Key: fmt.Append(nil, id), Limit: perMinute}}, results)
				if err == nil {
					err = results[0].Err
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("caller %d: %v", id, err)
				}
				if most := time.Duration(id+20) * time.Millisecond; time.Since(start) > most {
					t.Errorf("caller %d stayed for %v, had %v", id, time.Since(start), most)
				}
			})
		}
		group.Wait()
		synctest.Wait()
		if c.mu.flights != 0 || len(c.mu.waiting) != 0 {
			t.Errorf("%d flights and %d jobs are left over", c.mu.flights, len(c.mu.waiting))
		}
	})
}

// echo answers each take with what its key says, and demands that the key is
// what its caller gave.
type echo struct {
	t      *testing.T
	flying atomic.Int32
	most   atomic.Int32
}

func (e *echo) fly(ctx context.Context, takes []store.Take, results []store.Result) {
	if n := e.flying.Add(1); n > DefaultFlights {
		e.t.Errorf("%d flights at one time, want at most %d", n, DefaultFlights)
	}
	defer e.flying.Add(-1)
	e.most.Store(max(e.most.Load(), int32(len(takes))))
	seen := make(map[uint32]bool)
	for i, t := range takes {
		if t.Group != 0 && (i == 0 || takes[i-1].Group != t.Group) {
			if seen[t.Group] {
				e.t.Errorf("group %d stands in two places", t.Group)
			}
			seen[t.Group] = true
		}
	}
	select {
	case <-time.After(time.Duration(rand.IntN(1000)) * time.Microsecond):
	case <-ctx.Done():
	}
	for i, t := range takes {
		var hits int64
		fmt.Sscanf(string(t.Key), "key of %d", &hits)
		if hits != t.Hits {
			e.t.Errorf("key %q came with %d hits", t.Key, t.Hits)
		}
		results[i].Remaining = t.Hits
	}
}

// Callers that lose patience at any moment: those who stay get their answers,
// and what is answered to those who have gone goes nowhere.
func TestCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{t: t}
		c := newTakes(e.fly, Options{})
		var group sync.WaitGroup
		var answers, gone atomic.Int64
		for id := range 100 {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(id), 7))
				var key [4]bytes.Buffer
				for range 40 {
					takes := make([]store.Take, 1+random.IntN(len(key)))
					group := uint32(random.IntN(2))
					for i := range takes {
						hits := random.Int64N(1 << 40)
						key[i].Reset() // the memory of the call before
						fmt.Fprintf(&key[i], "key of %d", hits)
						takes[i] = store.Take{Key: key[i].Bytes(), Hits: hits, Group: group, Limit: perMinute}
					}
					results := make([]store.Result, len(takes))
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					stop := time.AfterFunc(time.Duration(random.IntN(8000))*time.Microsecond, cancel)
					if err := c.Ask(ctx, takes, results); err == nil {
						answers.Add(1)
						for i := range takes {
							if results[i].Remaining != takes[i].Hits {
								t.Errorf("take %d of %d got the answer %d, want %d", i, len(takes), results[i].Remaining, takes[i].Hits)
							}
						}
					} else {
						gone.Add(1)
						if ctx.Err() == nil || results[0].Err == nil {
							t.Errorf("a caller with time left was sent away: %v", err)
						}
					}
					stop.Stop()
					cancel()
				}
			})
		}
		group.Wait()
		time.Sleep(time.Second) // flights of callers that have gone
		s := c.Stats()
		if c.mu.flights != 0 || s.Waiting != 0 || s.Left == 0 {
			t.Errorf("%d flights are left over; counted %+v", c.mu.flights, s)
		}
		if answers.Load() == 0 || gone.Load() == 0 || e.most.Load() < 4 {
			t.Errorf("%d answers, %d gone, %d takes in the largest flight: not all cases were met", answers.Load(), gone.Load(), e.most.Load())
		}
	})
}

// A Fly that panics, or ends its goroutine, loses nobody.
func TestPanicLosesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flights := 0
		c := newTakes(func(_ context.Context, takes []store.Take, results []store.Result) {
			time.Sleep(time.Millisecond)
			flights++
			if flights == 1 || len(takes) > 1 {
				panic("out of luck")
			}
		}, Options{Flights: 1})
		var group sync.WaitGroup
		var failed atomic.Int32
		for id := range 5 {
			group.Go(func() {
				results := make([]store.Result, 1)
				if err := c.Ask(t.Context(), []store.Take{{Key: fmt.Append(nil, id), Limit: perMinute}}, results); err != nil {
					t.Error(err)
				}
				if errors.Is(results[0].Err, ErrPanic) && store.ReasonOf(results[0].Err) == store.Internal {
					failed.Add(1)
				}
			})
		}
		group.Wait()
		if failed.Load() != 5 || flights != 2 {
			t.Errorf("%d callers were told of a panic, in %d flights", failed.Load(), flights)
		}
		results := make([]store.Result, 1)
		if err := c.Ask(t.Context(), []store.Take{{Limit: perMinute}}, results); err != nil || results[0].Err != nil {
			t.Errorf("afterwards: %+v, %v", results[0], err)
		}
	})
}

// A flight costs no more than MaxCost; takes that say the same cost nothing.
func TestMaxCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{lasts: time.Millisecond}
		c := New(Takes(func(l *limit.Limit) int {
			if l == perHour {
				return 4
			}
			return 1
		}), s.fly, Options{Flights: 1, MaxCost: 10})
		var group sync.WaitGroup
		come := func(key string, l *limit.Limit, n int) {
			group.Go(func() {
				takes := make([]store.Take, n)
				for i := range takes {
					takes[i] = store.Take{Key: []byte(key), Limit: l, Hits: 1, Group: 1}
				}
				if err := c.Ask(t.Context(), takes, make([]store.Result, n)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		come("first", perMinute, 1)
		come("a", perHour, 2) // 8
		come("b", perHour, 1) // 12: not with them
		come("a", perHour, 2) // the same: free
		come("c", perMinute, 2)
		come("d", perMinute, 1) // with b
		come("e", perHour, 30)  // alone, whatever it costs
		come("e", perMinute, 6) // not the same: alone
		group.Wait()
		if got, want := fmt.Sprint(s.sizes), "[1 6 2 30 6]"; got != want {
			t.Errorf("flights of %s takes, want %s", got, want)
		}
	})
}

// Dry runs of one batch see each other, so each flies alone.
func TestDryRunsFlyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{lasts: time.Millisecond}
		c := newTakes(s.fly, Options{Flights: 1})
		var group sync.WaitGroup
		come := func(dry bool, n int) {
			group.Go(func() {
				takes := make([]store.Take, n)
				for i := range takes {
					takes[i] = store.Take{Key: []byte("key"), Limit: perMinute, Hits: 1, DryRun: dry}
				}
				if err := c.Ask(t.Context(), takes, make([]store.Result, n)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		come(false, 1)
		come(true, 2)
		come(false, 3)
		come(true, 4)
		come(false, 5)
		group.Wait()
		if got, want := fmt.Sprint(s.sizes), "[1 2 8 4]"; got != want {
			t.Errorf("flights of %s takes, want %s", got, want)
		}
	})
}

func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{lasts: time.Millisecond}
		c := newTakes(s.fly, Options{MaxWaiting: 3})
		var refused atomic.Int32
		for range 10 {
			go func() {
				results := make([]store.Result, 1)
				if err := c.Ask(t.Context(), []store.Take{{Limit: perMinute}}, results); errors.Is(err, ErrFull) && results[0].Err == err {
					refused.Add(1)
				}
			}()
		}
		time.Sleep(time.Second)
		if refused.Load() != 5 || c.Stats().Refused != 5 {
			t.Errorf("%d refused, want 5; counted %+v", refused.Load(), c.Stats())
		}
	})
}
