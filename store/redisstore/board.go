package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/board.lua
var luaBoard string

const (
	// boardName is what the name of the board has after the prefix, and that of a
	// notice after the prefix and the hash of its node.
	boardName = "board"
	// maxNotices bounds how many notices a board holds: with store.MaxNotice that is 16
	// MiB of Redis's memory.
	maxNotices = 256
	// noticePage bounds, in bytes, how much of the board one call reads beyond the first
	// notice, and noticeBatch how many it asks for: what decides waits for no longer
	// than some takes last.
	noticePage  = 128 << 10
	noticeBatch = 16
)

var boardScript = optional(newScript(func() string {
	return strings.NewReplacer(
		"MAX_NOTICES", strconv.Itoa(maxNotices),
		"MAX_NOTICE", strconv.Itoa(store.MaxNotice),
		"MAX_NAME", strconv.Itoa(maxRosterName),
		"PAGE_BYTES", strconv.Itoa(noticePage),
	).Replace(luaBoard)
}))

var errBoard = errors.New("the board is full")

var _ store.Board = (*Store)(nil)

// Post implements store.Board for all who use this Redis with this prefix. A name has
// 1 to 256 bytes, and the board holds 256 notices. The board is one key, and each
// notice another one; in a cluster they are of the first bucket tag. It lasts no longer
// than the budget; errors are *store.Error.
func (s *Store) Post(ctx context.Context, node string, notice []byte, ttl time.Duration) error {
	return s.post(ctx, boardName, node, notice, ttl)
}

// BoardOf returns another board of this Redis, beside the one that the store itself is. It
// is as that one, and has notices of its own. name is 1 to 16 small letters; others have the
// same board only where they name it alike.
func (s *Store) BoardOf(name string) store.Board { return otherBoard{s, boardName + ":" + name} }

// otherBoard is a board of a name of its own.
type otherBoard struct {
	store *Store
	name  string
}

// Post implements store.Board.
func (b otherBoard) Post(ctx context.Context, node string, notice []byte, ttl time.Duration) error {
	return b.store.post(ctx, b.name, node, notice, ttl)
}

// Notices implements store.Board.
func (b otherBoard) Notices(ctx context.Context) (map[string][]byte, error) {
	return b.store.notices(ctx, b.name)
}

func (s *Store) post(ctx context.Context, name, node string, notice []byte, ttl time.Duration) error {
	if err := s.checkNode("post", node); err != nil {
		return err
	}
	if len(notice) > store.MaxNotice {
		fault := s.options.Fault("post", fmt.Errorf("the notice has %d bytes", len(notice)))
		fault.Reason, fault.Hint = store.Misconfigured, fmt.Sprintf("at most %d", store.MaxNotice)
		return fault
	}
	body := &boardBody{prefix: s.prefix(keyHash{}), name: name, nodes: []string{node}, post: true, notice: string(notice), ttl: max(ttl.Microseconds(), 0)}
	if err := s.askFirst(ctx, "post", boardScript, body, s.options.Budget); err != nil {
		return err
	}
	if len(body.answer) != 1 {
		return s.options.Fault("post", conn.ErrBadReply)
	}
	if n, err := body.answer[0].ToInt64(); err != nil || n < 0 {
		fault := s.options.Fault("post", errBoard)
		fault.Reason, fault.Hint = store.Full, fmt.Sprintf("more than %d nodes have a notice: this one is not shown to the others", maxNotices)
		return fault
	}
	return nil
}

// Notices implements store.Board. It reads in several calls, so that no decision waits
// for all of them; each lasts no longer than the budget. What is no notice where one should
// be, because it is longer than one or of another type, is an empty one. Errors are
// *store.Error.
func (s *Store) Notices(ctx context.Context) (map[string][]byte, error) {
	return s.notices(ctx, boardName)
}

func (s *Store) notices(ctx context.Context, name string) (map[string][]byte, error) {
	list := &boardBody{prefix: s.prefix(keyHash{}), name: name}
	if err := s.askFirst(ctx, "read notices", boardScript, list, s.options.Budget); err != nil {
		return nil, err
	}
	nodes := make([]string, len(list.answer))
	for i := range list.answer {
		nodes[i], _ = list.answer[i].ToString() // a notice of "" is read for what is none
	}
	notices := make(map[string][]byte, len(nodes))
	for len(nodes) > 0 {
		page := &boardBody{prefix: list.prefix, name: name, nodes: nodes[:min(len(nodes), noticeBatch)]}
		if err := s.askFirst(ctx, "read notices", boardScript, page, s.options.Budget); err != nil {
			return nil, err
		}
		if n := len(page.answer); n == 0 || n > len(page.nodes) {
			return nil, s.options.Fault("read notices", conn.ErrBadReply)
		}
		for i := range page.answer {
			if text, err := page.answer[i].ToString(); err == nil {
				notices[nodes[i]] = []byte(text)
			}
		}
		nodes = nodes[len(page.answer):]
	}
	return notices, nil
}

// checkNode refuses what is no name of a node.
func (s *Store) checkNode(op, node string) error {
	if len(node) > 0 && len(node) <= maxRosterName {
		return nil
	}
	fault := s.options.Fault(op, fmt.Errorf("the name has %d bytes", len(node)))
	fault.Reason, fault.Hint = store.Misconfigured, "a node's name has 1 to 256 bytes"
	return fault
}

// boardBody is the body of a call that posts the notice of one node, reads those of
// some, or asks which there are where it has none.
type boardBody struct {
	plain
	prefix string
	name   string // of the board
	nodes  []string
	post   bool
	notice string
	ttl    int64                  // µs
	answer []rueidis.RedisMessage // what followed the head
}

// encode implements body.
func (b *boardBody) encode(h header) (keys, args []string) {
	keys = []string{b.prefix + b.name}
	for _, node := range b.nodes {
		hash := hashOf([]byte(node))
		keys = append(keys, b.prefix+string(hash[:])+b.name)
	}
	args = append(plainArgs(h, 3+len(b.nodes)), b.op())
	args = append(args, b.nodes...)
	if b.post {
		args = append(args, decimal(min(b.ttl, maxNumber)), b.notice)
	}
	return keys, args
}

// op is the word of the script for what is asked.
func (b *boardBody) op() string {
	switch {
	case b.post:
		return "post"
	case len(b.nodes) > 0:
		return "read"
	}
	return "nodes"
}

// decode implements body.
func (b *boardBody) decode(answer []rueidis.RedisMessage, number uint32) (head, error) {
	h, rest, err := readHead(answer, number)
	b.answer = rest
	return h, err
}
