package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
	"github.com/headgate/headgate/store/coalesce"
)

// shard is one server that has buckets: the way to it, and what is counted there.
type shard struct {
	store   *Store
	options *Options // with the address of this server, where it is known
	gate    *gate
	link    *link
	late    *lateness           // of this process
	merge   *coalesce.Coalescer // nil without coalescing
	// leaving says why no calls begin any more.
	leaving atomic.Pointer[store.Error]
	stats   struct{ calls, failures, late, refused, redirected, reseeded, overdue, starved atomic.Uint64 }
	took    store.Durations // of trips
}

// trip is one exchange with the server of a shard, of one command or several.
type trip struct {
	session *session
	permit  breaker.Permit
	mark    int64
	began   time.Time
	// deadline is when it is given up on.
	deadline time.Time
}

// enter begins a trip, if there is a session, its breaker is not open, and it
// has room for one more. Each trip ends with leave.
func (sh *shard) enter(ctx context.Context) (trip, error) {
	if err := ctx.Err(); err != nil {
		return trip{}, err
	}
	se, fault := sh.link.session()
	if fault != nil {
		if !sh.gate.closed(time.Now()) {
			sh.stats.refused.Add(1)
		}
		return trip{}, fault
	}
	if fault := sh.leaving.Load(); fault != nil {
		return trip{}, fault
	}
	t := trip{session: se, began: time.Now()}
	t.deadline, _ = ctx.Deadline()
	if !t.deadline.IsZero() && !t.began.Before(t.deadline) {
		// The timer of ctx is late. What is over is not sent.
		sh.late.late(t.deadline, t.began)
		return trip{}, context.DeadlineExceeded
	}
	var ok bool
	if t.permit, ok = sh.gate.breaker.Allow(t.began); !ok {
		sh.stats.refused.Add(1)
		return trip{}, sh.gate.refuse(se.options)
	}
	if t.mark, ok = se.inFlight.begin(int64(sh.options.MaxInFlight)); !ok {
		sh.gate.breaker.Done(t.permit, t.began, breaker.Ignored, 0)
		se.probe()
		return trip{}, errTooMany
	}
	sh.stats.calls.Add(1)
	return t, nil
}

// leave ends a trip whose worst answer was err.
func (sh *shard) leave(t trip, err error) {
	se, now := t.session, time.Now()
	took := now.Sub(t.began)
	sh.took.Note(took)
	outcome := sh.outcomeOf(t, err, now)
	switch {
	case outcome == breaker.Failure:
		sh.stats.failures.Add(1)
		sh.gate.last.Store(sh.fault("take", err))
		sh.late.watch(now)
	case sh.slow(took):
		sh.late.watch(now)
		if sh.late.since(t.began, now) {
			took = 0 // it is not the server that was slow
		}
	}
	if err == nil && !t.deadline.IsZero() && now.After(t.deadline) {
		sh.stats.overdue.Add(1)
	}
	sh.gate.breaker.Done(t.permit, now, outcome, took)
	if err != nil && givenUp(err) {
		se.inFlight.abandon()
		return
	}
	se.inFlight.end(t.mark)
	if err != nil && endsSession(err) {
		se.end(err)
	}
}

// close lets no more calls begin because of cause, waits for those under way, no
// longer than the budget, and ends the connection.
func (sh *shard) close(cause error) {
	sh.leaving.Store(sh.options.fault("dial", cause))
	if se := sh.link.current.Load(); se != nil {
		se.inFlight.drain(sh.options.Budget, se.over)
	}
	sh.link.close(cause)
}

// ping asks for a sign of life. Not by PING: the ACL user of the store needs TIME
// anyway.
func (sh *shard) ping(ctx context.Context) error {
	_, err := sh.do(ctx, "ping", func(b rueidis.Builder) rueidis.Completed { return b.Time().Build() })
	return err
}

// do makes one plain command and returns its answer or a *store.Error. A key that
// is not there is no error.
func (sh *shard) do(ctx context.Context, op string, build func(rueidis.Builder) rueidis.Completed) (rueidis.RedisMessage, error) {
	t, err := sh.enter(ctx)
	if err != nil {
		return rueidis.RedisMessage{}, sh.fault(op, err)
	}
	answer, err := t.session.client.Do(ctx, build(t.session.client.B())).ToMessage()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	sh.leave(t, err)
	if err != nil {
		return answer, sh.fault(op, err)
	}
	return answer, nil
}

// slow reports whether the breaker takes a call for slow that took so long.
func (sh *shard) slow(took time.Duration) bool {
	return sh.options.Breaker.Slow > 0 && took >= sh.options.Breaker.Slow
}

// outcomeOf says what the end of a trip at now tells about the server.
func (sh *shard) outcomeOf(t trip, err error, now time.Time) breaker.Outcome {
	switch {
	case err == nil || aboutTheCall(err):
		return breaker.Success
	case !givenUp(err):
		return breaker.Failure
	case now.Sub(t.began) < sh.options.Breaker.Slow:
		// The caller went away before the call could even count as slow.
		return breaker.Ignored
	case !t.deadline.IsZero() && sh.late.late(t.deadline, now), sh.late.since(t.began, now):
		// This process had no processor to run on meanwhile, so it cannot tell whether
		// the server was late.
		sh.stats.starved.Add(1)
		return breaker.Ignored
	}
	return breaker.Failure
}

// fault makes the *store.Error of an error at this server.
func (sh *shard) fault(op string, err error) *store.Error {
	if se := sh.link.current.Load(); se != nil {
		return se.options.fault(op, err)
	}
	return sh.options.fault(op, err)
}

// ShardStats is what the store knows of one server.
type ShardStats struct {
	// Addr is the address of the server; with sentinels that of the primary as
	// last seen, empty if none was.
	Addr string
	// Connected says whether there is a connection.
	Connected bool
	// Fault says why there is none, or what the last failure of a call or a dial
	// was; nil if there was none.
	Fault error
	// Breaker is the state of the server's breaker, Opened how often it has
	// opened since New, failed probes included. It outlives connections; see gate.
	Breaker breaker.State
	Opened  uint64
	// InFlight is the number of trips that wait for their answers, those that
	// were given up on included.
	InFlight int64
	// Calls counts the trips to the server; a trip may carry several script
	// calls. Failures are those that the breaker counts as such, Refused what it
	// did not let through. Late counts scripts that ran after their deadline,
	// and charged nothing. Redirected counts the calls that the server sent to
	// another one.
	Calls, Failures, Refused, Late, Redirected uint64
	// Overdue counts the trips that were answered after their budget and within the
	// grace: the answers were used. Starved counts those that were given up on while this
	// process was late itself; they are no Failures.
	Overdue, Starved uint64
	// Reseeded counts the buckets that the server was told of because it might
	// have lost their latest hits in a failover; see Options.Remembered.
	Reseeded uint64
	// Took counts how long trips took, those that were given up on included.
	Took store.DurationCounts
	// Merged says how Takes were joined; zero without coalescing.
	Merged coalesce.Stats
}

// snapshot returns what is known at now.
func (sh *shard) snapshot(now time.Time) ShardStats {
	stats := ShardStats{
		Addr:       sh.options.Addr,
		Calls:      sh.stats.calls.Load(),
		Failures:   sh.stats.failures.Load(),
		Refused:    sh.stats.refused.Load(),
		Late:       sh.stats.late.Load(),
		Redirected: sh.stats.redirected.Load(),
		Reseeded:   sh.stats.reseeded.Load(),
		Overdue:    sh.stats.overdue.Load(),
		Starved:    sh.stats.starved.Load(),
		Took:       sh.took.Counts(),
	}
	if sh.merge != nil {
		stats.Merged = sh.merge.Stats()
	}
	gate := sh.gate.breaker.Stats(now)
	stats.Breaker, stats.Opened = gate.State, gate.Opened
	if failure := sh.gate.last.Load(); failure != nil {
		stats.Fault = failure
	}
	if se := sh.link.last.Load(); se != nil {
		stats.Addr, stats.InFlight = se.options.Addr, se.inFlight.taken()
	}
	if _, fault := sh.link.session(); fault != nil {
		stats.Fault, stats.InFlight = fault, 0
	} else {
		stats.Connected = true
	}
	return stats
}
