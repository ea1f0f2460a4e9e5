package conn

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
)

const (
	// firstQuestion is PING as Redis's protocol writes it. Any user may ask it,
	// and a server that is no Redis answers it in its own way.
	firstQuestion = "*1\r\n$4\r\nPING\r\n"
	// maxFirstReply bounds the answer. The longest that is known, of protected
	// mode, has about a thousand bytes.
	maxFirstReply = 4 << 10
)

// ErrNotRedis says that something else than a Redis answers.
var ErrNotRedis = errors.New("the first answer is not one of Redis")

// AskFirst makes sure that a Redis is on the other end of a new connection,
// before anything else is asked: a mail server that greets, for one, is named as
// what it is, and gets no password. A refusal is a *resp.Error.
func AskFirst(conn net.Conn, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(firstQuestion)); err != nil {
		return err
	}
	line, err := readFirst(conn)
	if err != nil {
		return err
	}
	if err := judgeFirst(line); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// readFirst reads one line and nothing beyond it, as nothing may follow.
func readFirst(conn net.Conn) (line string, err error) {
	buffer := make([]byte, maxFirstReply)
	for n := 0; n < len(buffer); {
		m, err := conn.Read(buffer[n:])
		n += m
		if end := bytes.Index(buffer[:n], []byte("\r\n")); end >= 0 {
			if end+2 < n {
				return "", fmt.Errorf("%w: more than one line", ErrNotRedis)
			}
			return string(buffer[:end]), nil
		}
		if err != nil {
			if n > 0 {
				err = fmt.Errorf("%w: %w", ErrNotRedis, err)
			}
			return "", err
		}
	}
	return "", fmt.Errorf("%w: no end of line in %d bytes", ErrNotRedis, len(buffer))
}

// judgeFirst returns nil for a line with which a Redis lets the client go on.
func judgeFirst(line string) error {
	if line == "+PONG" {
		return nil
	}
	text, refused := strings.CutPrefix(line, "-")
	if !refused {
		return fmt.Errorf("%w: %.40q", ErrNotRedis, line)
	}
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "NOAUTH", "NOPERM", "LOADING", "BUSY", "MASTERDOWN", "MISCONF":
		// The user is not known yet, or PING is refused for a while: what
		// follows tells more.
		return nil
	}
	if _, known := answerOf(text); known {
		return &resp.Error{Text: text}
	}
	return fmt.Errorf("%w: %.40q", ErrNotRedis, line)
}
