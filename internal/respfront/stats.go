package respfront

import "sync/atomic"

// counts counts commands.
type counts struct {
	of                 []atomic.Uint64 // by the index of the command
	unknown, malformed atomic.Uint64
}

// Count is how often a command has come.
type Count struct {
	// Command is its name in lower case; "other" is all that are not known, and "malformed"
	// what is no command.
	Command string
	Count   uint64
}

// Commands returns the counts of all commands since the start, in a fixed order.
func (s *Server) Commands() []Count {
	all := make([]Count, 0, len(s.commands)+2)
	for i := range s.commands {
		all = append(all, Count{s.commands[i].name, s.counts.of[i].Load()})
	}
	return append(all, Count{"other", s.counts.unknown.Load()}, Count{"malformed", s.counts.malformed.Load()})
}
