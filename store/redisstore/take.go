package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/coalesce"
	"github.com/headgate/headgate/store/spread"
)

const (
	// aloneBelow is the time left below which a Take does not wait for others.
	aloneBelow = time.Millisecond
	// flightCalls is how many times maxKeys the takes of several callers that
	// leave together may cost: that many calls, and in a cluster, where they are
	// in many tags, more. They share the writing and the reading of the
	// connection; between them Redis serves others.
	flightCalls = 8
	// jointFlights is how many of them are under way at one time. With fewer, one hot
	// key costs Redis less; with more, nobody waits at a moderate load.
	jointFlights = 4
)

// Take implements store.Store. Takes of one bucket tag, and without a cluster
// all, are one call of one script if they cost no more than maxKeys; larger
// batches are several calls, one after the other, and within the same budget.
// The tags of a cluster are asked side by side, and groups that fall apart into
// several are made good; see package spread. Dry runs are never cut.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if len(takes) == 0 {
		return
	}
	now := time.Now()
	p := newPatience(ctx, s.late, now, s.options.Budget)
	defer p.end()
	if s.late.woke(now) && !p.settle() {
		failAll(results, s.options.fault("take", p.Err()))
		return
	}
	for len(takes) > 0 {
		end := store.RunEnd(takes, 0)
		s.takeRun(p, takes[:end], results[:end])
		takes, results = takes[end:], results[end:]
	}
}

// takeRun decides takes that are all dry runs, or of which none is.
func (s *Store) takeRun(p *patience, takes []store.Take, results []store.Result) {
	if tag, ok := s.oneTag(takes); ok {
		sh, fault := s.shard(tag)
		if fault != nil {
			failAll(results, fault)
			return
		}
		sh.take(p, takes, results)
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

// oneTag returns the tag of takes if they all have the same, which is the case
// without a cluster.
func (s *Store) oneTag(takes []store.Take) (tag int, ok bool) {
	if s.router == nil {
		return 0, true
	}
	tag = tagOf(hashOf(takes[0].Key))
	for i := range takes[1:] {
		if tagOf(hashOf(takes[1+i].Key)) != tag {
			return 0, false
		}
	}
	return tag, true
}

// tagsOf returns the function that names the tag of a take.
func tagsOf(takes []store.Take) func(int) int {
	return func(i int) int { return tagOf(hashOf(takes[i].Key)) }
}

// takeParts decides the parts of a batch, one for each tag, in their shards,
// which are asked side by side.
func (s *Store) takeParts(ctx *patience, parts []spread.Part) {
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
		others.Go(func() { sh.takeParts(ctx, each[sh]) })
	}
	shards[0].takeParts(ctx, each[shards[0]])
	others.Wait()
}

// takeParts decides parts of a batch in one shard, as one batch: the numbers of
// their groups differ.
func (sh *shard) takeParts(ctx *patience, parts []spread.Part) {
	if len(parts) == 1 {
		sh.take(ctx, parts[0].Takes, parts[0].Results)
		return
	}
	var takes []store.Take
	for _, p := range parts {
		takes = append(takes, p.Takes...)
	}
	results := make([]store.Result, len(takes))
	sh.take(ctx, takes, results)
	for _, p := range parts {
		results = results[copy(p.Results, results):]
	}
}

// equip gives a new shard what Take needs.
func (s *Store) equip(sh *shard) {
	sh.store, sh.late = s, s.late
	if s.options.NoCoalescing {
		return
	}
	sh.merge = coalesce.New(coalesce.Options{Flights: jointFlights, Fly: sh.flyTogether, MaxCost: flightCalls * maxKeys, Cost: costOf, Extend: sh.extend})
}

// take decides takes in one shard, together with those of others if there is
// time for that.
func (sh *shard) take(ctx *patience, takes []store.Take, results []store.Result) {
	ctx.asks(sh)
	if sh.merge == nil {
		sh.fly(ctx, takes, results)
		return
	}
	if deadline, _ := ctx.Deadline(); len(takes) > maxKeys || time.Until(deadline) < aloneBelow {
		sh.fly(ctx, takes, results)
		return
	}
	switch err := sh.merge.Take(ctx, takes, results); {
	case err == nil:
	case errors.Is(err, coalesce.ErrFull):
		failAll(results, sh.fault("take", errTooMany))
	default:
		failAll(results, sh.fault("take", err))
	}
}

// failAll gives every result an error.
func failAll(results []store.Result, err error) {
	for i := range results {
		results[i] = store.Result{Err: err}
	}
}

// fly decides takes in one shard. No group of them falls apart.
func (sh *shard) fly(ctx context.Context, takes []store.Take, results []store.Result) {
	deadline, _ := ctx.Deadline()
	if tag, ok := sh.store.oneTag(takes); ok {
		sh.store.inTurn(ctx, sh, spread.Part{ID: tag, Takes: takes, Results: results}, deadline)
		return
	}
	sh.store.plan(tagsOf(takes), func(parts []spread.Part) {
		sh.store.flyParts(ctx, sh, parts, deadline)
	}).Take(takes, results)
}

// flyTogether decides the takes of several callers in one shard. Their calls
// leave together, so that a call which has to be made again may be decided after
// one behind it: between callers there is no order.
func (sh *shard) flyTogether(ctx context.Context, takes []store.Take, results []store.Result) {
	tag, ok := sh.store.oneTag(takes)
	if !ok {
		sh.fly(ctx, takes, results)
		return
	}
	deadline, _ := ctx.Deadline()
	var room [flightCalls]*call
	calls := room[:0]
	for part := (spread.Part{ID: tag, Takes: takes, Results: results}); len(part.Takes) > 0; {
		calls = append(calls, sh.store.nextCall(sh, &part, deadline))
	}
	volley(ctx, sh, calls)
	for _, c := range calls {
		sh.store.settle(ctx, c)
	}
}

// flyParts decides parts of a batch, one for each tag, in one shard. Their calls
// leave together.
func (s *Store) flyParts(ctx context.Context, at *shard, parts []spread.Part, deadline time.Time) {
	if len(parts) == 1 {
		s.inTurn(ctx, at, parts[0], deadline)
		return
	}
	parts = slices.Clone(parts) // they get shorter
	calls := make([]*call, 0, len(parts))
	for len(parts) > 0 {
		calls = calls[:0]
		for i := range parts {
			calls = append(calls, s.nextCall(at, &parts[i], deadline))
		}
		volley(ctx, at, calls)
		rest := parts[:0]
		for i, c := range calls {
			s.settle(ctx, c)
			if len(parts[i].Takes) > 0 {
				rest = append(rest, parts[i])
			}
		}
		parts = rest
	}
}

// inTurn decides one part in as many calls as it needs, one after the other.
func (s *Store) inTurn(ctx context.Context, at *shard, part spread.Part, deadline time.Time) {
	for len(part.Takes) > 0 {
		c := s.nextCall(at, &part, deadline)
		c.run(ctx)
		s.settle(ctx, c)
		if c.at != nil {
			at = c.at
		}
	}
}

// nextCall returns the call for the first takes of a part, and takes them off.
func (s *Store) nextCall(at *shard, part *spread.Part, deadline time.Time) *call {
	n := callLength(part.Takes)
	c := &takeCall{
		call:     call{store: s, script: takeScript, at: at, tag: part.ID, deadline: deadline},
		takeBody: takeBody{prefix: s.prefixes[part.ID], memory: s.memory, takes: part.Takes[:n], results: part.Results[:n]},
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

// settle finishes a call of takes that has its outcome.
func (s *Store) settle(ctx context.Context, c *call) {
	if c.err == nil {
		return
	}
	body := c.body.(*takeBody)
	if !errors.Is(c.err, errApart) {
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
			s.inTurn(ctx, c.at, p, c.deadline)
		}
	}).Take(body.takes, body.results)
}

// volley makes several calls at one shard, which leave together. Those that are
// sent elsewhere then go on alone.
func volley(ctx context.Context, at *shard, calls []*call) {
	var strays []*call
	for len(calls) > 1 {
		t, err := at.enter(ctx)
		if err != nil {
			// Alone each finds out what there is to do about it.
			break
		}
		answers := fire(ctx, t, calls)
		at.leave(t, worst(answers))
		var (
			rest  []*call
			pause time.Duration
		)
		for i, c := range calls {
			message, err := answers[i].ToMessage()
			again, after := c.again(c.read(t.session, message, err))
			switch {
			case again && c.at == at:
				rest, pause = append(rest, c), max(pause, after)
			case again:
				strays = append(strays, c)
			}
		}
		if calls = rest; len(calls) > 0 && pause > 0 {
			wait(ctx, pause)
		}
	}
	for _, c := range append(strays, calls...) {
		c.run(ctx)
	}
}

// fire makes one attempt of each call, and returns the answers in their order.
func fire(ctx context.Context, t trip, calls []*call) []rueidis.RedisResult {
	var leads, commands []rueidis.Completed
	var led []*call
	for _, c := range calls {
		commands = append(commands, c.command(t))
		if lead, ok := c.lead(t); ok {
			leads, led = append(leads, lead), append(led, c)
		}
	}
	answers := t.session.client.DoMulti(ctx, append(leads, commands...)...)
	for i, c := range led {
		c.led(t, answers[i])
	}
	return answers[len(leads):]
}

// worst returns the error that says most about the server: that of the
// connection before that of a reply.
func worst(answers []rueidis.RedisResult) error {
	var found error
	for i := range answers {
		err := answers[i].Error()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil && (found == nil || aboutTheCall(found) || !isReply(err)) {
			found = err
		}
	}
	return found
}
