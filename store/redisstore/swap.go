package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/resp"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/swap.lua
var luaSwap string

const (
	// keptName ends the name of a value that Swap keeps.
	keptName = "kept"
	// maxSwaps is how many swaps are in one call, so that it does not hold up others.
	maxSwaps = 64
)

var swapScript = newScript(func() string { return luaSwap })

var _ store.Swapper = (*Store)(nil)

// Swap implements store.Swapper for all who use this Redis with this prefix. Values whose
// hashes lead to the same tag are one call of one script, up to 64 of them; those of other
// shards are asked side by side. It lasts as long as a Take may: see conn.Patience.
func (s *Store) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	store.Waits(ctx)
	p := conn.NewPatience(ctx, s.late, time.Now(), s.options.Budget)
	defer p.End()
	deadline, _ := p.Deadline()
	var (
		parts []*swapCall
		last  = map[int]*swapCall{} // by tag
	)
	for i := range swaps {
		if fault := swaps[i].Fault(); fault != nil {
			fault.Store = s.options.String()
			answers[i] = store.Swapped{Err: fault}
			continue
		}
		tag := s.tag(hashOf(swaps[i].Key))
		c := last[tag]
		if c == nil || len(c.swaps) == maxSwaps {
			c = s.newSwapCall(tag, deadline)
			parts, last[tag] = append(parts, c), c
		}
		c.add(&swaps[i], &answers[i])
	}
	s.runSwaps(p, parts)
}

// swapCall is a call of swaps of values of one tag.
type swapCall struct {
	call
	said    plain // its body
	swaps   []*store.Swap
	answers []*store.Swapped
}

func (s *Store) newSwapCall(tag int, deadline time.Time) *swapCall {
	c := &swapCall{call: call{caller: &s.caller, script: swapScript, tag: tag, deadline: deadline}}
	c.said.read, c.body = c.readAnswers, &c.said
	return c
}

// add has the call make a swap too.
func (c *swapCall) add(s *store.Swap, answer *store.Swapped) {
	c.swaps, c.answers = append(c.swaps, s), append(c.answers, answer)
	c.said.keys = append(c.said.keys, string(c.caller.appendName(nil, hashOf(s.Key)))+keptName)
	c.said.args = append(c.said.args, string(s.Old), string(s.New), decimal(max(microsOf(s.TTL), 1)))
}

// runSwaps makes calls, at several shards side by side.
func (s *Store) runSwaps(p *conn.Patience, calls []*swapCall) {
	each := map[*shard][]*swapCall{}
	for _, c := range calls {
		at, fault := s.shard(c.tag)
		if fault != nil {
			c.failSwaps(fault)
			continue
		}
		each[at] = append(each[at], c)
	}
	var asking sync.WaitGroup
	for at, some := range each {
		p.Asks(at.Server)
		if len(each) == 1 { // most are
			s.runSwapsAt(p, at, some)
		} else {
			asking.Go(func() { s.runSwapsAt(p, at, some) })
		}
	}
	asking.Wait()
}

// runSwapsAt makes calls at one shard, which leave together.
func (s *Store) runSwapsAt(ctx context.Context, at *shard, calls []*swapCall) {
	leaving := make([]*call, len(calls))
	for i, c := range calls {
		c.at, leaving[i] = at, &c.call
	}
	pipeline(ctx, at, leaving)
	for _, c := range calls {
		s.finishSwaps(ctx, c)
	}
}

// finishSwaps ends a call that has its outcome. Where its values lie on two servers
// because their slot is being moved, each of them is asked for alone.
func (s *Store) finishSwaps(ctx context.Context, c *swapCall) {
	if errors.Is(c.err, conn.ErrApart) && len(c.swaps) > 1 {
		for i := range c.swaps {
			one := s.newSwapCall(c.tag, c.deadline)
			one.add(c.swaps[i], c.answers[i])
			one.run(ctx)
			s.finishSwaps(ctx, one)
		}
	} else if c.err != nil {
		c.failSwaps(s.faultOf("swap", c.err))
	}
}

func (c *swapCall) failSwaps(err error) {
	for _, answer := range c.answers {
		*answer = store.Swapped{Err: err}
	}
}

// readAnswers reads the answers; see plain.
func (c *swapCall) readAnswers(rest []resp.Message) bool {
	if len(rest) != 2*len(c.swaps) {
		return false
	}
	for i, out := range c.answers {
		left, err := rest[2*i].Int()
		found, textErr := rest[2*i+1].Text()
		if err != nil || textErr != nil {
			return false
		}
		*out = store.Swapped{Done: left < 0}
		if left > 0 {
			out.Found, out.Left = []byte(found), micros(left)
		}
	}
	return true
}
