package app

import (
	"context"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/reconcile"
)

// watchPassed makes the ledger of what this node lets pass by its share while the store is
// away, which is charged when it is back. Counters in this process need none.
func (p *process) watchPassed() *reconcile.Ledger {
	if p.stack.backends[0].inMemory() {
		return nil
	}
	ledger := reconcile.New(p.stack, func() limit.Micros { return limit.MicrosOf(time.Now()) })
	p.metrics.WatchReconcile(ledger.Stats)
	p.tasks = append(p.tasks, func(ctx context.Context) {
		ledger.Run(ctx, func(keys int, hits uint64) {
			p.logger.Info("the store was told what this node let pass by its share while it was away", "keys", keys, "hits", hits)
		})
		if waiting := ledger.Stats().Waiting; waiting > 0 {
			p.logger.Warn("the store will not be told what this node let pass by its share while it was away", "keys", waiting)
		}
	})
	return ledger
}
