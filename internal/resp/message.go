package resp

import (
	"errors"
	"fmt"
	"strconv"
)

// The kinds of messages, by the bytes that they begin with, and nothing.
const (
	simple  = '+'
	failure = '-'
	integer = ':'
	bulk    = '$'
	array   = '*'
	nothing = '_'
)

// ErrNil says that a server has answered that there is nothing.
var ErrNil = errors.New("there is nothing")

// Error is an error that a server has answered.
type Error struct {
	// Text begins with a code in capitals, mostly.
	Text string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Message is one message of a server, or an element of one. The zero value is none.
type Message struct {
	kind byte
	n    int64
	text string
	list *[]Message
}

// Err returns the *Error that m is, or ErrNil; nil for all else.
func (m Message) Err() error {
	switch m.kind {
	case failure:
		return &Error{m.text}
	case nothing:
		return ErrNil
	}
	return nil
}

// Int returns the integer that m is. All else is an error; see Err.
func (m Message) Int() (int64, error) {
	if m.kind != integer {
		return 0, m.other("a number")
	}
	return m.n, nil
}

// Text returns the text that m is. All else is an error; see Err.
func (m Message) Text() (string, error) {
	if m.kind != bulk && m.kind != simple {
		return "", m.other("a text")
	}
	return m.text, nil
}

// List returns the elements of m. All but a list is an error; see Err. The caller must not
// change them.
func (m Message) List() ([]Message, error) {
	if m.kind != array {
		return nil, m.other("a list")
	}
	return *m.list, nil
}

// Texts returns the elements of m, which are texts. All else is an error; see Err.
func (m Message) Texts() ([]string, error) {
	list, err := m.List()
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(list))
	for i := range list {
		if texts[i], err = list[i].Text(); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// Pairs returns the names and values that the elements of m are in turn. All else is an
// error; see Err.
func (m Message) Pairs() (map[string]string, error) {
	texts, err := m.Texts()
	if err != nil {
		return nil, err
	}
	if len(texts)%2 != 0 {
		return nil, m.other("a list of pairs")
	}
	pairs := make(map[string]string, len(texts)/2)
	for i := 0; i < len(texts); i += 2 {
		pairs[texts[i]] = texts[i+1]
	}
	return pairs, nil
}

// String returns m for people: its text or number, those of a list in brackets.
func (m Message) String() string {
	switch m.kind {
	case integer:
		return strconv.FormatInt(m.n, 10)
	case array:
		return fmt.Sprint(*m.list)
	case nothing:
		return "nil"
	}
	return m.text
}

// other says what m is where something else was wanted.
func (m Message) other(wanted string) error {
	if err := m.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: a message of kind %q is not %s", ErrProtocol, m.kind, wanted)
}

// Answer is what became of a command.
type Answer struct {
	message Message
	err     error // why there is no message
}

// Message returns the answer of the server, or an error: an *Error or ErrNil where the
// server has answered that, another one where there is no answer.
func (a Answer) Message() (Message, error) {
	if a.err != nil {
		return Message{}, a.err
	}
	return a.message, a.message.Err()
}

// Err is the error of Message.
func (a Answer) Err() error {
	_, err := a.Message()
	return err
}

// Text is Message.Text, or the error of Message.
func (a Answer) Text() (string, error) { return read(a, Message.Text) }

// List is Message.List, or the error of Message.
func (a Answer) List() ([]Message, error) { return read(a, Message.List) }

// Texts is Message.Texts, or the error of Message.
func (a Answer) Texts() ([]string, error) { return read(a, Message.Texts) }

// Pairs is Message.Pairs, or the error of Message.
func (a Answer) Pairs() (map[string]string, error) { return read(a, Message.Pairs) }

// read reads the message of a, if there is one.
func read[T any](a Answer, as func(Message) (T, error)) (none T, _ error) {
	m, err := a.Message()
	if err != nil {
		return none, err
	}
	return as(m)
}
