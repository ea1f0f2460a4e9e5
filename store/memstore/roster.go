package memstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// maxNodes bounds how many nodes a roster holds, and maxNodeName the length
	// of a name in bytes.
	maxNodes    = 4096
	maxNodeName = 256
)

var errRoster = errors.New("the roster is full")

// roster is who is alive until when.
type roster struct {
	mu    sync.Mutex
	nodes map[string]limit.Micros
}

var _ store.Roster = (*Store)(nil)

// Attend implements store.Roster for the nodes of this process. A name has up to
// 256 bytes and there are up to 4096 nodes; beyond that it fails with a
// *store.Error.
func (s *Store) Attend(_ context.Context, node string, ttl time.Duration) (int, error) {
	if len(node) == 0 || len(node) > maxNodeName {
		return 0, rosterError(store.Misconfigured, fmt.Errorf("the name has %d bytes", len(node)), "a node's name has 1 to 256 bytes")
	}
	now := s.micros()
	r := s.nodes
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, until := range r.nodes {
		if until <= now {
			delete(r.nodes, name)
		}
	}
	_, known := r.nodes[node]
	switch {
	case ttl <= 0:
		delete(r.nodes, node)
	case !known && len(r.nodes) >= maxNodes:
		return 0, rosterError(store.Full, errRoster, "more than 4096 nodes are alive: give each process one name and keep it")
	default:
		if r.nodes == nil {
			r.nodes = make(map[string]limit.Micros)
		}
		r.nodes[node] = now + limit.Micros(ttl.Microseconds())
	}
	return len(r.nodes), nil
}

func rosterError(reason store.Reason, err error, hint string) error {
	return &store.Error{Op: "attend", Store: "memory", Reason: reason, Err: err, Hint: hint}
}
