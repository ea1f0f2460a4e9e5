package app

import (
	"time"

	"github.com/headgate/headgate/store"
)

// leastAwaited is how long a check waits at least for the answer to the one that it repeats,
// and budgetsAwaited for how many budgets of the store: it claims the id, decides, and notes
// the answer, and nodes are late at times.
const (
	leastAwaited   = 250 * time.Millisecond
	budgetsAwaited = 5
)

// answers returns where the answers to checks with an id are remembered: beside the buckets,
// under the layers. It is nil where the store keeps none.
func (k *stack) answers() store.Swapper {
	kept, _ := k.backends[0].Store.(store.Swapper)
	return kept
}

// answersAwaited is how long a repeat waits for an answer.
func answersAwaited(budget time.Duration) time.Duration {
	return max(leastAwaited, budgetsAwaited*budget)
}
