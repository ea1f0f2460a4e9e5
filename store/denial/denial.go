// Package denial remembers what a store has denied, so that the store is not
// asked again for hits that it is sure to deny.
//
// A denial names the time after which its hits would pass if nothing else
// happened (RetryAfter). Until then nothing but a refund, a reset or another
// limit can let them pass: hits of others only make it later. So a Store answers
// as many hits or more on the same bucket by itself, and a caller who keeps on
// knocking costs the store no calls.
//
// # How long
//
// The time counts from before the question was sent, on this node's monotonic
// clock. The store decided later than that, so a denial is never remembered for
// longer than the store meant. It is also never remembered for longer than
// Options.Longest: of a refund, a reset or a raised limit that came through
// another node this one learns nothing, and so it takes effect here within that
// time. What comes through this node takes effect at once: a refund, a reset, a
// charge or a hit that passes drops what is remembered of its bucket, and a
// limit that has changed is another *limit.Limit, of which nothing is known.
// (A machine that sleeps may stop the monotonic clock; what is left of Longest
// goes on when it wakes up.)
//
// A node that denies by what it holds in advance (store.Result.Basis) has not asked
// the store, and knows itself when it will: that is not remembered. A leased bucket
// (Mode.Consistency) may have room before the store's denial ends, because nodes give
// back what they hold: its denials are remembered for a tenth of a
// second at most. In the simulation of package lease, where ten nodes share fixed
// windows and stop one after the other, about 3 in 100 denials come while
// something is left in the store, as without this layer; with two seconds it were
// 11 in 100, for 10 % fewer calls. (Synced buckets are as sure as exact ones: what
// has passed is not given back.)
//
// # What is answered
//
// The verdict is the one that the store would give. RetryAfter and ResetAfter
// are the remembered ones less the time since then, to the microsecond; for more
// hits than were denied, where the algorithm lets RetryAfter be computed from
// that (buckets and fixed_window) or nothing ever lets so many pass. The other
// algorithms are asked once for each number of hits. Remaining is as it was when
// the store was asked, so it may be too low, never too high.
//
// A ban is remembered as any denial, from the charge that begins it, and answers all
// hits on it alike. Nothing but a reset lifts it: a charge of denials or a refund of them leaves it remembered.
//
// A dry run is always asked, and nothing of it is remembered. So where a refund or a
// reset through another node has made room, it says so before a hit here passes.
//
// Not remembered are peeks, errors, takes with Mode.AskAlways, the denials of
// concurrency, because a slot may be released at any moment, and those of limits with
// CountDenied: there each denied hit makes it worse for the next. The exception is
// fixed_window, where after a hit that is denied and counted nothing passes until
// the window ends, however many follow. (A refund or a raised limit inside of that
// window then finds those not counted that were answered here.)
//
// # Groups
//
// A group with a hit that is remembered as denied, and is not Shadow, is denied
// as a whole without asking: the others of it are Skipped. A Shadow denial does
// not hold its group back, so the store is asked for all of it.
//
// # Shared with other nodes
//
// With Options.Sharer nodes tell each other of denials that are asked for often, so that
// a node that was never asked for a key denies it too without a call. What is told is a
// keyed hash of the key and of the limit, and the denial; it holds on other nodes as
// long as here, by the store's clock and less the time of an exchange, and so a
// refund, a reset or a raised limit takes effect everywhere within Longest of the
// question. A node that has another limit for the key hears nothing of it. Where a
// bucket has changed through a node, or its lease has let hits pass, that node believes
// nobody for as long.
//
// One of the nodes that tell of a denial asks anew when half of its time is over, so
// that the others hear of it in time: an attack on a key costs the store about one call in
// Longest/2 for the fleet, and none on the nodes that only hear. An exchange that fails
// changes nothing: what was heard ends by itself, and then each node asks. Only denials of
// the store are told (Mode exact, decided on the bucket), and none of limits that count denied hits.
// When the store's clock is set back, what was told before holds for as much longer, up
// to Longest.
//
// # Memory
//
// At most Options.MaxEntries denials are remembered, about 130 bytes each. When
// there is no room the one that ends first makes it. Keys are not kept, only 128
// bits of two keyed hashes with seeds of this Store: that a key is answered by
// the denial of another has a probability of MaxEntries/2^128 for each question,
// below 10^-33.
package denial

import (
	"cmp"
	"context"
	"hash/maphash"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Defaults and bounds of Options.
const (
	DefaultMaxEntries = 1 << 16
	// MaxEntriesBound bounds Options.MaxEntries.
	MaxEntriesBound = 1 << 24
	DefaultLongest  = 2 * time.Second
)

// longestLeased bounds Options.Longest for leased buckets: other nodes give back
// what they hold at any time, and the layer that leases remembers by itself for
// how long it need not ask.
const longestLeased = 100 * time.Millisecond

// Options configures a Store. The zero value of each field is its default.
type Options struct {
	// MaxEntries bounds the denials that are remembered; default 65,536. It is
	// rounded up to eight times a power of two, and at most MaxEntriesBound.
	MaxEntries int
	// Longest is how long a denial is remembered at most, and so how late a
	// refund, reset or raised limit that came through another node takes effect
	// here; default 2 s.
	Longest time.Duration
	// Now is the clock, with a monotonic reading; nil means time.Now. It is
	// called by many goroutines.
	Now func() time.Time
	// OnAnswered, when not nil, is told of takes that were answered from memory and so
	// are not seen beneath: of one for all, asks of them, which is AnsweredStep. It is
	// called by many goroutines and must not block nor keep the take.
	OnAnswered func(t *store.Take, asks int64)
	// Sharer, when not nil, is where nodes tell each other of denials that are asked
	// for often, see Store.Share.
	Sharer store.Sharer
}

// AnsweredStep is how many answers of one denial Options.OnAnswered is told of at once.
const AnsweredStep = 8

// Store answers from memory what it can, and asks the store beneath for the
// rest. Make one with New.
type Store struct {
	inner   store.Store
	longest time.Duration
	now     func() time.Time // nil: the monotonic clock since base
	base    time.Time
	seeds   [2]maphash.Seed
	memory  memory

	onAnswered func(t *store.Take, asks int64)
	sharing    *sharing // nil: nothing is told, and nothing heard
}

var _ store.Store = (*Store)(nil)

// New returns a Store over inner that remembers nothing yet.
func New(inner store.Store, o Options) *Store {
	o.MaxEntries = cmp.Or(max(o.MaxEntries, 0), DefaultMaxEntries)
	o.Longest = cmp.Or(max(o.Longest, 0), DefaultLongest)
	s := &Store{
		inner:   inner,
		longest: o.Longest,
		now:     o.Now,
		seeds:   [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		memory:  newMemory(min(o.MaxEntries, MaxEntriesBound)),

		onAnswered: o.OnAnswered,
	}
	if o.Sharer != nil && s.longest > 2*shareLeast {
		s.sharing = newSharing(o.Sharer, s.longest)
	}
	if s.base = time.Now(); s.now != nil {
		s.base = s.now()
	}
	return s
}

// at returns the present instant, as nanoseconds since New.
func (s *Store) at() int64 {
	if s.now != nil {
		return int64(s.now().Sub(s.base))
	}
	return int64(time.Since(s.base)) // reads the monotonic clock alone
}

// Close closes the store beneath.
func (s *Store) Close() error { return s.inner.Close() }

// Supports implements store.Supporter, as the store beneath does.
func (s *Store) Supports(l *limit.Limit) error { return store.Supports(s.inner, l) }

// Take implements store.Store.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	switch {
	case store.HasDryRun(takes):
		s.takeRuns(ctx, takes, results)
	case len(takes) == 1:
		s.takeOne(ctx, takes, results)
	case len(takes) <= maxBatch:
		s.takeBatch(ctx, takes, results)
	default:
		at := s.at()
		s.inner.Take(ctx, takes, results)
		for i := range takes {
			s.noteChange(&takes[i], &results[i], maphash.Bytes(s.seeds[0], takes[i].Key), at)
		}
	}
}

// takeRuns is Take for batches with dry runs in them, which are asked as they are.
func (s *Store) takeRuns(ctx context.Context, takes []store.Take, results []store.Result) {
	for from := 0; from < len(takes); {
		to := store.RunEnd(takes, from)
		if takes[from].DryRun {
			s.inner.Take(ctx, takes[from:to], results[from:to])
		} else {
			s.Take(ctx, takes[from:to], results[from:to])
		}
		from = to
	}
}

// takeOne is takeBatch for a batch of one.
func (s *Store) takeOne(ctx context.Context, takes []store.Take, results []store.Result) {
	at, t := s.at(), &takes[0]
	a := s.look(t, at)
	if a.entry != nil {
		results[0] = s.answerOf(t, a, at)
		return
	}
	s.inner.Take(ctx, takes, results)
	s.learn(t, &results[0], a, at)
}

// answerOf is the answer to t by the denial that was found.
func (s *Store) answerOf(t *store.Take, a ask, at int64) store.Result {
	s.memory.setOf(a.first).answered.Add(1)
	told := a.entry.told.Add(1)
	if s.onAnswered != nil && told%AnsweredStep == 0 {
		s.onAnswered(t, AnsweredStep)
	}
	if s.sharing != nil && told == shareAfter {
		s.sharing.offer(t, a.entry)
	}
	return store.Result{Decision: a.entry.answer(t.Hits, at)}
}

// ask is what is known of a take before it is asked.
type ask struct {
	first uint64 // the first hash of the key
	// changes is how often what is remembered of the key had been dropped for a
	// change when it was looked for.
	changes uint64
	// entry is the denial that answers it, or nil.
	entry *entry
	// answered says that the take is not asked.
	answered bool
}

// look looks for a denial that answers t.
func (s *Store) look(t *store.Take, at int64) ask {
	a := ask{first: maphash.Bytes(s.seeds[0], t.Key)}
	set := s.memory.setOf(a.first)
	a.changes = set.changes.Load()
	if t.Op != store.Hit || t.Hits <= 0 || asksAlways(t) {
		return a
	}
	if set.has(a.first) {
		a.entry = set.find(a.first, s.second(t), t, s.horizon(at))
	}
	switch {
	case s.sharing == nil:
	case a.entry == nil:
		a.entry = s.fromOthers(t, &a, at)
	case a.entry.due(at):
		a.entry = nil
	}
	return a
}

// second is the second hash of the key of t.
func (s *Store) second(t *store.Take) uint64 { return maphash.Bytes(s.seeds[1], t.Key) }

func asksAlways(t *store.Take) bool { return t.Mode != nil && t.Mode.AskAlways }

// horizon is when a denial must have been asked for to count at the instant at.
func (s *Store) horizon(at int64) span { return span{at: at, latest: at + int64(s.longest)} }

// learn notes what the answer to t, asked at the instant at, says about its
// bucket.
func (s *Store) learn(t *store.Take, r *store.Result, a ask, at int64) {
	if s.noteChange(t, r, a.first, at) {
		return
	}
	denial := r.Decision
	switch {
	case begins(t, r):
		denial.Allowed, denial.RetryAfter = false, r.ResetAfter
	case !rememberable(t, r):
		return
	}
	set := s.memory.setOf(a.first)
	if set.changes.Load() != a.changes {
		return
	}
	hold := denial.RetryAfter
	if r.Never {
		hold = r.ResetAfter // from then on it is denied with other words
	}
	longest := s.longest
	if t.Mode != nil && t.Mode.Consistency == store.Leased {
		longest = min(longest, longestLeased)
	}
	if hold = min(hold, longest); hold == 0 {
		hold = longest
	}
	e := &entry{
		first: a.first, second: s.second(t),
		limit: t.Limit, hits: t.Hits,
		sent: at, until: at + int64(hold),
		decision: denial,
	}
	if t.Limit.CountDenied || t.Limit.Algorithm == limit.Ban {
		e.hits = 1 // the bucket is over its quota now, or banned
	}
	set.put(e, s.horizon(at))
	// A refund that was decided after e, but came back before it, has either
	// seen e and dropped it, or is seen here.
	if set.changes.Load() != a.changes {
		set.dropEntry(e)
	}
}

// begins reports whether a ban lasts after t, which has counted a denial: it answers
// as a peek does. Where the other limits of a request are remembered as denied, the
// ban is not looked at, and nobody would hear of it before those have ended.
func begins(t *store.Take, r *store.Result) bool {
	return t.Op == store.Charge && t.Limit.Algorithm == limit.Ban && r.Err == nil && r.Remaining == 0 && r.ResetAfter > 0
}

// rememberable reports whether r, the answer to the hit t, is a denial that
// holds until its RetryAfter.
func rememberable(t *store.Take, r *store.Result) bool {
	if t.Op != store.Hit || t.Hits <= 0 || r.Err != nil || r.Skipped || r.Basis != store.OnBucket || r.Allowed || asksAlways(t) || t.Limit.Algorithm == limit.Concurrency {
		return false
	}
	if t.Limit.CountDenied {
		// Denied hits of a group are not counted.
		return t.Limit.Algorithm == limit.FixedWindow && t.Group == 0 && !r.Never && r.RetryAfter > 0
	}
	return r.Never || r.RetryAfter > 0
}

// noteChange drops what is remembered of the bucket of t if t has changed it, or
// may have, and reports whether it has.
func (s *Store) noteChange(t *store.Take, r *store.Result, first uint64, at int64) bool {
	set := s.memory.setOf(first)
	switch {
	case mayMakeRoom(t):
		set.changes.Add(1)
		set.drop(first)
	case t.Op == store.Hit && t.Hits > 0 && (r.Err != nil || r.Allowed && !r.Skipped):
		// More is used now, so a denial that comes in late still holds: no need to
		// count this as a change, which would have all hits write here.
		set.drop(first)
	default:
		return false
	}
	s.distrust(t, r, first, at)
	return true
}

// distrust has what other nodes tell of the bucket of t not believed for as long as
// they may not know of this change. While nobody tells anything, hits that the store let
// pass need not be noted: they write nowhere then. Hits of a lease need, because the bucket
// may be empty for others.
func (s *Store) distrust(t *store.Take, r *store.Result, first uint64, at int64) {
	if s.sharing != nil && (t.Op != store.Hit || r.Basis != store.OnBucket || s.sharing.heard.Load() != nil) {
		s.sharing.distrust(first, at, s.longest)
	}
}

// mayMakeRoom reports whether after t, which is no hit, what was denied may pass,
// or be denied with other words. After what it does to a ban or to slots nothing
// changes that is remembered.
func mayMakeRoom(t *store.Take) bool {
	switch t.Op {
	case store.Reset:
		return true
	case store.Refund, store.Charge:
		return t.Hits > 0 && t.Limit.Algorithm != limit.Ban && t.Limit.Algorithm != limit.Concurrency
	}
	return false
}

// Stats is what a Store remembers and what it has done since New.
type Stats struct {
	// Entries is the number of denials that are remembered now, MaxEntries the
	// most that can be.
	Entries, MaxEntries int64
	// Answered counts the takes that were answered from memory, Skipped those of
	// their groups that were not looked at.
	Answered, Skipped uint64
	// Remembered counts the denials that were written down, Dropped those that
	// were dropped before their time because their bucket changed.
	Remembered, Dropped uint64
	// Told counts the denials that other nodes were told of, Heard those that were
	// remembered because others had told of them, ShareFailures the exchanges that
	// failed.
	Told, Heard, ShareFailures uint64
}

// Stats counts what is remembered; it looks at all of it.
func (s *Store) Stats() Stats {
	stats := s.memory.stats(s.horizon(s.at()))
	if h := s.sharing; h != nil {
		stats.Told, stats.Heard, stats.ShareFailures = h.told.Load(), h.taken.Load(), h.failed.Load()
	}
	return stats
}
