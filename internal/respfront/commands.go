package respfront

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// command is one that is answered. Exactly one of check and do is there.
type command struct {
	name string
	// least and most are how many arguments it has, its name included. Those of check are
	// read by itself.
	least, most int
	// key is which argument is a key; 0 for none.
	key int
	// open says that it is answered before a caller has come in.
	open bool
	// hidden says that COMMAND does not tell of it.
	hidden bool
	// check adds a check to those that are decided together.
	check func(s *session, args []string)
	// do answers what clients send when they connect, or to see whether somebody is there.
	do func(s *session, args []string)
}

// arity is the number of arguments as COMMAND has it: below 0 it is the least one.
func (c *command) arity() int {
	if c.least == c.most {
		return c.least
	}
	return -c.least
}

// allCommands are those that are answered, by name.
func allCommands() []command {
	return []command{
		{name: "auth", least: 2, most: 3, open: true, do: (*session).auth},
		{name: "cl.throttle", least: 5, most: 6, key: 1, check: checkThrottle},
		{name: "client", least: 2, most: maxArguments, do: (*session).client},
		{name: "cluster", least: 1, most: maxArguments, do: (*session).cluster},
		{name: "command", least: 1, most: maxArguments, do: (*session).command},
		{name: "config", least: 2, most: maxArguments, do: (*session).config},
		{name: "echo", least: 2, most: 2, do: func(s *session, args []string) { s.reply.bulk(args[1]) }},
		{name: "headgate.check", least: 3, most: maxArguments, check: checkConfigured},
		{name: "hello", least: 1, most: maxArguments, open: true, do: (*session).hello},
		{name: "host:", least: 1, most: maxArguments, open: true, hidden: true, do: (*session).foreign},
		{name: "info", least: 1, most: maxArguments, do: (*session).info},
		{name: "ping", least: 1, most: 2, do: (*session).ping},
		{name: "post", least: 1, most: maxArguments, open: true, hidden: true, do: (*session).foreign},
		{name: "quit", least: 1, most: maxArguments, open: true, do: (*session).quit},
		{name: "readonly", least: 1, most: 1, do: (*session).fine},
		{name: "readwrite", least: 1, most: 1, do: (*session).fine},
		{name: "reset", least: 1, most: 1, open: true, do: (*session).reset},
		{name: "select", least: 2, most: 2, do: (*session).selectDatabase},
	}
}

// find returns the index of the command of a name in any case; -1 for none.
func (s *Server) find(name string) int {
	return slices.IndexFunc(s.commands, func(c command) bool { return strings.EqualFold(c.name, name) })
}

// told returns the command of a name that COMMAND tells of, nil for none.
func (s *Server) told(name string) *command {
	if i := s.find(name); i >= 0 && !s.commands[i].hidden {
		return &s.commands[i]
	}
	return nil
}

// command answers COMMAND, COMMAND COUNT, COMMAND DOCS and COMMAND INFO name ...
func (s *session) command(args []string) {
	what := ""
	if len(args) > 1 {
		what = strings.ToLower(args[1])
	}
	switch what {
	case "":
		s.reply.array(s.server.shown)
		for i := range s.server.commands {
			if c := &s.server.commands[i]; !c.hidden {
				s.reply.description(c)
			}
		}
	case "count":
		s.reply.integer(int64(s.server.shown))
	case "docs":
		s.reply.pairs(0)
	case "info":
		s.reply.array(len(args) - 2)
		for _, name := range args[2:] {
			s.reply.description(s.server.told(name))
		}
	default:
		s.unknownSubcommand(args)
	}
}

func (s *session) unknownSubcommand(args []string) {
	s.reply.fail("ERR unknown subcommand '" + firstOf(args[1]) + "' of '" + strings.ToLower(args[0]) + "'")
}

// description appends what is known of a command; nothing of nil.
func (r *reply) description(c *command) {
	if c == nil {
		r.null()
		return
	}
	r.array(10)
	r.bulk(c.name)
	r.integer(int64(c.arity()))
	r.array(1)
	r.simple("fast")
	r.integer(int64(c.key)) // the first key
	r.integer(int64(c.key)) // the last one
	r.integer(int64(min(c.key, 1)))
	for range 4 { // categories, hints, keys, subcommands
		r.array(0)
	}
}

// info answers INFO: the lines that clients wait for when they connect.
func (s *session) info([]string) {
	uptime := strconv.FormatInt(int64(time.Since(s.server.started)/time.Second), 10)
	s.reply.bulk("# Server\r\nredis_version:" + claimed + "\r\nserver_name:headgate\r\nredis_mode:standalone\r\nuptime_in_seconds:" + uptime + "\r\n" +
		"\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n")
}

func (s *session) config(args []string) {
	if !strings.EqualFold(args[1], "get") {
		s.unknownSubcommand(args)
		return
	}
	s.reply.pairs(0)
}

func (s *session) cluster([]string) { s.reply.fail("ERR This instance has cluster support disabled") }

func (s *session) ping(args []string) {
	if len(args) > 1 {
		s.reply.bulk(args[1])
		return
	}
	s.reply.simple("PONG")
}

func (s *session) fine([]string) { s.reply.simple("OK") }

// foreign ends a connection that speaks HTTP: a page of a browser may have been told to send
// commands in the body of a request to an address that only its machine reaches.
func (s *session) foreign([]string) {
	s.reply.fail("ERR HTTP is not spoken here")
	s.ending = true
}

func (s *session) quit([]string) {
	s.reply.simple("OK")
	s.ending = true
}

// selectDatabase answers SELECT. There is one database.
func (s *session) selectDatabase(args []string) {
	switch n, err := strconv.Atoi(args[1]); {
	case err != nil:
		s.reply.fail("ERR value is not an integer or out of range")
	case n != 0:
		s.reply.fail("ERR DB index is out of range")
	default:
		s.reply.simple("OK")
	}
}
