package redisstore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// A call whose script provably did not run is made again once, after a
	// pause drawn between these two.
	minRetryPause = time.Millisecond
	maxRetryPause = 4 * time.Millisecond
)

// Store keeps buckets in one Redis. It is safe for concurrent use. Make one
// with New.
type Store struct {
	options Options
	link    *link
	number  atomic.Uint32 // of the last call

	// clock, in tests only, is the time that the script decides at instead of
	// Redis's own.
	clock func() limit.Micros
}

var _ store.Store = (*Store)(nil)

// New returns a store for the Redis that o names. It tries to connect, for up
// to the dial timeout, but an unreachable Redis is no error: the store keeps
// trying, and Ping says what is wrong. Errors are about o and never contain the
// password.
func New(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{options: o}
	s.link = openLink(&s.options)
	return s, nil
}

// Close ends the connection and the background work. Calls still under way end
// with an error.
func (s *Store) Close() error {
	s.link.close()
	return nil
}

// Ping asks Redis for a sign of life and returns why there is none, a
// *store.Error. It lasts no longer than the budget.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Budget)
	defer cancel()
	se, fault := s.link.session()
	if fault != nil {
		return fault
	}
	// Not PING: the ACL user of the store needs TIME anyway.
	if _, err := s.do(ctx, se, se.client.B().Time().Build()); err != nil {
		return s.options.fault("ping", err)
	}
	return nil
}

// Take implements store.Store. Batches of up to 16 counters, and groups of any
// size, are one call of one script; larger batches are several calls, one after
// the other, and within the same budget.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if len(takes) == 0 {
		return
	}
	deadline := time.Now().Add(s.options.Budget)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	for len(takes) > 0 {
		n := callLength(takes)
		c := call{store: s, takes: takes[:n], results: results[:n], deadline: deadline}
		if _, err := c.run(ctx); err != nil {
			for i := range c.results {
				c.results[i] = store.Result{Err: err}
			}
		}
		takes, results = takes[n:], results[n:]
	}
}

// callLength returns how many of takes go into the next call: as many as cost no
// more than maxKeys, but no group is cut, and one take or group always goes.
func callLength(takes []store.Take) int {
	n, cost := 0, 0
	for n < len(takes) {
		end := n + 1
		for takes[n].Group != 0 && end < len(takes) && takes[end].Group == takes[n].Group {
			end++
		}
		for i := n; i < end; i++ {
			cost += costOf(takes[i].Limit)
		}
		if n > 0 && cost > maxKeys {
			return n
		}
		n = end
	}
	return n
}

// costOf returns what a take costs Redis, in takes of a plain counter, by
// measurement: sub_windows reads and writes its parts as text.
func costOf(l *limit.Limit) int {
	switch l.Algorithm {
	case limit.SubWindows:
		return 2 + l.SubWindows/10
	case limit.SlidingLog:
		return 2
	default:
		return 1
	}
}

// call is one script call, with the few ways in which it is made again.
type call struct {
	store    *Store
	takes    []store.Take
	results  []store.Result
	deadline time.Time
	// What has been made good once and will not be again.
	triedEval, triedClock, triedEdges, triedAgain bool
}

// run makes the call, and makes it again where the answer proves that nothing
// was counted and the cause can be removed. It returns the instant of Redis's
// clock at which the results, which are then filled, were decided, or a
// *store.Error.
func (c *call) run(ctx context.Context) (limit.Micros, error) {
	for {
		se, fault := c.store.link.session()
		if fault != nil {
			return 0, fault
		}
		h, err := c.once(ctx, se)
		switch {
		case err == nil && h.status == statusDecided:
			return h.now, nil
		case err == nil && h.status == statusLate:
			// The answer is here before the deadline, so it was not late: our
			// idea of Redis's clock was wrong.
			err = errLate
			if !c.triedClock && time.Now().Before(c.deadline) {
				c.triedClock = true
				continue
			}
		case err == nil && h.status == statusEdges:
			err = errWindow
			if !c.triedEdges {
				c.triedEdges = true
				continue
			}
		case err == nil:
			err = errBadReply
		case isNoScript(err) && !c.triedEval:
			c.triedEval = true
			continue
		case neverRan(err) && !c.triedAgain:
			c.triedAgain = true
			wait(ctx, minRetryPause+rand.N(maxRetryPause-minRetryPause))
			if ctx.Err() == nil {
				continue
			}
		}
		return 0, c.store.options.fault("take", err)
	}
}

// once sends the script and reads the answer.
func (c *call) once(ctx context.Context, se *session) (head, error) {
	s := c.store
	r := requests.Get().(*request)
	h := header{number: s.number.Add(1), wall: se.redisTime(time.Now())}
	if s.clock != nil {
		h.now = s.clock()
		h.wall = h.now
	} else {
		h.deadline = max(se.redisTime(c.deadline), 1)
	}
	keys, args := r.encode(s.options.Prefix, h, c.takes)
	name, script := "EVALSHA", takeSHA
	if c.triedEval {
		name, script = "EVAL", takeScript
	}
	command := se.client.B().Arbitrary(name, script, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
	answer, err := s.do(ctx, se, command)
	if err != nil {
		if isReply(err) {
			r.release()
		}
		return head{}, err
	}
	r.release()
	list, err := answer.ToArray()
	if err != nil {
		return head{}, errBadReply
	}
	result, err := decode(list, h.number, c.takes, c.results)
	if err != nil {
		// The connection gives answers to other questions: it is of no use.
		se.end(err)
		return head{}, err
	}
	switch {
	case s.clock != nil:
	case result.status == statusLate:
		se.setClock(result.now)
	default:
		se.learnClock(result.now)
	}
	return result, nil
}

// do sends a command on the session, if it has room for one more.
func (s *Store) do(ctx context.Context, se *session, command rueidis.Completed) (rueidis.RedisMessage, error) {
	if err := ctx.Err(); err != nil {
		return rueidis.RedisMessage{}, err
	}
	mark, ok := se.inFlight.begin(int64(s.options.MaxInFlight))
	if !ok {
		se.probe()
		return rueidis.RedisMessage{}, errTooMany
	}
	answer, err := se.client.Do(ctx, command).ToMessage()
	if err != nil && givenUp(err) {
		se.inFlight.abandon()
		return answer, err
	}
	se.inFlight.end(mark)
	if err != nil && endsSession(err) {
		se.end(err)
	}
	return answer, err
}
