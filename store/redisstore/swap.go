package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/coalesce"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/swap.lua
var luaSwap string

const (
	// keptName ends the name of a value that Swap keeps.
	keptName = "kept"
	// maxSwaps is how many swaps are in one call, so that it does not hold up others.
	maxSwaps = 64

	// What an answer of the script has in place of a time.
	swapDone, swapRefused = -1, -2
)

var swapScript = newScript(func() string { return luaSwap })

var _ store.Swapper = (*Store)(nil)

// Swap implements store.Swapper for all who use this Redis with this prefix. Swaps of many
// callers at a time share calls, as takes do. Values whose hashes lead to the same tag are
// one call of one script, up to 64 of them; those of other shards are asked side by side. It
// lasts as long as a Take may: see conn.Patience.
func (s *Store) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	store.Waits(ctx)
	p := conn.NewPatience(ctx, s.late, time.Now(), s.options.Budget)
	defer p.End()
	if at := s.oneSwapShard(swaps); at != nil {
		s.swapAt(p, at, swaps, answers)
		return
	}
	var asking sync.WaitGroup
	for _, part := range s.swapParts(swaps, answers) {
		asking.Go(func() {
			s.swapAt(p, part.at, part.swaps, part.answers)
			for i, place := range part.places {
				answers[place] = part.answers[i]
			}
		})
	}
	asking.Wait()
}

// oneSwapShard returns the shard that has all values of a batch; nil if there is none, or if
// something is wrong with a swap.
func (s *Store) oneSwapShard(swaps []store.Swap) *shard {
	var one *shard
	for i := range swaps {
		at, fault := s.swapShard(&swaps[i])
		if fault != nil || i > 0 && at != one {
			return nil
		}
		one = at
	}
	return one
}

// swapPart is the swaps of a batch that one shard has, and their places in it.
type swapPart struct {
	at      *shard
	swaps   []store.Swap
	answers []store.Swapped
	places  []int
}

// swapParts returns the parts of a batch. What no shard can be asked is answered.
func (s *Store) swapParts(swaps []store.Swap, answers []store.Swapped) []*swapPart {
	var parts []*swapPart
	for i := range swaps {
		at, fault := s.swapShard(&swaps[i])
		if fault != nil {
			answers[i] = store.Swapped{Err: fault}
			continue
		}
		n := slices.IndexFunc(parts, func(p *swapPart) bool { return p.at == at })
		if n < 0 {
			n, parts = len(parts), append(parts, &swapPart{at: at})
		}
		part := parts[n]
		part.swaps, part.places = append(part.swaps, swaps[i]), append(part.places, i)
	}
	for _, part := range parts {
		part.answers = make([]store.Swapped, len(part.swaps))
	}
	return parts
}

// swapShard returns who has the value of a swap, or what is wrong with it.
func (s *Store) swapShard(swap *store.Swap) (*shard, *store.Error) {
	if fault := swap.Fault(); fault != nil {
		fault.Store = s.options.String()
		return nil, fault
	}
	return s.shard(s.keyTag(swap.Key))
}

// newSwapJoiner joins the swaps of many callers at a shard.
func (s *Store) newSwapJoiner(sh *shard) *coalesce.Coalescer[store.Swap, store.Swapped] {
	send := func(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
		s.sendSwaps(ctx, sh, swaps, answers)
	}
	return coalesce.New(coalesce.Swaps(), send, coalesce.Options{Flights: maxPipelines, Few: fewCallers, MaxCost: maxSwaps, Extend: sh.Extend})
}

// swapAt makes the swaps of one shard, together with those of others if there is time for
// that.
func (s *Store) swapAt(ctx *conn.Patience, at *shard, swaps []store.Swap, answers []store.Swapped) {
	ctx.Asks(at.Server)
	if at.swaps == nil || !timeToJoin(ctx) || len(swaps) > maxSwaps {
		s.sendSwaps(ctx, at, swaps, answers)
	} else if err := at.swaps.Ask(ctx, swaps, answers); err != nil {
		fault := at.joinFault("swap", err)
		for i := range answers {
			answers[i] = store.Swapped{Err: fault}
		}
	}
}

// sendSwaps makes swaps at one shard. Calls of several tags leave together. What no longer fits
// into the call of its tag waits for the answers to those: a call that has to be made again would
// come after it.
func (s *Store) sendSwaps(ctx context.Context, at *shard, swaps []store.Swap, answers []store.Swapped) {
	deadline, _ := ctx.Deadline()
	for len(swaps) > 0 {
		calls, n := s.swapCalls(at, deadline, swaps, answers)
		leaving := make([]*call, len(calls))
		for i, c := range calls {
			leaving[i] = &c.call
		}
		pipeline(ctx, at, leaving)
		for _, c := range calls {
			s.finishSwaps(ctx, c)
		}
		swaps, answers = swaps[n:], answers[n:]
	}
}

// swapCalls returns the calls of the first n swaps, one for each tag: of all, or of those before
// one that no longer fits.
func (s *Store) swapCalls(at *shard, deadline time.Time, swaps []store.Swap, answers []store.Swapped) (calls []*swapCall, n int) {
	of := map[int]*swapCall{} // by tag
	for n < len(swaps) {
		tag := s.keyTag(swaps[n].Key)
		c := of[tag]
		if c == nil {
			c = s.newSwapCall(at, tag, deadline)
			of[tag], calls = c, append(calls, c)
		}
		if len(c.swaps) == maxSwaps {
			break
		}
		c.add(&swaps[n], &answers[n])
		n++
	}
	return calls, n
}

// swapCall is a call of swaps of values of one tag.
type swapCall struct {
	call
	said    plain // its body
	swaps   []*store.Swap
	answers []*store.Swapped
}

func (s *Store) newSwapCall(at *shard, tag int, deadline time.Time) *swapCall {
	c := &swapCall{call: call{caller: &s.caller, script: swapScript, at: at, tag: tag, deadline: deadline}}
	c.said.read, c.body = c.readAnswers, &c.said
	return c
}

// add has the call make a swap too.
func (c *swapCall) add(s *store.Swap, answer *store.Swapped) {
	c.swaps, c.answers = append(c.swaps, s), append(c.answers, answer)
	c.said.keys = append(c.said.keys, c.caller.name(hashOf(s.Key))+keptName)
	c.said.args = append(c.said.args, string(s.Old), string(s.New), decimal(max(microsOf(s.TTL), 1)))
}

// finishSwaps ends a call that has its outcome. Where its values lie on two servers
// because their slot is being moved, each of them is asked for alone.
func (s *Store) finishSwaps(ctx context.Context, c *swapCall) {
	if errors.Is(c.err, conn.ErrApart) && len(c.swaps) > 1 {
		for i := range c.swaps {
			one := s.newSwapCall(c.at, c.tag, c.deadline)
			one.add(c.swaps[i], c.answers[i])
			one.run(ctx)
			s.finishSwaps(ctx, one)
		}
	} else if c.err != nil {
		fault := s.faultOf("swap", c.err)
		for _, answer := range c.answers {
			*answer = store.Swapped{Err: fault}
		}
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
		switch {
		case left == swapRefused:
			*out = store.Swapped{Err: c.at.Fault("swap", conn.ScriptError(found))}
		case left > 0:
			*out = store.Swapped{Found: []byte(found), Left: micros(left)}
		default:
			*out = store.Swapped{Done: left == swapDone}
		}
	}
	return true
}
