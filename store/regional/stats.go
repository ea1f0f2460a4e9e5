package regional

import "time"

// Stats is what a Store holds and what has happened to it since New. Hits are conserved:
//
//	Granted == Used + Returned + Lost + Held + UnderWay
type Stats struct {
	// Buckets is of how many buckets the node knows rights.
	Buckets int64
	// Granted counts the hits that the home has lent: Used those that passed, Returned those
	// that it took back, Lost those that nobody could use (their lease had ended, the machine
	// was suspended, or the home did not confirm a return); Held are those that may still pass,
	// UnderWay those that are being returned.
	Granted, Used, Returned, Lost, Held, UnderWay int64
	// Unsure counts hits that were lent and not used, because the home may have forgotten
	// something meanwhile.
	Unsure int64
	// Leased counts takes that were decided by rights, Reserved those that the reserve of the
	// region was asked for, and Denied those of them that it denied.
	Leased, Reserved, Denied uint64
	// Asked counts what the home was asked for, Failed what it did not answer.
	Asked, Failed uint64
	// Crowded counts takes for which there was no room to hold rights.
	Crowded uint64
	// Partings counts how often the wall clock and the monotonic clock parted and all rights
	// were dropped.
	Partings uint64
	// Epochs counts the epochs of the home that have begun while this node knew another one.
	Epochs uint64
	// Connected says that the last question to the home was answered, Heard how long ago an
	// answer came, RoundTrip how long the last took; 0 where none has come yet.
	Connected        bool
	Heard, RoundTrip time.Duration
	// EpochAge is how old the epoch of the home is: limits whose fence is longer are not leased
	// yet.
	EpochAge time.Duration
}

// returned books a return.
func (st *Stats) returned(a *Answer) {
	hits := a.Request.ReturnHits
	st.UnderWay -= hits
	if a.Grant.Err == nil && a.Grant.Returned {
		st.Returned += hits
		return
	}
	st.Lost += hits
}

// add adds what a shard counts.
func (st *Stats) add(o *Stats) {
	st.Granted += o.Granted
	st.Used += o.Used
	st.Returned += o.Returned
	st.Lost += o.Lost
	st.UnderWay += o.UnderWay
	st.Unsure += o.Unsure
	st.Leased += o.Leased
	st.Reserved += o.Reserved
	st.Denied += o.Denied
	st.Asked += o.Asked
	st.Failed += o.Failed
	st.Crowded += o.Crowded
	st.Partings += o.Partings
}

// Stats adds up what the shards hold, one after the other, each under its lock.
func (s *Store) Stats() (total Stats) {
	now := s.read()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		total.add(&sh.stats)
		total.Buckets += int64(len(sh.buckets))
		for _, b := range sh.buckets {
			total.Held += b.Held(now)
			total.Lost += b.lost
		}
		sh.mu.Unlock()
	}
	s.courier.mu.Lock()
	defer s.courier.mu.Unlock()
	h := &s.courier.known
	total.Epochs, total.RoundTrip = h.begun, h.trip
	if h.Known() {
		total.Connected = h.backoff == 0
		total.Heard, total.EpochAge = now-h.heard, h.epoch.Age+now-h.heard
	}
	return total
}
