package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/passage"
	"github.com/headgate/headgate/internal/storefile"
	"github.com/headgate/headgate/internal/wallclock"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/memcachestore"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore"
)

// backend is a store that counts, and what is known about its kind.
type backend struct {
	store.Store
	name string // in metrics and logs
	// budget is how long one of its calls may take.
	budget time.Duration
	url    config.StoreURL
	// memory reads the state of a memory store, shards that of the servers of others;
	// nil for others.
	memory func() memstore.Stats
	shards func() []shardState
	// leases decides what may be leased of the store; nil where it hands out no leases.
	leases *lease.Store
	// recall says what the store told last of a bucket; nil for those that remember
	// nothing.
	recall func([]byte, *limit.Limit, limit.Micros) (limit.State, bool)
	// way is that to the servers of the store; nil where there are none.
	way *passage.Passage
	// unfit says why the store cannot decide a limit; nil when it decides all.
	unfit func(*limit.Limit) error
}

// openBackends opens the store of s, the one for limits per second if there is one, and
// those of the file of stores, in this order.
func openBackends(s *config.Settings, wall *wallclock.Clock) ([]backend, error) {
	wanted := []storefile.Store{{Name: storefile.Main, URL: s.Store, StoreTuning: s.Tuning()}}
	if s.StorePerSecond != (config.StoreURL{}) {
		wanted = append(wanted, storefile.Store{Name: storefile.PerSecond, URL: s.StorePerSecond, StoreTuning: s.Tuning()})
	}
	if s.Stores != "" {
		named, err := storefile.Load(s.Stores, s.Tuning())
		if err != nil {
			return nil, fmt.Errorf("--stores: %w", err)
		}
		wanted = append(wanted, named...)
	}
	var backends []backend
	for i := range wanted {
		b, err := openBackend(&wanted[i], wall)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", settingOf(s, wanted[i].Name), err), closeAll(backends))
		}
		backends = append(backends, b)
	}
	return backends, nil
}

// settingOf says which setting names a store.
func settingOf(s *config.Settings, store string) string {
	switch store {
	case storefile.Main:
		return "--store"
	case storefile.PerSecond:
		return "--store-per-second"
	}
	return "--stores: " + s.Stores + ": store " + store
}

// openBackend opens a store. One that does not answer is no error: it may come back, and
// until then failure modes speak.
func openBackend(s *storefile.Store, wall *wallclock.Clock) (b backend, err error) {
	switch s.URL.Scheme() {
	case "memory":
		b, err = openMemory(s.URL)
	case "memcached":
		b, err = openMemcached(s, wall)
	default:
		b, err = openRedis(s)
	}
	if err != nil {
		return backend{}, err
	}
	b.name, b.url, b.budget = s.Name, s.URL, s.Budget
	return b, nil
}

// closeAll closes stores without their layers.
func closeAll(backends []backend) error {
	var errs []error
	for i := range backends {
		errs = append(errs, backends[i].Close())
	}
	return errors.Join(errs...)
}

func openRedis(s *storefile.Store) (backend, error) {
	o, err := redisstore.ParseURL(s.URL.Reveal())
	if err != nil {
		return backend{}, err
	}
	o.Budget = s.Budget
	o.Breaker = breakerOptions(&s.StoreTuning)
	way := new(passage.Passage)
	o.Via, o.Delay = way.Via, way.Delay
	redis, err := redisstore.New(o)
	if err != nil {
		return backend{}, err
	}
	return backend{
		Store:  redis,
		way:    way,
		recall: redis.Recall,
		shards: func() []shardState { return redisShards(redis.Stats()) },
	}, nil
}

func openMemcached(s *storefile.Store, wall *wallclock.Clock) (backend, error) {
	o, err := memcachestore.ParseURL(s.URL.Reveal())
	if err != nil {
		return backend{}, err
	}
	o.Budget = s.Budget
	o.Breaker = breakerOptions(&s.StoreTuning)
	way := new(passage.Passage)
	o.Via, o.Delay, o.Now = way.Via, way.Delay, wall.Micros
	memcached, err := memcachestore.New(o)
	if err != nil {
		return backend{}, err
	}
	return backend{
		Store: memcached, way: way, unfit: memcachestore.Supports,
		shards: func() []shardState { return memcachedShards(memcached.Stats()) },
	}, nil
}

// breakerOptions returns when a server of a store is left alone.
func breakerOptions(t *config.StoreTuning) breaker.Options {
	return breaker.Options{Failures: t.BreakerFailures, Ratio: t.BreakerRatio, Slow: t.BreakerSlow, Pause: t.BreakerPause}
}

// ping asks whether every server of b is there, and whether one can decide; it
// returns why not.
func (b *backend) ping(ctx context.Context) error {
	if servers, ok := b.Store.(interface{ Ping(context.Context) error }); ok {
		if err := servers.Ping(ctx); err != nil {
			return err
		}
	}
	return probe(ctx, b.Store)
}

// inMemory reports whether the buckets are in this process: such a store cannot
// fail, and nobody shares it.
func (b *backend) inMemory() bool { return b.memory != nil }

// probe asks whether s can decide, which is more than that it answers: the user
// may lack a command or the keys, the memory may be full. It charges a bucket of
// its own, whose key no descriptor has: those begin with the number of a version.
func probe(ctx context.Context, s store.Store) error {
	spec := limit.Spec{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: time.Minute}
	results := []store.Result{{}}
	s.Take(ctx, []store.Take{{Key: []byte("probe"), Limit: limit.Must(spec), Hits: 1}}, results)
	return results[0].Err
}

func openMemory(u config.StoreURL) (backend, error) {
	maxBytes, err := memoryOptions(u.Reveal())
	if err != nil {
		return backend{}, err
	}
	s, err := memstore.New(memstore.Options{MaxBytes: maxBytes})
	if err != nil {
		return backend{}, err
	}
	return backend{Store: s, memory: s.Stats}, nil
}

// memoryOptions reads memory://?max_bytes=SIZE. Without a size it returns 0,
// the default of the store.
func memoryOptions(raw string) (maxBytes int64, err error) {
	p, err := url.Parse(raw)
	if err != nil || p.Host != "" || p.User != nil || (p.Path != "" && p.Path != "/") {
		return 0, errors.New("memory store: unknown form; hint: memory:// or memory://?max_bytes=256MiB")
	}
	query, err := url.ParseQuery(p.RawQuery)
	if err != nil {
		return 0, errors.New("memory store: malformed query; hint: memory://?max_bytes=256MiB")
	}
	for name, values := range query {
		if name != "max_bytes" || len(values) != 1 {
			return 0, fmt.Errorf("memory store: unknown or repeated option %q; hint: memory://?max_bytes=256MiB", name)
		}
		var size config.Size
		if err := size.UnmarshalText([]byte(values[0])); err != nil {
			return 0, fmt.Errorf("memory store: max_bytes: %w", err)
		}
		if maxBytes = int64(size); maxBytes == 0 {
			return 0, errors.New("memory store: max_bytes: 0 holds nothing; hint: leave it out, or 256MiB")
		}
	}
	return maxBytes, nil
}
