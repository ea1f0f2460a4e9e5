package accesslog

import (
	"slices"
	"strings"
	"time"
)

// rateLimited is the response flag of Envoy for what its rate limit has denied.
const rateLimited = "RL"

// ParseEnvoy reads a line of Envoy's default format:
//
//	[START] "METHOD PATH PROTOCOL" STATUS FLAGS RECEIVED SENT DURATION UPSTREAM_TIME
//	"X-FORWARDED-FOR" "USER AGENT" "X-REQUEST-ID" "AUTHORITY" "UPSTREAM HOST"
//
// on one line, and anything may follow. Envoy escapes nothing, so that a client can write what it
// likes into the authority by its user agent; path, status, flags and X-Forwarded-For stand before
// that. The address of who was connected is not in it. The error is ErrNoRequest where there was no
// request.
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
	into.Limited = hasFlag(s.word(), rateLimited)
	for range 4 { // bytes received and sent, durations
		s.word()
	}
	for _, field := range [...]*string{&into.ForwardedFor, &into.UserAgent, nil, &into.Host} {
		text, err := s.quoted(false)
		if err != nil {
			return err
		}
		if field != nil {
			*field = given(text)
		}
	}
	if !isMethod(method) || given(target) == "" {
		return ErrNoRequest
	}
	into.Method, into.Target = method, target
	return nil
}

func hasFlag(flags, flag string) bool { return slices.Contains(strings.Split(flags, ","), flag) }
