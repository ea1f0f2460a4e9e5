package respfront

import (
	"fmt"
	"strconv"
	"strings"
)

// reply is the answers that wait to be sent, in one version of the protocol.
type reply struct {
	text    []byte
	version int // 2 or 3
}

func (r *reply) head(kind byte, n int64) {
	r.text = append(strconv.AppendInt(append(r.text, kind), n, 10), "\r\n"...)
}

// integer appends a number.
func (r *reply) integer(n int64) { r.head(':', n) }

// array begins an array of n replies.
func (r *reply) array(n int) { r.head('*', int64(n)) }

// pairs begins a map of n pairs, which version 2 has as an array.
func (r *reply) pairs(n int) {
	if r.version == 2 {
		r.array(2 * n)
		return
	}
	r.head('%', int64(n))
}

// bulk appends a string of any bytes.
func (r *reply) bulk(s string) {
	r.head('$', int64(len(s)))
	r.text = append(append(r.text, s...), "\r\n"...)
}

// null appends the reply that is none.
func (r *reply) null() {
	if r.version == 2 {
		r.text = append(r.text, "$-1\r\n"...)
		return
	}
	r.text = append(r.text, "_\r\n"...)
}

// simple appends a string without line ends, such as OK.
func (r *reply) simple(s string) {
	r.text = append(append(append(r.text, '+'), s...), "\r\n"...)
}

// maxError bounds the text of an error, in bytes. Some of it is what the caller has sent.
const maxError = 512

// fail appends an error. Its first word is the kind of it. What would end the line is a blank.
func (r *reply) fail(text string) {
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	r.text = append(r.text, '-')
	for i := range len(text) {
		if c := text[i]; c < ' ' {
			r.text = append(r.text, ' ')
		} else {
			r.text = append(r.text, c)
		}
	}
	r.text = append(r.text, "\r\n"...)
}

// refusal is the text of an error reply.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) refusal { return refusal(fmt.Sprintf(format, args...)) }
