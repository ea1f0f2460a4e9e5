package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
	"github.com/headgate/headgate/store/memcachestore"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore"
)

// Names of the stores of a process, in metrics and logs.
const (
	mainStore      = "store"
	perSecondStore = "per_second"
)

// backend is a store that counts, and what is known about its kind.
type backend struct {
	store.Store
	name string // mainStore or perSecondStore
	url  config.StoreURL
	// memory reads the state of a memory store, shards that of the servers of others;
	// nil for others.
	memory func() memstore.Stats
	shards func() []shardState
	// recall says what the store told last of a bucket; nil for those that remember
	// nothing.
	recall func([]byte, *limit.Limit, limit.Micros) (limit.State, bool)
	// unfit says why the store cannot decide a limit; nil when it decides all.
	unfit func(*limit.Limit) error
}

// openBackends opens the store of s, and the one for limits per second if there
// is one.
func openBackends(s *config.Settings) ([]backend, error) {
	first, err := openBackend(s, s.Store, mainStore)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	if s.StorePerSecond == (config.StoreURL{}) {
		return []backend{first}, nil
	}
	second, err := openBackend(s, s.StorePerSecond, perSecondStore)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--store-per-second: %w", err), first.Close())
	}
	return []backend{first, second}, nil
}

// openBackend opens the store that u names. One that does not answer is no error:
// it may come back, and until then failure modes speak.
func openBackend(s *config.Settings, u config.StoreURL, name string) (b backend, err error) {
	switch u.Scheme() {
	case "memory":
		b, err = openMemory(u)
	case "memcached":
		b, err = openMemcached(s, u)
	default:
		b, err = openRedis(s, u)
	}
	if err != nil {
		return backend{}, err
	}
	b.name, b.url = name, u
	return b, nil
}

func openRedis(s *config.Settings, u config.StoreURL) (backend, error) {
	o, err := redisstore.ParseURL(u.Reveal())
	if err != nil {
		return backend{}, err
	}
	o.Budget = s.StoreBudget
	o.Breaker = breakerOptions(s)
	redis, err := redisstore.New(o)
	if err != nil {
		return backend{}, err
	}
	return backend{
		Store:  redis,
		recall: redis.Recall,
		shards: func() []shardState { return redisShards(redis.Stats()) },
	}, nil
}

func openMemcached(s *config.Settings, u config.StoreURL) (backend, error) {
	o, err := memcachestore.ParseURL(u.Reveal())
	if err != nil {
		return backend{}, err
	}
	o.Budget = s.StoreBudget
	o.Breaker = breakerOptions(s)
	memcached, err := memcachestore.New(o)
	if err != nil {
		return backend{}, err
	}
	return backend{
		Store: memcached, unfit: memcachestore.Supports,
		shards: func() []shardState { return memcachedShards(memcached.Stats()) },
	}, nil
}

// breakerOptions returns when a server of a store is left alone.
func breakerOptions(s *config.Settings) breaker.Options {
	return breaker.Options{Failures: s.BreakerFailures, Ratio: s.BreakerRatio, Slow: s.BreakerSlow, Pause: s.BreakerPause}
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
