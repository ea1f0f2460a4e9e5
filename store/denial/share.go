package denial

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// shareAfter is how many answers of a denial make it worth telling.
	shareAfter = 2 * AnsweredStep
	// shareLeast is how long a denial must last yet to be told: other nodes hear of it
	// when they exchange next.
	shareLeast = 500 * time.Millisecond
	// shareParts is by which part of Options.Longest exchanges follow each other, so
	// that a denial that is asked again at half its time reaches the others before its
	// end; minShareEvery and idleShareEvery bound that from below, and are the time
	// while nobody has anything to tell.
	shareParts     = 5
	minShareEvery  = 100 * time.Millisecond
	idleShareEvery = time.Second
	// maxOffers bounds the denials that wait to be told, maxSharedKey their keys in
	// bytes.
	maxOffers    = 64
	maxSharedKey = 1024
	// anchorLife is for how long after an exchange this node knows the store's clock.
	anchorLife = 5 * time.Second
	// driftPart is by which part of anchorLife's time two clocks part at most.
	driftPart = 2000
	// voids is the number of places in which it is noted that keys have changed.
	voids = 1 << 12
)

// sharing is what a Store tells other nodes, and hears from them.
type sharing struct {
	sharer store.Sharer
	every  time.Duration
	teller uint32 // this node, among those that tell
	wake   sleep.Nudge
	// heard is what others have told; nil: nothing.
	heard atomic.Pointer[heard]
	// void says for each part of all keys until when nothing is believed that others
	// tell of them, as nanoseconds since New.
	void [voids]atomic.Int64

	mu     sync.Mutex
	offers []offer
	mine   map[store.SharedName]*entry // told by this node
	anchor anchor

	told, taken, failed atomic.Uint64
}

// offer is a denial that is asked for often. The key is a copy.
type offer struct {
	key   []byte
	entry *entry
}

// anchor is what the store's clock said between two instants of this node's; sent 0 is
// none.
type anchor struct {
	now            limit.Micros
	sent, received int64 // nanoseconds since New
	salt           [16]byte
}

// heard is what other nodes have told, by names under salt. It is immutable.
type heard struct {
	salt    [16]byte
	denials map[store.SharedName]*entry // without hashes and limits
}

func newSharing(sharer store.Sharer, longest time.Duration) *sharing {
	var id [4]byte
	rand.Read(id[:]) // never fails
	return &sharing{
		sharer: sharer,
		every:  max(longest/shareParts, minShareEvery),
		teller: uint32(id[0])<<24 | uint32(id[1])<<16 | uint32(id[2])<<8 | uint32(id[3]),
		wake:   sleep.NewNudge(),
		mine:   make(map[store.SharedName]*entry),
	}
}

// shareable reports whether the denial of t is the store's own, and so the same for
// all nodes.
func shareable(t *store.Take) bool {
	return (t.Mode == nil || t.Mode.Consistency == store.Exact) && !t.Limit.CountDenied && len(t.Key) <= maxSharedKey
}

// offer has e, which answers t and many others, told to other nodes.
func (h *sharing) offer(t *store.Take, e *entry) {
	if !shareable(t) || e.elsewhere.Load() {
		return
	}
	h.mu.Lock()
	if len(h.offers) < maxOffers {
		h.offers = append(h.offers, offer{append([]byte(nil), t.Key...), e})
	}
	h.mu.Unlock()
	h.wake.Give()
}

// due reports whether e, which this node has told, is to be asked anew: when half of
// its time is over, by one take, so that other nodes hear of it before it ends for them.
func (e *entry) due(at int64) bool {
	held := e.until - e.sent
	if e.elsewhere.Load() || e.told.Load() < shareAfter || int64(e.decision.RetryAfter) <= held || at < e.sent+held/2 {
		return false
	}
	return e.renewed.CompareAndSwap(false, true)
}

// distrust notes at the instant at that the bucket of a key has changed on this node.
func (h *sharing) distrust(first uint64, at int64, longest time.Duration) {
	place, until := &h.void[first%voids], at+int64(longest)
	// It is written again when an eighth of the time is over, not for every hit.
	if place.Load() < until-int64(longest)/8 {
		place.Store(until + int64(longest)/8)
	}
}

// fromOthers returns a denial that answers t and that another node has told of, nil if
// there is none, and remembers it.
func (s *Store) fromOthers(t *store.Take, a *ask, at int64) *entry {
	h := s.sharing
	all := h.heard.Load()
	if all == nil || !shareable(t) || at < h.void[a.first%voids].Load() {
		return nil
	}
	told := all.denials[nameUnder(&all.salt, t.Key, t.Limit)]
	if told == nil {
		return nil
	}
	e := &entry{
		first: a.first, second: s.second(t), limit: t.Limit, hits: told.hits,
		sent: told.sent, until: min(told.until, told.sent+int64(s.longest)), decision: told.decision,
	}
	e.elsewhere.Store(true)
	now := s.horizon(at)
	if !e.holds(now) || !e.answers(t.Hits) {
		return nil
	}
	set := s.memory.setOf(a.first)
	set.put(e, now)
	if set.changes.Load() != a.changes {
		set.dropEntry(e)
		return nil
	}
	h.taken.Add(1)
	return e
}

// Share exchanges denials with other nodes until ctx ends. Without Options.Sharer it
// returns at once.
func (s *Store) Share(ctx context.Context) {
	h := s.sharing
	if h == nil {
		return
	}
	timer := time.NewTimer(h.every)
	defer timer.Stop()
	for last := time.Now(); ; last = time.Now() {
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
				waits = false
			case <-h.wake:
				timer.Reset(max(h.every-time.Since(last), 0))
			}
		}
		asked, cancel := context.WithTimeout(ctx, h.every)
		busy, err := s.Exchange(asked)
		cancel()
		pause := h.every
		if err != nil || !busy {
			pause = max(pause, idleShareEvery)
		}
		timer.Reset(pause)
	}
}

// Exchange tells other nodes once, and hears them; busy says that there is something
// that nodes share. After an error what was heard before counts until its end.
func (s *Store) Exchange(ctx context.Context) (busy bool, err error) {
	h := s.sharing
	sent := s.at()
	told := h.tell(sent)
	sharing, err := h.sharer.Share(ctx, told)
	if err != nil {
		h.failed.Add(1)
		return false, err
	}
	h.told.Add(uint64(len(told)))
	return len(sharing.All) > 0, h.hear(&sharing, sent, s.at())
}

// tell returns what is to be told at the instant at. Where the store's clock is not
// known nothing is; what is told then waits for the next time.
func (h *sharing) tell(at int64) []store.Shared {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, e := range h.mine {
		if at >= e.until {
			delete(h.mine, name)
		}
	}
	if !h.anchor.known(at) {
		return nil
	}
	var told []store.Shared
	for _, o := range h.offers {
		if o.entry.until < at+int64(shareLeast) || o.entry.dropped.Load() {
			continue
		}
		name := nameUnder(&h.anchor.salt, o.key, o.entry.limit)
		h.mine[name] = o.entry
		told = append(told, store.Shared{Name: name, Until: h.anchor.atLeast(o.entry.until), Text: appendDenial(nil, h.teller, o.entry)})
	}
	clear(h.offers)
	h.offers = h.offers[:0]
	return told
}

var errClockSet = errors.New("the store's clock was set, or is another's")

// hear notes what all share, asked for at sent and answered at received.
func (h *sharing) hear(all *store.Sharing, sent, received int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.anchor
	h.anchor = anchor{now: all.Now, sent: sent, received: received, salt: all.Salt}
	if before.known(sent) && (before.salt != all.Salt || !h.anchor.follows(&before)) {
		clear(h.mine)
		h.heard.Store(nil)
		return errClockSet
	}
	others := &heard{salt: all.Salt, denials: make(map[store.SharedName]*entry)}
	for i := range all.All {
		one := &all.All[i]
		teller, e, err := parseDenial(one.Text)
		if err != nil {
			continue // told by another version
		}
		if teller == h.teller {
			continue
		}
		if mine := h.mine[one.Name]; mine != nil {
			mine.elsewhere.Store(true) // one node asks anew, the one that knows it for longest
		}
		held := e.until
		e.until = h.anchor.atMost(one.Until)
		e.sent = e.until - held
		if e.until > received {
			others.denials[one.Name] = e
		}
	}
	if len(others.denials) == 0 {
		others = nil
	}
	h.heard.Store(others)
	return nil
}

// known reports whether the store's clock is known at an instant.
func (a *anchor) known(at int64) bool {
	return a.received != 0 && at-a.received < int64(anchorLife)
}

// atLeast is the store's clock at an instant of this node, or somewhat less.
func (a *anchor) atLeast(at int64) limit.Micros {
	return a.now + limit.Micros((at-a.received)/1000-int64(anchorLife)/driftPart/1000)
}

// atMost is the instant of this node at which the store's clock says now, or somewhat
// before.
func (a *anchor) atMost(now limit.Micros) int64 {
	if now-a.now > limit.Micros(math.MaxInt64/4000) {
		return a.sent
	}
	return a.sent + int64(now-a.now)*1000 - int64(anchorLife)/driftPart
}

// follows reports whether the store's clock has gone on since before as this node's has.
func (a *anchor) follows(before *anchor) bool {
	passed := int64(a.now-before.now) * 1000
	return passed <= a.received-before.sent+int64(shareLeast)/2 && passed >= a.sent-before.received-int64(shareLeast)/2
}
