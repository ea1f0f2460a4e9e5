package history_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/test/history"
)

// begin is the instant of the store's clock at which the histories of these tests begin.
const begin = limit.Micros(1_780_000_000_000_000)

// told is an operation whose instant the store has told, in milliseconds since begin.
func told(call, at, end int, take store.Take, d limit.Decision) history.Operation {
	instant := begin + limit.Micros(at)*1000
	return history.Operation{
		Take: take, Call: time.Duration(call) * time.Millisecond, Return: time.Duration(end) * time.Millisecond,
		From: instant, To: instant, Decision: d,
	}
}

// unheard is an operation whose caller heard nothing, and that was decided until then, if it was.
func unheard(call, until int, take store.Take) history.Operation {
	return history.Operation{
		Take: take, Call: time.Duration(call) * time.Millisecond, Unknown: true,
		From: begin + limit.Micros(call)*1000, To: begin + limit.Micros(until)*1000,
	}
}

// hits returns a take of so many hits, of two per second.
func hits(n int64) store.Take {
	return store.Take{Key: []byte("key"), Limit: twoPerSecond, Hits: n}
}

var twoPerSecond = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 2, Period: time.Second})

// answer is that of twoPerSecond at an instant of its first window.
func answer(allowed bool, remaining int64, at int) limit.Decision {
	d := limit.Decision{Allowed: allowed, Limit: 2, Remaining: remaining, ResetAfter: time.Second - time.Duration(at)*time.Millisecond}
	if !allowed {
		d.RetryAfter = d.ResetAfter
	}
	return d
}

func check(t *testing.T, operations []history.Operation, o history.Options) history.Outcome {
	t.Helper()
	out, err := history.Check(operations, o)
	if err != nil {
		t.Fatal(err)
	}
	if out.Undecided {
		t.Fatal("undecided")
	}
	return out
}

func TestShortHistories(t *testing.T) {
	for _, c := range []struct {
		name       string
		operations []history.Operation
		possible   bool
	}{
		{"one after the other", []history.Operation{
			told(0, 1, 2, hits(1), answer(true, 1, 1)),
			told(3, 4, 5, hits(1), answer(true, 0, 4)),
			told(6, 7, 8, hits(1), answer(false, 0, 7)),
		}, true},
		{"two nodes at once", []history.Operation{
			told(0, 4, 9, hits(1), answer(true, 0, 4)),
			told(1, 2, 8, hits(1), answer(true, 1, 2)),
			told(3, 5, 7, hits(1), answer(false, 0, 5)),
		}, true},
		{"two at one instant", []history.Operation{
			told(0, 4, 9, hits(1), answer(false, 0, 4)),
			told(1, 4, 8, hits(2), answer(true, 0, 4)),
		}, true},
		{"the last hit is given to two nodes", []history.Operation{
			told(0, 1, 2, hits(1), answer(true, 1, 1)),
			told(3, 5, 9, hits(1), answer(true, 0, 5)),
			told(4, 6, 8, hits(1), answer(true, 0, 6)),
		}, false},
		{"a denial that is not due", []history.Operation{
			told(0, 1, 2, hits(1), answer(true, 1, 1)),
			told(3, 4, 5, hits(1), answer(false, 0, 4)),
		}, false},
		{"an answer that is older than its question", []history.Operation{
			told(0, 1, 2, hits(1), answer(true, 0, 1)),
			told(3, 4, 5, hits(1), answer(true, 1, 4)),
		}, false},
		{"the clock goes back", []history.Operation{
			told(0, 9, 10, hits(1), answer(true, 1, 9)),
			told(20, 5, 25, hits(1), answer(true, 0, 5)),
		}, false},
		{"a wait that is off by a millisecond", []history.Operation{
			told(0, 1, 2, hits(2), answer(true, 0, 1)),
			told(3, 4, 5, hits(1), answer(false, 0, 5)),
		}, false},
		{"unheard and done", []history.Operation{
			unheard(0, 50, hits(1)),
			told(3, 4, 5, hits(1), answer(true, 0, 4)),
		}, true},
		{"unheard and done after others", []history.Operation{
			unheard(0, 50, hits(1)),
			told(3, 4, 5, hits(1), answer(true, 1, 4)),
			told(6, 7, 8, hits(0), answer(true, 0, 7)),
		}, true},
		{"unheard and not done", []history.Operation{
			unheard(0, 50, hits(1)),
			told(3, 4, 5, hits(1), answer(true, 1, 4)),
			told(60, 61, 62, hits(1), answer(true, 0, 61)),
		}, true},
		{"unheard and done twice", []history.Operation{
			unheard(0, 50, hits(1)),
			told(3, 4, 5, hits(0), answer(true, 0, 4)),
		}, false},
		{"unheard and done too late", []history.Operation{
			unheard(0, 50, hits(1)),
			told(60, 61, 62, hits(1), answer(true, 1, 61)),
			told(63, 64, 65, hits(0), answer(true, 0, 64)),
		}, false},
		{"done before it was asked", []history.Operation{
			told(0, 1, 2, hits(1), answer(true, 0, 1)),
			unheard(3, 50, hits(1)),
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out := check(t, c.operations, history.Options{}); out.Possible != c.possible {
				t.Errorf("possible: %v, want %v", out.Possible, c.possible)
			}
		})
	}
}

// A server that dies may forget, and then no more than it has to is taken for lost.
func TestLosses(t *testing.T) {
	lost := history.Options{Losses: []history.Span{{Begin: 10 * time.Millisecond, End: 20 * time.Millisecond}}}
	before := []history.Operation{
		told(0, 1, 2, hits(1), answer(true, 1, 1)),
		told(3, 4, 5, hits(1), answer(true, 0, 4)),
	}
	for _, c := range []struct {
		name     string
		after    history.Operation
		possible bool
		lost     int64
	}{
		{"nothing", told(30, 31, 32, hits(1), answer(false, 0, 31)), true, 0},
		{"one hit", told(30, 31, 32, hits(1), answer(true, 0, 31)), true, 1},
		{"all", told(30, 31, 32, hits(1), answer(true, 1, 31)), true, 2},
		{"before the server died", told(6, 7, 8, hits(1), answer(true, 1, 7)), false, 0},
		{"a hit that was not there", told(30, 31, 32, hits(0), answer(true, 3, 31)), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := check(t, append(before[:2:2], c.after), lost)
			if out.Possible != c.possible || out.Lost != c.lost {
				t.Errorf("possible: %v, lost %d, want %v and %d", out.Possible, out.Lost, c.possible, c.lost)
			}
		})
	}
	// One node asks first and knows of the first hit alone; the other brings back the second.
	twice := append(before[:2:2],
		told(30, 31, 32, hits(0), answer(true, 1, 31)),
		told(33, 34, 35, hits(0), answer(true, 0, 34)))
	if check(t, twice, lost).Possible {
		t.Error("a hit comes back, and nobody has brought it")
	}
	lost.BroughtBack = true
	if out := check(t, twice, lost); !out.Possible || out.Lost != 1 {
		t.Errorf("brought back: possible: %v, lost %d", out.Possible, out.Lost)
	}
}

// What an operator looks at names the operations.
func TestDraw(t *testing.T) {
	out := check(t, []history.Operation{
		told(0, 1, 2, hits(1), answer(true, 1, 1)),
		unheard(1, 20, hits(1)),
		told(3, 4, 5, hits(2), answer(true, 1, 4)),
	}, history.Options{Losses: []history.Span{{Begin: time.Minute, End: time.Minute}}})
	if out.Possible {
		t.Fatal("possible")
	}
	path, err := out.Draw(t.TempDir(), "drawn")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"node 0: hit 2", "nobody knows", "the server is lost"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestUnfit(t *testing.T) {
	other := hits(1)
	other.Key = []byte("other")
	grouped := hits(1)
	grouped.Group = 1
	third := hits(1)
	third.Limit = limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 3, Period: time.Second})
	untimed := told(0, 1, 2, hits(1), limit.Decision{Allowed: true})
	untimed.Take.Limit = limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 3, Period: time.Second})
	untimed.To++
	for name, operations := range map[string][]history.Operation{
		"keys":        {told(0, 1, 2, hits(1), answer(true, 1, 1)), told(0, 1, 2, other, answer(true, 1, 1))},
		"group":       {told(0, 1, 2, grouped, answer(true, 1, 1))},
		"order":       {told(2, 1, 0, hits(1), answer(true, 1, 1))},
		"instant":     {untimed},
		"microsecond": {told(0, 1, 2, third, answer(true, 1, 1))},
	} {
		if _, err := history.Check(operations, history.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// limits are of all algorithms. Their windows roll over and their buckets drain within a made history.
func limits() []*limit.Limit {
	specs := []limit.Spec{
		{Quota: 8, Period: 300 * time.Millisecond},
		{Quota: 6, Period: 200 * time.Millisecond, CountDenied: true},
		{Algorithm: limit.FixedWindow, Quota: 5, Period: 100 * time.Millisecond},
		{Algorithm: limit.SubWindows, Quota: 8, Period: 300 * time.Millisecond, SubWindows: 7},
		{Algorithm: limit.SubWindows, Quota: 8, Period: 300 * time.Millisecond, SubWindows: 5, Strict: true},
		{Algorithm: limit.SlidingLog, Quota: 6, Period: 150 * time.Millisecond},
		{Algorithm: limit.TokenBucket, Quota: 20, Period: time.Second, Burst: 4},
		{Algorithm: limit.LeakyBucket, Quota: 25, Period: time.Second},
		{Algorithm: limit.LeakyQueue, Quota: 40, Period: time.Second, MaxDelay: 100 * time.Millisecond},
		{Algorithm: limit.GCRA, Quota: 50, Period: time.Second, Burst: 3},
		{Algorithm: limit.Concurrency, Quota: 3, Period: 120 * time.Millisecond},
		{Algorithm: limit.Ban, Quota: 3, Period: 150 * time.Millisecond, BanFor: 90 * time.Millisecond},
	}
	list := make([]*limit.Limit, len(specs))
	for i, spec := range specs {
		list[i] = limit.Must(spec)
	}
	return list
}

// maker makes a history as a store would that decides one operation after the other.
type maker struct {
	random *rand.Rand
	limit  *limit.Limit
	state  limit.State
	now    int64 // µs since begin
	// unheard and apart are the shares of operations, in percent, whose outcome or instant is unknown.
	unheard, apart int
}

// jitter is the most µs between a call and its decision, and between that and its return.
const jitter = 40_000

func (m *maker) operation() history.Operation {
	m.now += m.random.Int64N(20_000)
	call, end := max(m.now-m.random.Int64N(jitter), 0), m.now+m.random.Int64N(jitter)
	at := begin + limit.Micros(m.now)
	o := history.Operation{
		Client: m.random.IntN(4), Take: m.take(), From: at, To: at,
		Call: time.Duration(call) * time.Microsecond, Return: time.Duration(end) * time.Microsecond,
	}
	p := m.random.IntN(100)
	if o.Unknown = p < m.unheard; o.Unknown || p < m.unheard+m.apart && !m.lasting() {
		o.From, o.To = begin+limit.Micros(call), begin+limit.Micros(end)
	}
	if !o.Unknown || m.random.IntN(2) == 0 {
		m.state, o.Decision = o.Take.Decide(m.state, at)
		m.state.Wide = append([]int64(nil), m.state.Wide...)
	}
	if o.Unknown {
		o.Decision = limit.Decision{}
	}
	return o
}

// lasting reports whether answers must have an instant.
func (m *maker) lasting() bool {
	return m.limit.Algorithm == limit.SlidingLog || m.limit.Algorithm >= limit.Concurrency
}

// take draws a take.
func (m *maker) take() store.Take {
	t := store.Take{Key: []byte("made"), Limit: m.limit, Hits: 1 + m.random.Int64N(2)}
	switch n := m.random.IntN(20); {
	case m.limit.Algorithm == limit.Concurrency:
		t.Hold = limit.Hold(1 + m.random.IntN(6))
		if n < 6 {
			t.Op = store.Release
		} else if n < 9 {
			t.Op = store.Renew
		}
	case m.limit.Algorithm == limit.Ban && n < 12:
		t.Op = store.Charge
	case n == 0:
		t.Hits = 0
	case n == 1:
		t.Op = store.Refund
	case n == 2:
		t.Op = store.Charge
	case n == 3:
		t.Op = store.Reset
	}
	return t
}

// Whatever happened, and whatever nobody has heard of, a history that a store has made is possible.
// One in which a single answer of those is off is not.
func TestMadeHistories(t *testing.T) {
	racetest.Serially(t)
	for _, l := range limits() {
		t.Run(fmt.Sprintf("%s %d", l.Algorithm, l.Quota), func(t *testing.T) {
			for seed := range uint64(made) {
				random := rand.New(rand.NewPCG(seed, 1))
				m := &maker{random: random, limit: l, unheard: int(seed % 3 * 8), apart: int(seed % 2 * 8)}
				operations := make([]history.Operation, 40)
				for i := range operations {
					operations[i] = m.operation()
				}
				if out := check(t, operations, history.Options{}); !out.Possible {
					path, err := out.Draw("", "headgate-made")
					t.Fatalf("seed %d: a history that was made is not possible; see %s %v", seed, path, err)
				}
				if seed%6 != 0 {
					continue // of others an answer that is off may be possible too
				}
				o := &operations[random.IntN(len(operations))]
				o.Decision.Allowed = !o.Decision.Allowed
				if check(t, operations, history.Options{}).Possible {
					t.Fatalf("seed %d: possible although %+v is off", seed, *o)
				}
			}
		})
	}
}

// made is how many histories each limit gets.
const made = 30
