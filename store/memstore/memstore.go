// Package memstore remembers buckets in the memory of this process.
//
// It is the default store of Headgate and needs no server. Every process that
// uses one counts on its own; see package redisstore for a shared count.
//
// # Memory
//
// A Store never takes more than Options.MaxBytes for its buckets. A bucket of
// the bucket algorithms takes about 30 bytes, one of the fixed window and the
// sliding window about 40, one of the ban about 50, sub-windows, the sliding log and
// concurrency about 100 and nine for each part or stamp, or eighteen for each slot.
// (Buckets whose quota and period have a ratio with a denominator above 1024 in
// lowest terms take 40; sliding windows take 50 that count 2^32 and more, or
// whose period is no whole number, or of more than 4095, ms, s, m, h or d.)
// One of a limit with a Carry other than limit.CarryUsed takes about 130 and what it
// has beyond that. There are no pointers in it, so that the garbage collector has nothing to do.
// While a table grows, its old array exists beside the new one until the next
// collection; so does an arena's. On Linux a store of 8 MB and more asks for huge
// pages, so that it may take some megabytes more of the machine than it uses.
//
// What a Store remembers of leases and of the nodes of a roster comes on top: up
// to 65,536 leases, which with their buckets' registers are a few megabytes, as many
// totals of elsewhere, and 4096 nodes; and the values of Swap, which may take a quarter of MaxBytes more.
//
// Buckets that are as if unused are dropped, by and by, when others are
// written, and all of them at most once a second in a shard that is full. There
// is no goroutine.
//
// # When it is full
//
// A key keeps its bucket for as long as it matters. While there is no room, keys
// that have none are decided in shared buckets, one for each limit and shard:
// all of them together get what one key would get there. When there is room
// again, a key starts from what the shared bucket has used, not afresh. So no
// key ever gets more than its limit, whatever others do; the price is that a
// flood of invented keys slows down the newcomers among the honest ones, for as
// long as the limits of the flood take to reset. The other way, dropping old
// buckets for new ones, would let the flood wash away what the honest and the
// dishonest have used. Stats says when it happens: raise MaxBytes then, or put a
// limit on what the keys are made of.
//
// Requests in flight are counted so too: the keys without a bucket share the slots
// of one. When there is room again, a key starts with all slots of the shared
// bucket taken, and each of those that is not its own ends at its timeout.
//
// A sliding log or concurrency for which there is not even a shared bucket is
// denied, and so is a hit for which its own bucket has no memory. A renewal for
// which there is none is not remembered.
//
// Bans are the exception: nobody is banned for what others were denied. Bans that
// are there stay, but the denials of keys that have no bucket are not counted.
//
// # Identity
//
// Keys are not kept, only 92 bits of two keyed hashes whose seeds are drawn for
// each Store: nobody outside can aim at a slot. Two of ten million keys share a
// bucket with a probability of about 10^-14.
package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"runtime"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// DefaultMaxBytes is room for more than five million buckets.
	DefaultMaxBytes = 256 << 20
	// MinMaxBytes is the least MaxBytes, and the least share of a shard: its
	// overflow has to fit.
	MinMaxBytes = 256 << 10
	// MaxShards bounds Options.Shards.
	MaxShards = 1 << 12

	// shardBytes is the share of a shard unless told otherwise: small enough
	// that growing one, under its lock, takes well under a millisecond.
	shardBytes       = 1 << 20
	maxDefaultShards = 1 << 10
)

// Options configures a Store. The zero value is good.
type Options struct {
	// MaxBytes bounds the memory of all buckets; 0 means DefaultMaxBytes, and
	// it is at least MinMaxBytes.
	MaxBytes int64
	// Now is the clock; nil means the wall clock as it was at New, moved on by
	// the monotonic clock. It may step back, and is called by many goroutines.
	Now func() limit.Micros
	// Shards is the number of parts that have a lock and an equal share of the
	// memory each: a power of two up to MaxShards, with MinMaxBytes for each.
	// 0 lets New choose.
	Shards int
}

// Store is a store.Store in memory. Make one with New.
type Store struct {
	shards []shard
	mask   uint64 // of the first hash, for the index of the shard
	seeds  [2]maphash.Seed
	clock  clock
	now    func() limit.Micros // nil: clock
	// Apart from what every Take reads: these are written to.
	leases *leaseBook
	heard  *heardBook
	nodes  *roster
	kept   *kept
}

var _ store.Store = (*Store)(nil)

// New returns an empty Store.
func New(o Options) (*Store, error) {
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	if o.MaxBytes < MinMaxBytes {
		return nil, fmt.Errorf("new memstore: MaxBytes is %d; hint: at least %d", o.MaxBytes, MinMaxBytes)
	}
	if o.Shards == 0 {
		o.Shards = defaultShards(o.MaxBytes)
	}
	if o.Shards < 0 || o.Shards > MaxShards || bits.OnesCount(uint(o.Shards)) != 1 {
		return nil, fmt.Errorf("new memstore: Shards is %d; hint: a power of two up to %d", o.Shards, MaxShards)
	}
	share := o.MaxBytes / int64(o.Shards)
	if share < MinMaxBytes {
		return nil, errors.New("new memstore: MaxBytes is too little for so many Shards; hint: leave Shards at 0")
	}
	s := &Store{
		shards: make([]shard, o.Shards),
		mask:   uint64(o.Shards - 1),
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		clock:  newClock(),
		now:    o.Now,
		leases: new(leaseBook),
		heard:  new(heardBook),
		nodes:  new(roster),
		kept:   newKept(o.MaxBytes / keptShare),
	}
	for i := range s.shards {
		s.shards[i].share = share
		s.shards[i].pages = pagesFor(o.Shards)
		// Shards start at different sizes within one step of growth, so that
		// they do not all grow at the same number of keys.
		s.shards[i].firstSize = minSlots + uint64(i*minSlots/growthPart/o.Shards)
	}
	return s, nil
}

// defaultShards is the number of shards that have shardBytes each, but four for
// every processor where there is memory for those.
func defaultShards(maxBytes int64) int {
	n := max(maxBytes/shardBytes, min(int64(runtime.GOMAXPROCS(0))*4, maxBytes/MinMaxBytes))
	return 1 << (bits.Len64(uint64(min(n, maxDefaultShards))) - 1)
}

func (s *Store) micros() limit.Micros {
	if s.now != nil {
		return s.now()
	}
	return s.clock.now()
}

// identOf turns the two hashes of a key into its identity.
func identOf(first, second uint64) ident {
	return ident{inv: max(^first, 1), id: second}
}

// shardOf returns the shard of k. It takes the low bits: the table goes by the
// high ones.
func (s *Store) shardOf(k ident) *shard { return &s.shards[k.inv&s.mask] }

func (s *Store) identBytes(key []byte) ident {
	return identOf(maphash.Bytes(s.seeds[0], key), maphash.Bytes(s.seeds[1], key))
}

// TakeOne decides one hit, or a peek with hits 0, on the bucket of key. It is
// Take for those who have one question and want no slices. It never fails; hits
// are from 0 to limit.MaxQuota, beyond which they count as the nearest of them.
func (s *Store) TakeOne(key string, l *limit.Limit, hits int64) (d limit.Decision) {
	k := identOf(maphash.String(s.seeds[0], key), maphash.String(s.seeds[1], key))
	s.one(&ask{key: k, limit: l, hits: hits, now: s.micros()}, &d)
	return d
}

// TakeOneBytes is TakeOne for a key in a slice, which it does not keep.
func (s *Store) TakeOneBytes(key []byte, l *limit.Limit, hits int64) (d limit.Decision) {
	s.one(&ask{key: s.identBytes(key), limit: l, hits: hits, now: s.micros()}, &d)
	return d
}

// one decides a in its shard into d.
func (s *Store) one(a *ask, d *limit.Decision) {
	sh := s.shardOf(a.key)
	sh.mu.lock()
	// Deferred: a panic of Decide must not leave the shard locked.
	defer sh.mu.unlock()
	sh.take(a, d)
}

// Take implements store.Store. It never waits for anything but the work of other
// calls in a shard, so it does not look at ctx. Its results carry no errors.
func (s *Store) Take(_ context.Context, takes []store.Take, results []store.Result) {
	now := s.micros()
	for from, to := 0, 0; from < len(takes); from = to {
		switch t := &takes[from]; {
		case t.DryRun:
			to = store.RunEnd(takes, from)
			s.dryRun(takes[from:to], results[from:to], now)
		case t.Group != 0:
			to = store.GroupEnd(takes, from)
			s.takeGroup(takes[from:to], results[from:to], now)
		default:
			to = from + 1
			var a ask
			s.ask(&a, t, now)
			s.one(&a, &results[from].Decision)
			if results[from].Err != nil {
				results[from].Err = nil
			}
		}
	}
}

// ask fills in a, which is new, by t at now.
func (s *Store) ask(a *ask, t *store.Take, now limit.Micros) {
	a.key = s.identBytes(t.Key)
	a.limit, a.hits, a.hold, a.now, a.op, a.dry = t.Limit, t.Hits, t.Hold, now, t.Op, t.DryRun
}

// Close implements store.Store. It has nothing to release that the garbage
// collector does not.
func (s *Store) Close() error { return nil }
