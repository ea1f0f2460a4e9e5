package store

import (
	"context"
	"time"
)

// Roster is a store in which the nodes of a fleet find each other.
type Roster interface {
	// Attend notes that node is alive for ttl from now on, and returns how many
	// nodes are, this one among them. A ttl of 0 takes the node out.
	Attend(ctx context.Context, node string, ttl time.Duration) (live int, err error)
}

// MaxNotice bounds the notice of a node, in bytes.
const MaxNotice = 64 << 10

// Board is a store through which the nodes of a fleet tell each other of themselves.
// What stands there is for people: no decision depends on it.
type Board interface {
	// Post puts up the notice of node, at most MaxNotice bytes, in place of the one
	// before; it is taken down after ttl. A ttl of 0 takes it down at once.
	Post(ctx context.Context, node string, notice []byte, ttl time.Duration) error
	// Notices returns what is up, by node; of a fleet with more nodes than the store
	// keeps notices of, of some. What somebody else has put in the place of a notice, and
	// is none, is an empty one.
	Notices(ctx context.Context) (map[string][]byte, error)
}

// LiveNodes returns how many nodes share a store, as nodes says: at least 1, and 1 where nodes is
// nil.
func LiveNodes(nodes func() int) int64 {
	if nodes == nil {
		return 1
	}
	return int64(max(nodes(), 1))
}
