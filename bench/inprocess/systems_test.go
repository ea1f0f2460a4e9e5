package inprocess

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// hourlyQuota is one hit per microsecond and an hour's worth of burst: whatever
// a benchmark does within seconds passes, and in every algorithm the numbers
// stay whole.
const hourlyQuota = 3_600_000_000

// fillHits is charged to each key when a table is filled. It keeps a bucket in
// use for six minutes, so that nothing expires while it is measured.
const fillHits = hourlyQuota / 10

// bucketTable is one library with its table of buckets.
type bucketTable struct {
	// fill makes a bucket for key, which the library may keep.
	fill func(key string)
	// take asks for one hit on a key that has a bucket and must not be kept.
	take func(key []byte) bool
}

// system is a row of the report.
type system struct {
	name string
	// open makes an empty table for that many keys. It may run again and again.
	open func(tb testing.TB, keys int) bucketTable
	// denied says that the limit of the row lets (almost) nothing pass.
	denied bool
}

// headgateSpecs are the rows of Headgate, one for each algorithm.
var headgateSpecs = []limit.Spec{
	{Algorithm: limit.SlidingWindow, Quota: hourlyQuota, Period: time.Hour},
	{Algorithm: limit.FixedWindow, Quota: hourlyQuota, Period: time.Hour},
	{Algorithm: limit.SubWindows, Quota: hourlyQuota, Period: time.Hour},
	{Algorithm: limit.SlidingLog, Quota: 8, Period: time.Hour},
	{Algorithm: limit.TokenBucket, Quota: hourlyQuota, Period: time.Hour},
	{Algorithm: limit.LeakyBucket, Quota: 60, Period: time.Hour},
	{Algorithm: limit.LeakyQueue, Quota: hourlyQuota, Period: time.Hour},
	{Algorithm: limit.GCRA, Quota: hourlyQuota, Period: time.Hour},
}

// deniedSpecs are limits that are used up by filling.
var deniedSpecs = []limit.Spec{
	{Algorithm: limit.SlidingWindow, Quota: 1, Period: 24 * time.Hour},
	{Algorithm: limit.GCRA, Quota: 1, Period: 24 * time.Hour},
}

func headgateSystems() []system {
	var all []system
	for _, spec := range headgateSpecs {
		all = append(all, headgateSystem("headgate/"+spec.Algorithm.String(), spec))
	}
	for _, spec := range deniedSpecs {
		s := headgateSystem("headgate/"+spec.Algorithm.String()+"_denied", spec)
		s.denied = true
		all = append(all, s)
	}
	return append(all, headgateBatchOfOne())
}

func headgateSystem(name string, spec limit.Spec) system {
	return system{
		name: name,
		// A full sliding log denies most hits once it has been asked often, and
		// the leaky meter admits one hit a minute.
		denied: spec.Algorithm == limit.SlidingLog || spec.Algorithm == limit.LeakyBucket,
		open: func(tb testing.TB, keys int) bucketTable {
			s, l := newMemstore(tb, keys), limit.Must(spec)
			// The most that passes at once, so that the bucket stays in use.
			hits := max(1, min(fillHits, spec.Quota/10))
			if spec.Algorithm == limit.LeakyBucket {
				hits = 1
			}
			return bucketTable{
				fill: func(key string) { s.TakeOne(key, l, hits) },
				take: func(key []byte) bool { return s.TakeOneBytes(key, l, 1).Allowed },
			}
		},
	}
}

// headgateBatchOfOne goes through the interface store.Store, as the Limiter
// does.
func headgateBatchOfOne() system {
	return system{name: "headgate/gcra_as_batch", open: func(tb testing.TB, keys int) bucketTable {
		s, l := newMemstore(tb, keys), limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: hourlyQuota, Period: time.Hour})
		pool := sync.Pool{New: func() any { return new(batchOfOne) }}
		return bucketTable{
			fill: func(key string) { s.TakeOne(key, l, fillHits) },
			take: func(key []byte) bool {
				b := pool.Get().(*batchOfOne)
				b.takes[0] = store.Take{Key: key, Limit: l, Hits: 1}
				store.Store(s).Take(context.Background(), b.takes[:], b.results[:])
				allowed := b.results[0].Allowed
				pool.Put(b)
				return allowed
			},
		}
	}}
}

// batchOfOne is the working memory of one call; kept in a pool because slices
// that go through an interface would be allocated for each call.
type batchOfOne struct {
	takes   [1]store.Take
	results [1]store.Result
}

// defaultKeys is how many keys of the largest state the default memory holds
// with room to spare.
const defaultKeys = 100_000

// newMemstore opens the store with its defaults, and with more memory where
// keys would not fit; the memory is a bound and not taken in advance.
func newMemstore(tb testing.TB, keys int) *memstore.Store {
	var o memstore.Options
	if keys > defaultKeys {
		o.MaxBytes = 4 << 30
	}
	s, err := memstore.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// peerSystems are the other libraries, each in the way its documentation
// recommends for many keys.
var peerSystems = []system{
	{name: "x-time-rate/token_bucket_mutex_map", open: openXTimeRate},
	{name: "go-limiter/token_bucket", open: openGoLimiter},
	{name: "throttled/gcra", open: openThrottled},
}

// openXTimeRate keeps the limiters of golang.org/x/time/rate, which has no
// keys, in a map under a mutex.
func openXTimeRate(_ testing.TB, keys int) bucketTable {
	var mu sync.Mutex
	limiters := make(map[string]*rate.Limiter)
	return bucketTable{
		fill: func(key string) {
			l := rate.NewLimiter(hourlyQuota/3600, hourlyQuota)
			l.Allow()
			limiters[key] = l
		},
		take: func(key []byte) bool {
			mu.Lock()
			l := limiters[view(key)]
			mu.Unlock()
			return l.Allow()
		},
	}
}

func openGoLimiter(tb testing.TB, _ int) bucketTable {
	s, err := memorystore.New(&memorystore.Config{
		Tokens: hourlyQuota, Interval: time.Hour, SweepInterval: 24 * time.Hour,
	})
	if err != nil {
		tb.Fatal(err)
	}
	ctx := context.Background()
	return bucketTable{
		fill: func(key string) { _, _, _, _, _ = s.Take(ctx, key) },
		take: func(key []byte) bool {
			_, _, _, ok, err := s.Take(ctx, view(key))
			return ok && err == nil
		},
	}
}

func openThrottled(tb testing.TB, _ int) bucketTable {
	s, err := throttledmem.NewCtx(0)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{
		MaxRate: throttled.PerHour(hourlyQuota), MaxBurst: hourlyQuota,
	})
	if err != nil {
		tb.Fatal(err)
	}
	ctx := context.Background()
	return bucketTable{
		fill: func(key string) { _, _, _ = l.RateLimitCtx(ctx, key, fillHits) },
		take: func(key []byte) bool {
			limited, _, err := l.RateLimitCtx(ctx, view(key), 1)
			return !limited && err == nil
		},
	}
}

// loopSystem asks nobody.
var loopSystem = system{name: "loop", open: func(testing.TB, int) bucketTable {
	return bucketTable{
		fill: func(string) {},
		take: func(key []byte) bool { return key[len(key)-1] == 0 },
	}
}}
