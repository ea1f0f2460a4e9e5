package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
)

const (
	// noticeEvery is how often this node tells the others of itself, and noticeTTL how
	// long they believe it.
	noticeEvery = 5 * time.Second
	noticeTTL   = 4 * noticeEvery
	// noticeTimeout bounds one call for notices.
	noticeTimeout = time.Second
	// noticesFor is how long notices that were read are shown before they are read again.
	noticesFor = time.Second
	// noticedKeys is how many top keys of each order a node tells of.
	noticedKeys = 20
)

// noticeBoard is what nodes with one store tell each other for people to see.
type noticeBoard struct {
	// board is nil where the store keeps no notices; alone says that there are no
	// others then.
	board store.Board
	alone bool
	live  func() int
	// id is what this process posts under: two of them may have one name.
	id string
	// self returns what this node tells of itself.
	self   func() view.Node
	logger *slog.Logger

	mu      sync.Mutex
	read    time.Time
	notices []view.Node
	readErr error
	failing bool // of the last Post
}

// run posts what this node tells until ctx ends, and then takes it down.
func (b *noticeBoard) run(ctx context.Context) {
	if b.board == nil {
		return
	}
	tick := time.NewTicker(noticeEvery)
	defer tick.Stop()
	for {
		b.post(ctx, noticeTTL)
		select {
		case <-ctx.Done():
			b.post(context.WithoutCancel(ctx), 0)
			return
		case <-tick.C:
		}
	}
}

// post puts the notice of this node up for ttl. Trouble is logged when it begins: the
// store tells of itself elsewhere.
func (b *noticeBoard) post(ctx context.Context, ttl time.Duration) {
	self := b.self()
	text, err := json.Marshal(self)
	if err == nil && len(text) > store.MaxNotice {
		self.TopTotal, self.TopDenied = nil, nil
		text, err = json.Marshal(self)
	}
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, noticeTimeout)
		err = b.board.Post(bounded, b.id, text, ttl)
		cancel()
	}
	b.mu.Lock()
	begins := err != nil && !b.failing && ctx.Err() == nil
	b.failing = err != nil
	b.mu.Unlock()
	if begins {
		b.logger.Warn("this node cannot tell the others of itself; the dashboard shows fewer nodes", "error", err)
	}
}

// fleet returns what is known of all nodes, this one first, then by name. now is the
// time of this node.
func (b *noticeBoard) fleet(now time.Time) view.Fleet {
	self := b.self()
	self.Self = true
	f := view.Fleet{Nodes: []view.Node{self}, Live: b.live()}
	if b.board == nil {
		if !b.alone {
			f.Error = "this kind of store keeps no notices of nodes"
		}
		return f
	}
	others, err := b.others(now)
	if err != nil {
		f.Error = err.Error()
	}
	f.Nodes = append(f.Nodes, others...)
	if apart := slices.IndexFunc(others, func(n view.Node) bool { return n.HashedBy != self.HashedBy }); apart >= 0 && f.Error == "" {
		f.Error = fmt.Sprintf("node %q hashes keys by another key than this one, so that its top keys cannot be added up; hint: the same --audit-hash-key on all nodes", others[apart].Name)
	}
	slices.SortStableFunc(f.Nodes[1:], func(a, b view.Node) int { return cmp.Compare(a.Name, b.Name) })
	return f
}

// others returns the notices of others that are up; those of before when they cannot be
// read.
func (b *noticeBoard) others(now time.Time) ([]view.Node, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := now.Sub(b.read); age >= 0 && age < noticesFor {
		return b.notices, b.readErr
	}
	ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
	defer cancel()
	texts, err := b.board.Notices(ctx)
	b.read, b.readErr = now, err
	if err != nil {
		return b.notices, err
	}
	b.notices = nil
	for id, text := range texts {
		if id == b.id {
			continue
		}
		var node view.Node
		if err := json.Unmarshal(text, &node); err != nil || node.Name == "" {
			b.readErr = fmt.Errorf("read the notice %q: it is not what this version of Headgate writes", id)
			continue
		}
		node.TopTotal, node.TopDenied = slices.DeleteFunc(node.TopTotal, absurd), slices.DeleteFunc(node.TopDenied, absurd)
		b.notices = append(b.notices, node)
	}
	return b.notices, b.readErr
}

// maxCount bounds the counts that another node is believed: what adds up from more
// cannot be written as JSON some day.
const maxCount = 1e18

// absurd reports whether no node counts so.
func absurd(k view.TopKey) bool {
	return max(k.Total, k.Denied, k.Error, k.Unlisted) > maxCount || min(k.Total, k.Denied, k.Error, k.Unlisted) < 0
}
