package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/roster.lua
var luaRoster string

const (
	// rosterName is what the name of the roster has after the prefix; it is
	// shorter than any bucket's.
	rosterName = "nodes"
	// maxRoster bounds how many nodes a roster holds, and maxRosterName the length
	// of a name in bytes.
	maxRoster     = 4096
	maxRosterName = 256
	// answerRoster is the length of the answer.
	answerRoster = answerHead + 1
)

var rosterScript = optional(newScript(strings.NewReplacer("MAX_NODES", strconv.Itoa(maxRoster)).Replace(luaRoster)))

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
	deadline := time.Now().Add(s.options.Budget)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	// The hash that is all zeros leads to the first tag.
	var first keyHash
	body := &rosterBody{key: s.prefix(first) + rosterName, node: node, ttl: max(ttl.Microseconds(), 0)}
	if _, err := s.run(ctx, rosterScript, body, first, deadline); err != nil {
		return 0, s.faultOf("attend", err)
	}
	if body.live < 0 {
		fault := s.options.Fault("attend", errRoster)
		fault.Reason, fault.Hint = store.Full, "more than 4096 nodes are alive: give each process one name and keep it"
		return 0, fault
	}
	return int(body.live), nil
}

// rosterBody is the body of a call that notes a node.
type rosterBody struct {
	key, node string
	ttl       int64 // µs
	live      int64 // what was answered
}

// encode implements body.
func (b *rosterBody) encode(h header) (keys, args []string) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{b.key}, []string{
		number(int64(h.number)), number(int64(h.now)), number(int64(max(h.deadline, 0))),
		b.node, number(min(b.ttl, maxNumber)),
	}
}

// decode implements body.
func (b *rosterBody) decode(answer []rueidis.RedisMessage, number uint32) (head, error) {
	var n [answerRoster]int64
	if len(answer) != answerRoster || !integers(answer, n[:]) || n[0]/numberFactor != int64(number) {
		return head{}, conn.ErrBadReply
	}
	h := head{status: n[0] % numberFactor, now: limit.Micros(n[1])}
	if h.status == statusDecided {
		b.live = n[2]
	}
	return h, nil
}

// release implements body: the strings are not used again.
func (b *rosterBody) release(bool) {}
