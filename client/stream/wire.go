package stream

import (
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// check is a request and what is answered.
type check struct {
	number   uint64
	request  []byte // encoded
	deadline time.Time
	// done is closed when there is an answer: an encoded response, or a failure.
	done     chan struct{}
	response []byte
	failure  error
}

// answer returns what is answered.
func (c *check) answer() (*rlsv3.RateLimitResponse, error) {
	if c.failure != nil {
		return nil, c.failure
	}
	response := new(rlsv3.RateLimitResponse)
	if err := proto.Unmarshal(c.response, response); err != nil {
		return nil, status.Errorf(codes.Internal, "check by stream: decode the answer: %v", err)
	}
	return response, nil
}

// frame is a message in bytes.
type frame []byte

// frames is the codec of frames. They are messages of protobuf, and go by that name.
type frames struct{}

var _ encoding.CodecV2 = frames{}

// Name implements encoding.CodecV2.
func (frames) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (frames) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(frame))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*frame) = data.Materialize()
	return nil
}

// Field numbers of stream.proto.
const (
	requestChecks protowire.Number = 1

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

// appendRequest appends an encoded CheckRequest that is sent at now.
func appendRequest(b frame, checks []*check, now time.Time) frame {
	var one, timeout []byte
	for _, c := range checks {
		one = protowire.AppendVarint(protowire.AppendTag(one[:0], checkNumber, protowire.VarintType), c.number)
		if !c.deadline.IsZero() {
			timeout = appendDuration(timeout[:0], max(c.deadline.Sub(now), 1))
			one = protowire.AppendBytes(protowire.AppendTag(one, checkTimeout, protowire.BytesType), timeout)
		}
		one = protowire.AppendBytes(protowire.AppendTag(one, checkRequest, protowire.BytesType), c.request)
		b = protowire.AppendBytes(protowire.AppendTag(b, requestChecks, protowire.BytesType), one)
	}
	return b
}

// appendDuration appends an encoded google.protobuf.Duration above 0.
func appendDuration(b []byte, d time.Duration) []byte {
	b = protowire.AppendVarint(protowire.AppendTag(b, durationSeconds, protowire.VarintType), uint64(d/time.Second))
	return protowire.AppendVarint(protowire.AppendTag(b, durationNanos, protowire.VarintType), uint64(d%time.Second))
}

// answer is that of a check: an encoded response, or a failure.
type answer struct {
	number   uint64
	response []byte
	failure  error
}

// errMalformed is the end of a call in which no CheckResponse came.
var errMalformed = status.Error(codes.Internal, "check by stream: malformed answer; hint: is this a headgate?")

// decodeResponse reads an encoded CheckResponse, parts of which stay in use.
func decodeResponse(b []byte) (answers []answer, err error) {
	err = eachField(b, func(n protowire.Number, _ uint64, body []byte) error {
		if n != responseAnswers || body == nil {
			return nil
		}
		a, err := decodeAnswer(body)
		answers = append(answers, a)
		return err
	})
	return answers, err
}

// decodeAnswer reads an encoded Answer. An outcome that is there twice is both, one after the
// other, because that is how messages merge; of two kinds the last one counts.
func decodeAnswer(b []byte) (a answer, err error) {
	var failure []byte
	err = eachField(b, func(n protowire.Number, value uint64, body []byte) error {
		switch {
		case n == answerNumber && body == nil:
			a.number = value
		case n == answerResponse && body != nil:
			a.response, failure = join(a.response, body), nil
		case n == answerFailure && body != nil:
			a.response, failure = nil, join(failure, body)
		}
		return nil
	})
	switch {
	case err != nil:
	case failure != nil:
		a.failure, err = decodeFailure(failure)
	case a.response == nil:
		err = errMalformed
	}
	return a, err
}

// join returns a and b, and b itself after nothing.
func join(a, b []byte) []byte {
	if a == nil {
		return b
	}
	return append(a[:len(a):len(a)], b...)
}

// decodeFailure returns an encoded Failure as an error of package status.
func decodeFailure(b []byte) (failure, err error) {
	code, message := codes.Unknown, ""
	err = eachField(b, func(n protowire.Number, value uint64, body []byte) error {
		switch {
		case n == failureCode && body == nil && codes.Code(value) != codes.OK:
			code = codes.Code(value)
		case n == failureMessage && body != nil:
			message = string(body)
		}
		return nil
	})
	return status.Error(code, message), err
}

// eachField calls do for each field of a message that is a number, with a nil body, or bytes,
// whose body is never nil.
func eachField(b []byte, do func(n protowire.Number, value uint64, body []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		var value uint64
		var body []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			if body, n = protowire.ConsumeBytes(b); body == nil {
				body = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		if kind != protowire.VarintType && kind != protowire.BytesType {
			continue
		}
		if err := do(number, value, body); err != nil {
			return err
		}
	}
	return nil
}
