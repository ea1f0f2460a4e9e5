package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store"
)

//go:embed lua/roster.lua
var luaRoster string

const (
	// rosterName is what the name of the roster has after the prefix; it is
	// shorter than any bucket's.
	rosterName = "nodes"
	// readersName is the same of the roster of nodes that read packed counters.
	readersName = "readers"
	// maxRoster bounds how many nodes a roster holds, and maxRosterName the length
	// of a name in bytes.
	maxRoster     = 4096
	maxRosterName = 256
)

var rosterScript = optional(newScript(func() string {
	return strings.NewReplacer("MAX_NODES", strconv.Itoa(maxRoster)).Replace(luaRoster)
}))

var errRoster = errors.New("the roster is full")

var _ store.Roster = (*Store)(nil)

// Attend implements store.Roster for all who use this Redis with this prefix. A
// name has 1 to 256 bytes and there are up to 4096 nodes; the nodes and their
// number are in one key, in a cluster that of the first bucket tag. It lasts no
// longer than the budget; errors are *store.Error.
func (s *Store) Attend(ctx context.Context, node string, ttl time.Duration) (live int, err error) {
	if err := s.checkNode("attend", node); err != nil {
		return 0, err
	}
	prefix := s.prefix(keyHash{})
	var n [2]int64 // who is alive, and who of them reads packed counters
	err = s.askFirst(ctx, "attend", rosterScript, &plain{
		keys: []string{prefix + rosterName, prefix + readersName},
		args: []string{node, decimal(microsOf(ttl))},
		read: func(rest []resp.Message) bool { return len(rest) == len(n) && integers(rest, n[:]) },
	}, s.options.Budget)
	if err != nil {
		return 0, err
	}
	if n[0] < 0 {
		return 0, s.refuse("attend", store.Full, "more than 4096 nodes are alive: give each process one name and keep it", errRoster)
	}
	s.packs.Store(n[1] == n[0])
	return int(n[0]), nil
}

// microsOf returns a time to live in microseconds that a script can tell apart.
func microsOf(ttl time.Duration) int64 { return min(max(ttl.Microseconds(), 0), maxNumber) }
