package app

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/wallclock"
	"github.com/headgate/headgate/store/redisstore"
)

// inspectEvery is how often servers of Redis are asked how they are, for metrics; no
// decision waits for that.
const inspectEvery = 10 * time.Second

// inspector keeps what the servers of the stores last told of themselves.
type inspector struct {
	stores map[string]*redisstore.Store // by the name of the store
	last   atomic.Pointer[[]telemetry.Inspection]
	wall   *wallclock.Clock
}

// told is what they last told, beside the wall clock by which this process decides. A nil inspector
// knows of none.
func (i *inspector) told() []telemetry.Inspection {
	if i == nil {
		return nil
	}
	list := slices.Clone(*i.last.Load())
	for at := range list {
		if list[at].Reachable {
			list[at].ClockOffset -= i.wall.Ahead().Seconds()
		}
	}
	return list
}

// watchServers asks the servers of Redis how they are, if there are any.
func (p *process) watchServers() {
	i := &inspector{stores: map[string]*redisstore.Store{}, wall: p.stack.wall}
	for b := range p.stack.backends {
		backend := &p.stack.backends[b]
		if s, ok := backend.Store.(*redisstore.Store); ok {
			i.stores[backend.name] = s
		}
	}
	if len(i.stores) == 0 {
		return
	}
	i.last.Store(new([]telemetry.Inspection))
	p.metrics.WatchInspection(i.told)
	p.servers = i
	p.tasks = append(p.tasks, i.run)
}

// run asks until ctx ends.
func (i *inspector) run(ctx context.Context) {
	for range sleep.AtOnce(ctx, inspectEvery) {
		i.inspect(ctx)
	}
}

func (i *inspector) inspect(ctx context.Context) {
	all := []telemetry.Inspection{}
	for name, s := range i.stores {
		// A server that does not answer says so in its inspection.
		list, _ := s.Inspect(ctx)
		for _, one := range list {
			all = append(all, telemetry.Inspection{
				Store: name, Addr: one.Addr, Reachable: one.Err == nil,
				ClockOffset: one.ClockOffset.Seconds(), ClockError: one.ClockError.Seconds(),
				Memory: one.Memory, MaxMemory: one.MaxMemory, Keys: one.Keys, Evicted: one.Evicted, Expired: one.Expired,
			})
		}
	}
	i.last.Store(&all)
}
