// Package nodes is what this node knows of the others: what they tell of themselves
// through the store, and how many there were when it last knew.
package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
)

const (
	// publishEvery is how often this node tells the others of itself, and stateTTL how
	// long they believe it.
	publishEvery = 5 * time.Second
	stateTTL     = 4 * publishEvery
	// callTimeout bounds one call for notices.
	callTimeout = time.Second
	// readFor is how long states that were read are shown before they are read again.
	readFor = time.Second
	// MaxKeys is how many top keys of each order a node tells of.
	MaxKeys = 20
	// MaxRules is how many of its rules a node tells of, those with the most decisions of late,
	// and MaxTiers how many tiers: both together are half of a notice at most.
	MaxRules, MaxTiers = 30, 30
	// goneFor is how long a node that is gone is told of, and maxGone bounds how many are.
	goneFor, maxGone = 10 * time.Minute, 100
)

// Options are those of States. All are required, but for Board.
type Options struct {
	// Board is nil where the store keeps no states of nodes; Alone says that there are no
	// others then.
	Board store.Board
	Alone bool
	// Live is how many nodes there are.
	Live func() int
	// ID is what this process publishes under: two of them may have one name.
	ID string
	// Self returns what this node tells of itself.
	Self   func() view.Node
	Logger *slog.Logger
}

// States are what nodes with one store tell each other for people to see. Make them with
// NewStates.
type States struct {
	Options

	mu    sync.Mutex
	read  time.Time
	nodes []view.Node
	// seen are the nodes that were there at the last look or the one before, by what they publish
	// under, and gone those of them that are not there any more.
	seen, gone map[string]view.GoneNode
	readErr    error
	failing    bool // of the last Post
}

// NewStates returns States that know of no other node yet.
func NewStates(o Options) *States { return &States{Options: o} }

// Run publishes what this node tells until ctx ends, and then takes it down.
func (s *States) Run(ctx context.Context) {
	if s.Board == nil {
		return
	}
	s.publish(ctx, stateTTL)
	for range sleep.Every(ctx, publishEvery) {
		s.publish(ctx, stateTTL)
	}
	s.publish(context.WithoutCancel(ctx), 0)
}

// publish has the others read the state of this node for ttl. Trouble is logged when it begins: the
// store tells of itself elsewhere.
func (s *States) publish(ctx context.Context, ttl time.Duration) {
	self := s.Self()
	text, err := json.Marshal(self)
	if err == nil && len(text) > store.MaxNotice {
		self.TopTotal, self.TopDenied, self.Rules, self.Tiers = nil, nil, nil, nil
		text, err = json.Marshal(self)
	}
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		err = s.Board.Post(bounded, s.ID, text, ttl)
		cancel()
	}
	s.mu.Lock()
	begins := err != nil && !s.failing && ctx.Err() == nil
	s.failing = err != nil
	s.mu.Unlock()
	if begins {
		s.Logger.Warn("this node cannot tell the others of itself; the dashboard shows fewer nodes", "error", err)
	}
}

// Fleet returns what is known of all nodes, this one first, then by name. now is the
// time of this node.
func (s *States) Fleet(now time.Time) view.Fleet {
	self := s.Self()
	self.Self = true
	f := view.Fleet{Nodes: []view.Node{self}, Live: s.Live(), Gone: []view.GoneNode{}}
	if s.Board == nil {
		if !s.Alone {
			f.Error = "this kind of store keeps no notices of nodes"
		}
		return f
	}
	others, gone, err := s.others(now)
	f.Gone = append(f.Gone, gone...)
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

// others returns the states of others, and who is gone of them; those of before when they
// cannot be read.
func (s *States) others(now time.Time) ([]view.Node, []view.GoneNode, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.read); age >= 0 && age < readFor {
		return s.nodes, s.goneOnes(), s.readErr
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	texts, err := s.Board.Notices(ctx)
	s.read, s.readErr = now, err
	if err != nil {
		return s.nodes, s.goneOnes(), err
	}
	s.nodes = nil
	there := map[string]view.GoneNode{}
	for id, text := range texts {
		if id == s.ID {
			continue
		}
		var node view.Node
		if err := json.Unmarshal(text, &node); err != nil || node.Name == "" {
			s.readErr = fmt.Errorf("read the notice %q: it is not what this version of Headgate writes", id)
			continue
		}
		node.TopTotal, node.TopDenied = slices.DeleteFunc(node.TopTotal, absurd), slices.DeleteFunc(node.TopDenied, absurd)
		s.nodes = append(s.nodes, node)
		there[id] = view.GoneNode{Name: node.Name, Version: node.Version, At: node.At}
	}
	s.gone = goneOf(s.seen, s.gone, there, now)
	s.seen = there
	return s.nodes, s.goneOnes(), s.readErr
}

// goneOf returns who is gone at now: of those seen and those gone before, by what they publish
// under, who is not there. A node that has come back under its name is there.
func goneOf(seen, before, there map[string]view.GoneNode, now time.Time) map[string]view.GoneNode {
	names := map[string]bool{}
	for _, n := range there {
		names[n.Name] = true
	}
	gone := map[string]view.GoneNode{}
	for _, list := range []map[string]view.GoneNode{seen, before} {
		for id, n := range list {
			if len(gone) < maxGone && !names[n.Name] && now.Sub(n.At) < goneFor {
				gone[id] = n
			}
		}
	}
	return gone
}

// goneOnes returns who is gone, by name.
func (s *States) goneOnes() []view.GoneNode {
	return slices.SortedFunc(maps.Values(s.gone), func(a, b view.GoneNode) int { return cmp.Compare(a.Name, b.Name) })
}

// maxCount bounds the counts that another node is believed: what adds up from more
// cannot be written as JSON some day.
const maxCount = 1e18

// absurd reports whether no node counts so.
func absurd(k view.TopKey) bool {
	return max(k.Total, k.Denied, k.Error, k.Unlisted) > maxCount || min(k.Total, k.Denied, k.Error, k.Unlisted) < 0
}
