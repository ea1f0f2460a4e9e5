package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/coalesce"
	"github.com/headgate/headgate/store/redisstore/conn"
	"github.com/headgate/headgate/store/spread"
)

const (
	// joinAbove is the time left below which nobody waits for others.
	joinAbove = time.Millisecond
	// joinedCalls is how many times maxKeys the takes of several callers that
	// leave together may cost: that many calls, and in a cluster, where they are
	// in many tags, more. They share the writing and the reading of the
	// connection; between them Redis serves others.
	joinedCalls = 8
	// maxPipelines is how many of them are under way at one time, where there are more than
	// fewCallers. With fewer, one hot key costs Redis less.
	maxPipelines = 4
	// fewCallers is below how many callers under way nobody waits for others, so that at a
	// moderate load an answer is there as soon as if each asked alone.
	fewCallers = 8
)

// Take implements store.Store. Takes of one bucket tag, and without a cluster
// all, are one call of one script if they cost no more than maxKeys. Larger
// batches are several calls, which leave together up to joinedCalls of them, so that one
// which has to be made again may be decided after one behind it; beyond that they are made
// one after the other. All of it is within the same budget.
// The tags of a cluster are asked side by side, and groups that fall apart into
// several are made good; see package spread. Dry runs are never cut.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if len(takes) == 0 {
		return
	}
	store.Waits(ctx)
	now := time.Now()
	p := conn.NewPatience(ctx, s.late, now, s.options.Budget)
	defer p.End()
	if s.late.Woke(now) && !p.CallerThere() {
		failAll(results, s.options.Fault("take", p.Err()))
		return
	}
	for len(takes) > 0 {
		end := store.RunEnd(takes, 0)
		s.takeRun(p, takes[:end], results[:end])
		takes, results = takes[end:], results[end:]
	}
}

// takeRun decides takes that are all dry runs, or of which none is.
func (s *Store) takeRun(p *conn.Patience, takes []store.Take, results []store.Result) {
	if tag, ok := s.oneTag(takes); ok {
		sh, fault := s.shard(tag)
		if fault != nil {
			failAll(results, fault)
			return
		}
		s.takeAt(p, sh, takes, results)
		return
	}
	s.plan(tagsOf(takes), func(parts []spread.Part) { s.takeParts(p, parts) }).Take(takes, results)
}

// plan says how a batch is spread. In tests the clock stands still, as that of
// the script does.
func (s *Store) plan(part func(int) int, ask func([]spread.Part)) spread.Plan {
	p := spread.Plan{Part: part, Ask: ask}
	if s.clock != nil {
		p.Now = func() time.Time { return s.clock().Time() }
	}
	return p
}

// tagsOf returns the function that names the tag of a take.
func tagsOf(takes []store.Take) func(int) int {
	return func(i int) int { return tagOf(hashOf(takes[i].Key)) }
}

// takeParts decides the parts of a batch, one for each tag, in their shards,
// which are asked side by side.
func (s *Store) takeParts(ctx *conn.Patience, parts []spread.Part) {
	var (
		shards []*shard
		each   = map[*shard][]spread.Part{}
	)
	for _, p := range parts {
		sh, fault := s.router.shard(p.ID)
		if fault != nil {
			failAll(p.Results, fault)
			continue
		}
		if each[sh] == nil {
			shards = append(shards, sh)
		}
		each[sh] = append(each[sh], p)
	}
	if len(shards) == 0 {
		return
	}
	var others sync.WaitGroup
	for _, sh := range shards[1:] {
		others.Go(func() { s.takePartsAt(ctx, sh, each[sh]) })
	}
	s.takePartsAt(ctx, shards[0], each[shards[0]])
	others.Wait()
}

// takePartsAt decides parts of a batch in one shard, as one batch: the numbers of
// their groups differ.
func (s *Store) takePartsAt(ctx *conn.Patience, sh *shard, parts []spread.Part) {
	if len(parts) == 1 {
		s.takeAt(ctx, sh, parts[0].Takes, parts[0].Results)
		return
	}
	var takes []store.Take
	for _, p := range parts {
		takes = append(takes, p.Takes...)
	}
	results := make([]store.Result, len(takes))
	s.takeAt(ctx, sh, takes, results)
	for _, p := range parts {
		results = results[copy(p.Results, results):]
	}
}

// newTakeJoiner joins the takes of many callers at a shard.
func (s *Store) newTakeJoiner(sh *shard) *coalesce.Coalescer[store.Take, store.Result] {
	send := func(ctx context.Context, takes []store.Take, results []store.Result) {
		s.sendJoined(ctx, sh, takes, results)
	}
	return coalesce.New(coalesce.Takes(costOf), send, coalesce.Options{Flights: maxPipelines, Few: fewCallers, MaxCost: joinedCalls * maxKeys, Extend: sh.Extend})
}

// takeAt decides takes in one shard, together with those of others if there is
// time for that.
func (s *Store) takeAt(ctx *conn.Patience, sh *shard, takes []store.Take, results []store.Result) {
	ctx.Asks(sh.Server)
	if sh.takes == nil || !timeToJoin(ctx) || len(takes) > joinedCalls*maxKeys {
		s.send(ctx, sh, takes, results)
	} else if err := sh.takes.Ask(ctx, takes, results); err != nil {
		failAll(results, sh.joinFault("take", err))
	}
}

// timeToJoin reports whether there is time to wait for others.
func timeToJoin(ctx *conn.Patience) bool {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) >= joinAbove
}

// failAll gives every result an error.
func failAll(results []store.Result, err error) {
	for i := range results {
		results[i] = store.Result{Err: err}
	}
}

// send decides takes in one shard, alone. No group of them falls apart.
func (s *Store) send(ctx context.Context, at *shard, takes []store.Take, results []store.Result) {
	deadline, _ := ctx.Deadline()
	if tag, ok := s.oneTag(takes); ok {
		s.sendInTurn(ctx, at, spread.Part{ID: tag, Takes: takes, Results: results}, deadline)
		return
	}
	s.plan(tagsOf(takes), func(parts []spread.Part) {
		s.sendParts(ctx, at, parts, deadline)
	}).Take(takes, results)
}

// sendJoined decides the takes of several callers in one shard. Their calls
// leave together, so that a call which has to be made again may be decided after
// one behind it: between callers there is no order.
func (s *Store) sendJoined(ctx context.Context, at *shard, takes []store.Take, results []store.Result) {
	tag, ok := s.oneTag(takes)
	if !ok {
		s.send(ctx, at, takes, results)
		return
	}
	deadline, _ := ctx.Deadline()
	var room [joinedCalls]*call
	calls := room[:0]
	for part := (spread.Part{ID: tag, Takes: takes, Results: results}); len(part.Takes) > 0; {
		calls = append(calls, s.nextCall(at, &part, deadline))
	}
	pipeline(ctx, at, calls)
	for _, c := range calls {
		s.finish(ctx, c)
	}
}

// sendParts decides parts of a batch, one for each tag, in one shard. Their calls
// leave together.
func (s *Store) sendParts(ctx context.Context, at *shard, parts []spread.Part, deadline time.Time) {
	if len(parts) == 1 {
		s.sendInTurn(ctx, at, parts[0], deadline)
		return
	}
	parts = slices.Clone(parts) // they get shorter
	calls := make([]*call, 0, len(parts))
	for len(parts) > 0 {
		calls = calls[:0]
		for i := range parts {
			calls = append(calls, s.nextCall(at, &parts[i], deadline))
		}
		pipeline(ctx, at, calls)
		rest := parts[:0]
		for i, c := range calls {
			s.finish(ctx, c)
			if len(parts[i].Takes) > 0 {
				rest = append(rest, parts[i])
			}
		}
		parts = rest
	}
}

// sendInTurn decides one part in as many calls as it needs, one after the other.
func (s *Store) sendInTurn(ctx context.Context, at *shard, part spread.Part, deadline time.Time) {
	for len(part.Takes) > 0 {
		c := s.nextCall(at, &part, deadline)
		c.run(ctx)
		s.finish(ctx, c)
		if c.at != nil {
			at = c.at
		}
	}
}

// nextCall returns the call for the first takes of a part, and takes them off.
func (s *Store) nextCall(at *shard, part *spread.Part, deadline time.Time) *call {
	n := callLength(part.Takes)
	c := &takeCall{
		call:     call{caller: &s.caller, script: takeScript, at: at, tag: part.ID, deadline: deadline},
		takeBody: takeBody{prefix: s.prefixes[part.ID], memory: s.memory, takes: part.Takes[:n], results: part.Results[:n], packs: s.packs.Load(), luck: &s.luck},
	}
	c.call.body = &c.takeBody
	part.Takes, part.Results = part.Takes[n:], part.Results[n:]
	return &c.call
}

// takeCall is a call of takes with its body, in one piece of memory.
type takeCall struct {
	call
	takeBody
}

// finish ends a call of takes that has its outcome.
func (s *Store) finish(ctx context.Context, c *call) {
	if c.err == nil {
		return
	}
	body := c.body.(*takeBody)
	if body.packs && store.ReasonOf(c.err) == store.Denied {
		// It may be that the user has lost the right to add to integers. A heartbeat would tell, but
		// gets no connection between calls that are refused, each of which ends one.
		s.packs.Store(false)
	}
	if !errors.Is(c.err, conn.ErrApart) {
		failAll(body.results, c.err)
		return
	}
	// Key by key they can be asked for. (A group is made good then.)
	keys := map[string]int{}
	number := func(i int) int {
		key := string(body.takes[i].Key)
		if _, ok := keys[key]; !ok {
			keys[key] = len(keys)
		}
		return keys[key]
	}
	s.plan(number, func(parts []spread.Part) {
		for _, p := range parts {
			p.ID = c.tag
			s.sendInTurn(ctx, c.at, p, c.deadline)
		}
	}).Take(body.takes, body.results)
}
