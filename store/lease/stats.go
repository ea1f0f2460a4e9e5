package lease

import "github.com/headgate/headgate/store/hotkey"

// Stats is what a Store holds and what has happened to it since New. Hits are
// conserved: at every instant
//
//	Granted == Used + Returned + Expired + Held + UnderWay
type Stats struct {
	// Buckets is the number of buckets that the node follows, Leases that of
	// leases with something left.
	Buckets, Leases int64
	// Granted counts the hits that the store handed out in leases: Used those
	// that passed, Returned those that the store took back, Expired those that
	// were lost (with the end of a lease, a reset, a suspended machine, or a
	// return that the store did not confirm); Held are those that may still
	// pass, UnderWay those that are being returned.
	Granted, Used, Returned, Expired, Held, UnderWay int64
	// Decided counts takes that were answered from memory, Paused those among
	// them that were denied since the store had nothing left a moment ago.
	Decided, Paused uint64
	// Direct counts takes of leased, synced and hot buckets that the store was
	// asked for one by one.
	Direct uint64
	// LeaseCalls counts the calls of Lease, LeaseRequests what they asked for.
	LeaseCalls, LeaseRequests uint64
	// Exchanges counts the exchanges of synced buckets, ExchangeCalls the calls
	// that carried them. Dropped is the number of hits that were not charged
	// since their window was over.
	Exchanges, ExchangeCalls uint64
	Dropped                  int64
	// Failures counts questions in the background that the store did not
	// answer.
	Failures uint64
	// Crowded counts takes that found no room for a bucket, Evicted buckets that
	// made room for another.
	Crowded, Evicted uint64
	// Partings counts how often the wall clock and the monotonic clock parted
	// and all leases were dropped.
	Partings uint64
	// Hot is the number of keys that are hot now.
	Hot int
}

// Add adds what another store counts, or a shard of this one.
func (st *Stats) Add(o *Stats) {
	st.Buckets += o.Buckets
	st.Leases += o.Leases
	st.Granted += o.Granted
	st.Used += o.Used
	st.Returned += o.Returned
	st.Expired += o.Expired
	st.Held += o.Held
	st.UnderWay += o.UnderWay
	st.Decided += o.Decided
	st.Paused += o.Paused
	st.Direct += o.Direct
	st.LeaseCalls += o.LeaseCalls
	st.LeaseRequests += o.LeaseRequests
	st.Exchanges += o.Exchanges
	st.ExchangeCalls += o.ExchangeCalls
	st.Dropped += o.Dropped
	st.Failures += o.Failures
	st.Crowded += o.Crowded
	st.Evicted += o.Evicted
	st.Partings += o.Partings
	st.Hot += o.Hot
}

// Stats adds up what the shards hold, one after the other, each under its lock.
func (s *Store) Stats() Stats {
	var total Stats
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		total.Add(&sh.stats)
		for _, b := range sh.buckets {
			for i := range b.lots {
				if held := b.lots[i].left; held > 0 {
					total.Held += held
					total.Leases++
				}
			}
		}
		sh.mu.Unlock()
	}
	total.LeaseCalls = s.courier.leaseCalls.Load()
	total.ExchangeCalls = s.courier.exchangeCalls.Load()
	total.Partings = s.partings.Load()
	total.Hot = len(s.HotKeys())
	return total
}

// HotKeys returns the keys that are hot now, the hottest first, by the hash that
// this store looks them up by: it means nothing elsewhere.
func (s *Store) HotKeys() []hotkey.Hot {
	if s.hot == nil {
		return nil
	}
	return s.hot.Hot(s.clock.Now())
}
