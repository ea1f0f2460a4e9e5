package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// commandTimeout bounds one command of Do, the dial included.
const commandTimeout = 2 * time.Second

// ReplyError is an error that a server answered, "CODE text".
type ReplyError string

// Error implements error.
func (e ReplyError) Error() string { return string(e) }

// Do runs one command on a new connection, as the default user with the
// password of the configuration, and returns the answer: a string, an int64, a
// []any of these, or nil. It lasts two seconds at most.
func (s *RedisServer) Do(words ...string) (any, error) {
	if s.proc == nil {
		return nil, errors.New("the server does not run")
	}
	conn, err := s.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(commandTimeout)); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	if s.cfg.Password != "" {
		if _, err := roundTrip(conn, reader, "AUTH", s.cfg.Password); err != nil {
			return nil, err
		}
	}
	return roundTrip(conn, reader, words...)
}

// MustDo is Do that fails the test on an error. Call it from the goroutine of
// the test.
func (s *RedisServer) MustDo(words ...string) any {
	s.t.Helper()
	answer, err := s.Do(words...)
	if err != nil {
		s.t.Fatalf("%s on %s: %v", strings.Join(words, " "), s.Addr, err)
	}
	return answer
}

// Info returns one field of INFO, "" if there is none.
func (s *RedisServer) Info(section, field string) (string, error) {
	answer, err := s.Do("INFO", section)
	if err != nil {
		return "", err
	}
	return infoField(fmt.Sprint(answer), field), nil
}

// Calls returns how often a living server has run the command of that name, in small
// letters.
func (s *RedisServer) Calls(command string) int {
	s.t.Helper()
	text, err := s.Info("commandstats", "cmdstat_"+command)
	if err != nil {
		s.t.Fatalf("count the calls of %s: %v", command, err)
	}
	calls, _, _ := strings.Cut(strings.TrimPrefix(text, "calls="), ",")
	n, _ := strconv.Atoi(calls) // none so far: no such field
	return n
}

// infoField returns the value in the line "field:value" of text, or "".
func infoField(text, field string) string {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == field {
			return value
		}
	}
	return ""
}

// roundTrip sends one command and reads its answer.
func roundTrip(conn net.Conn, reader *bufio.Reader, words ...string) (any, error) {
	request := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	return readReply(reader)
}

// readReply reads one answer of the second version of the protocol.
func readReply(reader *bufio.Reader) (any, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty line in place of an answer")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, ReplyError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("unexpected answer %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		if _, err := io.ReadFull(reader, text); err != nil {
			return nil, err
		}
		return string(text[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(reader); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("unexpected answer %q", line)
}
