package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/bench/internal/server"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore"
)

// The axes along which costs are measured here. rlsload has the others.
const (
	axisKeys    = "keys"
	axisLimits  = "limits"
	axisCallers = "callers"
)

// inMemory counts in this process.
var inMemory = system{name: "in memory", local: true, open: openMemory}

// memoryBytes is enough for the 10 million keys of the largest row, and more.
const memoryBytes = 2 << 30

func openMemory(redisstore.Options) (store.Store, error) {
	return memstore.New(memstore.Options{MaxBytes: memoryBytes})
}

// scaleRows returns the rows of an axis, a few of them or all.
func scaleRows(axis string, full bool) ([]row, error) {
	switch axis {
	case axisKeys:
		return keysAxis(full), nil
	case axisLimits:
		return limitsAxis(full), nil
	case axisCallers:
		return callersAxis(full), nil
	}
	return nil, fmt.Errorf("-scale %s is neither %s nor %s nor %s", axis, axisKeys, axisLimits, axisCallers)
}

// keysAxis is one take of more and more keys.
func keysAxis(full bool) (all []row) {
	memory, redis := []int{1000, 1_000_000}, []int{1000, 100_000}
	if full {
		memory = []int{1000, 10_000, 100_000, 1_000_000, 10_000_000}
		redis = []int{1000, 10_000, 100_000, 1_000_000}
	}
	of := func(n int) workload {
		return workload{name: counted(n, "key"), spec: sliding, takes: 1, keys: n}
	}
	for _, n := range memory {
		all = append(all, row{of(n), inMemory})
	}
	for _, n := range redis {
		all = append(all, row{of(n), coalesced})
	}
	return all
}

// limitsAxis is requests under more and more limits, all or nothing.
func limitsAxis(full bool) (all []row) {
	counts := []int{1, 4, 16}
	if full {
		counts = []int{1, 2, 4, 8, 16}
	}
	for _, s := range []system{inMemory, coalesced} {
		for _, n := range counts {
			name := counted(n, "limit") + " of 10,000 keys each"
			all = append(all, row{workload{name: name, spec: sliding, takes: n, keys: 10_000}, s})
		}
	}
	return all
}

// callersAxis is more and more callers who ask at once.
func callersAxis(full bool) (all []row) {
	counts := []int{1, 10_000}
	if full {
		counts = []int{1, 100, 1000, 10_000, 100_000}
	}
	for _, s := range []system{inMemory, coalesced} {
		for _, n := range counts {
			all = append(all, row{workload{name: counted(n, "caller"), spec: sliding, takes: 1, callers: n}, s})
		}
	}
	return all
}

// counted is "1 key" or "1,000 keys".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return grouped(n) + " " + what
}

// grouped writes a number with a comma after each three digits.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

const (
	// fillers are how many fill a store side by side, and fillBatch how many
	// takes they ask for at a time.
	fillers, fillBatch = 16, 64
	// fillTime bounds the whole: 10 million keys take a fifth of it.
	fillTime = time.Minute
	// fillTries is how often what has failed is asked again: on a crowded machine
	// a call may miss the budget.
	fillTries = 50
	// fewKeys are too few to divide memory by.
	fewKeys = 100_000
)

// fill makes all keys and returns what each takes, in bytes.
func (r row) fill(ctx context.Context, keys int, redis *server.Redis, opened store.Store, empty int64) (float64, error) {
	ctx, stop := context.WithTimeout(ctx, fillTime)
	defer stop()
	errs := make(chan error, fillers)
	var filling sync.WaitGroup
	for f := range fillers {
		filling.Go(func() { errs <- r.fillPart(ctx, opened, f*keys/fillers, (f+1)*keys/fillers) })
	}
	filling.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	if keys*r.workload.takes < fewKeys {
		return 0, nil
	}
	used, err := memory(redis, r.system.local)
	return float64(used-empty) / float64(keys*r.workload.takes), err
}

// fillPart makes the keys from first to before last.
func (r row) fillPart(ctx context.Context, opened store.Store, first, last int) error {
	l := limit.Must(r.workload.spec)
	takes, results := make([]store.Take, 0, fillBatch), make([]store.Result, fillBatch)
	flush := func() error {
		for tries := 0; len(takes) > 0; tries++ {
			opened.Take(ctx, takes, results[:len(takes)])
			failed, err := keepFailed(takes, results)
			if err != nil && tries == fillTries {
				return fmt.Errorf("fill the store: %w", err)
			}
			takes = failed
		}
		return ctx.Err()
	}
	for n := first; n < last; n++ {
		for i := range r.workload.takes {
			takes = append(takes, store.Take{Key: appendKey(nil, i, n), Limit: l, Hits: 1, Mode: r.system.mode})
			if len(takes) == fillBatch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// keepFailed returns the takes that have failed, in the memory of all, and why the
// last of them did.
func keepFailed(takes []store.Take, results []store.Result) (failed []store.Take, err error) {
	failed = takes[:0]
	for i := range takes {
		if results[i].Err != nil {
			failed, err = append(failed, takes[i]), results[i].Err
		}
	}
	return failed, err
}

// memory is what Redis uses, or what this process holds, in bytes.
func memory(redis *server.Redis, local bool) (int64, error) {
	if !local {
		c, err := redis.Counters()
		return c.Memory, err
	}
	debug.FreeOSMemory()
	return server.ResidentOf(os.Getpid())
}
