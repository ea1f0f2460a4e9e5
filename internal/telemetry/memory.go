package telemetry

import "github.com/headgate/headgate/store/memstore"

// WatchMemory adds the state of the memory store to the metrics. read is called
// once for each collection.
func (m *Metrics) WatchMemory(read func() memstore.Stats) {
	m.register.MustRegister(sampled[memstore.Stats]{read, []metric[memstore.Stats]{
		gauge("headgate_memory_store_keys", "Buckets in the memory store.", func(s *memstore.Stats) float64 { return float64(s.Keys) }),
		gauge("headgate_memory_store_bytes", "Memory that the memory store takes.", func(s *memstore.Stats) float64 { return float64(s.Bytes) }),
		gauge("headgate_memory_store_max_bytes", "Memory that the memory store may take.", func(s *memstore.Stats) float64 { return float64(s.MaxBytes) }),
		gauge("headgate_memory_store_shared_buckets", "Buckets shared by keys that found no room; 0 unless the memory store is full.", func(s *memstore.Stats) float64 { return float64(s.Shared) }),
		counter("headgate_memory_store_overflow_total", "Hits that found no room for a bucket of their own.", func(s *memstore.Stats) float64 { return float64(s.Overflowed) }),
		counter("headgate_memory_store_expired_total", "Buckets dropped because nothing of them was used any more.", func(s *memstore.Stats) float64 { return float64(s.Expired) }),
	}})
}
