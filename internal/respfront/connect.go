package respfront

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/refusals"
)

// claimed is the version of Redis that is told to clients: they choose by it what they send.
const claimed = "7.4.0"

// maxName bounds the name that a client gives to its connection.
const maxName = 128

// hello answers HELLO [version [AUTH user password] [SETNAME name]].
func (s *session) hello(args []string) {
	version, rest := s.reply.version, args[1:]
	if len(rest) > 0 {
		n, err := strconv.Atoi(rest[0])
		if err != nil {
			s.reply.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			s.reply.fail("NOPROTO unsupported protocol version")
			return
		}
		version, rest = n, rest[1:]
	}
	password, name, err := helloOptions(rest)
	if err == nil && password != nil {
		err = s.login(*password)
	}
	if err == nil {
		err = s.mayGreet()
	}
	if err == nil && name != nil {
		err = s.setName(*name)
	}
	if err != nil {
		s.reply.fail(err.Error())
		return
	}
	s.reply.version = version
	s.greet()
}

// mayGreet returns what a caller hears that HELLO has not let in; nil where it has come in.
func (s *session) mayGreet() error {
	err := s.keptOut()
	if err == nil {
		return nil
	}
	if told := inRedis(err); told != needsAuth {
		return told
	}
	return refusal("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
}

// helloOptions reads what follows the version; nil where nothing is said.
func helloOptions(rest []string) (password, name *string, err error) {
	for len(rest) > 0 {
		switch option := strings.ToUpper(rest[0]); {
		case option == "AUTH" && len(rest) > 2:
			password, rest = &rest[2], rest[3:]
		case option == "SETNAME" && len(rest) > 1:
			name, rest = &rest[1], rest[2:]
		default:
			return nil, nil, refuse("ERR Syntax error in HELLO option '%s'", firstOf(rest[0]))
		}
	}
	return password, name, nil
}

// greet appends what a server says of itself.
func (s *session) greet() {
	s.reply.pairs(7)
	for _, pair := range [][2]string{{"server", "redis"}, {"version", claimed}} {
		s.reply.bulk(pair[0])
		s.reply.bulk(pair[1])
	}
	s.reply.bulk("proto")
	s.reply.integer(int64(s.reply.version))
	s.reply.bulk("id")
	s.reply.integer(s.id)
	for _, pair := range [][2]string{{"mode", "standalone"}, {"role", "master"}} {
		s.reply.bulk(pair[0])
		s.reply.bulk(pair[1])
	}
	s.reply.bulk("modules")
	s.reply.array(0)
}

// auth answers AUTH [user] token. The user may be any: a token says who has it.
func (s *session) auth(args []string) {
	if err := s.login(args[len(args)-1]); err != nil {
		s.reply.fail(err.Error())
		return
	}
	s.reply.simple("OK")
}

// login lets the caller in who shows a token. One that is not let in keeps what it had.
func (s *session) login(token string) error {
	if !s.server.entrance.Asks() {
		return refusal("ERR Client sent AUTH, but no password is set; hint: this server asks for none, or give it a file of tokens (--callers)")
	}
	shown := s.shown()
	shown.Token, shown.Malformed = token, token == ""
	if _, err := s.server.entrance.Enter(shown); err != nil {
		var kept *callers.Refused
		if errors.As(s.refused(err), &kept) && kept.Reason == refusals.WrongScope {
			return refuse("NOPERM %v", kept)
		}
		return refusal("WRONGPASS invalid username-password pair or user is disabled.") // Redis says no more
	}
	s.token = token
	s.setKnown(true)
	return nil
}

// reset answers RESET: the connection is as if it were new.
func (s *session) reset([]string) {
	s.token, s.name, s.reply.version = "", "", 2
	_ = s.keptOut() // which notes it
	s.reply.simple("RESET")
}

// client answers CLIENT and what clients say of themselves by it.
func (s *session) client(args []string) {
	switch what := strings.ToUpper(args[1]); {
	case what == "SETNAME" && len(args) == 3:
		if err := s.setName(args[2]); err != nil {
			s.reply.fail(err.Error())
			return
		}
		s.reply.simple("OK")
	case what == "GETNAME" && len(args) == 2:
		if s.name == "" {
			s.reply.null()
			return
		}
		s.reply.bulk(s.name)
	case what == "SETINFO" && len(args) == 4, (what == "NO-EVICT" || what == "NO-TOUCH") && len(args) == 3,
		what == "TRACKING" && len(args) == 3 && strings.EqualFold(args[2], "off"):
		s.reply.simple("OK")
	case what == "ID" && len(args) == 2:
		s.reply.integer(s.id)
	case what == "INFO" && len(args) == 2:
		s.reply.bulk(fmt.Sprintf("id=%d addr=%v name=%s age=%d db=0 resp=%d\n", s.id, s.conn.RemoteAddr(), s.name, time.Since(s.opened)/time.Second, s.reply.version))
	default:
		s.unknownSubcommand(args)
	}
}

func (s *session) setName(name string) error {
	if len(name) > maxName || !ascii.IsVisible(name) {
		return refuse("ERR Client names cannot contain spaces, newlines or special characters, and have at most %d bytes.", maxName)
	}
	s.name = name
	return nil
}

// entered is what an Entrance lets in by a callers.Gate.
type entered[D Checker] struct{ *callers.Gate[D] }

// Enter implements Entrance.
func (e entered[D]) Enter(s callers.Shown) (Checker, error) { return e.Gate.Enter(s) }

// Callers returns the Entrance of a gate.
func Callers[D Checker](gate *callers.Gate[D]) Entrance { return entered[D]{gate} }
