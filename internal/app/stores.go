package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore"
)

// openedStore is a store and what is known about its kind.
type openedStore struct {
	store.Store
	// ping asks whether the store can decide; nil for one that cannot fail.
	ping func(context.Context) error
	// memory reads the state of a memory store; nil for others.
	memory func() telemetry.Memory
}

// openStore opens the store that u names. A Redis that does not answer is no
// error: it may come back, and until then failure modes speak.
func openStore(u config.StoreURL, budget time.Duration) (openedStore, error) {
	if u.Scheme() == "memory" {
		return openMemory(u)
	}
	o, err := redisstore.ParseURL(u.Reveal())
	if err != nil {
		return openedStore{}, fmt.Errorf("--store: %w", err)
	}
	o.Budget = budget
	s, err := redisstore.New(o)
	if err != nil {
		return openedStore{}, fmt.Errorf("--store: %w", err)
	}
	return openedStore{Store: s, ping: func(ctx context.Context) error { return probe(ctx, s) }}, nil
}

// probe asks whether s can decide, which is more than that it answers: the user
// may lack a command or the keys, the memory may be full. It charges a bucket of
// its own, whose key no descriptor has: those begin with the number of a version.
func probe(ctx context.Context, s store.Store) error {
	spec := limit.Spec{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: time.Minute}
	results := []store.Result{{}}
	s.Take(ctx, []store.Take{{Key: []byte("probe"), Limit: limit.Must(spec), Hits: 1}}, results)
	return results[0].Err
}

func openMemory(u config.StoreURL) (openedStore, error) {
	maxBytes, err := memoryOptions(u.Reveal())
	if err != nil {
		return openedStore{}, fmt.Errorf("--store: %w", err)
	}
	s, err := memstore.New(memstore.Options{MaxBytes: maxBytes})
	if err != nil {
		return openedStore{}, fmt.Errorf("--store: %w", err)
	}
	return openedStore{Store: s, memory: func() telemetry.Memory { return telemetry.Memory(s.Stats()) }}, nil
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
		if maxBytes, err = parseSize(values[0]); err != nil {
			return 0, fmt.Errorf("memory store: max_bytes: %w", err)
		}
	}
	return maxBytes, nil
}

// parseSize reads a positive number of bytes, with or without KiB, MiB or GiB.
func parseSize(text string) (int64, error) {
	number, shift := text, 0
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is not a size; hint: 268435456, 256MiB or 4GiB", text)
	}
	return n << shift, nil
}
