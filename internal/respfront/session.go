package respfront

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/refusals"
)

const (
	// loginTimeout is for how long a connection may be that of a stranger, and commandTimeout how long the rest of a command may take once it has begun.
	loginTimeout   = 10 * time.Second
	commandTimeout = 30 * time.Second
	// idleTimeout is longer than clients keep connections in their pools.
	idleTimeout = 2 * time.Hour
	// writeTimeout is for how long a caller may leave answers unread.
	writeTimeout = 10 * time.Second
	// maxWaiting bounds the bytes of answers that wait to be sent, but for the last one, and the
	// memory that a connection keeps for them.
	maxWaiting = 16 << 10
)

// session is a connection and what its caller has said of itself.
type session struct {
	server *Server
	conn   net.Conn
	id     int64
	peer   *inlet.Peer
	from   netip.Addr // the zero value for a socket of this machine
	opened time.Time
	// stranger is since when the caller has not come in, while it has not.
	stranger time.Time

	reader *reader
	reply  reply
	batch  batch

	token string // what AUTH has shown; "" for none
	name  string // what CLIENT SETNAME has said
	// entries are those of the check that is being read.
	entries []descriptor.Entry
	// known says that the caller has come in, as far as is known.
	known bool
	// ending says that the connection ends after what has been answered.
	ending bool
}

// run answers commands until the connection ends.
func (s *session) run() {
	for !s.ending {
		args, err := s.reader.next()
		if err != nil {
			s.failed(err)
			return
		}
		s.do(args)
		if len(s.reply.text) > maxWaiting && s.flush() != nil {
			return
		}
	}
	_ = s.flush() // it ends in any case
}

// failed answers what is no command, as far as somebody is there to hear it.
func (s *session) failed(err error) {
	if wrong, ok := errors.AsType[*protocolError](err); ok {
		s.decide()
		s.reply.fail("ERR " + wrong.Error())
		s.server.counts.malformed.Add(1)
		_ = s.flush() // it ends in any case
	}
}

// Read implements io.Reader for the reader of commands: before it waits for more, all that came
// before is decided and answered.
func (s *session) Read(p []byte) (int, error) {
	if err := s.flush(); err != nil {
		return 0, err
	}
	now := time.Now()
	until := now.Add(idleTimeout)
	switch {
	case !s.known:
		until = s.stranger.Add(loginTimeout)
	case s.reader.begun:
		if s.reader.waits.IsZero() {
			s.reader.waits = now
		}
		until = s.reader.waits.Add(commandTimeout) // whatever comes of it meanwhile
	}
	if err := s.conn.SetReadDeadline(until); err != nil {
		return 0, err
	}
	if s.server.draining() { // it may have begun just now, with a deadline that was overwritten
		if err := s.conn.SetReadDeadline(s.server.lastRead()); err != nil {
			return 0, err
		}
	}
	return s.conn.Read(p)
}

var _ io.Reader = (*session)(nil)

// flush decides the checks that wait and sends all answers.
func (s *session) flush() error {
	s.decide()
	if len(s.reply.text) == 0 {
		return nil
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := s.conn.Write(s.reply.text)
	if s.reply.text = s.reply.text[:0]; cap(s.reply.text) > maxWaiting {
		s.reply.text = nil
	}
	return err
}

// do answers a command, or adds it to those that are decided together.
func (s *session) do(args []string) {
	var c command // nobody's
	if i := s.server.find(args[0]); i < 0 {
		s.server.counts.unknown.Add(1)
	} else {
		c = s.server.commands[i]
		s.server.counts.of[i].Add(1)
	}
	if c.check != nil {
		c.check(s, args)
		return
	}
	s.decide() // so that answers go out in order, and checks are decided for who has asked
	if !c.open {
		if err := s.keptOut(); err != nil {
			s.reply.fail(inRedis(err).Error())
			return
		}
	}
	switch {
	case c.do == nil:
		// Clients look for how it begins. What follows "with: " in a Redis are arguments, which may be secret.
		s.reply.fail("ERR unknown command '" + firstOf(args[0]) + "', with args beginning with: ; hint: nothing is stored here, CL.THROTTLE and HEADGATE.CHECK ask for a decision, and COMMAND lists all")
	case len(args) < c.least || len(args) > c.most:
		s.reply.fail("ERR wrong number of arguments for '" + c.name + "' command")
	default:
		c.do(s, args)
	}
}

// firstOf returns as much of text as a reply repeats.
func firstOf(text string) string { return text[:min(len(text), 128)] }

const needsAuth = "NOAUTH Authentication required."

// shown returns what the caller shows.
func (s *session) shown() callers.Shown { return callers.Shown{Token: s.token, Peer: s.peer} }

// comeIn returns what decides for the caller, or why it does not come in by what it shows now.
func (s *session) comeIn() (Checker, error) {
	c, err := s.server.entrance.Enter(s.shown())
	s.setKnown(err == nil)
	return c, err
}

// keptOut returns why the caller does not come in by what it shows now; nil where it does.
func (s *session) keptOut() error {
	_, err := s.comeIn()
	return err
}

// inRedis says in the words of Redis why a caller does not come in. Clients look at the first one.
func inRedis(err error) refusal {
	kept, ok := errors.AsType[*callers.Refused](err)
	switch {
	case !ok || kept.Reason == refusals.NoToken:
		return needsAuth
	case kept.Reason == refusals.WrongScope:
		return refuse("NOPERM %v", kept)
	}
	return refuse("NOAUTH %v", kept)
}

// setKnown notes whether the caller has come in. One that has not any more has the time of a new
// one to come in again.
func (s *session) setKnown(known bool) {
	if s.known && !known {
		s.stranger = time.Now()
	}
	s.known, s.reader.stranger = known, !known
}

// enter returns what decides for the caller. It is asked for each batch, so that a credential
// that is taken back is good no longer.
func (s *session) enter() (Checker, error) {
	c, err := s.comeIn()
	if err == nil {
		return c, nil
	}
	return nil, inRedis(s.refused(err))
}

// refused counts that the caller was kept out, and returns what it is to hear. It may be the
// last thing.
func (s *session) refused(err error) error {
	err = s.server.entrance.Refuse(err, s.from)
	if kept, ok := errors.AsType[*callers.Refused](err); ok && kept.Ends() {
		s.ending = true
	}
	return err
}

// checkThrottle adds a CL.THROTTLE to those that are decided together.
func checkThrottle(s *session, args []string) {
	t, err := readThrottle(args, s.server.limits.Get)
	if err != nil {
		s.misread(err)
		return
	}
	at := s.slot(kindOf(throttles, t.op, ""))
	at.named = true
	at.entries = append(at.entries[:0], descriptor.Entry{Key: keyEntry, Value: t.key})
	s.batch.add(headgate.CallerDomain, headgate.Descriptor{Hits: t.hits, Op: t.op, Limit: t.limit}, "")
}

// checkConfigured adds a HEADGATE.CHECK to those that are decided together.
func checkConfigured(s *session, args []string) {
	c, err := readConfigured(args, s.entries[:0])
	s.entries = c.entries
	if err != nil {
		s.misread(err)
		return
	}
	at := s.slot(kindOf(checks, c.op, c.id))
	at.named = false
	at.entries = append(at.entries[:0], c.entries...)
	s.batch.add(c.domain, headgate.Descriptor{Hits: c.hits, Op: c.op}, c.id)
}

// slot returns the memory for a check of that kind, when those that it cannot be decided with
// are decided.
func (s *session) slot(k kind) *slot {
	if !s.batch.takes(k) {
		s.decide()
	}
	return s.batch.next(k)
}

// misread answers a check that cannot be read, of who has come in.
func (s *session) misread(err error) {
	s.decide()
	if _, refused := s.enter(); refused != nil {
		err = refused
	}
	s.reply.fail(err.Error())
}
