package streamfront

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate/internal/rls"
)

// Field numbers of stream.proto.
const (
	requestChecks  protowire.Number = 1
	requestInOrder protowire.Number = 2

	checkNumber  protowire.Number = 1
	checkTimeout protowire.Number = 2
	checkRequest protowire.Number = 3

	durationSeconds protowire.Number = 1
	durationNanos   protowire.Number = 2

	responseAnswers protowire.Number = 1

	answerNumber   protowire.Number = 1
	answerResponse protowire.Number = 2
	answerFailure  protowire.Number = 3

	failureCode    protowire.Number = 1
	failureMessage protowire.Number = 2
)

// maxChecks bounds the checks of a message.
const maxChecks = 1000

// errMalformed is what bytes that are no CheckRequest are answered.
var errMalformed = errors.New("decode CheckRequest: malformed protobuf message")

// page is what a message holds, and how far it is answered.
type page struct {
	asked   []rls.Asked
	inOrder bool
	// weight is what it takes of the room, and size how many bytes its question and the answers
	// so far have, with checkWeight for each check.
	weight, size int64

	left     int      // checks without an answer
	answers  [][]byte // encoded, where they wait for those of other pages
	answered bool
}

// decode reads a message that came at now. Parts of it stay in use. Of a field that is there
// twice the last one counts, as elsewhere in protobuf; a request that is there twice is
// both, one after the other, because that is how messages merge.
func decode(message []byte, now time.Time) (*page, error) {
	p := new(page)
	for rest := message; len(rest) > 0; {
		f, n, err := nextField(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[n:]
		switch {
		case f.is(requestChecks, protowire.BytesType):
			if len(p.asked) == maxChecks {
				return nil, fmt.Errorf("decode CheckRequest: more than %d checks; hint: send several messages", maxChecks)
			}
			if err := p.add(f.body, now); err != nil {
				return nil, err
			}
		case f.is(requestInOrder, protowire.VarintType):
			p.inOrder = f.value != 0
		}
	}
	p.left = len(p.asked)
	p.size = int64(len(message)) + int64(len(p.asked))*checkWeight
	return p, nil
}

// add adds an encoded Check.
func (p *page) add(check []byte, now time.Time) error {
	var asked rls.Asked
	for len(check) > 0 {
		f, n, err := nextField(check)
		if err != nil {
			return err
		}
		check = check[n:]
		switch {
		case f.is(checkNumber, protowire.VarintType):
			asked.Number = f.value
		case f.is(checkTimeout, protowire.BytesType):
			timeout, err := decodeDuration(f.body)
			if err != nil {
				return err
			}
			asked.Deadline = time.Time{}
			if timeout != 0 {
				asked.Deadline = now.Add(timeout)
			}
		case f.is(checkRequest, protowire.BytesType):
			if asked.Message == nil {
				asked.Message = f.body
			} else {
				asked.Message = append(asked.Message[:len(asked.Message):len(asked.Message)], f.body...)
			}
		}
	}
	p.asked = append(p.asked, asked)
	return nil
}

// decodeDuration reads a google.protobuf.Duration, which is no longer than Go's.
func decodeDuration(b []byte) (time.Duration, error) {
	var seconds, nanos int64
	for len(b) > 0 {
		f, n, err := nextField(b)
		if err != nil {
			return 0, err
		}
		b = b[n:]
		switch {
		case f.is(durationSeconds, protowire.VarintType):
			seconds = int64(f.value)
		case f.is(durationNanos, protowire.VarintType):
			nanos = int64(int32(f.value))
		}
	}
	switch {
	case seconds < 0 || nanos < 0 || nanos >= int64(time.Second):
		return 0, errors.New("decode CheckRequest: a timeout below 0, or of more nanoseconds than a second has; hint: leave it out for none")
	case seconds > math.MaxInt64/int64(time.Second)-1:
		return 0, nil // longer than any call lasts
	}
	return time.Duration(seconds)*time.Second + time.Duration(nanos), nil
}

// field is one field of a message: a number in value, or bytes in body.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	body   []byte
}

func (f *field) is(n protowire.Number, kind protowire.Type) bool {
	return f.number == n && f.kind == kind
}

// nextField reads the field at the head of b, and returns how many bytes it has.
func nextField(b []byte) (f field, n int, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, 0, errMalformed
	}
	f.number, f.kind = number, kind
	size := 0
	switch kind {
	case protowire.VarintType:
		f.value, size = protowire.ConsumeVarint(b[n:])
	case protowire.BytesType:
		f.body, size = protowire.ConsumeBytes(b[n:])
	default:
		size = protowire.ConsumeFieldValue(number, kind, b[n:])
	}
	if size < 0 {
		return f, 0, errMalformed
	}
	return f, n + size, nil
}

// appendAnswer appends the answer to a check to an encoded CheckResponse.
func appendAnswer(b []byte, a *rls.Asked) []byte {
	size := 0
	if a.Number != 0 {
		size = protowire.SizeTag(answerNumber) + protowire.SizeVarint(a.Number)
	}
	outcome, failure := answerResponse, []byte(nil)
	length := 0
	if s := a.Failure(); s != nil {
		outcome, failure = answerFailure, encodeFailure(s)
		length = len(failure)
	} else {
		length = a.ReplySize()
	}
	b = appendPrefix(b, responseAnswers, size+protowire.SizeTag(outcome)+protowire.SizeBytes(length))
	if a.Number != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, answerNumber, protowire.VarintType), a.Number)
	}
	b = appendPrefix(b, outcome, length)
	if failure != nil {
		return append(b, failure...)
	}
	return a.AppendReply(b)
}

// appendPrefix begins a field of size bytes, which the caller appends next.
func appendPrefix(b []byte, n protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.BytesType), uint64(size))
}

// encodeFailure returns an encoded Failure. It is never OK, so it has a code.
func encodeFailure(s *status.Status) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, failureCode, protowire.VarintType), uint64(s.Code()))
	return protowire.AppendString(protowire.AppendTag(b, failureMessage, protowire.BytesType), strings.ToValidUTF8(s.Message(), "?"))
}
