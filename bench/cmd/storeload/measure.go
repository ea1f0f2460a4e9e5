package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headgate/headgate/bench/internal/server"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
)

const (
	// warmUp is asked before measuring starts.
	warmUp = time.Second
	// budget is longer than the default: the callers, the process that is
	// measured and Redis share the machine, and a decision that was given up on
	// would be cheap.
	budget = 250 * time.Millisecond
	// maxSamples bounds the latencies that a caller keeps, and allSamples those
	// of all callers.
	maxSamples, allSamples = 100_000, 25_600_000
)

// measurement is one row in one round.
type measurement struct {
	rate         float64 // decisions per second
	p50, p99     time.Duration
	self, redis  float64 // CPU microseconds per decision
	calls        float64 // script calls per decision
	undecided    float64 // share of decisions that Redis did not make
	allowedShare float64
	keyBytes     float64 // memory of each key, of this process or of Redis; 0 when it was not measured
}

// caller asks one request after the other.
type caller struct {
	store    store.Store
	workload workload
	limit    *limit.Limit
	mode     *store.Mode
	random   *rand.Rand
	keys     int

	takes    []store.Take
	results  []store.Result
	counting *atomic.Bool
	// What follows is counted while counting.
	decisions, allowed, undecided int64
	samples                       []time.Duration
}

func measure(ctx context.Context, s settings, redis *server.Redis, r row) (m measurement, err error) {
	if _, err := redis.Ask("FLUSHALL SYNC"); err != nil {
		return m, err
	}
	empty, err := memory(redis, r.system.local)
	if err != nil {
		return m, err
	}
	opened, err := r.system.open(redisstore.Options{Network: redis.Network, Addr: redis.Addr, Budget: budget})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	keyBytes, err := r.fill(ctx, s.keysOf(r.workload), redis, opened, empty)
	if err != nil {
		return m, err
	}
	var counting atomic.Bool
	callers := newCallers(s, r, opened, &counting)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	for i, c := range callers {
		group.Go(func() { c.run(running, s, i) })
	}
	pause(running, warmUp)
	selfBefore, redisBefore, callsBefore, err := usage(redis)
	if err != nil {
		return m, err
	}
	began := time.Now()
	counting.Store(true)
	pause(running, s.measure)
	counting.Store(false)
	took := time.Since(began)
	selfAfter, redisAfter, callsAfter, err := usage(redis)
	stop()
	group.Wait()
	if err != nil {
		return m, err
	}
	m, err = sum(callers, took)
	m.keyBytes = keyBytes
	per := func(total float64) float64 { return total / (m.rate * took.Seconds()) }
	m.self, m.redis = per(micros(selfAfter-selfBefore)), per(micros(redisAfter-redisBefore))
	m.calls = per(float64(callsAfter - callsBefore))
	if share := m.allowedShare; err == nil && (r.workload.over && share > 0.5 || !r.workload.over && share < 0.99) {
		err = fmt.Errorf("%.1f %% of the decisions allow", share*100)
	}
	return m, err
}

// keysOf returns how many different keys the workload has.
func (s *settings) keysOf(w workload) int {
	if w.keys > 0 {
		return w.keys
	}
	return s.keys
}

func newCallers(s settings, r row, opened store.Store, counting *atomic.Bool) []*caller {
	l := limit.Must(r.workload.spec)
	keys := s.keysOf(r.workload)
	count := s.callers
	if r.workload.callers > 0 {
		count = r.workload.callers
	}
	callers := make([]*caller, count)
	for i := range callers {
		c := &caller{
			store: opened, workload: r.workload, limit: l, mode: r.system.mode, keys: keys,
			random: rand.New(rand.NewPCG(uint64(i), 7)), counting: counting,
			takes: make([]store.Take, r.workload.takes), results: make([]store.Result, r.workload.takes),
			samples: make([]time.Duration, 0, min(maxSamples, allSamples/count)),
		}
		for j := range c.takes {
			c.takes[j].Key = make([]byte, 0, 32)
		}
		callers[i] = c
	}
	return callers
}

// run asks until ctx ends.
func (c *caller) run(ctx context.Context, s settings, number int) {
	every := time.Duration(s.callers) * time.Second / time.Duration(s.pace)
	next := time.Now().Add(every * time.Duration(number) / time.Duration(s.callers))
	for ctx.Err() == nil {
		began := time.Now()
		if c.workload.paced {
			pause(ctx, time.Until(next))
			// Counted from when it was due, so that a late start is not
			// forgiven, but for how late the timer is.
			began = time.Now()
			next = next.Add(every)
		}
		c.ask()
		if c.counting.Load() {
			c.count(time.Since(began))
		}
	}
}

func (c *caller) ask() {
	group := uint32(0)
	if len(c.takes) > 1 {
		group = 1
	}
	for i := range c.takes {
		key := appendKey(c.takes[i].Key[:0], i, c.random.IntN(c.keys))
		c.takes[i] = store.Take{Key: key, Limit: c.limit, Hits: 1, Group: group, Mode: c.mode}
	}
	c.store.Take(context.Background(), c.takes, c.results)
}

// appendKey adds the name of key number n of take number i.
func appendKey(dst []byte, i, n int) []byte {
	dst = append(dst, "caller "...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, int64(n), 10)
}

func (c *caller) count(took time.Duration) {
	c.decisions++
	if len(c.samples) < cap(c.samples) {
		c.samples = append(c.samples, took)
	}
	switch r := &c.results[0]; {
	case r.Err != nil:
		c.undecided++
	case r.Allowed:
		c.allowed++
	}
}

func sum(callers []*caller, took time.Duration) (m measurement, err error) {
	var decisions, allowed, undecided int64
	var samples []time.Duration
	for _, c := range callers {
		decisions, allowed, undecided = decisions+c.decisions, allowed+c.allowed, undecided+c.undecided
		samples = append(samples, c.samples...)
	}
	if decisions == 0 || decisions == undecided {
		return m, errors.New("nothing was decided")
	}
	slices.Sort(samples)
	m.rate = float64(decisions) / took.Seconds()
	m.p50, m.p99 = samples[len(samples)/2], samples[len(samples)*99/100]
	m.undecided = float64(undecided) / float64(decisions)
	m.allowedShare = float64(allowed) / float64(decisions-undecided)
	return m, nil
}

// usage returns the processor times of this process and of Redis, and the calls
// that Redis got.
func usage(redis *server.Redis) (self, other time.Duration, calls int64, err error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0, 0, err
	}
	self = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	if other, err = redis.CPU(); err != nil {
		return 0, 0, 0, err
	}
	c, err := redis.Counters()
	return self, other, c.Scripts, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// pause returns after d, or when ctx has ended.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
