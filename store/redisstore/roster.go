package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
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
	body := &rosterBody{keys: []string{prefix + rosterName, prefix + readersName}, node: node, ttl: max(ttl.Microseconds(), 0)}
	if err := s.askFirst(ctx, "attend", rosterScript, body, s.options.Budget); err != nil {
		return 0, err
	}
	if body.live < 0 {
		fault := s.options.Fault("attend", errRoster)
		fault.Reason, fault.Hint = store.Full, "more than 4096 nodes are alive: give each process one name and keep it"
		return 0, fault
	}
	s.packs.Store(body.readers == body.live)
	return int(body.live), nil
}

// rosterBody is the body of a call that notes a node.
type rosterBody struct {
	plain
	keys          []string
	node          string
	ttl           int64 // µs
	live, readers int64 // what was answered
}

// encode implements body.
func (b *rosterBody) encode(h header) (keys, args []string) {
	return b.keys, append(plainArgs(h, 2), b.node, decimal(min(b.ttl, maxNumber)))
}

// decode implements body.
func (b *rosterBody) decode(answer []rueidis.RedisMessage, number uint32) (head, error) {
	h, rest, err := readHead(answer, number)
	if err != nil || h.status != statusDecided {
		return h, err
	}
	var n [2]int64
	if len(rest) != len(n) || !integers(rest, n[:]) {
		return head{}, conn.ErrBadReply
	}
	b.live, b.readers = n[0], n[1]
	return h, nil
}
