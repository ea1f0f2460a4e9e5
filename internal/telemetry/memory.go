package telemetry

// Memory is the state of the memory store.
type Memory struct {
	// Keys is the number of buckets held.
	Keys int64
	// Bytes is the memory that they take, MaxBytes what they may take.
	Bytes, MaxBytes int64
	// Shared is the number of shared buckets in use because the store is full.
	Shared int64
	// Overflowed is the number of hits that found no room, since start.
	Overflowed uint64
	// Expired is the number of buckets dropped because they were as if unused,
	// since start.
	Expired uint64
}

// WatchMemory adds the state of the memory store to the metrics. read is called
// once for each collection.
func (m *Metrics) WatchMemory(read func() Memory) {
	m.register.MustRegister(sampled[Memory]{read, []metric[Memory]{
		gauge("headgate_memory_store_keys", "Buckets in the memory store.", func(s *Memory) float64 { return float64(s.Keys) }),
		gauge("headgate_memory_store_bytes", "Memory that the memory store takes.", func(s *Memory) float64 { return float64(s.Bytes) }),
		gauge("headgate_memory_store_max_bytes", "Memory that the memory store may take.", func(s *Memory) float64 { return float64(s.MaxBytes) }),
		gauge("headgate_memory_store_shared_buckets", "Buckets shared by keys that found no room; 0 unless the memory store is full.", func(s *Memory) float64 { return float64(s.Shared) }),
		counter("headgate_memory_store_overflow_total", "Hits that found no room for a bucket of their own.", func(s *Memory) float64 { return float64(s.Overflowed) }),
		counter("headgate_memory_store_expired_total", "Buckets dropped because they were as if unused.", func(s *Memory) float64 { return float64(s.Expired) }),
	}})
}
