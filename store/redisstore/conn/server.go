package conn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// Server is one Redis, or the one that sentinels name: the connection to it, its
// breaker, and what is counted of both.
type Server struct {
	Options *Options // with the address of this server, where it is known
	Gate    *Gate    // of this address
	link    *link
	finder  *finder   // with sentinels
	late    *Lateness // of this process
	// leaving says why no calls begin any more.
	leaving atomic.Pointer[store.Error]
	stats   struct{ calls, failures, refused, overdue, starved atomic.Uint64 }
	took    store.Durations // of trips
}

// OpenServer starts to connect to the server that o names, or its sentinels do. It does
// not wait for it: see AwaitFirst. l knows when this process is late. lost is told whenever
// there is no connection any more, or still none; nil means that nobody wants to know.
func OpenServer(o *Options, l *Lateness, lost func()) *Server {
	s := &Server{Options: o, Gate: NewGate(o), late: l}
	s.link = &link{options: o, gate: s.Gate, lost: lost}
	if o.Sentinel == nil {
		s.link.dial = func(ctx context.Context) (*Session, error) { return dial(ctx, o) }
	} else {
		s.finder = newFinder(o)
		s.link.dial, s.link.elsewhere, s.link.watch = s.finder.dial, s.finder.elsewhere, s.finder.watch
	}
	s.link.open()
	return s
}

// AwaitFirst returns when the first attempt to connect has succeeded or failed, or ctx ends. One
// to which the dial timeout gives longer than a second and the budget, because nobody has set it,
// goes on after that without whoever starts.
func (s *Server) AwaitFirst(ctx context.Context) {
	if o := s.Options; o.firstWait < o.DialTimeout {
		short, cancel := context.WithTimeout(ctx, o.firstWait)
		defer cancel()
		ctx = short
	}
	select {
	case <-s.link.first:
	case <-ctx.Done():
	}
}

// Session returns the connection to the server, or why there is none.
func (s *Server) Session() (*Session, *store.Error) { return s.link.session() }

// Trip is one exchange with a server, of one command or several.
type Trip struct {
	Session *Session
	permit  breaker.Permit
	mark    int64
	Began   time.Time
	// deadline is when it is given up on.
	deadline time.Time
}

// Enter begins a trip, if there is a session, its breaker is not open, and it
// has room for one more. Each trip ends with Leave.
func (s *Server) Enter(ctx context.Context) (Trip, error) {
	if err := ctx.Err(); err != nil {
		return Trip{}, err
	}
	se, fault := s.link.nextSession(ctx)
	if fault != nil {
		if s.Gate.State(time.Now()) != breaker.Closed {
			s.stats.refused.Add(1)
		}
		return Trip{}, fault
	}
	if fault := s.leaving.Load(); fault != nil {
		return Trip{}, fault
	}
	t := Trip{Session: se, Began: time.Now()}
	t.deadline, _ = ctx.Deadline()
	if !t.deadline.IsZero() && !t.Began.Before(t.deadline) {
		// The timer of ctx is late. What is over is not sent.
		s.late.late(t.deadline, t.Began)
		return Trip{}, context.DeadlineExceeded
	}
	var ok bool
	if t.permit, ok = s.Gate.breaker.Allow(t.Began); !ok {
		s.stats.refused.Add(1)
		return Trip{}, s.Gate.refuse(se.Options)
	}
	if t.mark, ok = se.inFlight.begin(int64(s.Options.MaxInFlight)); !ok {
		s.Gate.breaker.Done(t.permit, t.Began, breaker.Ignored, 0)
		se.probe()
		return Trip{}, ErrTooMany
	}
	if s.Options.Delay != nil && !s.delayed(ctx, t) {
		return Trip{}, ctx.Err()
	}
	s.stats.calls.Add(1)
	return t, nil
}

// delayed waits for as long as trips shall take longer. It reports false where t is over
// before that, and ends it.
func (s *Server) delayed(ctx context.Context, t Trip) bool {
	delay := s.Options.Delay()
	if delay <= 0 {
		return true
	}
	if _ = sleep.For(ctx, delay); ctx.Err() == nil {
		return true
	}
	s.stats.calls.Add(1)
	now, err := time.Now(), ctx.Err()
	outcome := s.outcomeOf(t, err, now)
	if outcome == breaker.Failure {
		s.stats.failures.Add(1)
		s.Gate.last.Store(s.Fault("take", err))
	}
	s.took.Note(now.Sub(t.Began))
	s.Gate.breaker.Done(t.permit, now, outcome, now.Sub(t.Began))
	t.Session.inFlight.withdraw()
	return false
}

// Leave ends a trip whose worst answer was err.
func (s *Server) Leave(t Trip, err error) {
	se, now := t.Session, time.Now()
	took := now.Sub(t.Began)
	s.took.Note(took)
	outcome := s.outcomeOf(t, err, now)
	switch {
	case outcome == breaker.Failure:
		s.stats.failures.Add(1)
		s.Gate.last.Store(s.Fault("take", err))
		s.late.watch(now)
	case s.slow(took):
		s.late.watch(now)
		if s.late.since(t.Began, now) {
			took = 0 // it is not the server that was slow
		}
	}
	if err == nil && !t.deadline.IsZero() && now.After(t.deadline) {
		s.stats.overdue.Add(1)
	}
	s.Gate.breaker.Done(t.permit, now, outcome, took)
	se.part(t.mark, err)
}

// part gives back the place of a call whose worst answer was err, and ends the connection
// if that says that it is of no more use.
func (s *Session) part(mark int64, err error) {
	if err != nil && givenUp(err) {
		s.inFlight.abandon()
		return
	}
	s.inFlight.end(mark)
	if err != nil && endsSession(err) {
		s.End(err)
	}
}

// Close lets no more calls begin because of cause, waits for those under way, no
// longer than the budget, and ends the connection.
func (s *Server) Close(cause error) {
	s.leaving.Store(s.Options.Fault("dial", cause))
	if se := s.link.current.Load(); se != nil {
		se.inFlight.drain(s.Options.Budget, se.over)
	}
	s.link.close(cause)
	if s.finder != nil {
		s.finder.close()
	}
}

// Within returns when something ends that begins now and may last so long, or as long as ctx if
// that is less.
func Within(ctx context.Context, most time.Duration) time.Time {
	deadline := time.Now().Add(most)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		return d
	}
	return deadline
}

// Ping asks for a sign of life. Not by PING: the ACL user of the store needs TIME
// anyway.
func (s *Server) Ping(ctx context.Context) error {
	_, err := s.Do(ctx, "ping", resp.Words("TIME"))
	return err
}

// Do makes one plain command and returns its answer or a *store.Error. A key that
// is not there is no error.
func (s *Server) Do(ctx context.Context, op string, command resp.Command) (resp.Message, error) {
	return s.do(ctx, op, command, func(err error) error { return err })
}

// Ask is Do for what no decision depends on: a server that refuses to answer is well, and its
// connection goes on.
func (s *Server) Ask(ctx context.Context, op string, command resp.Command) (resp.Message, error) {
	return s.do(ctx, op, command, amiss)
}

// amiss returns what of an error the server is to blame for: not that it refuses to answer.
func amiss(err error) error {
	if IsReply(err) {
		return nil
	}
	return err
}

// do asks a command; amiss is what of its error the server is to blame for.
func (s *Server) do(ctx context.Context, op string, command resp.Command, amiss func(error) error) (resp.Message, error) {
	t, err := s.Enter(ctx)
	if err != nil {
		return resp.Message{}, s.Fault(op, err)
	}
	answer, err := t.Session.Pipe.Ask(ctx, command).Message()
	if errors.Is(err, resp.ErrNil) {
		err = nil
	}
	if s.Leave(t, amiss(err)); err != nil {
		return answer, s.Fault(op, err)
	}
	return answer, nil
}

// slow reports whether the breaker takes a call for slow that took so long.
func (s *Server) slow(took time.Duration) bool {
	return s.Options.Breaker.Slow > 0 && took >= s.Options.Breaker.Slow
}

// outcomeOf says what the end of a trip at now tells about the server.
func (s *Server) outcomeOf(t Trip, err error, now time.Time) breaker.Outcome {
	switch {
	case err == nil || AboutTheCall(err):
		return breaker.Success
	case !givenUp(err):
		return breaker.Failure
	case now.Sub(t.Began) < s.Options.Breaker.Slow:
		// The caller went away before the call could even count as slow.
		return breaker.Ignored
	case !t.deadline.IsZero() && s.late.late(t.deadline, now), s.late.since(t.Began, now):
		// This process had no processor to run on meanwhile, so it cannot tell whether
		// the server was late.
		s.stats.starved.Add(1)
		return breaker.Ignored
	}
	return breaker.Failure
}

// Fault makes the *store.Error of an error at this server.
func (s *Server) Fault(op string, err error) *store.Error {
	if se := s.link.current.Load(); se != nil {
		return se.Options.Fault(op, err)
	}
	return s.Options.Fault(op, err)
}

// addr is the address that the server has, or had.
func (s *Server) addr() string {
	if se := s.link.last.Load(); se != nil {
		return se.Options.Addr
	}
	return s.Options.Addr
}

// Stats is what is known of one server.
type Stats struct {
	// Addr is the address of the server; with sentinels that of the primary as
	// last seen, empty if none was.
	Addr string
	// Connected says whether there is a connection.
	Connected bool
	// Fault says why there is none, or what the last failure of a call or a dial
	// was; nil if there was none.
	Fault error
	// Breaker is the state of the server's breaker, Opened how often it has
	// opened from the beginning, failed probes included. It outlives connections; see
	// gate.
	Breaker breaker.State
	Opened  uint64
	// InFlight is the number of trips that wait for their answers, those that
	// were given up on included.
	InFlight int64
	// Calls counts the trips to the server; a trip may carry several script
	// calls. Failures are those that the breaker counts as such, Refused what it
	// did not let through.
	Calls, Failures, Refused uint64
	// Overdue counts the trips that were answered after their budget and within the
	// grace: the answers were used. Starved counts those that were given up on while this
	// process was late itself; they are no Failures.
	Overdue, Starved uint64
	// Took counts how long trips took, those that were given up on included.
	Took store.DurationCounts
}

// Stats returns what is known at now.
func (s *Server) Stats(now time.Time) Stats {
	stats := Stats{
		Addr:     s.addr(),
		Calls:    s.stats.calls.Load(),
		Failures: s.stats.failures.Load(),
		Refused:  s.stats.refused.Load(),
		Overdue:  s.stats.overdue.Load(),
		Starved:  s.stats.starved.Load(),
		Took:     s.took.Counts(),
	}
	gate := s.Gate.breaker.Stats(now)
	stats.Breaker, stats.Opened = gate.State, gate.Opened
	if failure := s.Gate.last.Load(); failure != nil {
		stats.Fault = failure
	}
	if se := s.link.last.Load(); se != nil {
		stats.InFlight = se.inFlight.taken()
	}
	if _, fault := s.Session(); fault != nil {
		stats.Fault, stats.InFlight = fault, 0
	} else {
		stats.Connected = true
	}
	return stats
}
