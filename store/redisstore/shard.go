package redisstore

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/coalesce"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// shard is one server that has buckets, and what is counted of the calls there.
type shard struct {
	*conn.Server
	// takes and swaps join those of many callers; nil without coalescing.
	takes *coalesce.Coalescer[store.Take, store.Result]
	swaps *coalesce.Coalescer[store.Swap, store.Swapped]
	calls struct{ late, redirected, reseeded atomic.Uint64 }
}

// ShardStats is what the store knows of one server.
type ShardStats struct {
	conn.Stats
	// Late counts scripts that ran after their deadline, and charged nothing.
	// Redirected counts the calls that the server sent to another one.
	Late, Redirected uint64
	// Reseeded counts the buckets that the server was told of because it might
	// have lost their latest hits in a failover; see Options.Remembered.
	Reseeded uint64
	// Merged says how Takes were joined; zero without coalescing.
	Merged coalesce.Stats
}

// snapshot returns what is known at now.
func (sh *shard) snapshot(now time.Time) ShardStats {
	stats := ShardStats{
		Stats:      sh.Server.Stats(now),
		Late:       sh.calls.late.Load(),
		Redirected: sh.calls.redirected.Load(),
		Reseeded:   sh.calls.reseeded.Load(),
	}
	if sh.takes != nil {
		stats.Merged = sh.takes.Stats()
	}
	return stats
}

// joinFault is the error of an operation whose caller has not been answered together with
// others.
func (sh *shard) joinFault(op string, err error) *store.Error {
	if errors.Is(err, coalesce.ErrFull) {
		err = conn.ErrTooMany
	}
	return sh.Fault(op, err)
}
