package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
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
	return board{s, boardName}.Post(ctx, node, notice, ttl)
}

// BoardOf returns another board of this Redis, beside the one that the store itself is. It
// is as that one, and has notices of its own. name is 1 to 16 small letters; others have the
// same board only where they name it alike.
func (s *Store) BoardOf(name string) store.Board { return board{s, boardName + ":" + name} }

// board is the board of a name in a store.
type board struct {
	store *Store
	name  string
}

// Post implements store.Board.
func (b board) Post(ctx context.Context, node string, notice []byte, ttl time.Duration) error {
	if err := b.store.checkNode("post", node); err != nil {
		return err
	}
	if len(notice) > store.MaxNotice {
		return b.store.refuse("post", store.Misconfigured, fmt.Sprintf("at most %d", store.MaxNotice), fmt.Errorf("the notice has %d bytes", len(notice)))
	}
	answer, err := b.ask(ctx, "post", "post", []string{node}, decimal(microsOf(ttl)), string(notice))
	if err != nil {
		return err
	}
	if len(answer) != 1 {
		return b.store.options.Fault("post", conn.ErrBadReply)
	}
	if n, err := answer[0].Int(); err != nil || n < 0 {
		return b.store.refuse("post", store.Full, fmt.Sprintf("more than %d nodes have a notice: this one is not shown to the others", maxNotices), errBoard)
	}
	return nil
}

// Notices implements store.Board. It reads in several calls, so that no decision waits
// for all of them; each lasts no longer than the budget. What is no notice where one should
// be, because it is longer than one or of another type, is an empty one. Errors are
// *store.Error.
func (s *Store) Notices(ctx context.Context) (map[string][]byte, error) {
	return board{s, boardName}.Notices(ctx)
}

// Notices implements store.Board.
func (b board) Notices(ctx context.Context) (map[string][]byte, error) {
	const op = "read notices"
	list, err := b.ask(ctx, op, "nodes", nil)
	if err != nil {
		return nil, err
	}
	nodes := make([]string, len(list))
	for i := range list {
		nodes[i], _ = list[i].Text() // a notice of "" is read for what is none
	}
	notices := make(map[string][]byte, len(nodes))
	for len(nodes) > 0 {
		some := nodes[:min(len(nodes), noticeBatch)]
		page, err := b.ask(ctx, op, "read", some)
		if err != nil {
			return nil, err
		}
		if n := len(page); n == 0 || n > len(some) {
			return nil, b.store.options.Fault(op, conn.ErrBadReply)
		}
		for i := range page {
			if text, err := page[i].Text(); err == nil {
				notices[nodes[i]] = []byte(text)
			}
		}
		nodes = nodes[len(page):]
	}
	return notices, nil
}

// checkNode refuses what is no name of a node.
func (s *Store) checkNode(op, node string) error {
	if len(node) > 0 && len(node) <= maxRosterName {
		return nil
	}
	return s.refuse(op, store.Misconfigured, "a node's name has 1 to 256 bytes", fmt.Errorf("the name has %d bytes", len(node)))
}

// ask has the script do a word for nodes, and returns its answer.
func (b board) ask(ctx context.Context, op, word string, nodes []string, more ...string) (answer []resp.Message, err error) {
	prefix := b.store.prefix(keyHash{})
	keys := []string{prefix + b.name}
	for _, node := range nodes {
		hash := hashOf([]byte(node))
		keys = append(keys, prefix+string(hash[:])+b.name)
	}
	err = b.store.askFirst(ctx, op, boardScript, &plain{
		keys: keys, args: slices.Concat([]string{word}, nodes, more),
		read: func(rest []resp.Message) bool { answer = rest; return true },
	}, b.store.options.Budget)
	return answer, err
}
