package rlqs

import (
	"context"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// A limit whose window is shorter than the interval of the reports has forgotten what was
// promised before it is used. So what is promised of it counts in a bucket of its own as well,
// for all nodes, that drains as fast as the limit lets pass: its pace.

// pacePrefix begins the keys of those buckets. No key of a limit begins so: those begin with
// the number of a version.
const pacePrefix = "rlqs-pace"

// paceOf returns the pace of l, nil where there is none.
func paceOf(l *limit.Limit) *limit.Limit {
	quota := min(l.Quota, limit.MaxBucketQuota)
	pace, err := limit.New(limit.Spec{Algorithm: limit.GCRA, Quota: quota, Period: l.Period, Burst: quota})
	if err != nil {
		return nil
	}
	return pace
}

// paceAt makes l what the promises for b count in, in place of the one before; nil for none.
func (b *bucket) paceAt(l *limit.Limit) {
	if l != b.short {
		b.short, b.pace = l, nil
		if l != nil {
			b.pace = paceOf(l)
		}
	}
}

// settlePace settles the promises of items that have a pace, and bounds what is left by it.
func (l *ledger) settlePace(ctx context.Context, items []item) {
	takes := l.takes[:0]
	paced := func(it *item) bool { return !it.over && it.lease.bucket.pace != nil }
	for i := range items {
		if it := &items[i]; paced(it) {
			settled := it.paceTake()
			settled.Op, settled.Hits = store.Charge, max(it.used, 0)
			if it.used < 0 && it.lease.paced {
				settled.Op, settled.Hits = store.Refund, -it.used
			}
			peek, hit := it.paceTake(), it.paceTake()
			hit.Hits, hit.DryRun, peek.DryRun = 1, true, true
			takes = append(takes, settled, peek, hit)
		}
	}
	results, n := l.take(ctx, takes), 0
	for i := range items {
		it := &items[i]
		if !paced(it) {
			continue
		}
		peek, hit, within := &results[n+1], &results[n+2], it.lease.interval
		n += 3
		pace := it.lease.bucket.pace
		rate := pace.Forecast(0, 0, within)
		it.outlook.rate = min(it.outlook.rate, rate)
		if peek.Err != nil || hit.Err != nil { // such as a store that cannot count so
			it.outlook.hits = min(it.outlook.hits, rate/int64(len(it.lease.bucket.leases)))
			continue
		}
		it.outlook.hits = min(it.outlook.hits, pace.Forecast(peek.Remaining, hit.RetryAfter, within))
		it.outlook.after = max(it.outlook.after, hit.RetryAfter)
	}
}

// promisePace charges what is promised to items that have a pace.
func (l *ledger) promisePace(ctx context.Context, items []item) {
	takes := l.takes[:0]
	for i := range items {
		it := &items[i]
		if it.lease.paced = !it.over && it.lease.bucket.pace != nil && it.lease.promised > 0; it.lease.paced {
			t := it.paceTake()
			t.Op, t.Hits = store.Charge, it.lease.promised
			takes = append(takes, t)
		}
	}
	results, n := l.take(ctx, takes), 0
	for i := range items {
		if le := items[i].lease; le.paced {
			le.paced = results[n].Err == nil
			n++
		}
	}
}

func (it *item) paceTake() store.Take {
	b := it.lease.bucket
	return store.Take{Key: append([]byte(pacePrefix), b.key...), Limit: b.pace}
}

// take asks the store.
func (l *ledger) take(ctx context.Context, takes []store.Take) []store.Result {
	l.takes = takes
	if len(takes) == 0 {
		return nil
	}
	results := make([]store.Result, len(takes))
	l.store.Take(ctx, takes, results)
	return results
}
