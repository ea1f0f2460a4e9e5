package totals

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// maxBatch is how many totals a message has at the most, but for those of one shard more.
const maxBatch = 1024

// maxKeep bounds how long a peer remembers what it has heard. It matters where an answer was lost
// and none came since: what was told then counts again once that is forgotten.
const maxKeep = 6 * time.Hour

// peer is the store of another region, and what is known of it.
type peer struct {
	Peer
	wake sleep.Nudge // has a round begin at once

	mu    sync.Mutex
	stats PeerStats
	heard time.Time // when an answer came last
	// away is when the first message since then was sent, tried when the last was not answered; away is
	// zero where the last was.
	away, tried time.Time
}

// round is what one peer is told at one time.
type round struct {
	share   int64 // the floor of this node, in millionths of a limit
	letters []letter
	totals  []store.Total
	seen    Seen
}

// letter is a total on its way.
type letter struct {
	e    *entry
	hash uint64
	now  store.Counts
}

// Run tells the peers of what was counted, each on its own, until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var all sync.WaitGroup
	for p := range s.peers {
		all.Go(func() { s.attend(ctx, p) })
	}
	all.Wait()
}

// attend makes rounds for one peer.
func (s *Store) attend(ctx context.Context, p int) {
	for range s.peers[p].wake.Every(ctx, s.interval) {
		_ = s.tell(ctx, p, s.floor) // it is counted, and told again in the next round
	}
}

// hurry has all peers told at once.
func (s *Store) hurry() {
	for p := range s.peers {
		s.peers[p].wake.Give()
	}
}

// Drain tells all peers, side by side, of what they have not heard yet, down to the last hit,
// and returns when they have, when one does not answer, or when ctx ends.
func (s *Store) Drain(ctx context.Context) error {
	var all sync.WaitGroup
	faults := make([]error, len(s.peers))
	for p := range s.peers {
		all.Go(func() { faults[p] = s.tell(ctx, p, 0) })
	}
	all.Wait()
	return cmp.Or(cmp.Or(faults...), ctx.Err())
}

// tell sends a peer what it has not heard, but for what is below a floor, in batches. It ends at
// the first that is not answered.
func (s *Store) tell(ctx context.Context, p int, floor int64) error {
	r := s.newRound(floor)
	var fault error
	for i := range s.shards {
		s.collect(&s.shards[i], p, &r)
		if fault == nil && (len(r.letters) >= maxBatch || i+1 == len(s.shards)) {
			fault = s.send(ctx, p, &r)
		}
		if fault != nil {
			r.letters, r.totals = r.letters[:0], r.totals[:0]
		}
	}
	s.peers[p].see(&r.seen)
	return fault
}

// newRound returns an empty round with this node's part of a floor.
func (s *Store) newRound(floor int64) round {
	floor /= store.LiveNodes(s.nodes)
	return round{share: floor}
}

// collect adds the totals of a shard of which a peer has not heard.
func (s *Store) collect(sh *shard, p int, r *round) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.rest.unheard[p] = 0
	for _, row := range sh.rows {
		row.unheard[p] = 0
	}
	now := s.now()
	for hash, e := range sh.entries {
		e.redate(now)
		if e.idle(now) {
			delete(sh.entries, hash)
			continue
		}
		known := e.known(p, now)
		u := e.count.Less(known)
		if u == (store.Counts{}) {
			e.behind[p] = now
			continue
		}
		r.seen.Unheard += u.Hits
		e.row.unheard[p] = max(e.row.unheard[p], u.Hits)
		if u.Resets == 0 && max(u.Hits, u.Back) < max(FloorOf(e.limit, r.share), 1) {
			// What it need not hear is not late, however long it takes until there is enough to tell.
			e.behind[p] = now
			continue
		}
		told, err := s.told.Get(e.limit)
		if err != nil {
			continue // the rule has a limit that is none with a bound on its debts
		}
		r.seen.Lag = max(r.seen.Lag, e.lag(p, now))
		r.letters = append(r.letters, letter{e, hash, e.count})
		r.totals = append(r.totals, store.Total{
			Key: e.key, Limit: told, Column: e.column, Now: e.count, Heard: known,
			Keep: min(e.limit.Weighs()+time.Minute, maxKeep),
		})
	}
}

// FloorOf returns how many hits of l on one key need not be told, with a floor in millionths.
func FloorOf(l *limit.Limit, millionths int64) int64 {
	hits := l.Capacity()
	return hits/1_000_000*millionths + hits%1_000_000*millionths/1_000_000
}

// send sends what is in r and empties it, and notes what was heard.
func (s *Store) send(ctx context.Context, p int, r *round) error {
	if len(r.totals) == 0 {
		return nil
	}
	pr, sent, began := &s.peers[p], s.now(), time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	results := make([]store.Result, len(r.totals))
	pr.Store.Import(ctx, r.totals, results)
	var fault error
	failed := 0
	for i := range results {
		if err := results[i].Err; err != nil {
			fault, failed = err, failed+1
			continue
		}
		s.heardOf(p, &r.letters[i], sent)
	}
	pr.answered(len(results), failed, time.Since(began))
	pr.refused(fault)
	r.letters, r.totals = r.letters[:0], r.totals[:0]
	if failed < len(results) {
		return nil // the peer is there, and says no to some
	}
	return fault
}

// heardOf notes that a peer has heard of a total.
func (s *Store) heardOf(p int, l *letter, sent limit.Micros) {
	sh := s.shardOf(l.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l.e.hear(p, l.now, sent)
}
