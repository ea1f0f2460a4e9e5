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

	"github.com/headgate/headgate/internal/protofields"
	"github.com/headgate/headgate/internal/streamwire"
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

// appendRequest appends an encoded CheckRequest that is sent at now.
func appendRequest(b frame, checks []*check, now time.Time) frame {
	var one, timeout []byte
	for _, c := range checks {
		one = protowire.AppendVarint(protowire.AppendTag(one[:0], streamwire.CheckNumber, protowire.VarintType), c.number)
		if !c.deadline.IsZero() {
			timeout = appendDuration(timeout[:0], max(c.deadline.Sub(now), 1))
			one = protowire.AppendBytes(protowire.AppendTag(one, streamwire.CheckTimeout, protowire.BytesType), timeout)
		}
		one = protowire.AppendBytes(protowire.AppendTag(one, streamwire.CheckRequest, protowire.BytesType), c.request)
		b = protowire.AppendBytes(protowire.AppendTag(b, streamwire.RequestChecks, protowire.BytesType), one)
	}
	return b
}

// appendDuration appends an encoded google.protobuf.Duration above 0.
func appendDuration(b []byte, d time.Duration) []byte {
	b = protowire.AppendVarint(protowire.AppendTag(b, streamwire.DurationSeconds, protowire.VarintType), uint64(d/time.Second))
	return protowire.AppendVarint(protowire.AppendTag(b, streamwire.DurationNanos, protowire.VarintType), uint64(d%time.Second))
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
	for f, ok := range protofields.Fields(b) {
		switch {
		case !ok:
			return nil, errMalformed
		case f.IsBytes(streamwire.ResponseAnswers):
			a, err := decodeAnswer(f.Body)
			if err != nil {
				return nil, err
			}
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// decodeAnswer reads an encoded Answer. An outcome that is there twice is both, one after the
// other, because that is how messages merge; of two kinds the last one counts.
func decodeAnswer(b []byte) (a answer, err error) {
	var failure []byte
	for f, ok := range protofields.Fields(b) {
		switch {
		case !ok:
			return a, errMalformed
		case f.IsNumber(streamwire.AnswerNumber):
			a.number = f.Value
		case f.IsBytes(streamwire.AnswerResponse):
			a.response, failure = protofields.Merge(a.response, f.Body), nil
		case f.IsBytes(streamwire.AnswerFailure):
			a.response, failure = nil, protofields.Merge(failure, f.Body)
		}
	}
	switch {
	case failure != nil:
		a.failure, err = decodeFailure(failure)
	case a.response == nil:
		err = errMalformed
	}
	return a, err
}

// decodeFailure returns an encoded Failure as an error of package status.
func decodeFailure(b []byte) (failure, err error) {
	code, message := codes.Unknown, ""
	for f, ok := range protofields.Fields(b) {
		switch {
		case !ok:
			return nil, errMalformed
		case f.IsNumber(streamwire.FailureCode) && codes.Code(f.Value) != codes.OK:
			code = codes.Code(f.Value)
		case f.IsBytes(streamwire.FailureMessage):
			message = string(f.Body)
		}
	}
	return status.Error(code, message), nil
}
