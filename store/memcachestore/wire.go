package memcachestore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/headgate/headgate/limit"
)

// The classic text protocol of memcached, as its protocol.txt has it: of that,
// gets, add and cas, which every version and proxy knows.

// lineBytes bounds a line of an answer. The longest that is known is that of a
// VALUE: a key of 250 bytes and three numbers.
const lineBytes = 2 << 10

var (
	errNotMemcached = errors.New("the answer is not one of memcached")
	errNoCAS        = errors.New("the server has no compare-and-swap")
	errForeign      = errors.New("the value is too long to be one of ours")
)

// serverError is an error line of the server, as it came.
type serverError struct{ line string }

func (e *serverError) Error() string { return e.line }

// item is what a server holds under a name. The zero value is nothing.
type item struct {
	found bool
	cas   uint64
	state limit.State
}

// outcome is the answer to a write.
type outcome uint8

const (
	stored   outcome = 1 + iota
	conflict         // somebody else has written, or the value has expired
)

// appendGets asks for an item.
func appendGets(b []byte, name string) []byte {
	b = append(b, "gets "...)
	b = append(b, name...)
	return append(b, "\r\n"...)
}

// appendWrite stores state under name if the server still holds what was read:
// as a new item if it held none. An unused state is not stored: the item
// expires at once.
func appendWrite(b []byte, name string, read item, state limit.State, expiry int64) []byte {
	var value [maxValue]byte
	text := value[:0]
	if state.Kind == 0 {
		expiry = -1
	} else {
		text = appendState(text, state)
	}
	return appendText(b, name, read, text, expiry)
}

// appendText stores text under name as appendWrite does.
func appendText(b []byte, name string, read item, text []byte, expiry int64) []byte {
	if read.found {
		b = append(b, "cas "...)
	} else {
		b = append(b, "add "...)
	}
	b = append(b, name...)
	b = append(b, " 0 "...)
	b = strconv.AppendInt(b, expiry, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(text)), 10)
	if read.found {
		b = append(b, ' ')
		b = strconv.AppendUint(b, read.cas, 10)
	}
	b = append(b, "\r\n"...)
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// appendAuth presents text, which is a user and a password: a server that asks
// for them takes the first write of a connection for it.
func appendAuth(b []byte, text string) []byte {
	b = append(b, "set auth 0 0 "...)
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, "\r\n"...)
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// askVersion asks for the version of a server.
const askVersion = "version\r\n"

// readVersion reads the answer to askVersion.
func readVersion(r *bufio.Reader) (string, error) {
	line, err := readLine(r)
	if err != nil {
		return "", err
	}
	text, ok := bytes.CutPrefix(line, []byte("VERSION "))
	if !ok {
		return "", errorLine(line)
	}
	return string(text), nil
}

// readItem reads the answer to gets for the bucket name. After a serverError the next
// answer can be read; after any other error the connection is of no use.
func readItem(r *bufio.Reader, name string) (item, error) {
	it, text, err := readText(r, name)
	if it.found {
		it.state = parseState(text)
	}
	return it, err
}

// readText reads the answer to gets for name, as readItem does, and returns the value as
// it is.
func readText(r *bufio.Reader, name string) (_ item, text string, err error) {
	line, err := readLine(r)
	if err != nil {
		return item{}, "", err
	}
	if string(line) == "END" {
		return item{}, "", nil
	}
	it, size, err := parseValueLine(line, name)
	if err != nil {
		return item{}, "", err
	}
	var data [maxValue + 2]byte
	if _, err := io.ReadFull(r, data[:size+2]); err != nil {
		return item{}, "", err
	}
	if string(data[size:size+2]) != "\r\n" {
		return item{}, "", fmt.Errorf("%w: a value without its end", errNotMemcached)
	}
	line, err = readLine(r)
	if err != nil {
		return item{}, "", err
	}
	if string(line) != "END" {
		return item{}, "", fmt.Errorf("%w: %.40q after a value", errNotMemcached, line)
	}
	return it, string(data[:size]), nil
}

// parseValueLine reads "VALUE name flags bytes cas".
func parseValueLine(line []byte, name string) (_ item, size int, err error) {
	fields := strings.Split(string(line), " ")
	if fields[0] != "VALUE" {
		return item{}, 0, errorLine(line)
	}
	bad := len(fields) != 5 || fields[1] != name
	var long, cas uint64
	if !bad {
		var err1, err2 error
		long, err1 = strconv.ParseUint(fields[3], 10, 31)
		cas, err2 = strconv.ParseUint(fields[4], 10, 64)
		bad = err1 != nil || err2 != nil
	}
	switch {
	case bad:
		return item{}, 0, fmt.Errorf("%w: %.40q to gets", errNotMemcached, line)
	case long > maxValue:
		return item{}, 0, errForeign
	case cas == 0:
		// A server that was started without them gives all items this number,
		// and then takes every swap.
		return item{}, 0, errNoCAS
	}
	return item{found: true, cas: cas}, int(long), nil
}

// readOutcome reads the answer to a write. After a serverError the next answer
// can be read; after any other error the connection is of no use.
func readOutcome(r *bufio.Reader) (outcome, error) {
	line, err := readLine(r)
	if err != nil {
		return 0, err
	}
	switch string(line) {
	case "STORED":
		return stored, nil
	case "EXISTS", "NOT_FOUND", "NOT_STORED":
		return conflict, nil
	}
	return 0, errorLine(line)
}

// tooMany is what a server says that has no connection left, before it hangs up.
const tooMany = "ERROR Too many open connections"

// errorLine returns the error that a line says. Only after SERVER_ERROR does the
// server read on where the next command begins.
func errorLine(line []byte) error {
	text := string(line)
	switch {
	case strings.HasPrefix(text, "SERVER_ERROR"):
		return &serverError{text}
	case text == "ERROR", strings.HasPrefix(text, "ERROR "), strings.HasPrefix(text, "CLIENT_ERROR"):
		return &clientError{text}
	}
	return fmt.Errorf("%w: %.40q", errNotMemcached, text)
}

// clientError is an error line after which the connection is of no use.
type clientError struct{ line string }

func (e *clientError) Error() string { return e.line }

// isRefusal reports whether err says that the server takes no more connections.
func isRefusal(err error) bool {
	refused, ok := errors.AsType[*clientError](err)
	return ok && refused.line == tooMany
}

// readLine reads one line and returns it without its end. It is valid until the
// next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("%w: no end of line in %d bytes", errNotMemcached, lineBytes)
	}
	if err != nil {
		return nil, err
	}
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return nil, fmt.Errorf("%w: %.40q", errNotMemcached, line)
	}
	return line, nil
}
