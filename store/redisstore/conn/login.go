package conn

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/resp"
)

// defaultUser is who asks where nobody is named, since Redis 6.
const defaultUser = "default"

// logIn says who asks, and what database it is about.
func (s *Session) logIn(ctx context.Context) error {
	o := s.Options
	var commands []resp.Command
	if o.Username != "" || o.Password != "" {
		commands = append(commands, resp.Words("AUTH", cmp.Or(o.Username, defaultUser), o.Password))
	}
	if o.DB != 0 {
		commands = append(commands, resp.Words("SELECT", strconv.Itoa(o.DB)))
	}
	err := s.askFor(ctx, commands)
	if o.Username == "" && o.Password != "" && knowsNoUsers(err) {
		commands[0] = resp.Words("AUTH", o.Password)
		err = s.askFor(ctx, commands)
	}
	return Discreet(err)
}

// askFor returns the first error of the answers.
func (s *Session) askFor(ctx context.Context, commands []resp.Command) error {
	for _, answer := range s.Pipe.AskAll(ctx, commands...) {
		if err := answer.Err(); err != nil {
			return err
		}
	}
	return nil
}

// knowsNoUsers reports whether err is that of a server before Redis 6, for which AUTH has
// one word.
func knowsNoUsers(err error) bool {
	text, _ := ReplyText(err)
	return strings.Contains(text, "wrong number of arguments")
}

var errUnrepeated = errors.New("an answer that is not repeated, because it may hold the password")

// Discreet returns the error of an answer to AUTH, or to what was asked together with it,
// in our own words: servers repeat what they do not understand, and a password that is cut
// off or quoted there would not be recognised.
func Discreet(err error) error {
	if text, said := ReplyText(err); said {
		if a, known := answerOf(text); known {
			return &resp.Error{Text: a.text}
		}
		return errUnrepeated
	}
	if errors.Is(err, resp.ErrProtocol) {
		return resp.ErrProtocol
	}
	return err
}
