package respfront

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	// readBuffer is how many bytes of a connection wait to be read as commands. No line is
	// longer, nor an inline command. Each connection has so many.
	readBuffer = 4 << 10
	// maxArguments bounds the arguments of a command, its name included: a check has its
	// domain, up to descriptor.MaxEntries entries and two options.
	maxArguments = 40
	// maxCommand bounds the bytes of all arguments of a command.
	maxCommand = 64 << 10
	// strangerArguments and strangerCommand are these bounds before a caller has come in.
	// Redis has the first one too; the other is less than its 16 KiB for each argument.
	strangerArguments = 10
	strangerCommand   = 16 << 10
)

// protocolError is what is no command. The connection ends after it: nobody knows where the
// next one begins.
type protocolError struct{ what string }

// Error implements error.
func (e *protocolError) Error() string { return "Protocol error: " + e.what }

// reader reads commands.
type reader struct {
	in *bufio.Reader
	// stranger says that whoever sends them has not come in yet.
	stranger bool
	// begun says that a part of a command has been read, and waits since when the rest of it
	// is waited for, which who brings the bytes notes; the zero value while it is not.
	begun bool
	waits time.Time

	text []byte // of all arguments
	ends []int  // where each of them ends in it
	args []string
}

func newReader(from io.Reader) *reader {
	return &reader{in: bufio.NewReaderSize(from, readBuffer)}
}

// next returns the arguments of the next command, the name first; at least one. The slice is
// good until the next call, and the strings are for as long as they are needed. The error is a
// *protocolError, or that of the connection; io.EOF where it ends between two commands.
func (r *reader) next() ([]string, error) {
	for {
		r.begun, r.waits = false, time.Time{}
		if r.text, r.ends, r.args = r.text[:0], r.ends[:0], r.args[:0]; cap(r.text) > readBuffer {
			r.text = nil // an idle connection keeps little
		}
		first, err := r.in.ReadByte()
		if err != nil {
			return nil, err
		}
		r.begun = true
		if first == '*' {
			err = r.array()
		} else if err = r.in.UnreadByte(); err == nil {
			err = r.inline()
		}
		if err != nil {
			return nil, unexpected(err)
		}
		if len(r.args) > 0 { // else an empty line, as people send in terminals
			return r.args, nil
		}
	}
}

// unexpected returns err for a connection that ends in the middle of a command.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bounds returns how many arguments a command may have, and bytes in all of them.
func (r *reader) bounds() (arguments, octets int) {
	if r.stranger {
		return strangerArguments, strangerCommand
	}
	return maxArguments, maxCommand
}

// array reads what follows the * of a command: *2 $4 ECHO $2 hi, each part on a line.
func (r *reader) array() error {
	arguments, octets := r.bounds()
	count, err := r.number()
	switch {
	case err != nil:
		return err
	case count > int64(arguments):
		return &protocolError{"invalid multibulk length; hint: at most " + strconv.Itoa(arguments) + " arguments" + r.hint()}
	}
	for range count { // none for a negative number, as in Redis
		switch mark, err := r.in.ReadByte(); {
		case err != nil:
			return err
		case mark != '$':
			return &protocolError{fmt.Sprintf("expected '$', got %q", mark)}
		}
		length, err := r.number()
		switch {
		case err != nil:
			return err
		case length < 0 || length > int64(octets-len(r.text)):
			return &protocolError{"invalid bulk length; hint: at most " + strconv.Itoa(octets) + " bytes in a command" + r.hint()}
		}
		if err := r.bulk(int(length)); err != nil {
			return err
		}
	}
	text, from := string(r.text), 0
	for _, end := range r.ends {
		r.args, from = append(r.args, text[from:end]), end
	}
	return nil
}

func (r *reader) hint() string {
	if r.stranger {
		return " before AUTH"
	}
	return ""
}

// bulk reads the bytes of an argument and the line end after them.
func (r *reader) bulk(length int) error {
	for length > 0 {
		there := min(length, max(r.in.Buffered(), 1))
		peeked, err := r.in.Peek(there)
		if err != nil {
			return err
		}
		r.text = append(r.text, peeked...)
		_, _ = r.in.Discard(there) // they are there
		length -= there
	}
	r.ends = append(r.ends, len(r.text))
	var end [2]byte
	if _, err := io.ReadFull(r.in, end[:]); err != nil {
		return err
	}
	if string(end[:]) != "\r\n" {
		return &protocolError{"no line end behind an argument"}
	}
	return nil
}

// number reads the rest of a line as a number.
func (r *reader) number() (int64, error) {
	line, err := r.line()
	if err != nil {
		return 0, err
	}
	digits, negative := bytes.CutPrefix(line, []byte("-"))
	var n int64
	for _, c := range digits {
		if n = 10*n + int64(c-'0'); c < '0' || c > '9' || n > maxNumber {
			return 0, &protocolError{"invalid length"}
		}
	}
	switch {
	case len(digits) == 0:
		return 0, &protocolError{"invalid length"}
	case negative:
		return -n, nil
	}
	return n, nil
}

// maxNumber is more than any length or count that is taken.
const maxNumber = 1 << 40

// line reads the rest of a line, which is good until more is read.
func (r *reader) line() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, &protocolError{"too big line"}
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// inline reads a command as people type it: words with blanks between, and without quotes.
func (r *reader) inline() error {
	line, err := r.line()
	if err != nil {
		return err
	}
	arguments, octets := r.bounds()
	if len(line) > octets {
		return &protocolError{"too big inline request"}
	}
	for word := range strings.FieldsSeq(string(line)) {
		if len(r.args) == arguments {
			return &protocolError{"too many arguments; hint: at most " + strconv.Itoa(arguments) + r.hint()}
		}
		r.args = append(r.args, word)
	}
	return nil
}
