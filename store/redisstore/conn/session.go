package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// keepAlive is how often a silent connection is asked for a sign of life,
	// and minSilence how long it may take to give one, or the Budget if that is
	// longer: a server that hangs is noticed after their sum at most.
	keepAlive  = 300 * time.Millisecond
	minSilence = 500 * time.Millisecond
	// clockStep is the difference from which a clock has been set rather than
	// read late, and 1/clockWeight the share by which a slow answer counts.
	clockStep   = time.Second
	clockWeight = 64
)

// Session is one connection to Redis, from the dial until it breaks. It is
// never mended: link makes another one, so that no call of a user ever waits
// for a connection to be made.
type Session struct {
	Options *Options   // with the address of the server
	Pipe    *resp.Pipe // over this one connection
	epoch   time.Time  // where the local clock of this connection begins

	// over is closed when the connection is gone or must not be used further;
	// cause says why.
	over  chan struct{}
	once  sync.Once
	cause error

	mu      sync.Mutex
	conn    *watchedConn   // below Pipe; nil until it is dialled
	probing bool           // whether a probe is under way
	probes  sync.WaitGroup // begun under mu while the session is not over

	// History names the series of writes that the server has: another one after a
	// failover or a restart. 0 until
	// the greeting. Forebear is the one that it took over in a failover, if any.
	History, Forebear uint32

	// offset is Redis's clock minus the local one in microseconds; see
	// LearnClock.
	offset atomic.Int64

	inFlight flights
}

// flights counts the calls that take up places of MaxInFlight: those
// that wait for an answer, and those that were given up on but are unanswered
// still. Answers arrive in the order of the calls, so an answer to a call that
// began after some were given up on proves that those have been answered too.
type flights struct {
	waiting  atomic.Int64
	givenUp  atomic.Int64 // ever
	answered atomic.Int64 // of givenUp, known to be answered
}

// begin takes a place, if fewer than limit are taken, and returns the mark to
// end it with.
func (f *flights) begin(limit int64) (mark int64, ok bool) {
	mark = f.givenUp.Load()
	if f.waiting.Add(1)+mark-f.answered.Load() > limit {
		f.waiting.Add(-1)
		return 0, false
	}
	return mark, true
}

// end gives the place back after an answer.
func (f *flights) end(mark int64) {
	f.reached(mark)
	f.waiting.Add(-1)
}

// reached notes that the first mark of those given up on have been answered.
func (f *flights) reached(mark int64) {
	for {
		known := f.answered.Load()
		if known >= mark || f.answered.CompareAndSwap(known, mark) {
			return
		}
	}
}

// taken returns the number of places that are taken.
func (f *flights) taken() int64 {
	return max(f.waiting.Load()+f.givenUp.Load()-f.answered.Load(), 0)
}

// drain returns when no call waits for its answer, when over is closed, or after
// patience.
func (f *flights) drain(patience time.Duration, over <-chan struct{}) {
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.waiting.Load() > 0 {
		select {
		case <-late.C:
			return
		case <-over:
			return
		case <-tick.C:
		}
	}
}

// abandon marks the place as given up on.
func (f *flights) abandon() {
	f.givenUp.Add(1)
	f.waiting.Add(-1)
}

// withdraw gives a place back with which nothing was sent.
func (f *flights) withdraw() { f.waiting.Add(-1) }

// dial connects to Redis and makes sure that it is a primary that answers. It
// lasts up to the dial timeout of o, or until ctx ends.
func dial(ctx context.Context, o *Options) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	s, err := Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	release := context.AfterFunc(ctx, s.hangUp)
	defer release()
	if err := s.greet(ctx); err != nil {
		s.Close()
		return nil, s.Options.Fault("dial", err)
	}
	return s, nil
}

// Connect makes a session with any server that speaks as Redis does, a sentinel
// for one. ctx has a deadline. Errors hold no password, not that of a file either.
func Connect(ctx context.Context, o *Options) (*Session, error) {
	o, err := o.Fresh()
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, o)
	if err != nil {
		return nil, o.Fault("dial", err)
	}
	return s, nil
}

// connect is Connect with the credentials of o as they are.
func connect(ctx context.Context, o *Options) (*Session, error) {
	s := &Session{Options: o, epoch: time.Now(), over: make(chan struct{})}
	// The first question does not heed ctx.
	release := context.AfterFunc(ctx, s.hangUp)
	defer release()
	conn, err := s.open(ctx, o)
	if err == nil {
		s.Pipe = resp.NewPipe(conn, resp.Options{Quiet: keepAlive, Patience: o.silence})
		err = s.logIn(ctx)
	}
	if err != nil {
		s.Close()
		if !errors.Is(err, ErrNotRedis) && (ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)) {
			return nil, fmt.Errorf("%w after %v", errNoGreeting, o.DialTimeout)
		}
		return nil, err
	}
	return s, nil
}

// open makes the connection of the session, on which a Redis answers.
func (s *Session) open(ctx context.Context, o *Options) (*watchedConn, error) {
	conn, err := o.dialServer(ctx)
	if err != nil {
		return nil, err
	}
	watched := watchConn(conn, func() { s.End(errLost) })
	s.mu.Lock()
	s.conn = watched
	s.mu.Unlock()
	if s.isOver() {
		watched.Close()
		return nil, errLost
	}
	deadline, _ := ctx.Deadline()
	if err := AskFirst(watched, deadline); err != nil {
		watched.Close()
		return nil, err
	}
	return watched, nil
}

// dialServer makes a connection to the server, secured if that is asked for.
func (o *Options) dialServer(ctx context.Context) (net.Conn, error) {
	// The handshake of TCP is one round trip. It has no more time than one, because TCP repeats
	// what is lost less and less often.
	dial := (&net.Dialer{Timeout: o.firstWait, KeepAlive: keepAlive}).DialContext
	if o.Via != nil {
		dial = o.Via(dial)
	}
	raw, err := dial(ctx, o.Network, o.Addr)
	if err != nil || o.TLS == nil {
		return raw, err
	}
	config := o.TLS
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName = hostOf(o.Addr)
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		if o.stale != nil {
			err = fmt.Errorf("%w (what has changed since cannot be used: %w)", err, o.stale)
		}
		return nil, err
	}
	return secure, nil
}

// hostOf returns the host of an address, which need not have a port.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// greet reads Redis's clock, which also proves that the user may talk to it,
// and refuses what is no place for counts: a sentinel, a node of a cluster that
// was given as a single Redis, a server whose numbers are too short, and a
// replica, because what it would count is lost. All is asked at once: of a server on
// another continent each round trip counts.
func (s *Session) greet(ctx context.Context) error {
	answers := s.Pipe.AskAll(ctx,
		resp.Script("EVAL", "return string.format('%d', "+longNumber+")", nil, nil),
		resp.Words("ROLE"),
		resp.Words("INFO", "cluster"),
		resp.Words("INFO", "replication"),
		resp.Words("TIME"), // last, so that it is read soon
	)
	numbers, role, cluster, replication, clock := answers[0], roleOf(answers[1]), answers[2], answers[3], answers[4]
	parts, err := clock.Texts()
	if err != nil {
		if IsReply(err) && role == "sentinel" {
			return ErrIsSentinel
		}
		return err
	}
	now, err := ParseTime(parts)
	if err != nil {
		return err
	}
	s.SetClock(now)
	if err := checkNumbers(numbers); err != nil {
		return err
	}
	if role == "slave" {
		return errReplica
	}
	if s.Options.Topology() != InCluster && inCluster(cluster) {
		return errIsCluster
	}
	s.History, s.Forebear = historyOf(replication)
	if s.isOver() {
		return s.cause
	}
	return ctx.Err()
}

// historyOf returns a number for the replication history of the server that has told of its
// replication: another one after a failover, and after a restart; and that of the history before
// the failover. Where the user may not ask, every connection counts as another one.
func historyOf(replication resp.Answer) (history, forebear uint32) {
	info, err := replication.Text()
	if err != nil {
		return max(1, rand.Uint32()), 0
	}
	for name, id := range InfoLines(info) {
		switch name {
		case "master_replid":
			history = max(1, crc32.ChecksumIEEE([]byte(id)))
		case "master_replid2":
			forebear = max(1, crc32.ChecksumIEEE([]byte(id)))
		}
	}
	if history == 0 {
		history = max(1, rand.Uint32())
	}
	return history, forebear
}

// Role returns what the server says it is: master, slave or sentinel. Many users
// may not ask; then it is empty, and a replica answers READONLY to the first
// charge.
func (s *Session) Role(ctx context.Context) string {
	return roleOf(s.Pipe.Ask(ctx, resp.Words("ROLE")))
}

// roleOf reads the answer to ROLE.
func roleOf(answer resp.Answer) string {
	role, err := answer.List()
	if err != nil || len(role) == 0 {
		return ""
	}
	name, _ := role[0].Text()
	return name
}

// inCluster reports whether the server that has told of its cluster is a node of one, as far as
// the user may know.
func inCluster(cluster resp.Answer) bool {
	info, err := cluster.Text()
	return err == nil && strings.Contains(info, "cluster_enabled:1")
}

// longNumber is an instant that a server with numbers of 32 bits cannot write.
const longNumber = "4503599627370496"

// checkNumbers makes sure that Redis writes a number as long as an instant by %d,
// as the script does: on 32 bits it does not, and the counts would be wrong. It
// says nothing about a user who may not run it.
func checkNumbers(written resp.Answer) error {
	text, err := written.Text()
	switch {
	case err != nil && IsReply(err):
		return nil
	case err == nil && text != longNumber:
		return ErrNarrow
	}
	return err
}

// maxSeconds bounds the clock of a server: beyond it microseconds do not fit 63 bits.
const maxSeconds = math.MaxInt64/1_000_000 - 1

// ParseTime converts the answer to TIME: seconds, and the microseconds of the present one.
func ParseTime(parts []string) (limit.Micros, error) {
	if len(parts) != 2 {
		return 0, ErrBadReply
	}
	seconds, err1 := strconv.ParseUint(parts[0], 10, 63)
	micros, err2 := strconv.ParseUint(parts[1], 10, 63)
	if err1 != nil || err2 != nil || seconds > maxSeconds || micros >= 1_000_000 {
		return 0, ErrBadReply
	}
	return limit.Micros(seconds*1_000_000 + micros), nil
}

// SetClock notes that Redis's clock shows now, or did a moment ago.
func (s *Session) SetClock(now limit.Micros) {
	s.offset.Store(int64(now) - time.Since(s.epoch).Microseconds())
}

// LearnClock is setClock for the many: an answer that took long to arrive, or
// to be read, makes Redis's clock seem slow, so a fast answer counts at once
// and slow ones count little. One that differs by more is from a clock that was
// set back.
func (s *Session) LearnClock(now limit.Micros) {
	seen, known := int64(now)-time.Since(s.epoch).Microseconds(), s.offset.Load()
	if slow := known - seen; slow > 0 && slow < clockStep.Microseconds() {
		seen = known - slow/clockWeight
	}
	s.offset.Store(seen)
}

// RedisTime converts a local instant to Redis's clock. It is early by about the
// time that a fast answer takes to arrive.
func (s *Session) RedisTime(local time.Time) limit.Micros {
	return limit.Micros(local.Sub(s.epoch).Microseconds() + s.offset.Load())
}

// isOver reports whether the session has ended.
func (s *Session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// End marks the session as over because of cause. Only the first cause counts.
func (s *Session) End(cause error) {
	s.once.Do(func() {
		s.cause = cause
		close(s.over)
	})
}

// hangUp closes the connection, which makes every waiting call return.
func (s *Session) hangUp() {
	s.End(errLost)
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// Close ends the session and waits until its goroutines have.
func (s *Session) Close() {
	s.hangUp()
	if s.Pipe != nil {
		s.Pipe.Close()
	}
	s.probes.Wait()
}

// probe finds out, in the background, whether calls that were given up on have
// been answered meanwhile. It is for when they take up all places, so that no
// other call can.
func (s *Session) probe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probing || s.isOver() {
		return
	}
	s.probing = true
	s.probes.Go(func() {
		mark := s.inFlight.givenUp.Load()
		ctx, cancel := context.WithTimeout(context.Background(), s.Options.silence)
		defer cancel()
		if err := s.Pipe.Ask(ctx, resp.Words("PING")).Err(); err == nil || IsReply(err) {
			s.inFlight.reached(mark)
		} else {
			s.End(err)
		}
		s.mu.Lock()
		s.probing = false
		s.mu.Unlock()
	})
}

// IsReply reports whether err is what Redis answered, not why it did not.
func IsReply(err error) bool {
	_, ok := errors.AsType[*resp.Error](err)
	return ok || errors.Is(err, resp.ErrNil)
}

// givenUp reports whether the caller's context ended before the answer came.
func givenUp(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// endsSession reports whether the connection is of no use after err: it broke,
// or its server or user must be looked up anew. The caller has not given up.
func endsSession(err error) bool {
	if !IsReply(err) {
		return true
	}
	reason, _ := Classify(err)
	return reason == store.ReadOnly || reason == store.Denied
}
