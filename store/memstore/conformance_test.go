package memstore

import (
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/storetest"
)

// testClock is a clock that tests set.
type testClock struct{ micros atomic.Int64 }

func (c *testClock) now() limit.Micros { return limit.Micros(c.micros.Load()) }

func (c *testClock) set(now limit.Micros) { c.micros.Store(int64(now)) }

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var c testClock
		return storetest.Harness{Store: newStore(t, Options{Now: c.now}), SetNow: c.set}
	})
}
