package totals

import (
	"errors"
	"time"

	"github.com/headgate/headgate/store"
)

// MaxRules bounds the rules that are counted one by one; what passes by those beyond is counted
// in the sums alone.
const MaxRules = 1 << 12

// Seen is what the last round has found that a peer had not heard of.
type Seen struct {
	// Unheard is how many hits: the sum over all buckets.
	Unheard int64
	// Lag is for how long, at most, of what is not below the floor: since it was enough to be told.
	Lag time.Duration
}

// PeerStats is what is known of one peer.
type PeerStats struct {
	Region string
	Seen
	// Totals counts what it was told since New, Failed what of that it did not answer.
	Totals, Failed uint64
	// Connected says that the last message was answered, Known that one ever was; Heard is how
	// long ago that was, and RoundTrip how long the last answer took.
	Connected, Known bool
	Heard, RoundTrip time.Duration
	// Unanswered is for how long no message was answered, up to the last one; 0 where the last one was,
	// or where there was none for half a minute, because nothing has passed that is worth telling. Unlike
	// Lag it does not begin anew with each window.
	Unanswered time.Duration
	// Reason is why not all of the last message was taken, and Hint what may help; "" if it was.
	// Neither has an address or a secret.
	Reason store.Reason
	Hint   string
}

// pause is how long there may be nothing to tell until messages that were not answered before it no longer
// say that a peer is away.
const pause = 30 * time.Second

// RuleStats is what was counted of the takes of one rule (store.Mode.Rule) since New.
type RuleStats struct {
	Rule string
	// Hits passed here, Back were given back, Resets is how often a bucket was reset here.
	Hits, Back, Resets int64
	// Crowded counts takes for which there was no room to count.
	Crowded uint64
	// Unheard is by region how many hits on one key its store had not heard of when it was last
	// told: of the key with the most. The sum over all nodes that are not in a region bounds the
	// excess there.
	Unheard map[string]int64
	// Buckets is of how many buckets there is a count.
	Buckets int64
}

// row counts the takes of one rule in one shard.
type row struct {
	rule    string // "" is that of takes that have no row of their own
	counts  store.Counts
	crowded uint64
	unheard []int64 // by peer
}

// rowOf returns where t is counted. The lock of sh is held.
func (s *Store) rowOf(sh *shard, t *store.Take) *row {
	if t.Mode == nil || t.Mode.Rule == "" {
		return &sh.rest
	}
	r := sh.rows[t.Mode.Rule]
	if r == nil {
		if len(sh.rows) >= MaxRules {
			return &sh.rest
		}
		r = &row{rule: t.Mode.Rule, unheard: make([]int64, len(s.peers))}
		sh.rows[r.rule] = r
	}
	return r
}

// see notes what a round has found.
func (p *peer) see(seen *Seen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Seen = *seen
}

// answered notes that of so many totals of a message some were not answered, and how long it took.
func (p *peer) answered(totals, failed int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Totals += uint64(totals)
	p.stats.Failed += uint64(failed)
	p.stats.Connected = failed == 0
	now := time.Now()
	if failed < totals {
		p.stats.Known, p.stats.RoundTrip, p.heard = true, took, now
		p.away = time.Time{}
		return
	}
	if p.away.IsZero() || now.Sub(p.tried) >= pause {
		p.away = now.Add(-took)
	}
	p.tried = now
}

// refused notes why a message was not taken whole; nil if it was. That its store is left alone for
// a moment is no reason: it has one.
func (p *peer) refused(fault error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reason, hint := store.ReasonOf(fault), ""
	if reason == store.BreakerOpen && p.stats.Reason != store.NoReason {
		return
	}
	if known, ok := errors.AsType[*store.Error](fault); ok {
		hint = known.Hint
	}
	p.stats.Reason, p.stats.Hint = reason, hint
}

// Peers returns what is known of the peers, in the order of Options.
func (s *Store) Peers() []PeerStats {
	all := make([]PeerStats, len(s.peers))
	for i := range s.peers {
		p := &s.peers[i]
		p.mu.Lock()
		all[i] = p.stats
		all[i].Region = p.Region
		if p.stats.Known {
			all[i].Heard = time.Since(p.heard)
		}
		if !p.away.IsZero() && time.Since(p.tried) < pause {
			all[i].Unanswered = p.tried.Sub(p.away)
		}
		p.mu.Unlock()
	}
	return all
}

// Rules returns what was counted of each rule, by its id; "" is what has no row.
func (s *Store) Rules() map[string]*RuleStats {
	all := map[string]*RuleStats{}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		s.add(all, &sh.rest)
		for _, r := range sh.rows {
			s.add(all, r)
		}
		for _, e := range sh.entries {
			all[e.row.rule].Buckets++
		}
		sh.mu.Unlock()
	}
	return all
}

// add adds what r has counted.
func (s *Store) add(all map[string]*RuleStats, r *row) {
	one := all[r.rule]
	if one == nil {
		one = &RuleStats{Rule: r.rule, Unheard: map[string]int64{}}
		all[r.rule] = one
	}
	one.Hits += r.counts.Hits
	one.Back += r.counts.Back
	one.Resets += r.counts.Resets
	one.Crowded += r.crowded
	for p, n := range r.unheard {
		region := s.peers[p].Region
		one.Unheard[region] = max(one.Unheard[region], n)
	}
}

// Forget ends the rows of the rules that keep does not want, because they are gone. What was
// counted of them is still told.
func (s *Store) Forget(keep func(rule string) bool) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, e := range sh.entries {
			if e.row.rule != "" && !keep(e.row.rule) {
				e.row = &sh.rest
			}
		}
		for rule, r := range sh.rows {
			if !keep(rule) {
				sh.rest.counts = sh.rest.counts.Plus(r.counts)
				sh.rest.crowded += r.crowded
				delete(sh.rows, rule)
			}
		}
		sh.mu.Unlock()
	}
}
