package streamfront

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate/internal/protofields"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/streamwire"
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
	for f, ok := range protofields.Fields(message) {
		switch {
		case !ok:
			return nil, errMalformed
		case f.IsBytes(streamwire.RequestChecks):
			if len(p.asked) == maxChecks {
				return nil, fmt.Errorf("decode CheckRequest: more than %d checks; hint: send several messages", maxChecks)
			}
			if err := p.add(f.Body, now); err != nil {
				return nil, err
			}
		case f.IsNumber(streamwire.RequestInOrder):
			p.inOrder = f.Value != 0
		}
	}
	p.left = len(p.asked)
	p.size = int64(len(message)) + int64(len(p.asked))*checkWeight
	return p, nil
}

// add adds an encoded Check.
func (p *page) add(check []byte, now time.Time) error {
	var asked rls.Asked
	for f, ok := range protofields.Fields(check) {
		switch {
		case !ok:
			return errMalformed
		case f.IsNumber(streamwire.CheckNumber):
			asked.Number = f.Value
		case f.IsBytes(streamwire.CheckTimeout):
			timeout, err := decodeDuration(f.Body)
			if err != nil {
				return err
			}
			asked.Deadline = time.Time{}
			if timeout != 0 {
				asked.Deadline = now.Add(timeout)
			}
		case f.IsBytes(streamwire.CheckRequest):
			asked.Message = protofields.Merge(asked.Message, f.Body)
		}
	}
	p.asked = append(p.asked, asked)
	return nil
}

// decodeDuration reads a google.protobuf.Duration, which is no longer than Go's.
func decodeDuration(b []byte) (time.Duration, error) {
	var seconds, nanos int64
	for f, ok := range protofields.Fields(b) {
		switch {
		case !ok:
			return 0, errMalformed
		case f.IsNumber(streamwire.DurationSeconds):
			seconds = int64(f.Value)
		case f.IsNumber(streamwire.DurationNanos):
			nanos = int64(int32(f.Value))
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

// appendAnswer appends the answer to a check to an encoded CheckResponse.
func appendAnswer(b []byte, a *rls.Asked) []byte {
	size := 0
	if a.Number != 0 {
		size = protowire.SizeTag(streamwire.AnswerNumber) + protowire.SizeVarint(a.Number)
	}
	outcome, failure := streamwire.AnswerResponse, []byte(nil)
	length := 0
	if s := a.Failure(); s != nil {
		outcome, failure = streamwire.AnswerFailure, encodeFailure(s)
		length = len(failure)
	} else {
		length = a.ReplySize()
	}
	b = appendPrefix(b, streamwire.ResponseAnswers, size+protowire.SizeTag(outcome)+protowire.SizeBytes(length))
	if a.Number != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, streamwire.AnswerNumber, protowire.VarintType), a.Number)
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
	b := protowire.AppendVarint(protowire.AppendTag(nil, streamwire.FailureCode, protowire.VarintType), uint64(s.Code()))
	return protowire.AppendString(protowire.AppendTag(b, streamwire.FailureMessage, protowire.BytesType), strings.ToValidUTF8(s.Message(), "?"))
}
