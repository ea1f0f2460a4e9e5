package memstore

// Stats is what a Store holds and what has happened to it since New.
type Stats struct {
	// Keys is the number of buckets, those among them that have expired and
	// wait to be dropped included.
	Keys int64
	// Bytes is what the buckets take, free slots included; at most MaxBytes.
	Bytes, MaxBytes int64
	// Shared is the number of shared buckets in use by limit, over all shards;
	// Overflowed the number of hits that found no room for a bucket of their
	// own: most were charged to a shared one.
	Shared     int64
	Overflowed uint64
	// Expired is the number of buckets that were dropped because they were as
	// if unused.
	Expired uint64
	// Leases is the number of leases that are remembered, over all buckets: at
	// most 65,536. Of the LeasedHits ever granted ReturnedHits were given back,
	// EndedHits were not by the end of their leases, or by their return, and the
	// others are still out.
	Leases                              int64
	LeasedHits, ReturnedHits, EndedHits int64
	// Nodes is the number of names in the roster, those included whose time is
	// over since the last call of Attend; at most 4096.
	Nodes int64
}

// Stats adds up what the shards hold, one after the other, each under its lock.
func (s *Store) Stats() Stats {
	var total Stats
	unit := unitOf(s.micros())
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.lock()
		sh.addTo(&total, unit)
		sh.mu.unlock()
	}
	s.leases.addTo(&total)
	s.nodes.mu.Lock()
	total.Nodes = int64(len(s.nodes.nodes))
	s.nodes.mu.Unlock()
	return total
}

func (s *shard) addTo(total *Stats, unit uint32) {
	for i := range s.tables {
		total.Keys += int64(s.tables[i].used)
	}
	total.Bytes += s.bytes() + s.shared.bytes()
	total.MaxBytes += s.share
	total.Shared += s.shared.inUse(unit)
	total.Overflowed += s.overflowed
	total.Expired += s.reclaimed
}

func (b *leaseBook) addTo(total *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	total.Leases = int64(b.count)
	total.LeasedHits, total.ReturnedHits, total.EndedHits = b.granted, b.returned, b.ended
}
