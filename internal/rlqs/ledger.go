package rlqs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// maxBuckets bounds the buckets of one stream, maxLeases those of all streams together.
	// One beyond them is not answered, so that Envoy's no_assignment_behavior decides.
	maxBuckets, maxLeases = 10_000, 100_000
	// maxBatch is how many buckets are charged by one question.
	maxBatch = 256
)

// ledger knows what all streams of this process may use. It serves one report at a time, so
// that no two of them are promised the same hits.
type ledger struct {
	decider Decider
	store   store.Store
	node    limit.Hold // this one
	counts  *counters

	mu      sync.Mutex
	buckets map[string]*bucket
	leases  int
	// Memory of one report.
	items     []item
	requests  []headgate.Request
	responses []headgate.Response
	wants     []int64
	takes     []store.Take
}

// item is a lease that is looked at, and what comes of it.
type item struct {
	lease *lease
	// used is what was reported as used beyond what was promised, less than 0 what of the
	// promise was not used.
	used int64
	// over says that the bucket is to be forgotten.
	over    bool
	outlook outlook
	next    assignment
}

// report takes what a stream says of its buckets, in the order of their keys, and returns what
// it is to be told.
func (l *ledger) report(ctx context.Context, s *session, said []said, now time.Time) []action {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = l.items[:0]
	for _, r := range said {
		if le := l.leaseOf(s, r, now); le != nil {
			used := le.settles(r.usage.allowed, now) // by the interval for which it was promised
			le.note(r.usage, now)
			l.items = append(l.items, item{lease: le, used: used, over: le.idle >= idleReports})
		}
	}
	return l.serve(ctx, s, now)
}

// wake looks again at what a stream was told to deny until now.
func (l *ledger) wake(ctx context.Context, s *session, now time.Time) []action {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = l.items[:0]
	for _, le := range s.leases {
		if !le.wake.IsZero() && !le.wake.After(now) {
			le.flow(0, now)
			l.items = append(l.items, item{lease: le, used: le.settles(0, now)})
		}
	}
	return l.serve(ctx, s, now)
}

// leave forgets a stream. What is promised to it stays charged, because Envoy keeps its
// assignments.
func (l *ledger) leave(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, le := range s.leases {
		l.forget(s, le)
	}
}

// leaseOf returns the lease of a stream on a bucket, a new one where there is none and room.
func (l *ledger) leaseOf(s *session, r said, now time.Time) *lease {
	if le := s.leases[r.key]; le != nil {
		return le
	}
	if len(s.leases) >= maxBuckets || l.leases >= maxLeases {
		l.counts.ignored.Add(1)
		return nil
	}
	b := l.buckets[r.key]
	if b == nil {
		b = &bucket{domain: s.domain, entries: r.entries, key: r.key, leases: map[*session]*lease{}}
		l.buckets[r.key] = b
	}
	le := &lease{bucket: b, interval: usualInterval, at: now}
	b.leases[s], s.leases[r.key] = le, le
	l.leases++
	return le
}

// forget forgets a lease.
func (l *ledger) forget(s *session, le *lease) {
	delete(s.leases, le.bucket.key)
	delete(le.bucket.leases, s)
	if len(le.bucket.leases) == 0 {
		delete(l.buckets, le.bucket.key)
	}
	l.leases--
}

// serve goes through the items, so many at a time.
func (l *ledger) serve(ctx context.Context, s *session, now time.Time) (told []action) {
	for items := range slices.Chunk(l.items, maxBatch) {
		l.settle(ctx, items)
		l.divide(ctx, items)
		l.promise(ctx, items)
		for i := range items {
			told = l.conclude(told, s, &items[i], now)
		}
	}
	return told
}

// settle charges what was used beyond a promise, gives back what was not, and finds out what
// is left.
func (l *ledger) settle(ctx context.Context, items []item) {
	for i := range items {
		items[i].outlook = outlook{limited: true, unknown: true}
	}
	l.ask(ctx, items, func(it *item) (store.Op, int64) {
		if it.used < 0 {
			return store.Refund, -it.used
		}
		return store.Charge, it.used
	}, func(it *item, settled *headgate.Response) {
		if !it.over {
			it.outlook = outlookOf(settled, l.dryRun(ctx, it.lease, settled), it.lease.interval)
			it.lease.bucket.paceAt(it.outlook.short)
		}
	})
	l.settlePace(ctx, items)
}

// dryRun asks what would become of a hit; nil where that is clear.
func (l *ledger) dryRun(ctx context.Context, le *lease, settled *headgate.Response) *headgate.Response {
	if !doubtful(settled, le.interval) {
		return nil
	}
	req := le.request(store.Hit, 1)
	var before, after headgate.Response
	if l.decider.DryRun(ctx, &req, &before, &after) != nil {
		return nil
	}
	return &after
}

// divide decides what each item is to get.
func (l *ledger) divide(ctx context.Context, items []item) {
	nodes := l.peers(ctx, items)
	for i := range items {
		it := &items[i]
		it.next = it.share(l.part(it, nodes[i]))
	}
}

// contended reports whether the streams of this node want more of a bucket than there is.
func (l *ledger) contended(it *item) bool {
	if it.over || !it.outlook.limited || it.outlook.unknown {
		return false
	}
	capacity := it.outlook.hits + it.lease.bucket.promisedBut(it.lease)
	_, sum := it.lease.bucket.wants(l.wants[:0], it.lease.bucket.newcomer(capacity))
	return sum > capacity
}

// part returns how many hits an item may get where so many nodes compete.
func (l *ledger) part(it *item, nodes int64) int64 {
	b := it.lease.bucket
	capacity := it.outlook.hits + b.promisedBut(it.lease)
	if nodes > 1 {
		capacity = max(capacity, it.outlook.rate) / nodes
	}
	share := b.newcomer(capacity)
	l.wants, _ = b.wants(l.wants[:0], share)
	return min(maxMin(capacity, l.wants, it.lease.wants(share)), it.outlook.hits)
}

// newcomer is what of capacity a stream may have that has not shown how much it needs.
func (b *bucket) newcomer(capacity int64) int64 {
	return capacity / int64(newcomers*max(len(b.leases), 1))
}

// share returns the assignment for an item that gets so many hits, and keeps what is promised
// by it in the lease.
func (it *item) share(hits int64) assignment {
	le, o := it.lease, &it.outlook
	switch {
	case it.over || !o.limited:
		return assignment{kind: free}
	case o.unknown && o.refused:
		return assignment{kind: denied}
	case o.unknown && le.given.kind == metered:
		return le.given
	case o.unknown:
		return assignment{kind: free}
	case hits < 1:
		return assignment{kind: denied}
	}
	t, promised := le.meter(hits, max(o.burst/int64(len(le.bucket.leases)), 1))
	le.promised = promised
	return assignment{metered, t}
}

// promise charges what is promised. What the store does not take is promised to nobody: its use is
// charged by the next report.
func (l *ledger) promise(ctx context.Context, items []item) {
	l.ask(ctx, slices.DeleteFunc(slices.Clone(items), func(it item) bool { return it.lease.promised == 0 }),
		func(it *item) (store.Op, int64) { return store.Charge, it.lease.promised },
		func(it *item, charged *headgate.Response) {
			if !taken(charged) { // or what was never charged would be given back
				it.lease.promised = 0
			}
		})
	l.promisePace(ctx, items)
}

// conclude makes the assignments of an item what the stream has, and appends what it is to be
// told.
func (l *ledger) conclude(told []action, s *session, it *item, now time.Time) []action {
	le := it.lease
	if it.over {
		l.forget(s, le)
		l.counts.abandoned.Add(1)
		return append(told, action{bucket: le.bucket, abandon: true})
	}
	lasts := lifetimes * le.interval
	le.promisedAt, le.wake = now, time.Time{}
	switch {
	case it.next.kind == free && !it.outlook.unknown:
		lasts = longest
	case it.next.kind == denied && !it.outlook.unknown:
		lasts = max(lasts, it.outlook.after)
		le.wake = now.Add(max(it.outlook.after, nap))
	}
	if !le.assign(it.next, lasts, now) {
		return told
	}
	l.counts.assigned.Add(1)
	return append(told, action{bucket: le.bucket, assignment: le.given, lasts: le.lasts, interval: le.interval})
}

// ask has one request decided for each item, and answers each of them that was well formed.
func (l *ledger) ask(ctx context.Context, items []item, op func(*item) (store.Op, int64), answered func(*item, *headgate.Response)) {
	if len(items) == 0 {
		return
	}
	l.requests = l.requests[:0]
	for i := range items {
		o, hits := op(&items[i])
		l.requests = append(l.requests, items[i].lease.request(o, min(hits, limit.MaxQuota)))
	}
	l.responses = slices.Grow(l.responses[:0], len(items))[:len(items)]
	if err := l.decider.Check(ctx, l.requests, l.responses); err != nil {
		l.counts.failed.Add(1)
		return
	}
	for i := range items {
		answered(&items[i], &l.responses[i])
	}
}

// request returns what is asked of the bucket of a lease. Its entries are a copy, in which
// API keys may be replaced by their names.
func (l *lease) request(op store.Op, hits int64) headgate.Request {
	return headgate.Request{Domain: l.bucket.domain, Descriptors: []headgate.Descriptor{{Entries: slices.Clone(l.bucket.entries), Op: op, Hits: hits}}, Receipt: &l.receipt}
}
