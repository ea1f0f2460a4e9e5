package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/test/history"
)

const (
	// historyNodes are stores with connections and memories of their own, historyClients the
	// callers of each.
	historyNodes, historyClients = 3, 4
	// historyBudget is the budget of their decisions.
	historyBudget = 100 * time.Millisecond
	// historyOps is how many operations one key gets, so that the search stays short.
	historyOps = 50
	// mostUnheard is how many operations on a key may be on their way, or unheard and perhaps done, before it is
	// only peeked at.
	mostUnheard = 2
	// historyDeadline is when a call ends at the latest: later than its budget, but where it was kept from beginning.
	historyDeadline = historyBudget + 20*time.Millisecond
	// clockRates is more than the local clock and Redis's may come to differ within a call.
	clockRates = 10 * time.Millisecond
)

// bystander is a node of a fleet whose histories are recorded.
type bystander struct {
	*redisstore.Store
	number int
}

// historyKey is a bucket and what is recorded of it.
type historyKey struct {
	name   string
	number int
	limit  *limit.Limit
	clock  *history.Clock

	mu         sync.Mutex
	operations []history.Operation
	asked      int
	onTheirWay int
}

// historyLane is where one limit has its keys: one after the other.
type historyLane struct {
	mu   sync.Mutex
	keys []*historyKey
}

// recording is a load of one round, and what is recorded of it.
type recording struct {
	t       *testing.T
	fleet   []bystander
	limits  []*limit.Limit
	name    string // of the round, before that of each key
	clocks  map[string]*history.Clock
	given   bool // refunds, resets and releases are among the operations
	began   time.Time
	lanes   []historyLane
	stop    chan struct{}
	ending  sync.Once
	group   sync.WaitGroup
	refused atomic.Int64 // calls that were not made, because of a breaker or too many others
}

// record begins to ask, when each node is answered.
func record(t *testing.T, r *recording) {
	t.Helper()
	l := limit.Must(limit.PerDay(1))
	for _, node := range r.fleet {
		for i := range 2 * len(r.limits) { // in a cluster these are on all servers
			take := []store.Take{{Key: fmt.Appendf(nil, "well %d", i), Limit: l}}
			eventually.Nil(t, "a node is answered", func() error {
				var results [1]store.Result
				node.Take(context.Background(), take, results[:])
				return results[0].Err
			})
		}
	}
	r.t, r.began, r.stop, r.lanes = t, time.Now(), make(chan struct{}), make([]historyLane, len(r.limits))
	for n := range len(r.fleet) * historyClients {
		random := newRand(fmt.Sprintf("%s %d", r.name, n))
		r.group.Go(func() { r.ask(n, random) })
	}
}

// finish stops asking and waits for the last answers. It may be called more than once.
func (r *recording) finish() {
	r.ending.Do(func() { close(r.stop) })
	r.group.Wait()
}

// ask asks through one node until the end.
func (r *recording) ask(client int, random *rand.Rand) {
	ticker := time.NewTicker(time.Second * time.Duration(len(r.fleet)*historyClients) / historyRate)
	defer ticker.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-ticker.C:
		}
		// The square has clients meet on the first keys.
		lane := random.IntN(1 + random.IntN(len(r.lanes)))
		key, peek := r.lanes[lane].next(r, lane)
		if peek {
			r.do(key, client, key.peek())
		} else {
			r.do(key, client, r.take(key, random))
		}
	}
}

// historyRate is how many operations are asked for each second, as far as they are answered.
const historyRate = 2000

// next returns the key of the next operation, and whether that is a peek, because nobody has heard of too many before.
func (l *historyLane) next(r *recording, number int) (key *historyKey, peek bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.keys); n == 0 || l.keys[n-1].asked >= historyOps {
		name := fmt.Sprintf("%s %d %d", r.name, number, n)
		l.keys = append(l.keys, &historyKey{name: name, number: n, limit: r.limits[number], clock: r.clockOf(name)})
	}
	key = l.keys[len(l.keys)-1]
	key.mu.Lock()
	defer key.mu.Unlock()
	peek = key.onTheirWay+key.unheard(limit.MicrosOf(time.Now())) >= mostUnheard
	if !peek {
		key.asked++
	}
	key.onTheirWay++
	return key, peek
}

// unheard counts the operations that nobody has heard of and that may yet be done, or have been done since
// somebody was answered.
func (k *historyKey) unheard(now limit.Micros) (n int) {
	heard := false
	for i := len(k.operations) - 1; i >= 0; i-- {
		o := &k.operations[i]
		if o.Unknown && (!heard || o.To >= now) {
			n++
		}
		heard = heard || !o.Unknown
	}
	return n
}

func (k *historyKey) peek() store.Take { return store.Take{Key: []byte(k.name), Limit: k.limit} }

// clockOf returns the clock of a bucket: in a cluster only buckets of one hash tag are decided in one step.
func (r *recording) clockOf(name string) *history.Clock {
	return r.clocks[hashTag(r.fleet[0].Name([]byte(name)))]
}

// hashTag is the part of a name that says where in a cluster it is: what stands before the 16 bytes of the hash
// of the key.
func hashTag(name string) string { return name[:len(name)-16] }

// newClocks returns a clock for each hash tag.
func newClocks(s *redisstore.Store) map[string]*history.Clock {
	first, clocks := map[string][]byte{}, map[string]*history.Clock{}
	// 128 tags, of which each key has any: after so many none is missing.
	for n := range 8192 {
		key := fmt.Appendf(nil, "clock %d", n)
		tag := hashTag(s.Name(key))
		switch {
		case first[tag] == nil:
			first[tag] = key
		case clocks[tag] == nil:
			clocks[tag] = history.NewClock(first[tag], key)
		}
	}
	return clocks
}

// take draws what is asked of a key.
func (r *recording) take(key *historyKey, random *rand.Rand) store.Take {
	t := store.Take{Key: []byte(key.name), Limit: key.limit, Hits: 1}
	n := random.IntN(24)
	switch {
	case key.limit.Algorithm == limit.Concurrency:
		t.Hold = limit.Hold(1 + random.IntN(8))
		if r.given && n < 8 {
			t.Op = store.Release
		} else if n < 11 {
			t.Op = store.Renew
		}
	case key.limit.Algorithm == limit.Ban && n < 12:
		t.Op = store.Charge
	case n == 0:
		t.Hits = 0
	case n < 4:
		t.Hits = 2
	case r.given && n == 4:
		t.Op = store.Refund
	case r.given && n == 5:
		t.Op = store.Charge
	case r.given && n == 6 && random.IntN(4) == 0:
		t.Op = store.Reset
	}
	return t
}

// do asks for one take through the node of a client, and records what is heard.
func (r *recording) do(key *historyKey, client int, t store.Take) bool {
	o := history.Operation{Client: client, Node: client % len(r.fleet), Take: t}
	batch := key.clock.Around(t)
	results := make([]store.Result, len(batch))
	called := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), called.Add(historyDeadline))
	r.fleet[o.Node].Take(ctx, batch, results)
	cancel()
	returned := time.Now()
	o.Call, o.Return = called.Sub(r.began), returned.Sub(r.began)
	o.From, o.To = key.clock.Read(results, called, returned)
	key.mu.Lock()
	defer key.mu.Unlock()
	key.onTheirWay--
	switch reason := store.ReasonOf(results[1].Err); reason {
	case store.NoReason:
		o.Decision = results[1].Decision
	case store.BreakerOpen, store.Overloaded:
		r.refused.Add(1)
		return false
	default:
		if t.Op == store.Hit && t.Hits == 0 {
			return false // a peek that nobody has heard of was none
		}
		// The script is told the deadline, and decides nothing later.
		o.Unknown, o.From, o.To = true, limit.MicrosOf(called), limit.MicrosOf(called.Add(historyDeadline+clockRates))
	}
	key.operations = append(key.operations, o)
	return !o.Unknown
}

// look peeks at each key once, when the load has ended and the store is well: what was unheard shows
// then.
func (r *recording) look() {
	for i := range r.lanes {
		for _, key := range r.lanes[i].keys {
			key.onTheirWay++
			for end := time.Now().Add(patience); !r.do(key, 0, key.peek()); pause(sampling) {
				if key.onTheirWay++; time.Now().After(end) {
					r.t.Fatal("a healthy store does not answer")
				}
			}
		}
	}
}

// keys returns all keys. Nobody may be asking any more.
func (r *recording) keys() (all []*historyKey) {
	for i := range r.lanes {
		all = append(all, r.lanes[i].keys...)
	}
	return all
}

// openFleet returns nodes over the Redis that each of the options names.
func openFleet(t *testing.T, options ...redisstore.Options) []bystander {
	t.Helper()
	var nodes []bystander
	for i, o := range options {
		o.Budget = historyBudget
		s, err := redisstore.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		nodes = append(nodes, bystander{s, i})
	}
	return nodes
}
