package conn

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
)

// Inspection is what one server tells of itself.
type Inspection struct {
	// Addr is the address of the server.
	Addr string
	// ClockOffset is its clock minus that of this process, give or take ClockError,
	// half of the round trip.
	ClockOffset, ClockError time.Duration
	// Memory is what it uses, MaxMemory what it may use, in bytes; 0: as much as there is.
	Memory, MaxMemory int64
	// Keys is the number of its keys, those of all databases and users together.
	Keys int64
	// Evicted counts the keys that it has dropped for want of memory, Expired those whose
	// time was over, since it started.
	Evicted, Expired uint64
	// Err says why it did not tell; all others but Addr are 0 then.
	Err error
}

// maxInspected bounds what is read of an answer to INFO: about ten times what servers say.
// Sections are not named, because servers before Redis 7 take one name only.
const maxInspected = 64 << 10

// Inspect asks one server. Its breaker neither holds the question back nor hears of the
// answer: a server that is full fails every call, and has to be seen to be full.
func (s *Server) Inspect(ctx context.Context) Inspection {
	se, mark, err := s.join(ctx)
	if err != nil {
		return Inspection{Addr: s.addr(), Err: s.Fault("inspect", err)}
	}
	began := time.Now()
	answers := se.Pipe.AskAll(ctx, resp.Words("TIME"), resp.Words("INFO"))
	ended := time.Now()
	in := Inspection{Addr: se.Options.Addr}
	var told limit.Micros
	words, err := answers[0].Texts()
	if err == nil {
		told, err = ParseTime(words)
	}
	if err == nil {
		in.learnTime(told.Time(), began, ended)
		var info string
		if info, err = answers[1].Text(); err == nil {
			in.learnInfo(info)
		}
	}
	if se.part(mark, amiss(err)); err != nil {
		return Inspection{Addr: in.Addr, Err: s.Fault("inspect", err)}
	}
	return in
}

// join takes a place among the calls of the connection, which part gives back.
func (s *Server) join(ctx context.Context) (*Session, int64, error) {
	se, fault := s.link.nextSession(ctx)
	if fault != nil {
		return nil, 0, fault
	}
	if fault := s.leaving.Load(); fault != nil {
		return nil, 0, fault
	}
	mark, ok := se.inFlight.begin(int64(s.Options.MaxInFlight))
	if !ok {
		return nil, 0, ErrTooMany
	}
	return se, mark, nil
}

// learnTime compares the time that a server has told, somewhen between began and ended,
// with the middle of both: the truth is off by half of the way at most.
func (in *Inspection) learnTime(told, began, ended time.Time) {
	half := ended.Sub(began) / 2
	in.ClockOffset, in.ClockError = told.Sub(began.Add(half)), half
}

// learnInfo reads an answer to INFO. What a server does not tell, or says in another way,
// stays 0.
func (in *Inspection) learnInfo(info string) {
	for name, value := range InfoLines(info) {
		switch {
		case name == "used_memory":
			in.Memory = count(value)
		case name == "maxmemory":
			in.MaxMemory = count(value)
		case name == "evicted_keys":
			in.Evicted = uint64(count(value))
		case name == "expired_keys":
			in.Expired = uint64(count(value))
		case isDatabase(name):
			in.Keys += count(infoPairs(value)["keys"])
		}
	}
}

// isDatabase reports whether name is that of a line of the section keyspace: db0, db1...
func isDatabase(name string) bool {
	number, found := strings.CutPrefix(name, "db")
	if !found {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 16)
	return err == nil
}

// maxCount bounds what is believed of a number: the sum of all databases fits too.
const maxCount = 1 << 48

// count reads a number of things; 0 for what is none.
func count(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxCount)
}
