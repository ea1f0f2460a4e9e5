package rlqs

import (
	"context"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Nodes that compete for a bucket hold a slot each in the store, while their streams want more
// than there is.

// peersLimit has a slot for each node, and a node that says nothing for some reports is none.
var peersLimit = limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 4096, Period: 3 * usualInterval})

// peersPrefix begins the keys of those slots, as pacePrefix does.
const peersPrefix = "rlqs-node"

// peers returns for each item how many nodes compete for its bucket, this one among them: 1
// where nobody has to, and where the store does not say.
func (l *ledger) peers(ctx context.Context, items []item) []int64 {
	nodes := make([]int64, len(items))
	takes, places := l.takes[:0], []int(nil)
	for i := range items {
		nodes[i] = 1
		if l.contended(&items[i]) {
			key := append([]byte(peersPrefix), items[i].lease.bucket.key...)
			takes, places = append(takes, store.Take{Key: key, Limit: peersLimit, Hits: 1, Hold: l.node}), append(places, i)
		}
	}
	for n, r := range l.take(ctx, takes) {
		if r.Err == nil {
			nodes[places[n]] = max(r.Limit-r.Remaining, 1)
		}
	}
	return nodes
}
