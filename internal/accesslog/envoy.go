package accesslog

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// rateLimited is the response flag of Envoy for what its rate limit has denied.
const rateLimited = "RL"

// quotedFields is how many fields in quotes end a line.
const quotedFields = 5

var errQuotes = errors.New("not five fields in quotes at the end: one of them has a quote in it, or the format is not the default one")

// ParseEnvoy reads a line of Envoy's default format:
//
//	[START] "METHOD PATH PROTOCOL" STATUS FLAGS RECEIVED SENT DURATION UPSTREAM_TIME
//	"X-FORWARDED-FOR" "USER AGENT" "X-REQUEST-ID" "AUTHORITY" "UPSTREAM HOST"
//
// on one line. Envoy escapes nothing: a line in which a client has written what ends a field is an
// error, so that nobody can put another address in the place of his own. The address of who was
// connected is not in it. The error is ErrNoRequest where there was no request.
func ParseEnvoy(line string, into *Line) error {
	into.reset()
	s := scan{line: line}
	if !s.skip("[") {
		return s.broken("time in brackets")
	}
	at, ok := s.until(`] "`)
	if !ok {
		return s.broken("request")
	}
	var err error
	if into.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return errTimeISO
	}
	into.At = into.At.UTC()
	// Neither a method nor a path has a space.
	method, ok := s.until(" ")
	if !ok {
		return s.broken("method")
	}
	target, ok := s.until(" ")
	if !ok {
		return s.broken("path")
	}
	if _, ok = s.until(`" `); !ok {
		return s.broken("protocol")
	}
	if into.Status, ok = status(s.word()); !ok {
		return s.broken("status")
	}
	into.Limited = slices.Contains(strings.Split(s.word(), ","), rateLimited)
	for range 4 { // bytes received and sent, durations
		s.word()
	}
	tail, begins := strings.CutPrefix(strings.TrimSpace(s.rest()), `"`)
	tail, ends := strings.CutSuffix(tail, `"`)
	if !begins || !ends {
		return s.broken("fields in quotes")
	}
	fields := strings.Split(tail, `" "`)
	if len(fields) != quotedFields {
		return errQuotes
	}
	into.ForwardedFor, into.UserAgent, into.Host = given(fields[0]), given(fields[1]), given(fields[3])
	if !isMethod(method) || given(target) == "" {
		return ErrNoRequest
	}
	into.Method, into.Target = method, target
	return nil
}
