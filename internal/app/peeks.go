package app

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/store/spread"
	"github.com/headgate/headgate/store/subbucket"
)

// overReplicas returns where operators' peeks are read, which has the buckets of k and asks
// replicas of those backends whose addresses say so; nil where none does. What no replica
// has goes to layers, as in k. Nothing that remembers or leases stands over it, so that what
// is decided never follows from what a replica said.
func (k *stack) overReplicas(layers []store.Store) (store.Store, error) {
	over, found := slices.Clone(layers), false
	for i := range k.backends {
		redis, ok := k.backends[i].Store.(*redisstore.Store)
		if !ok {
			continue
		}
		replicas := redis.Peeks()
		if replicas == nil {
			continue
		}
		apart, err := spread.New(isLocal, replicas, layers[i])
		if err != nil {
			return nil, fmt.Errorf("read from replicas: %w", err)
		}
		over[i], found = apart, true
	}
	if !found {
		return nil, nil
	}
	peeks := over[0]
	if len(over) > 1 {
		all, err := spread.New(k.layerOf, over...)
		if err != nil {
			return nil, fmt.Errorf("read from replicas: %w", err)
		}
		peeks = all
	}
	if k.backends[0].inMemory() {
		return peeks, nil
	}
	return subbucket.New(peeks), nil
}

// isLocal returns 1 for what this node decides alone, else 0.
func isLocal(t *store.Take) int {
	if t.Mode != nil && t.Mode.Consistency == store.Local {
		return 1
	}
	return 0
}
