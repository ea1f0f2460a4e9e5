package redisstore

import (
	_ "embed"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/seed.lua
var luaSeed string

// seedScript merges remembered states into the buckets.
var seedScript = newScript(func() string { return strings.Replace(luaSeed, "UNPACK\n", luaUnpack, 1) })

// seedCommand returns the command that goes before the one of the attempt, where this
// node remembers more of the buckets than the server may have: its history is
// another one. That is once for each bucket. The server that was promoted knows
// no script, so that it is told the whole of it.
func (c *call) seedCommand(t conn.Trip) (_ resp.Command, ok bool) {
	c.seeds = nil
	b, ok := c.body.(*takeBody)
	if !ok || b.memory == nil || c.asking || !b.memory.mayMiss(t.Session.History) {
		return resp.Command{}, false
	}
	var seeds []seed
	for i := range b.request.keys {
		r, left, ok := b.memory.missing(&b.request.keys[i].hash, t.Session.History, t.Began)
		if ok && c.caller.mayHaveLost(t.Session, r.history) {
			seeds = append(seeds, seed{r, left})
		}
	}
	if len(seeds) == 0 {
		return resp.Command{}, false
	}
	c.seeds = &seedBody{prefix: b.prefix, seeds: seeds, number: c.caller.number.Add(1)}
	keys, args := c.seeds.encode(header{number: c.seeds.number, deadline: max(t.Session.RedisTime(c.deadline), 1)})
	return resp.Script("EVAL", seedScript.text(), keys, args), true
}

// readSeeded reads the answer to that command. One that failed is told again with the next
// call for a bucket that has not been decided since.
func (c *call) readSeeded(t conn.Trip, answer resp.Answer) {
	list, err := answer.List()
	if err != nil {
		return
	}
	if h, err := c.seeds.decode(list, c.seeds.number); err != nil || h.status != statusDecided {
		return
	}
	for i := range c.seeds.seeds {
		c.body.(*takeBody).memory.brought(&c.seeds.seeds[i].hash, t.Session.History)
	}
	c.at.calls.reseeded.Add(uint64(len(c.seeds.seeds)))
}

// seed is a state to bring back, and how long it lasts.
type seed struct {
	remembered
	left time.Duration
}

// seedBody is the body of a call that brings states back.
type seedBody struct {
	prefix string
	seeds  []seed
	number uint32 // of the call
}

// encode implements body.
func (b *seedBody) encode(h header) (keys, args []string) {
	number := func(n int64) { args = append(args, decimal(n)) }
	number(int64(h.number))
	number(int64(max(h.deadline, 0)))
	for i := range b.seeds {
		s := &b.seeds[i]
		keys = append(keys, b.prefix+string(s.hash[:]))
		number(int64(s.kind))
		number(s.a)
		number(s.b)
		number(s.c)
		number(s.period)
		number(int64((s.left + time.Millisecond - 1) / time.Millisecond))
	}
	return keys, args
}

// decode implements body.
func (b *seedBody) decode(answer []resp.Message, number uint32) (head, error) {
	h, _, err := readHead(answer, number)
	if len(answer) > answerHead {
		return head{}, conn.ErrBadReply
	}
	return h, err
}
