package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Bounds of what a server may say.
const (
	// readBytes is the room for what is read at one time, and bounds a line.
	readBytes = 64 << 10
	// maxText bounds a text, maxList the elements of a list, and maxDepth how deep lists
	// stand in lists. maxMessage bounds a whole message, in which each element of a list
	// counts for elementBytes beside its text.
	maxText      = 64 << 20
	maxList      = 1 << 20
	maxDepth     = 8
	maxMessage   = 128 << 20
	elementBytes = 64
	// early is how much room is made for because the server says that so much follows.
	early = 64
)

// ErrProtocol says that a server does not speak as Redis does.
var ErrProtocol = errors.New("this is not the protocol of Redis")

// reader reads messages.
type reader struct {
	from *bufio.Reader
	room int64 // what is left of maxMessage
}

func newReader(from io.Reader) *reader { return &reader{from: bufio.NewReaderSize(from, readBytes)} }

// message reads one message. An error is ErrProtocol, or that of the connection.
func (r *reader) message() (Message, error) {
	r.room = maxMessage
	return r.messageAt(0)
}

// spend takes n bytes from the room of the message.
func (r *reader) spend(n int64) error {
	if r.room -= n; r.room < 0 {
		return fmt.Errorf("%w: a message is longer than %d bytes", ErrProtocol, maxMessage)
	}
	return nil
}

// messageAt reads one message, which stands in so many lists.
func (r *reader) messageAt(depth int) (Message, error) {
	line, err := r.line()
	if err != nil {
		return Message{}, err
	}
	if err := r.spend(int64(len(line))); err != nil {
		return Message{}, err
	}
	switch kind, rest := line[0], line[1:]; kind {
	case simple, failure:
		return Message{kind: kind, text: string(rest)}, nil
	case integer:
		n, ok := number(rest)
		if !ok {
			return Message{}, unknown(line)
		}
		return Message{kind: integer, n: n}, nil
	case bulk:
		n, ok := number(rest)
		switch {
		case ok && n == -1:
			return Message{kind: nothing}, nil
		case !ok || n < 0 || n > maxText:
			return Message{}, unknown(line)
		}
		if err := r.spend(n); err != nil {
			return Message{}, err
		}
		text, err := r.text(int(n))
		return Message{kind: bulk, text: text}, err
	case array:
		n, ok := number(rest)
		switch {
		case ok && n == -1:
			return Message{kind: nothing}, nil
		case !ok || n < 0 || n > maxList || depth == maxDepth:
			return Message{}, unknown(line)
		}
		if err := r.spend(n * elementBytes); err != nil {
			return Message{}, err
		}
		return r.list(int(n), depth+1)
	}
	return Message{}, unknown(line)
}

// line reads up to the end of a line, which has one byte at least, and returns it without
// that. It is valid until the next reading.
func (r *reader) line() ([]byte, error) {
	line, err := r.from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, unknown(line)
	case err != nil:
		return nil, err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return nil, unknown(line)
	}
	return line[:len(line)-2], nil
}

// unknown is the error of a line that is none of the protocol.
func unknown(line []byte) error {
	return fmt.Errorf("%w: %.40q", ErrProtocol, line)
}

// text reads n bytes and the end of their line. It makes room as they come.
func (r *reader) text(n int) (string, error) {
	if n+2 <= readBytes {
		piece, err := r.take(n + 2)
		if err != nil {
			return "", err
		}
		return textOf(piece)
	}
	var all []byte
	for left := n + 2; left > 0; {
		piece, err := r.take(min(left, readBytes))
		if err != nil {
			return "", err
		}
		all, left = append(all, piece...), left-len(piece)
	}
	return textOf(all)
}

// textOf returns a text without the end of its line.
func textOf(b []byte) (string, error) {
	end := len(b) - 2
	if b[end] != '\r' || b[end+1] != '\n' {
		return "", fmt.Errorf("%w: a text is longer than was said", ErrProtocol)
	}
	return string(b[:end]), nil
}

// take reads n bytes, readBytes at most. They are valid until the next reading.
func (r *reader) take(n int) ([]byte, error) {
	piece, err := r.from.Peek(n)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	_, err = r.from.Discard(n)
	return piece, err
}

// list reads n messages, which stand in so many lists.
func (r *reader) list(n, depth int) (Message, error) {
	list := make([]Message, 0, min(n, early))
	for range n {
		m, err := r.messageAt(depth)
		if err != nil {
			return Message{}, err
		}
		list = append(list, m)
	}
	return Message{kind: array, list: &list}, nil
}

// number reads a decimal number of 64 bits. It has no sign but "-".
func number(b []byte) (n int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var sum uint64 // 19 digits fit
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		sum = sum*10 + uint64(c-'0')
	}
	switch {
	case negative && sum <= 1<<63:
		return -int64(sum), true
	case negative || sum > 1<<63-1:
		return 0, false
	}
	return int64(sum), true
}
